"""The programs of the package's README run, and have correct types."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.clients_python.support import Machine, machine_of
from tests.support.people import Person
from tests.support.servers import RunningServer

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "clients/python"
BLOCKS = dict(re.findall(r"<!-- (\w+): .*?-->\n```python\n(.*?)```", (PACKAGE / "README.md").read_text(), re.DOTALL))
PATIENCE = 300  # seconds for a program or a type checker


@pytest.fixture(scope="module")
def shop(alice: Person, server: RunningServer) -> Machine:
    alice.car_with_box("Pool car 1")
    alice.user()
    return machine_of(alice, server.url)


def run(program: str, shop: Machine, directory: Path) -> str:
    environment = os.environ | shop.environment | {"PYTHONPATH": str(PACKAGE / "src")}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_first_program_books_a_car(shop: Machine, tmp_path: Path) -> None:
    assert len(BLOCKS["book"].strip().splitlines()) <= 10
    state, number = run(BLOCKS["book"], shop, tmp_path).split()
    assert state == "Succeeded"
    assert shop.person.get(f"/assignments/{number}").status_code == 200


def test_the_program_for_asyncio_lists_cars(shop: Machine, tmp_path: Path) -> None:
    assert run(BLOCKS["asyncio"], shop, tmp_path).endswith(" Pool car 1\n")


def test_the_changes_are_read_once(shop: Machine, tmp_path: Path) -> None:
    assert "car.created" in run(BLOCKS["changes"], shop, tmp_path)
    assert "car.created" not in run(BLOCKS["changes"], shop, tmp_path)


def test_other_endpoints_can_be_called(shop: Machine, tmp_path: Path) -> None:
    shop.person.group("North")
    assert run(BLOCKS["call"], shop, tmp_path).splitlines() == ["North 0", "1"]


def test_the_types_are_correct(tmp_path: Path) -> None:
    """Also in strict mode, and for Python 3.10. A misspelt property is an error."""
    for name, program in BLOCKS.items():
        (tmp_path / f"{name}.py").write_text(program)
    wrong = "from keyrack_client import Keyrack\nKeyrack.from_env().cars.create(name='A', license_plate='B')\n"
    (tmp_path / "misspelt.py").write_text(wrong)
    (tmp_path / "pyrightconfig.json").write_text(
        f'{{"typeCheckingMode": "strict", "pythonVersion": "3.10", "extraPaths": ["{PACKAGE / "src"}"]}}'
    )
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "."]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE)
    found = [line for line in done.stdout.splitlines() if " - error: " in line]
    assert len(found) == 1 and "misspelt.py" in found[0] and "license_plate" in done.stdout, done.stdout
