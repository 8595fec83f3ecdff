"""The example of a car-sharing company runs, and is short."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from keyrack.core.settings import Settings
from tests.clients_python.support import machine_of
from tests.support.people import Town
from tests.support.servers import RunningServer, Sql

pytestmark = pytest.mark.cluster  # it takes more than a minute

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "clients/python/examples/sharing.py"
MAX_LINES = 60  # of code
PATIENCE = 600  # seconds for the program
BOXES = """
with made as (
  insert into product (customer_id, unique_id, serial_number, sap_number, kind)
  select $1, 'E' || n, 'E' || n, 'E' || n, 'Box' from generate_series(1, 200) n returning product_id
)
insert into service (customer_id, name, product_id, is_terminated) select $1, 'Service', product_id, false from made
"""


def test_every_booking_has_one_outcome(dsn: str, sql: Sql, settings: Settings) -> None:
    fast = settings.model_copy(update={"assignment_rate": 100_000, "assignment_burst": 10_000})
    with RunningServer(fast, dsn) as server:
        person = Town(sql, server).person("sharing")
        sql.execute(BOXES, person.customer)
        shop = machine_of(person, server.url)
        environment = os.environ | shop.environment | {"PYTHONPATH": str(ROOT / "clients/python/src")}
        done = subprocess.run(
            [sys.executable, str(PROGRAM)], env=environment, capture_output=True, text=True, timeout=PATIENCE
        )
    assert done.returncode == 0, done.stderr[-2_000:]
    first, second = done.stdout.splitlines()
    assert first == "500 booked, outcomes missing or foreign: 0"
    kinds = ast.literal_eval(second)
    assert (kinds["car.created"], kinds["user.created"], kinds["assignment.created"]) == (200, 300, 500)


def test_the_example_is_short() -> None:
    lines = [line for line in PROGRAM.read_text().splitlines() if line.strip()]
    assert len(lines) <= MAX_LINES
