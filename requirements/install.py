"""In charge of virtual environments: makes one, and installs into it what a lock pins, each file checked by its hash.

    python requirements/install.py .venv requirements/runtime.txt
    python requirements/install.py .venv requirements/runtime.txt --editable    # and this project

uv installs in seconds what takes pip most of a minute. It comes from the PATH or, pinned, from the index that pip uses.
Where it cannot be had, or cannot use that index, pip installs the same. Both follow pip.conf and PIP_*. This program
needs Python's standard library with venv.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ASSETS = ROOT / "console-assets/build.py"
INSTALLERS = ROOT / "requirements/installers.txt"  # uv and pip
PINNED = re.compile(r"^[A-Za-z0-9._-]+==", re.MULTILINE)  # the entries of a lock
SETTING = re.compile(r"^\S*\.([a-z-]+)='(.*)'$")  # a line of `pip config list`
# pip's settings, and uv's for the same with what stands between several values
FOR_UV = {
    "index-url": ("UV_DEFAULT_INDEX", " "),
    "extra-index-url": ("UV_INDEX", " "),
    "find-links": ("UV_FIND_LINKS", ","),
    "no-index": ("UV_NO_INDEX", " "),
    "trusted-host": ("UV_INSECURE_HOST", " "),
    "cert": ("SSL_CERT_FILE", " "),
    "proxy": ("ALL_PROXY", " "),
    "default-timeout": ("UV_HTTP_TIMEOUT", " "),
    "timeout": ("UV_HTTP_TIMEOUT", " "),
}
LOCKED = ("--require-hashes", "--requirement")
PROJECT = ("--no-deps", "--no-build-isolation", "--editable", str(ROOT))
VENV_ADVICE = "Python's venv module is incomplete; on Debian and Ubuntu: apt-get install python3-venv"


class InstallError(Exception):
    """Why the packages could not be installed, in words."""


class Environment:
    """A virtual environment, with pip, and with uv where it can be had."""

    def __init__(self, directory: Path) -> None:
        """Make it where it is missing or without pip. Raises `InstallError`."""
        self._directory = directory
        self._python = directory / "bin/python"
        is_new = not self._python.exists() or _ran(self._python, "-c", "import pip").returncode != 0
        if is_new:
            _must(_ran(Path(sys.executable), "-m", "venv", "--clear", "--without-pip", str(directory)))
        self._settings = _settings_of_uv()
        self._uv = self._find_uv()
        if is_new and not self._by_uv(*LOCKED, str(INSTALLERS)):
            _must(_ran(self._python, "-m", "ensurepip", "--default-pip"))

    def install(self, lock: Path) -> None:
        """Install what the lock pins, and show the progress. Raises `InstallError`."""
        packages = len(PINNED.findall(lock.read_text()))
        installer = "uv" if self._uv else "pip, which takes about a minute"
        print(f"Installing {packages} packages into {self._directory} with {installer} ...", flush=True)
        start = time.monotonic()
        if not self._by_uv(*LOCKED, str(lock)):
            self._by_pip(packages, *LOCKED, str(lock))
        print(f"Installed in {time.monotonic() - start:.0f} s.", flush=True)

    def install_project(self) -> None:
        """Install this project as it stands here. Raises `InstallError`."""
        if not self._by_uv(*PROJECT):
            self._by_pip(0, *PROJECT)

    def _find_uv(self) -> str | None:
        """The program; None where it cannot be had. The pip of the running Python puts it into the environment."""
        if not (uv := shutil.which("uv")):
            own = self._python.with_name("uv")
            if not own.exists():
                into = ("-m", "pip", "--python", str(self._python), "install", "--quiet", "--no-deps")
                _ran(Path(sys.executable), *into, *LOCKED, str(INSTALLERS))
            uv = str(own) if own.exists() else None
        return uv

    def _by_uv(self, *what: str) -> bool:
        """Whether uv could install it. All indexes count alike, as for pip: the hashes say which files are meant."""
        if self._uv is None:
            return False
        terminal = sys.stderr.isatty()  # where uv shows its progress
        command = [self._uv, "pip", "install", *([] if terminal else ["--quiet"]), "--python", str(self._python),
                   "--index-strategy", "unsafe-best-match", *what]  # fmt: skip
        ran = subprocess.run(
            command,
            env=self._settings | os.environ,
            stderr=None if terminal else subprocess.PIPE,
            text=True,
            check=False,
        )
        if ran.returncode:
            self._uv = None
            print(f"uv could not install them; pip tries.\n{ran.stderr or ''}", file=sys.stderr, flush=True)
        return ran.returncode == 0

    def _by_pip(self, packages: int, *what: str) -> None:
        """Raises `InstallError` with what pip wrote."""
        command = [
            str(self._python),
            "-m",
            "pip",
            "install",
            "--disable-pip-version-check",
            "--progress-bar",
            "off",
            *what,
        ]
        lines: list[str] = []
        collected = 0
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as pip:
            for line in pip.stdout or ():
                lines.append(line)
                collected += line.startswith("Collecting ")
                if packages and sys.stdout.isatty():
                    print(f"\r{collected} of {packages} packages ", end="", flush=True)
        if pip.returncode:
            raise InstallError("".join(lines[-20:]))


def install_with_project(directory: Path, lock: Path) -> None:
    """Install what the lock pins, and this project. Its console's files, which its build needs, are made meanwhile.

    Raises `InstallError`.
    """
    with subprocess.Popen([sys.executable, str(ASSETS)]) as assets:
        environment = Environment(directory)
        environment.install(lock)
    if assets.returncode:
        raise InstallError("The files of the console could not be made.")
    environment.install_project()


def _settings_of_uv() -> dict[str, str]:
    """The variables by which uv reads the indexes and certificates that pip is set up for."""
    settings: dict[str, str] = {}
    for line in _ran(Path(sys.executable), "-m", "pip", "config", "list").stdout.splitlines():
        setting = SETTING.match(line)
        if setting and setting[1] in FOR_UV:
            variable, between = FOR_UV[setting[1]]
            settings[variable] = between.join(setting[2].replace(r"\n", " ").split())
    return settings


def _ran(python: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(python), *arguments], capture_output=True, text=True, check=False)


def _must(ran: subprocess.CompletedProcess[str]) -> None:
    if ran.returncode:
        raise InstallError(f"{VENV_ADVICE}\n{ran.stdout}{ran.stderr}")


def main() -> int:
    parser = argparse.ArgumentParser(description="Install what a lock pins into a virtual environment.")
    parser.add_argument("environment", type=Path, help="its directory, which is made where it is missing")
    parser.add_argument("lock", type=Path, help="a file of requirements/")
    parser.add_argument("--editable", action="store_true", help="install this project as well, as it stands here")
    given = parser.parse_args()
    try:
        if given.editable:
            install_with_project(given.environment, given.lock)
        else:
            Environment(given.environment).install(given.lock)
    except InstallError as error:
        print(f"Keyrack: the packages of {given.lock} could not be installed.\n{error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
