"""The virtual fleet: what it sends is what the server then reports, with every failure, and a lie is found out."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest

from keyrack.simulator import (
    FAULTS,
    ApiError,
    SimulationSummary,
    SimulatorCredentials,
    SimulatorOptions,
    drive_in_background,
    simulate,
)
from keyrack.simulator.car import VirtualCar
from tests.support.people import Person, Town
from tests.support.servers import RunningServer, eventually
from tests.telemetry.endpoints.test_ingest import device_key, unit_of

pytestmark = pytest.mark.cluster

# Each test has hours of its own: two fleets in the same cars at the same time would contradict each other
START = (datetime.now(UTC) - timedelta(hours=24)).replace(microsecond=0)


@pytest.fixture(scope="module")
def dora(town: Town) -> Person:
    """Who has a small fleet: five cars with units and boxes, users with assignments, and one without."""
    person = town.person("dora")
    users = [person.user() for _ in range(3)]
    for number in range(5):
        unit = unit_of(person, f"SIM{number}")  # what a unit does hangs on the seed and its serial number
        person.box_in(unit.car)
        if number < 4:
            person.assignment(unit.car, users[number % 2])
    return person


@pytest.fixture(scope="module")
def access(dora: Person, server: RunningServer) -> SimulatorCredentials:
    return SimulatorCredentials(
        f"{server.url}/v3", dora.api_key, dora.username, dora.password, dora.customer, device_key(dora)
    )


def drive(access: SimulatorCredentials, **options: Any) -> SimulationSummary:
    return asyncio.run(simulate(access, SimulatorOptions(**({"minutes": 20, "start": START} | options))))


def test_a_fleet_that_drives_well_is_reported_as_sent(access: SimulatorCredentials) -> None:
    summary = drive(access)
    assert summary.disagreements == []
    assert (summary.cars, summary.refused, summary.repeated, summary.late) == (5, 0, 0, 0)
    assert summary.samples == summary.accepted > 100
    assert summary.events > 3
    assert summary.doors_refused > 0, "one car has no assignment, and strangers try"
    assert summary.checks > 20


@pytest.mark.parametrize("fault", FAULTS)
def test_every_failure_is_survived(access: SimulatorCredentials, fault: str) -> None:
    start = START + timedelta(hours=1 + FAULTS.index(fault))
    summary = drive(access, faults=frozenset({fault}), start=start, minutes=12, seed=4, every=5)
    assert summary.disagreements == []
    happened = {
        "offline": summary.late + summary.events_late,
        "duplicates": summary.repeated,
        "skew": summary.refused,
        "jumps": summary.refused,
        "silent": summary.doors_unanswered,
    }
    assert happened[fault] > 0


def test_all_failures_at_once_and_the_same_again(access: SimulatorCredentials) -> None:
    summary = drive(access, faults=frozenset(FAULTS), minutes=30, seed=7, start=START + timedelta(hours=8), every=15)
    assert summary.disagreements == []
    assert summary.events_late > 0


def test_a_seed_repeats_what_a_car_does() -> None:
    def track(seed: int) -> list[dict[str, Any]]:
        car = VirtualCar(Random(seed), 52.5, 13.4, 1000.0)
        car.start()
        readings: list[dict[str, Any]] = []
        for n in range(200):
            car.move(10)
            readings.append(car.reading(START + timedelta(seconds=10 * n)))
        return readings

    assert track(1) == track(1)
    assert track(1) != track(2)
    odometers = [reading["odometer"] for reading in track(1)]
    assert odometers == sorted(odometers)
    assert all(0 <= reading["currentSpeed"] <= 130 for reading in track(1))


def test_the_same_seed_has_the_same_failures(access: SimulatorCredentials, dora: Person) -> None:
    def run(minutes: int) -> dict[str, Any]:
        start = START - timedelta(days=2, minutes=minutes)
        found = asdict(drive(access, faults=frozenset(FAULTS), minutes=10, seed=11, start=start))
        return {name: found[name] for name in ("samples", "repeated", "late", "refused_expected", "events")}

    assert run(0) == run(30)


def test_a_server_that_loses_something_is_found_out(access: SimulatorCredentials, dora: Person) -> None:
    """The units' car states are thrown away behind the server's back while the fleet drives."""

    async def run() -> SimulationSummary:
        def forget(step: int, summary: SimulationSummary) -> None:
            if step == 120:
                dora.sql.execute(
                    "update car_state set odometer = 1, odometer_at = now() where customer_id = $1", dora.customer
                )

        return await simulate(access, SimulatorOptions(minutes=20, start=START), forget)

    summary = asyncio.run(run())
    assert any("odometer" in line for line in summary.disagreements)
    dora.sql.execute("delete from car_state where customer_id = $1", dora.customer)


def test_who_drives_the_same_cars_is_told_so(access: SimulatorCredentials, dora: Person) -> None:
    """It is the last car that drives, not the first as in the background of the demo."""
    car = dora.get("/cars").json()[-1]["id"]

    async def run() -> SimulationSummary:
        def tell(step: int, summary: SimulationSummary) -> None:
            if step == 12:
                dora.sql.execute("update car_state set read_at = now() where car_id = $1", car)

        return await simulate(access, SimulatorOptions(cars=1, minutes=3, start=START), tell)

    assert (
        f"car {car} has newer data than were sent: another client sends data for it" in asyncio.run(run()).disagreements
    )
    dora.sql.execute("delete from car_state where customer_id = $1", dora.customer)


def test_a_second_that_the_server_knew_keeps_its_first_reading(access: SimulatorCredentials) -> None:
    """Another seed drives through seconds that have a reading each, as the demo's history has at each full hour."""
    start = START - timedelta(hours=30)
    assert drive(access, start=start, seed=21).disagreements == []
    again = drive(access, start=start, seed=22)
    assert again.duplicates > 0
    assert again.disagreements == []


