"""The iterator of changes, also after a kill and a restore."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from keyrack_client import Keyrack, StartOver, errors

from tests.clients_python.support import Machine, machine_of
from tests.support.killed_readers import check_no_change_is_lost
from tests.support.people import Person
from tests.support.servers import DEADLINE, RunningServer, eventually

PACKAGE = Path(__file__).parents[2] / "clients/python/src"
READER = """
import os
from pathlib import Path
from keyrack_client import Keyrack

place = Path("position.txt")
with Keyrack.from_env() as keyrack:
    for change, position in keyrack.changes(place.read_text() if place.exists() else 0, size=7):
        print(change["id"], flush=True)
        new = Path("position.new")
        new.write_text(position)
        new.replace(place)
"""


@pytest.fixture
def reader(carol: Person, server: RunningServer) -> Machine:
    """A machine client, whose creation is the newest change in the log."""
    for number in range(5):
        carol.car(f"Car {number}")
    return machine_of(carol, server.url)


@pytest.fixture
def keyrack(reader: Machine) -> Iterator[Keyrack]:
    with reader.client() as client:
        client.cars.list().first()
        eventually(
            lambda: "client.created" in {change["kind"] for change, _ in client.changes(0, wait=None)}, "the log"
        )
        yield client


def restore(person: Person) -> None:
    """Begin a new epoch, as a restored server does."""
    person.sql.execute("update change_log set epoch = gen_random_uuid() where customer_id = $1", person.customer)


def test_each_change_has_a_position(keyrack: Keyrack) -> None:
    seen = list(keyrack.changes(0, wait=None, size=2))
    assert [change["id"] for change, _ in seen] == list(range(1, len(seen) + 1)) and len(seen) >= 6
    change, position = seen[2]
    assert position.endswith(":3") and len(position) == 36 + 2
    rest = list(keyrack.changes(position, wait=None))
    assert [change["id"] for change, _ in rest] == list(range(4, len(seen) + 1))
    epoch = position.partition(":")[0]
    assert list(keyrack.changes(change["id"], epoch=epoch, wait=None)) == rest
    assert keyrack.newest_position() == seen[-1][1]
    assert list(keyrack.changes(seen[-1][1], wait=None)) == []


def test_the_iterator_waits_for_the_next_change(keyrack: Keyrack, reader: Machine) -> None:
    changes = keyrack.changes(keyrack.newest_position(), wait=DEADLINE)
    reader.person.car("Next")
    change, _ = next(changes)
    assert (change["kind"], change["after"] and change["after"]["name"]) == ("car.created", "Next")

    async def read() -> str:
        async with reader.async_client() as client:
            position = await client.newest_position()
            reader.person.car("After")
            async for change, _ in client.changes(position, wait=DEADLINE):
                return str(change["after"] and change["after"]["name"])
        return ""

    assert asyncio.run(read()) == "After"


def test_a_restored_server_is_noticed(keyrack: Keyrack, reader: Machine) -> None:
    changes = keyrack.changes(0, size=2)
    assert [next(changes)[0]["id"] for _ in range(2)] == [1, 2]
    restore(reader.person)
    with pytest.raises(StartOver) as error:
        next(changes)
    newest = int(keyrack.newest_position().rpartition(":")[2])
    assert (error.value.newest, error.value.position) == (newest, keyrack.newest_position())
    assert isinstance(error.value.__cause__, errors.CursorGone)
    assert list(keyrack.changes(error.value.position, wait=None)) == []


def test_a_number_that_is_not_there_yet_is_an_error(keyrack: Keyrack) -> None:
    with pytest.raises(StartOver, match="does not contain this position"):
        list(keyrack.changes(1_000_000, wait=None))
    with pytest.raises(ValueError, match="must be a position"):
        next(keyrack.changes("yesterday"))


def test_no_change_is_lost_by_a_kill(keyrack: Keyrack, reader: Machine, tmp_path: Path) -> None:
    """The program continues where it was."""
    environment = os.environ | reader.environment | {"PYTHONPATH": str(PACKAGE)}
    check_no_change_is_lost(reader.person, [sys.executable, "-c", READER], tmp_path, environment, seed=41)
