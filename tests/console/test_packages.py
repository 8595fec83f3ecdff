"""What is built: wheel and sdist contain the console's third-party files; only a first build needs Node and network."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.conftest import DEADLINE

ROOT = Path(__file__).parents[2]
ASSETS = "src/keyrack/console/assets"
# Neither pip nor npm reaches anybody
ALONE = {
    "PIP_CONFIG_FILE": os.devnull,
    "PIP_FIND_LINKS": "",
    "PIP_NO_INDEX": "1",
    "npm_config_registry": "http://127.0.0.1:9",
}


def run(*command: str, directory: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=directory, env=os.environ | environment, capture_output=True, text=True, timeout=DEADLINE
    )


def hatch(what: str, source: Path, into: Path) -> subprocess.CompletedProcess[str]:
    return run(sys.executable, "-m", "hatchling", "build", "-t", what, "-d", str(into), directory=source, **ALONE)


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sdist, unpacked."""
    directory = tmp_path_factory.mktemp("sdist")
    built = run(
        sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(directory), directory=ROOT, **ALONE
    )
    assert built.returncode == 0, built.stderr
    (packed,) = directory.glob("*.tar.gz")
    with tarfile.open(packed) as archive:
        archive.extractall(directory, filter="data")
    (unpacked,) = (path for path in directory.iterdir() if path.is_dir())
    return unpacked


@pytest.fixture(scope="module")
def wheel(sdist: Path) -> Path:
    """The wheel that is built of the sdist."""
    built = hatch("wheel", sdist, sdist.parent)
    assert built.returncode == 0, built.stderr
    (packed,) = sdist.parent.glob("*.whl")
    return packed


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_the_sdist_contains_the_files(sdist: Path) -> None:
    assert contents(sdist / ASSETS) == contents(ROOT / ASSETS)


def test_the_wheel_of_the_sdist_contains_them_too_and_was_built_alone(wheel: Path) -> None:
    place = "keyrack/console/assets/"
    with ZipFile(wheel) as archive:
        found = {name.removeprefix(place): archive.read(name) for name in archive.namelist() if name.startswith(place)}
    assert found == contents(ROOT / ASSETS)


def test_a_server_without_the_files_says_so_in_words(wheel: Path, tmp_path: Path) -> None:
    with ZipFile(wheel) as archive:
        archive.extractall(tmp_path)  # noqa: S202 - our own, built just now
    shutil.rmtree(tmp_path / "keyrack/console/assets")
    started = run(
        sys.executable, "-m", "keyrack", "serve", "--port", "0", "--state", str(tmp_path / "state"),
        directory=tmp_path, PYTHONPATH=str(tmp_path),
    )  # fmt: skip
    assert started.returncode == 1
    assert started.stderr.startswith("keyrack: The console's third-party files are missing in this installation.")
    assert "Traceback" not in started.stderr and not (tmp_path / "state").exists()


def test_a_build_that_reaches_nobody_says_so_in_words(sdist: Path, tmp_path: Path) -> None:
    shutil.copytree(sdist / "console-assets", tmp_path / "console-assets")
    shutil.copytree(sdist / "requirements", tmp_path / "requirements")
    built = run(sys.executable, "console-assets/build.py", directory=tmp_path, **ALONE)
    assert built.returncode == 1 and "Traceback" not in built.stderr
    assert built.stderr.startswith("Keyrack: pip could not get the wheels of requirements/assets.txt:\n")
    assert "Keyrack's wheel and sdist contain" in built.stderr
    assert not (tmp_path / "src").exists()


def test_what_is_made_of_other_sources_is_made_anew(sdist: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"
    shutil.copytree(sdist, again, ignore=shutil.ignore_patterns("tests", "docs"))
    build = (sys.executable, "console-assets/build.py")
    assert run(*build, directory=again, **ALONE).returncode == 0  # nothing to do
    (again / ASSETS / "uplot.css").unlink()
    assert run(*build, directory=again, **ALONE).returncode == 1
    shutil.copy(sdist / ASSETS / "uplot.css", again / ASSETS)
    assert run(*build, directory=again, **ALONE).returncode == 0
    with (again / "console-assets/icons.txt").open("a") as file:
        file.write("another star\n")
    assert run(*build, directory=again, **ALONE).returncode == 1


def test_the_lock_holds_every_package_and_names_no_registry() -> None:
    lock = json.loads((ROOT / "console-assets/package-lock.json").read_text())["packages"]
    wanted = json.loads((ROOT / "console-assets/package.json").read_text())["dependencies"]
    assert lock[""]["dependencies"] == wanted
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in wanted.values())
    for path, package in lock.items():
        if path:
            assert package["integrity"].startswith("sha512-") and "resolved" not in package and "link" not in package
            assert not package.get("hasInstallScript") or path == "node_modules/@scarf/scarf"  # and none is run


def test_no_address_of_a_registry_is_in_a_file() -> None:
    for path in (ROOT / "console-assets").iterdir():
        if path.is_file():
            assert not re.search(r"registry\.|\.npmjs|npmmirror|pypi\.", path.read_text()), path.name