def test_without_the_right_key_nothing_starts(access: SimulatorCredentials) -> None:
    with pytest.raises(ApiError, match="401"):
        drive(replace(access, device_key="wrong"))
    with pytest.raises(ApiError, match="401"):
        drive(replace(access, password="wrong"))


def test_a_customer_without_units_is_told_so(server: RunningServer, bob: Person) -> None:
    access = SimulatorCredentials(
        f"{server.url}/v3", bob.api_key, bob.username, bob.password, bob.customer, device_key(bob)
    )
    with pytest.raises(ApiError, match="IQ"):
        drive(access)


def test_the_command_says_what_it_saw(access: SimulatorCredentials) -> None:
    env = {
        "KEYRACK_URL": access.url, "KEYRACK_API_KEY": access.api_key, "KEYRACK_USERNAME": access.username,
        "KEYRACK_PASSWORD": access.password, "KEYRACK_CUSTOMER_ID": str(access.customer),
        "KEYRACK_DEVICE_KEY": access.device_key,
    }  # fmt: skip
    command = [sys.executable, "-m", "keyrack", "simulate", "--minutes", "5", "--cars", "3", "--faults", "all"]

    def run(*more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*command, *more], env=os.environ | env, capture_output=True, text=True, check=False)

    told = run("--json")
    assert told.returncode == 0, told.stderr
    assert json.loads(told.stdout)["cars"] == 3
    earlier = (datetime.now(UTC) - timedelta(hours=2)).isoformat(timespec="seconds")
    assert run("--from", earlier).stdout.endswith("Sent data and responses agree.\n")
    assert run("--faults", "fire").returncode == 2


def test_a_fleet_drives_in_the_background_of_a_demo(access: SimulatorCredentials, dora: Person) -> None:
    dora.sql.execute("delete from car_state where customer_id = $1", dora.customer)
    assert drive_in_background(access, 2).daemon
    cars = [row["id"] for row in dora.get("/cars").json()][:2]
    eventually(lambda: all(dora.get(f"/cars/{car}/telemetry").status_code == 200 for car in cars), "the first readings")
