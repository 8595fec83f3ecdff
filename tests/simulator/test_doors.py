"""Doors of the virtual fleet.

Events of openings by keys, and ended rights.

Boxes are those in Python and, if there is a compiler, in C.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from keyrack.core import secret_hashes
from keyrack.offline_keys.box import firmware
from keyrack.offline_keys.message_fields import CLOSE, OPEN
from keyrack.simulator import SimulatorCredentials, SimulatorOptions, doors, fleet, simulate
from keyrack.simulator.client import FleetClient
from keyrack.simulator.doors import Door, Doors
from keyrack.simulator.offline.radio import PERFECT, Fate, Fault, RadioConditions
from tests.offline_keys.offline_world import garage
from tests.simulator.c_virtual_box import CVirtualBox, built
from tests.support.people import Person, Town
from tests.support.servers import RunningServer, eventually
from tests.telemetry.endpoints.test_ingest import device_key, unit_of

BAD = RadioConditions((23, 247), losses=0.1, disconnects=0.1, delays=0.1, busy=0.1)


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


@pytest.fixture(params=["python", "c"])
def _firmware(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Boxes with the firmware in Python, then in C."""
    if request.param == "c":
        built()  # or the test is skipped
        monkeypatch.setattr(doors, "VirtualBox", CVirtualBox)
        monkeypatch.setattr(firmware, "receive", None)  # the box in Python gets no message


def with_doors(access: SimulatorCredentials, use: Callable[[Doors], Awaitable[None]]) -> None:
    async def run() -> None:
        async with FleetClient(access) as client:
            await use(Doors(client, access, PERFECT))

    asyncio.run(run())


async def door_of(doors: Doors, car: int, at: int) -> Door:
    """The door of a car that has a box."""
    door = await doors.of(car, at)
    assert isinstance(door, Door)
    return door


@pytest.mark.usefixtures("_firmware")
def test_a_key_opens_until_its_right_ends(access: SimulatorCredentials, ella: Person) -> None:
    first = ella.get("/cars").json()[0]["id"]
    (row,) = ella.get(f"/cars/{first}/assignments").json()

    async def use(doors: Doors) -> None:
        at = int(time.time())
        door = await door_of(doors, first, at)
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


LOST_REPLY = Fate(Fault.DISCONNECT, 0.5)  # the box processes the message, and nothing comes back


def meet(door: Door, *fates: Fate) -> None:
    """Give these fates to the next messages between phone and box.

    Later messages have no fault.
    """
    following = iter(fates)
    door._radio.fate = lambda: next(following, Fate())


@pytest.mark.usefixtures("_firmware")
def test_a_user_whose_result_is_lost_tries_again(access: SimulatorCredentials, ella: Person) -> None:
    """The box has opened then, so its log has two openings."""
    car = ella.get("/cars").json()[1]["id"]
    (row,) = ella.get(f"/cars/{car}/assignments").json()

    async def use(doors: Doors) -> None:
        at = int(time.time())
        door = await door_of(doors, car, at)
        meet(door, Fate(), Fate(), LOST_REPLY)  # hello, hello, open
        assert door.use(row["userId"], OPEN, at + 1)
        assert door.lost == 1
        assert [event["type"] for event in (await door.bring_home()).values()] == ["CarOpened"] * 2
        assert door.missing() == []

    with_doors(access, use)


@pytest.mark.usefixtures("_firmware")
def test_a_log_that_a_phone_could_not_take_comes_with_the_next_visit(
    access: SimulatorCredentials, ella: Person
) -> None:
    """Meanwhile the opening has no event, which is no disagreement."""
    car = ella.get("/cars").json()[2]["id"]
    (row,) = ella.get(f"/cars/{car}/assignments").json()

    async def use(doors: Doors) -> None:
        at = int(time.time())
        door = await door_of(doors, car, at)
        meet(door, Fate(), Fate(), Fate(), LOST_REPLY)  # hello, hello, open, fetch
        assert door.use(row["userId"], OPEN, at + 1)
        assert door.lost == 1
        assert (await door.bring_home(), door.missing()) == ({}, [])
        assert door.use(row["userId"], CLOSE, at + 20)
        assert [event["type"] for event in (await door.bring_home()).values()] == ["CarOpened", "CarClosed"]
        assert door.missing() == []

    with_doors(access, use)


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


@pytest.mark.usefixtures("_firmware")
def test_a_live_fleet_opens_doors_by_keys(
    access: SimulatorCredentials, ella: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The simulated time does not wait for the clock. The radio is a bad one."""

    async def at_once(stopping: asyncio.Event, at: datetime) -> bool:
        return False

    monkeypatch.setattr(fleet, "_stopped_before", at_once)
    faults = frozenset({"offline"})
    options = SimulatorOptions(
        cars=4, minutes=4, every=2, live=True, start=datetime.now(UTC).replace(microsecond=0), faults=faults, radio=BAD
    )
    summary = asyncio.run(simulate(access, options))
    assert summary.disagreements == []
    assert summary.events > 0
    assert summary.connections_lost > 0
    agents = {row["userAgent"] for row in ella.get("/events").json()}
    assert all(agent.startswith("Keyrack key, box:") for agent in agents)
