"""Doors of the virtual fleet: boxes report events of openings by keys, and ended rights open nothing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from keyrack.core import secret_hashes
from keyrack.offline_keys.message_fields import CLOSE, OPEN
from keyrack.simulator import SimulatorCredentials, SimulatorOptions, fleet, simulate
from keyrack.simulator.client import FleetClient
from keyrack.simulator.doors import Door, Doors
from tests.offline_keys.offline_world import garage
from tests.support.people import Person, Town
from tests.support.servers import RunningServer, eventually
from tests.telemetry.endpoints.test_ingest import device_key, unit_of


@pytest.fixture(scope="module")
def ella(town: Town) -> Person:
    """A person with cars, units and boxes. A user has assignments of all cars but the last."""
    person = town.person("ella")
    user = person.user()
    for number in range(4):
        car = unit_of(person, f"DOOR{number}").car
        person.box_in(car)
        if number < 3:
            person.assignment(car, user)
    return person


@pytest.fixture(scope="module")
def access(ella: Person, server: RunningServer) -> SimulatorCredentials:
    sdk_key = secret_hashes.new_secret()
    ella.sql.execute(
        "insert into sdk_key (customer_id, hash) values ($1, $2)", ella.customer, secret_hashes.digest(sdk_key)
    )
    url = f"{server.url}/v3"
    return SimulatorCredentials(
        url, ella.api_key, ella.username, ella.password, ella.customer, device_key(ella), sdk_key=sdk_key
    )


def with_doors(access: SimulatorCredentials, use: Callable[[Doors], Awaitable[None]]) -> None:
    async def run() -> None:
        async with FleetClient(access) as client:
            await use(Doors(client, access))

    asyncio.run(run())


def test_a_key_opens_until_its_right_ends(access: SimulatorCredentials, ella: Person) -> None:
    first = ella.get("/cars").json()[0]["id"]
    (row,) = ella.get(f"/cars/{first}/assignments").json()

    async def use(doors: Doors) -> None:
        at = int(time.time())
        door = await doors.of(first, at)
        assert isinstance(door, Door)
        user = row["userId"]
        assert door.use(user, OPEN, at + 1)
        assert door.use(user, CLOSE, at + 20)
        assert not door.use(user + 1, OPEN, at + 21), "who has no phone"
        events = await door.bring_home()
        assert [event["type"] for event in events.values()] == ["CarOpened", "CarClosed"]
        assert door.missing() == []
        for id, sent in events.items():
            stored = ella.get(f"/events/{id}").json()
            assert {name: stored[name] for name in sent} == sent
        ella.delete(f"/assignments/{row['id']}")
        eventually(lambda: ella.get(f"/assignments/{row['id']}").status_code == 404, "the end")
        door.use(user, OPEN, at + 40)  # the box has not received the end yet
        await door.bring_home()
        assert not door.use(user, OPEN, at + 60)

    with_doors(access, use)
    ella.assignment(first, row["userId"])


def test_only_boxes_of_earlier_runs_are_reused(access: SimulatorCredentials, ella: Person) -> None:
    second = ella.get("/cars").json()[1]["id"]
    others, box = garage(ella)
    before = ella.get(f"/boxes/{box.product}/enrolment").json()

    async def use(doors: Doors) -> None:
        assert await doors.of(second, int(time.time())) is not None
        assert await doors.of(others, int(time.time())) is None
        assert await doors.of(ella.car(), int(time.time())) is None, "a car without a box"

    with_doors(access, use)
    with_doors(access, use)
    assert ella.get(f"/boxes/{box.product}/enrolment").json() == before
    with_doors(replace(access, sdk_key=""), nothing_opens(second))


def nothing_opens(car: int) -> Callable[[Doors], Awaitable[None]]:
    async def use(doors: Doors) -> None:
        assert await doors.of(car, int(time.time())) is None

    return use


def test_a_live_fleet_opens_doors_by_keys(
    access: SimulatorCredentials, ella: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The simulated time does not wait for the clock."""

    async def at_once(stopping: asyncio.Event, at: datetime) -> bool:
        return False

    monkeypatch.setattr(fleet, "_stopped_before", at_once)
    faults = frozenset({"offline"})
    options = SimulatorOptions(
        cars=4, minutes=4, every=2, live=True, start=datetime.now(UTC).replace(microsecond=0), faults=faults
    )
    summary = asyncio.run(simulate(access, options))
    assert summary.disagreements == []
    assert summary.events > 0
    agents = {row["userAgent"] for row in ella.get("/events").json()}
    assert all(agent.startswith("Keyrack key, box:") for agent in agents)
