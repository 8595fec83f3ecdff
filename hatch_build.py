"""In charge of what a build of the package does first: see that the console's third-party files are there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ConsoleAssets(BuildHookInterface[Any]):
    """Of wheels, editable ones too, and of sdists. It takes no time where the files are made of the same sources."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Raises `SystemExit` when the script has said in words what is in the way."""
        made = subprocess.run([sys.executable, str(Path(self.root) / "console-assets/build.py")], check=False)
        if made.returncode:
            raise SystemExit(made.returncode)
