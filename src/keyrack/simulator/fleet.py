"""In charge of a virtual fleet's day: trips, doors, deliveries, and the failures that were asked for."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from keyrack.simulator.car import VirtualCar, stamp
from keyrack.simulator.client import Access, ApiError, Client
from keyrack.simulator.ledger import SAMPLED, SHOWN, Account, Summary, check

FAULTS = ("offline", "duplicates", "skew", "jumps", "silent")
BATCH = 100  # samples of one delivery
LANES = 8  # deliveries at once, each of cars of its own
STEPS_AT_ONCE = 10  # that are delivered together when time is simulated
HOME = (52.52, 13.405)  # around which cars begin that have never told where they are
AGENT = "Keyrack virtual fleet"

Progress = Callable[[int, Summary], None]


@dataclass(frozen=True, slots=True)
class Options:
    """What is to be simulated."""

    cars: int = 5
    minutes: float = 30.0
    every: float = 10.0  # seconds between two samples of a driving car
    seed: int = 1
    faults: frozenset[str] = frozenset()
    live: bool = False  # in real time from now on; otherwise the time that ends now, as fast as the server takes it
    start: datetime | None = None
    first: bool = False  # whether the fleet's first cars drive, not its last

    @property
    def steps(self) -> int:
        return max(1, round(self.minutes * 60 / self.every))


@dataclass(slots=True)
class Unit:
    """A virtual car with its IQ unit and box, and what waits to be delivered; a sample with whether it is valid."""

    account: Account
    car: VirtualCar
    random: Random  # of the failures: what the car does stays the same without them
    assignments: list[dict[str, Any]]
    strangers: list[int]
    skew: timedelta = timedelta()
    trip_steps: int = 0
    rest_steps: int = 0
    offline_steps: int = 0
    driver: int | None = None
    samples: list[tuple[dict[str, Any], bool]] = field(default_factory=list[Any])
    backlog: list[tuple[dict[str, Any], bool]] = field(default_factory=list[Any])
    events: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    late_events: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    def step(self, at: datetime, number: int, options: Options, summary: Summary) -> None:
        """Let `options.every` seconds pass."""
        self._connect(options, summary)
        if self.car.is_driving:
            self.trip_steps -= 1
            if self.trip_steps <= 0:
                self.car.stop()
                self._event(at, "CarClosed")
                self.rest_steps = self.car.random.randint(10, 60)
        else:
            self.rest_steps -= 1
            if self.rest_steps <= 0:
                self._try_door(at, options, summary)
        self.car.move(options.every)
        if self.car.is_driving or number % 6 == 0:
            self._read(at, options, summary)

    def come_online(self, summary: Summary) -> None:
        """Deliver what waited: the newest readings have gone first, so these are late."""
        self.offline_steps = 0
        summary.late += len(self.backlog)
        self.samples += self.backlog
        self.backlog = []

    def _connect(self, options: Options, summary: Summary) -> None:
        if self.offline_steps:
            self.offline_steps -= 1
        elif self.backlog:
            self.come_online(summary)
        elif "offline" in options.faults and self.random.random() < 0.02:
            self.offline_steps = self.random.randint(5, 40)

    def _try_door(self, at: datetime, options: Options, summary: Summary) -> None:
        user = self._user(at)
        if "silent" in options.faults and self.random.random() < 0.15:
            summary.doors_unanswered += 1
            self.rest_steps = 3
        elif not self._may_open(user, at):
            summary.doors_refused += 1
            self.rest_steps = 10
        else:
            self.driver = user
            self.car.start()
            self.trip_steps = self.car.random.randint(20, 120)
            self._event(at, "CarOpened")

    def _user(self, at: datetime) -> int | None:
        """Who stands at the door: mostly somebody with an assignment, sometimes somebody without."""
        entitled = [row["userId"] for row in self.assignments if _holds(row, at)]
        if entitled and (not self.strangers or self.car.random.random() < 0.85):
            return self.car.random.choice(entitled)
        return self.car.random.choice(self.strangers) if self.strangers else None

    def _may_open(self, user: int | None, at: datetime) -> bool:
        return any(row["userId"] == user and _holds(row, at) for row in self.assignments)

    def _event(self, at: datetime, type: str) -> None:
        event = {
            "dateTime": stamp(at).removesuffix("Z"),
            "utcDateTime": stamp(at),
            "userId": self.driver,
            "carId": self.account.car,
            "type": type,
            "userAgent": AGENT,
            "latitude": round(self.car.latitude, 6),
            "longitude": round(self.car.longitude, 6),
        }
        if self.offline_steps:
            self.late_events.append(event | {"clientId": str(uuid.uuid4())})
        else:
            self.events.append(event)

    def _read(self, at: datetime, options: Options, summary: Summary) -> None:
        sample = self.car.reading(at + self.skew) | {"serialNumber": self.account.serial}
        valid, odd = True, False
        if "jumps" in options.faults and self.random.random() < 0.01:
            sample["currentLatitude"] = round(self.car.latitude + self.random.uniform(-3, 3), 6)
            odd = True
        elif "jumps" in options.faults and self.random.random() < 0.005:
            sample["currentLatitude"], valid = 95.0, False
        elif "skew" in options.faults and self.random.random() < 0.005:
            sample["carDataReadTime"], valid = stamp(datetime.now(UTC) + timedelta(days=30)), False
        where = self.backlog if self.offline_steps else self.samples
        where.append((sample, valid))
        if valid:
            self.account.tell(sample, is_driven=self.car.speed > 0 and not odd)
            if "duplicates" in options.faults and self.random.random() < 0.05:
                where.append((sample, valid))
                summary.repeated += 1
        else:
            summary.refused_expected += 1


def _holds(assignment: dict[str, Any], at: datetime) -> bool:
    end = assignment["end"]
    starts = datetime.fromisoformat(assignment["start"]) <= at
    return starts and (end is None or at < datetime.fromisoformat(end))


async def simulate(
    access: Access,
    options: Options,
    progress: Progress = lambda step, summary: None,
    stopping: asyncio.Event | None = None,
) -> Summary:
    """Drive the fleet, then ask the server about all of it. Raises `ApiError` where the server cannot be used."""
    summary, stopping = Summary(), stopping or asyncio.Event()
    random = Random(options.seed)  # noqa: S311 - a seed is to repeat it
    async with Client(access) as client:
        units = await _units(client, options)
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


async def _units(client: Client, options: Options) -> list[Unit]:
    """The last cars, or the first, that have an IQ unit, each as the server knows it."""
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


async def _unit(client: Client, options: Options, car: int, serial: str, users: list[int]) -> Unit:
    account = Account(car, serial)
    location = await client.get(f"/cars/{car}/location")
    account.begin(location, await client.get(f"/cars/{car}/telemetry", missing={}))
    assignments = await client.get(f"/cars/{car}/assignments", missing=[])
    random = Random(f"{options.seed}/{serial}")  # noqa: S311 - to come again
    failures = Random(f"{options.seed}/{serial}/faults")  # noqa: S311 - to come again
    latitude = float(location["latitude"] or HOME[0] + random.uniform(-0.05, 0.05))
    longitude = float(location["longitude"] or HOME[1] + random.uniform(-0.05, 0.05))
    odometer = float(location["odometer"] or round(random.uniform(5_000, 90_000), 1))
    virtual = VirtualCar(random, latitude, longitude, odometer, is_electric=random.random() < 0.3)
    held = {row["userId"] for row in assignments}
    unit = Unit(account, virtual, failures, assignments, [user for user in users if user not in held])
    unit.rest_steps = random.randint(0, 20)
    if "skew" in options.faults and failures.random() < 0.3:
        unit.skew = timedelta(seconds=failures.randint(-600, 240))
    return unit


async def _deliver(client: Client, units: list[Unit], summary: Summary, random: Random, options: Options) -> None:
    """Send what waits: each lane its cars' samples in their order, and all events."""
    lanes = [units[number::LANES] for number in range(LANES)]
    resend = "duplicates" in options.faults and random.random() < 0.1
    await asyncio.gather(*(_deliver_lane(client, lane, summary, resend) for lane in lanes if lane))


async def _deliver_lane(client: Client, lane: list[Unit], summary: Summary, resend: bool) -> None:
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


async def _deliver_events(client: Client, unit: Unit, summary: Summary, resend: bool) -> None:
    events, unit.late_events = unit.late_events, []
    for again in (False, True) if resend else (False,):
        report = await client.deliver("/ingest/events", events)
        _unexpected(report["refused"], range(1, len(events) + 1), summary)
        expected = (0, len(events)) if again else (len(events), 0)
        if (report["accepted"], report["duplicates"]) != expected:
            summary.disagreements.append(f"{expected} events new and known, the server says {report}")
        summary.events_repeated += len(events) * again
        for numbered in report["events"]:
            event: dict[str, Any] = {**events[numbered["line"] - 1]}
            del event["clientId"]
            unit.account.events[numbered["id"]] = event
    summary.events += len(events)
    summary.events_late += len(events)


def _unexpected(refused: list[dict[str, Any]], valid: Iterable[int], summary: Summary) -> None:
    """Write down the refusals of lines that the server should have taken."""
    expected = set(valid)
    for entry in refused:
        if entry["line"] in expected:
            summary.disagreements.append(f"a valid line was refused: {entry['reason']}")
