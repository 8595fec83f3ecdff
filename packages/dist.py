"""Builds a release's files from the checked-out commit.

    python packages/dist.py [DIRECTORY]             # the default is dist/
    python packages/dist.py --clients DIRECTORY     # only the client packages, from the working tree

The files are the same bytes on each machine:

- The sdist has the files of the commit, without uncommitted changes, and the console assets of `make install`.
- The wheel is built from the sdist, as pip would build it.
- The client packages are files of their own, and part of the server's packages: it serves them at `/packages/`.
- Each time in the files is that of the commit.
- The package of the TypeScript client has the time of all packages of npm.

Needs git, the environment of `make install`, and the compiler that `make dist` installs.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ASSETS = "src/keyrack/console/assets"
CLIENT_PACKAGES = "src/keyrack/client_packages"
TYPESCRIPT = ROOT / ".typescript"  # the compiler, and an environment with Node
# The release's other files: the path in the commit, and the end of the name, which follows the version
OTHER_FILES = {
    "packages/keyrack.cdx.json": ".cdx.json",
    "requirements/deployed.txt": "-requirements.txt",
    f"{ASSETS}/third-party.txt": "-third-party.txt",
    "LICENSE": "-license.txt",
}


def git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()  # noqa: S607 - git


def hatchling(what: str, source: Path, into: Path, epoch: str) -> Path:
    """Build the wheel or the sdist, without a package index."""
    environment = os.environ | {"SOURCE_DATE_EPOCH": epoch, "PIP_NO_INDEX": "1"}
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", what, "-d", str(into)],
        cwd=source, env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    (built,) = into.glob("*.whl" if what == "wheel" else "*.tar.gz")
    return built


def unpack(archive: Path, into: Path) -> None:
    with tarfile.open(archive) as packed:
        packed.extractall(into, filter="data")


def build_clients(source: Path, into: Path, epoch: str) -> None:
    """Build the client packages from a tree of sources into an empty directory."""
    with tempfile.TemporaryDirectory(prefix="keyrack-client-") as name:
        scratch = Path(name)
        shutil.copytree(
            source / "clients/python", scratch / "python", ignore=shutil.ignore_patterns("__pycache__", "dist")
        )
        sdist = hatchling("sdist", scratch / "python", into, epoch)
        unpack(sdist, scratch)
        hatchling("wheel", scratch / sdist.name.removesuffix(".tar.gz"), into, epoch)
    pack = [str(source / "clients/typescript/build.py"), "pack", str(TYPESCRIPT), str(into)]
    subprocess.run([str(TYPESCRIPT / "venv/bin/python"), *pack], capture_output=True, text=True, check=True)


def put_clients(target: Path) -> None:
    """Replace `target` with the client packages of the working tree."""
    with tempfile.TemporaryDirectory(prefix="keyrack-dist-") as name:
        build_clients(ROOT, Path(name), git("log", "-1", "--format=%ct"))
        complete = shutil.copytree(name, target.with_name(f".{target.name}.new"), dirs_exist_ok=True)
        shutil.rmtree(target, ignore_errors=True)
        complete.rename(target)  # a running server sees all files or none


def make(target: Path) -> list[Path]:
    """Replace `target` with the release's files. Raises `CalledProcessError` or `OSError`."""
    epoch = git("log", "-1", "--format=%ct")
    with tempfile.TemporaryDirectory(prefix="keyrack-dist-") as name:
        scratch = Path(name)
        commit, built, clients = scratch / "commit", scratch / "built", scratch / "clients"
        built.mkdir()
        clients.mkdir()
        git("archive", "--output", str(scratch / "commit.tar"), "HEAD")
        unpack(scratch / "commit.tar", commit)
        shutil.copytree(ROOT / ASSETS, commit / ASSETS)
        build_clients(commit, clients, epoch)
        shutil.copytree(clients, commit / CLIENT_PACKAGES)
        sdist = hatchling("sdist", commit, built, epoch)
        unpack(sdist, scratch)
        stem = sdist.name.removesuffix(".tar.gz")
        hatchling("wheel", scratch / stem, built, epoch)
        for source, ending in OTHER_FILES.items():
            shutil.copy(commit / source, built / f"{stem}{ending}")
        shutil.copytree(clients, built, dirs_exist_ok=True)
        files = sorted(built.iterdir())
        sums = "".join(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files)
        (built / "SHA256SUMS").write_text(sums)
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(built, target)
    return sorted(target.iterdir())


def main(arguments: list[str]) -> int:
    os.umask(0o022)
    try:
        if git("status", "--porcelain"):
            print("Keyrack: the packages do not have the uncommitted changes.", file=sys.stderr)
        if arguments[:1] == ["--clients"]:
            put_clients(Path(arguments[1]))
            return 0
        for file in make(Path(arguments[0]) if arguments else ROOT / "dist"):
            print(f"{file.stat().st_size:>10}  {file.name}")
    except (OSError, subprocess.CalledProcessError) as error:
        reason = (getattr(error, "stderr", None) or str(error)).strip()
        print(f"Keyrack: the packages could not be built: {reason}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
