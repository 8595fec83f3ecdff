"""The files of the app in one directory, as browsers see them."""

from __future__ import annotations

import shutil
from pathlib import Path

from keyrack.drivers.app_files import OWN, PHONE_IN_CHECKOUT


def copy_app(directory: Path) -> Path:
    """Copy the app, and the phone's modules below it. Returns the root, which is a package of modules."""
    root = directory / "drive"
    shutil.copytree(OWN, root)
    shutil.copytree(PHONE_IN_CHECKOUT, root / "phone", ignore=shutil.ignore_patterns("test"))
    (root / "package.json").write_text('{ "type": "module" }')
    return root
