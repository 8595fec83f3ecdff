"""Creates a virtual environment with the packages of a lock, and checks the hash of each file.

    python requirements/install.py .venv requirements/runtime.txt
    python requirements/install.py .venv requirements/runtime.txt --editable    # and this project

uv installs in seconds, pip needs most of a minute. The program takes uv from the PATH, else a pinned one from pip's
index. If uv is not available or cannot use that index, pip installs the packages. Both follow pip.conf and PIP_*.
Needs Python's standard library with venv.
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
# pip's settings -> uv's setting, and the separator of several values
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
    """The packages could not be installed; the text has the reason."""


class Environment:
    """A virtual environment with pip, and with uv if it is available."""

    def __init__(self, directory: Path) -> None:
        """Create it if it is missing or has no pip. Raises `InstallError`."""
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
        """Install the packages of the lock, and show the progress. Raises `InstallError`."""
        packages = len(PINNED.findall(lock.read_text()))
        installer = "uv" if self._uv else "pip, which takes about a minute"
        print(f"Installing {packages} packages into {self._directory} with {installer} ...", flush=True)
        start = time.monotonic()
        if not self._by_uv(*LOCKED, str(lock)):
            self._by_pip(packages, *LOCKED, str(lock))
        print(f"Installed in {time.monotonic() - start:.0f} s.", flush=True)

    def install_project(self) -> None:
        """Install this project in editable mode. Raises `InstallError`."""
        if not self._by_uv(*PROJECT):
            self._by_pip(0, *PROJECT)

    def _find_uv(self) -> str | None:
        """The path of uv, or None. The pip of the running Python installs it into the environment if needed."""
        if not (uv := shutil.which("uv")):
            own = self._python.with_name("uv")
            if not own.exists():
                into = ("-m", "pip", "--python", str(self._python), "install", "--quiet", "--no-deps")
                _ran(Path(sys.executable), *into, *LOCKED, str(INSTALLERS))
            uv = str(own) if own.exists() else None
        return uv

    def _by_uv(self, *what: str) -> bool:
        """Install by uv, and return whether it succeeded.

        All indexes have the same priority, as with pip, because the hashes determine the files.
        """
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
            print(f"uv could not install the packages. Trying pip.\n{ran.stderr or ''}", file=sys.stderr, flush=True)
        return ran.returncode == 0

    def _by_pip(self, packages: int, *what: str) -> None:
        """Install by pip. Raises `InstallError` with the output of pip."""
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
    """Install the packages of the lock, and this project.

    A parallel process builds the console's files, which the installation of the project needs.

    Raises `InstallError`.
    """
    with subprocess.Popen([sys.executable, str(ASSETS)]) as assets:
        environment = Environment(directory)
        environment.install(lock)
    if assets.returncode:
        raise InstallError("The files of the console could not be built.")
    environment.install_project()


def _settings_of_uv() -> dict[str, str]:
    """uv's variables for the indexes and certificates of pip's configuration."""
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
    parser = argparse.ArgumentParser(description="Install the packages of a lock into a virtual environment.")
    parser.add_argument("environment", type=Path, help="its directory, which is created if it is missing")
    parser.add_argument("lock", type=Path, help="a file of requirements/")
    parser.add_argument("--editable", action="store_true", help="also install this project, in editable mode")
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
