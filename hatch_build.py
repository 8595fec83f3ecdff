"""Builds the console's third-party files before a build of the package."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ConsoleAssets(BuildHookInterface[Any]):
    """The hook for wheels, editable ones too, and sdists. It does nothing if the files are up to date."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the files. Raises `SystemExit` after the script has printed the error."""
        made = subprocess.run([sys.executable, str(Path(self.root) / "console-assets/build.py")], check=False)
        if made.returncode:
            raise SystemExit(made.returncode)
