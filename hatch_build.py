"""Build hook: third-party files of the console, and the phone's modules."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ConsoleAssets(BuildHookInterface[Any]):
    """The hook for wheels, editable ones too, and sdists. It builds nothing if the files are up to date."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the files. Raises `SystemExit` after the script has printed the error."""
        if self.target_name == "wheel" and version == "standard":  # an editable one finds them in the checkout
            for path in sorted((Path(self.root) / "reference/phone").glob("*.js")):
                build_data["force_include"][str(path)] = f"keyrack/drivers/phone/{path.name}"
        made = subprocess.run([sys.executable, str(Path(self.root) / "console-assets/build.py")], check=False)
        if made.returncode:
            raise SystemExit(made.returncode)
