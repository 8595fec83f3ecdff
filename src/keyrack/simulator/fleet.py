"""The day of a virtual fleet: trips, doors, deliveries and simulated faults."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from keyrack.core.api_client.responses import ApiError
from keyrack.core.api_client.session import Client
from keyrack.simulator.car import VirtualCar
from keyrack.simulator.client import FleetClient, SimulatorCredentials
from keyrack.simulator.doors import Doors
from keyrack.simulator.expected_state import SAMPLED, SHOWN, CarLedger, SimulationSummary, check
from keyrack.simulator.unit import SimulatorOptions, Unit

BATCH = 100  # samples per delivery
LANES = 8  # concurrent deliveries, each for its own cars
STEPS_AT_ONCE = 10  # steps per delivery in simulated time
HOME = (52.52, 13.405)  # start area of cars without a position

Progress = Callable[[int, SimulationSummary], None]


async def simulate(
    access: SimulatorCredentials,
    options: SimulatorOptions,
    progress: Progress = lambda step, summary: None,
    stopping: asyncio.Event | None = None,
) -> SimulationSummary:
    """Simulate the fleet, then compare it with the server. Raises `ApiError` if the server cannot be used."""
    summary, stopping = SimulationSummary(), stopping or asyncio.Event()
    random = Random(options.seed)  # noqa: S311 - a seed makes it reproducible
    async with FleetClient(access) as client:
        units = await _units(client, options)
        doors = Doors(client, access, options.radio, options.seed)
        if options.live:  # keys cannot open in the past
            for unit in units:
                unit.door = await doors.of(unit.account.car, int(datetime.now(UTC).timestamp()))
        summary.cars = len(units)
        span = timedelta(seconds=options.every * options.steps)
        now = datetime.now(UTC).replace(microsecond=0)
        start = options.start or (now if options.live else now - span)
        for number in range(options.steps):
            at = start + timedelta(seconds=options.every * number)
            if options.live and await _stopped_before(stopping, at):
                break
            for unit in units:
                unit.step(at, number, options, summary)
            if options.live or number % STEPS_AT_ONCE == STEPS_AT_ONCE - 1:
                await _deliver(client, units, summary, random, options)
            progress(number + 1, summary)
        for unit in units:
            unit.come_online(summary)
        await _deliver(client, units, summary, random, options)
        accounts = [unit.account for unit in units]
        await check(client, accounts, summary, lambda times: random.sample(times, min(SAMPLED, len(times))))
    del summary.disagreements[SHOWN:]
    return summary


async def _stopped_before(stopping: asyncio.Event, at: datetime) -> bool:
    try:
        async with asyncio.timeout((at - datetime.now(UTC)).total_seconds()):
            await stopping.wait()
    except TimeoutError:
        return False
    return True


async def _units(client: Client, options: SimulatorOptions) -> list[Unit]:
    """The units of the last or first cars with an IQ unit, with their state at the server."""
    users = [row["id"] for row in await client.rows("/users")]
    units: list[Unit] = []
    cars = await client.rows("/cars")
    for row in cars if options.first else reversed(cars):
        if len(units) == options.cars:
            break
        products = await client.get(f"/cars/{row['id']}/products", missing=[])
        serial = next((p["serialNumber"] for p in products if p["type"].endswith(" IQ")), None)
        if serial is not None:
            units.append(await _unit(client, options, row["id"], serial, users))
    if not units:
        raise ApiError("No car of this customer has an IQ unit. Add products of kind IQ and install them.")
    return units


async def _unit(client: Client, options: SimulatorOptions, car: int, serial: str, users: list[int]) -> Unit:
    account = CarLedger(car, serial)
    location = await client.get(f"/cars/{car}/location")
    account.begin(location, await client.get(f"/cars/{car}/telemetry", missing={}))
    assignments = await client.get(f"/cars/{car}/assignments", missing=[])
    random = Random(f"{options.seed}/{serial}")  # noqa: S311 - a fixed seed
    failures = Random(f"{options.seed}/{serial}/faults")  # noqa: S311 - a fixed seed
    latitude = float(location["latitude"] or HOME[0] + random.uniform(-0.05, 0.05))
    longitude = float(location["longitude"] or HOME[1] + random.uniform(-0.05, 0.05))
    odometer = float(location["odometer"] or round(random.uniform(5_000, 90_000), 1))
    virtual = VirtualCar(random, latitude, longitude, odometer, is_electric=random.random() < 0.3)
    assigned_users = {row["userId"] for row in assignments}
    unit = Unit(account, virtual, failures, assignments, [user for user in users if user not in assigned_users])
    unit.rest_steps = random.randint(0, 20)
    if "skew" in options.faults and failures.random() < 0.3:
        unit.skew = timedelta(seconds=failures.randint(-600, 240))
    return unit


async def _deliver(
    client: FleetClient, units: list[Unit], summary: SimulationSummary, random: Random, options: SimulatorOptions
) -> None:
    """Send waiting samples and events.

    Each lane sends the samples of its cars in order.
    """
    lanes = [units[number::LANES] for number in range(LANES)]
    resend = "duplicates" in options.faults and random.random() < 0.1
    await asyncio.gather(*(_deliver_lane(client, lane, summary, resend) for lane in lanes if lane))


async def _deliver_lane(client: FleetClient, lane: list[Unit], summary: SimulationSummary, resend: bool) -> None:
    waiting: list[tuple[dict[str, Any], bool]] = []
    for unit in lane:
        waiting += unit.samples
        unit.samples = []
        for event in unit.events:
            unit.account.events[await client.put_event(event)] = event
            summary.events += 1
        unit.events = []
        if unit.late_events and not unit.offline_steps:
            await _deliver_events(client, unit, summary, resend)
        if unit.door is not None and not unit.offline_steps:
            door_events = await unit.door.bring_home()
            unit.account.events |= door_events
            summary.events += len(door_events)
            summary.disagreements += unit.door.missing()
            summary.connections_lost, unit.door.lost = summary.connections_lost + unit.door.lost, 0
    for first in range(0, len(waiting), BATCH):
        part = waiting[first : first + BATCH]
        for again in (False, True) if resend else (False,):
            report = await client.deliver("/ingest/telemetry", [sample for sample, _ in part])
            summary.samples += len(part)
            summary.accepted += report["accepted"]
            summary.duplicates += report["duplicates"]
            summary.refused += len(report["refused"])
            _unexpected(report["refused"], (line for line, (_, valid) in enumerate(part, 1) if valid), summary)
            if again:
                summary.repeated += sum(valid for _, valid in part)
                summary.refused_expected += sum(not valid for _, valid in part)


async def _deliver_events(client: FleetClient, unit: Unit, summary: SimulationSummary, resend: bool) -> None:
    events, unit.late_events = unit.late_events, []
    for again in (False, True) if resend else (False,):
        report = await client.deliver("/ingest/events", events)
        _unexpected(report["refused"], range(1, len(events) + 1), summary)
        expected = (0, len(events)) if again else (len(events), 0)
        if (report["accepted"], report["duplicates"]) != expected:
            summary.disagreements.append(f"{expected} new and known events, the server returns {report}")
        summary.events_repeated += len(events) * again
        for numbered in report["events"]:
            event: dict[str, Any] = {**events[numbered["line"] - 1]}
            del event["clientId"]
            unit.account.events[numbered["id"]] = event
    summary.events += len(events)
    summary.events_late += len(events)


def _unexpected(refused: list[dict[str, Any]], valid: Iterable[int], summary: SimulationSummary) -> None:
    """Record rejected lines that the server should have accepted."""
    expected = set(valid)
    for entry in refused:
        if entry["line"] in expected:
            summary.disagreements.append(f"a valid line was rejected: {entry['reason']}")
