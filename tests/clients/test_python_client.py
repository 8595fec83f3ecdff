"""The wheel of the Python client, installed into an empty environment.

`make test-clients` installs mypy into the directory KEYRACK_CLIENTS.
"""

from __future__ import annotations

import email
import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from tests.clients.tools import TOOLS
from tests.clients_python.support import Machine, machine_of
from tests.clients_python.test_readme import BLOCKS
from tests.support.people import Town
from tests.support.servers import RunningServer

pytestmark = pytest.mark.skipif(not TOOLS, reason="`make test-clients` installs the tools first")
ROOT = Path(__file__).parents[2]
MAX_BYTES = 60_000
PATIENCE = 900  # seconds for a build, an installation or a program
MISSPELT = "from keyrack_client import Keyrack\n\nKeyrack.from_env().cars.create(name='A', license_plate='B')\n"


def run(*words: str | Path, directory: Path, environment: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        words,
        cwd=directory,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | (environment or {}),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", target, directory=ROOT / "clients/python")
    (built,) = target.iterdir()
    return built


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment with only the wheel and its dependency."""
    directory = tmp_path_factory.mktemp("installed") / "venv"
    venv.create(directory, with_pip=True)
    limits = ROOT / "requirements/clients.in"
    installing = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--constraint", limits, wheel)
    run(directory / "bin/python", *installing, directory=directory)
    return directory / "bin/python"


@pytest.fixture
def shop(town: Town, server: RunningServer) -> Machine:
    person = town.person("wheel")
    person.car_with_box("Pool car 1")
    person.user()
    person.group("North")
    return machine_of(person, server.url)


def test_the_wheel_is_small_and_has_one_dependency(wheel: Path) -> None:
    assert wheel.stat().st_size < MAX_BYTES
    with zipfile.ZipFile(wheel) as packed:
        (name,) = (name for name in packed.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = email.message_from_bytes(packed.read(name))
        assert "keyrack_client/py.typed" in packed.namelist()
    needed = [line for line in metadata.get_all("Requires-Dist", []) if "extra ==" not in line]
    assert [line.rstrip("0123456789.,<>= ") for line in needed] == ["httpx"]


@pytest.mark.parametrize("name", ["book", "asyncio", "changes", "call"])
def test_the_programs_of_the_readme(name: str, python: Path, shop: Machine, tmp_path: Path) -> None:
    """Each runs with the installed wheel.

    The first one is ten lines long.
    """
    expected = {"book": "Succeeded", "asyncio": " Pool car 1", "changes": "car.created", "call": "North 0"}
    assert len(BLOCKS["book"].strip().splitlines()) <= 10
    place = run(python, "-c", "import keyrack_client; print(keyrack_client.__file__)", directory=tmp_path)
    assert Path(place).is_relative_to(python.parents[1])
    assert expected[name] in run(python, "-c", BLOCKS[name], directory=tmp_path, environment=shop.environment)


def test_mypy_accepts_the_programs_of_the_readme(python: Path, tmp_path: Path) -> None:
    """Also the package itself, in strict mode. A misspelt property is an error."""
    for name, program in BLOCKS.items():
        (tmp_path / f"readme_{name}.py").write_text(program)
    mypy = Path(TOOLS or "") / "venv/bin/mypy"
    checking = (mypy, "--strict", "--python-executable", python, "--cache-dir", tmp_path / "cache")
    run(*checking, "-p", "keyrack_client", directory=tmp_path)
    run(*checking, *sorted(path.name for path in tmp_path.glob("readme_*.py")), directory=tmp_path)
    (tmp_path / "misspelt.py").write_text(MISSPELT)
    done = subprocess.run([*checking, "misspelt.py"], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 1 and "license_plate" in done.stdout, done.stdout + done.stderr
