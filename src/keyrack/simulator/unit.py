"""A car of the virtual fleet with its unit and box, and its pending deliveries."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from keyrack.offline_keys.message_fields import CLOSE, OPEN
from keyrack.simulator.car import VirtualCar, stamp
from keyrack.simulator.doors import Door
from keyrack.simulator.expected_state import CarLedger, SimulationSummary
from keyrack.simulator.offline.radio import GARAGE, RadioConditions

FAULTS = ("offline", "duplicates", "skew", "jumps", "silent")
AGENT = "Keyrack virtual fleet"


@dataclass(frozen=True, slots=True)
class SimulatorOptions:
    """The parameters of a simulated fleet."""

    cars: int = 5
    minutes: float = 30.0
    every: float = 10.0  # seconds between two samples of a driving car
    seed: int = 1
    faults: frozenset[str] = frozenset()
    live: bool = False  # real time, starting now; otherwise past time that ends now, as fast as the server accepts it
    start: datetime | None = None
    first: bool = False  # use the fleet's first cars instead of its last
    radio: RadioConditions = GARAGE  # between phones and boxes, if keys open the doors

    @property
    def steps(self) -> int:
        return max(1, round(self.minutes * 60 / self.every))


@dataclass(slots=True)
class Unit:
    """A virtual car with its IQ unit and box, and pending deliveries; each sample has a flag for its validity."""

    account: CarLedger
    car: VirtualCar
    random: Random  # for faults only, so that the trips are the same without them
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
    door: Door | None = None  # if keys open it, its box creates the events

    def step(self, at: datetime, number: int, options: SimulatorOptions, summary: SimulationSummary) -> None:
        """Advance by `options.every` seconds."""
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

    def come_online(self, summary: SimulationSummary) -> None:
        """Deliver the backlog, which is late because newer readings were sent first."""
        self.offline_steps = 0
        summary.late += len(self.backlog)
        self.samples += self.backlog
        self.backlog = []

    def _connect(self, options: SimulatorOptions, summary: SimulationSummary) -> None:
        if self.offline_steps:
            self.offline_steps -= 1
        elif self.backlog:
            self.come_online(summary)
        elif "offline" in options.faults and self.random.random() < 0.02:
            self.offline_steps = self.random.randint(5, 40)

    def _try_door(self, at: datetime, options: SimulatorOptions, summary: SimulationSummary) -> None:
        user = self._user(at)
        if "silent" in options.faults and self.random.random() < 0.15:
            summary.doors_unanswered += 1
            self.rest_steps = 3
        elif not self._may_open(user, at) or not self._opens(user, at):
            summary.doors_refused += 1
            self.rest_steps = 10
        else:
            self.driver = user
            self.car.start()
            self.trip_steps = self.car.random.randint(20, 120)
            self._event(at, "CarOpened")

    def _user(self, at: datetime) -> int | None:
        """The user at the door: usually one with an assignment, sometimes one without."""
        entitled = [row["userId"] for row in self.assignments if _holds(row, at)]
        if entitled and (not self.strangers or self.car.random.random() < 0.85):
            return self.car.random.choice(entitled)
        return self.car.random.choice(self.strangers) if self.strangers else None

    def _may_open(self, user: int | None, at: datetime) -> bool:
        return any(row["userId"] == user and _holds(row, at) for row in self.assignments)

    def _opens(self, user: int | None, at: datetime) -> bool:
        return self.door is None or (user is not None and self.door.use(user, OPEN, int(at.timestamp())))

    def _event(self, at: datetime, type: str) -> None:
        if self.door is not None:
            if type == "CarClosed" and self.driver is not None:
                self.door.use(self.driver, CLOSE, int(at.timestamp()))
            return
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

    def _read(self, at: datetime, options: SimulatorOptions, summary: SimulationSummary) -> None:
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
