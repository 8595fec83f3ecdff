"""In charge of a release's files: wheel and sdist of the commit that is checked out, the same bytes whoever makes them.

    python packages/dist.py [DIRECTORY]    # dist/ unless another one is named

It needs git, and the environment of `make install`, whose console assets it takes. The sdist is built of what the
commit has, not of what lies about; the wheel is built of the sdist, as pip would; every time in them is the commit's.
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
# Beside wheel and sdist: what of the commit, and its name behind the version
BESIDE = {
    "packages/keyrack.cdx.json": ".cdx.json",
    "requirements/deployed.txt": "-requirements.txt",
    f"{ASSETS}/third-party.txt": "-third-party.txt",
    "LICENSE": "-license.txt",
}


def git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()  # noqa: S607 - git


def hatchling(what: str, source: Path, into: Path, epoch: str) -> Path:
    """Build the one file, in an environment in which nobody is asked."""
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


def make(target: Path) -> list[Path]:
    """Make the files in `target`, in the place of what is there. Raises `CalledProcessError` or `OSError`."""
    epoch = git("log", "-1", "--format=%ct")
    with tempfile.TemporaryDirectory(prefix="keyrack-dist-") as name:
        scratch = Path(name)
        commit, built = scratch / "commit", scratch / "built"
        built.mkdir()
        git("archive", "--output", str(scratch / "commit.tar"), "HEAD")
        unpack(scratch / "commit.tar", commit)
        shutil.copytree(ROOT / ASSETS, commit / ASSETS)
        sdist = hatchling("sdist", commit, built, epoch)
        unpack(sdist, scratch)
        stem = sdist.name.removesuffix(".tar.gz")
        hatchling("wheel", scratch / stem, built, epoch)
        for source, ending in BESIDE.items():
            shutil.copy(commit / source, built / f"{stem}{ending}")
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
            print("Keyrack: what is not committed is not in the packages.", file=sys.stderr)
        for file in make(Path(arguments[0]) if arguments else ROOT / "dist"):
            print(f"{file.stat().st_size:>10}  {file.name}")
    except (OSError, subprocess.CalledProcessError) as error:
        said = (getattr(error, "stderr", None) or str(error)).strip()
        print(f"Keyrack: the packages could not be made: {said}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
