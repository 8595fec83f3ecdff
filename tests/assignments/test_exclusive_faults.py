"""Exclusive bookings with two workers, of which one is killed repeatedly."""

from __future__ import annotations

import asyncio
import random
import signal
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.assignments.histories import Fleet
from tests.assignments.test_histories import Place
from tests.assignments.test_histories import place as opened
from tests.support.servers import DEADLINE, Process, migrated_database

pytestmark = pytest.mark.cluster

ASKERS, SLOTS = 200, 10
KILLS = 4
OVERLAPS = """
select count(*) from booking a join booking b on b.customer_id = a.customer_id and b.car_id = a.car_id
  and b.assignment_id > a.assignment_id and a.starts_at < b.blocked_until and b.starts_at < a.blocked_until
"""


@pytest.fixture
def own(database_server: str) -> Iterator[str]:
    with migrated_database(database_server) as dsn:
        yield dsn


async def ask(place: Place, fleet: Fleet, number: int) -> tuple[int, str]:
    """Ask for a slot; return it, and what became of the request."""
    slot = number % SLOTS
    body = {
        "carId": fleet.cars[0], "userId": fleet.users[0], "exclusive": True,
        "start": f"2050-01-01T{slot:02}:00:00Z", "end": f"2050-01-01T{slot + 1:02}:00:00Z",
    }  # fmt: skip
    headers = place.headers | {"Customer-ID": str(fleet.customer)}
    async with place.http.put(place.url + "/assignments", json=body, headers=headers) as answer:
        if answer.status == 409:
            return slot, "409"
        assert answer.status == 204, await answer.text()
        path = f"/operations/{answer.headers['Operation-Id']}"
    async with asyncio.timeout(DEADLINE * 3):
        while True:
            async with place.http.get(place.url + path, headers=headers) as answer:
                row = await answer.json()
            if row["state"] != "Pending":
                return slot, row["errorCode"] or row["state"]
            await asyncio.sleep(0.1)


async def kill_workers(place: Place) -> None:
    """Kill a worker at a random moment, and start another one."""
    for _ in range(KILLS):
        await asyncio.sleep(random.uniform(0.2, 0.8))
        place.processes.pop().stop(signal.SIGKILL)
        place.processes.append(Process("work", env=place.env))


async def run(dsn: str) -> list[tuple[int, str]]:
    async with opened(dsn) as place:
        (fleet,) = await place.fleets(1)
        place.start_workers()
        killing = asyncio.create_task(kill_workers(place))
        answers = await asyncio.gather(*(ask(place, fleet, number) for number in range(ASKERS)))
        await killing
        assert await place.sql.fetchval(OVERLAPS) == 0
        return answers


def test_each_slot_is_given_once(own: str) -> None:
    answers = asyncio.run(run(own))
    states = Counter(state for _, state in answers)
    assert set(states) <= {"Succeeded", "assignment-conflict", "409"}, states
    assert Counter(slot for slot, state in answers if state == "Succeeded") == dict.fromkeys(range(SLOTS), 1)
