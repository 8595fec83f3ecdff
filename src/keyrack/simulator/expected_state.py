"""The simulator's ledger: sent data, expected responses, and the comparison with the server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from keyrack.core.api_client.session import Client

CHECKS_AT_ONCE = 16
SAMPLED = 5  # readings of each car that are compared with history
REMEMBERED = 2_000  # readings of each car that can be compared
SHOWN = 20  # disagreements in a summary


@dataclass(slots=True)
class SimulationSummary:
    """Counts of sent data and responses; `disagreements` is empty if they agree."""

    cars: int = 0
    samples: int = 0  # delivered samples, including repeats
    repeated: int = 0
    late: int = 0
    accepted: int = 0
    duplicates: int = 0
    refused: int = 0
    refused_expected: int = 0
    events: int = 0
    events_late: int = 0
    events_repeated: int = 0
    doors_refused: int = 0
    doors_unanswered: int = 0
    connections_lost: int = 0  # between phone and box
    checks: int = 0
    disagreements: list[str] = field(default_factory=list[str])


@dataclass(slots=True)
class CarLedger:
    """Data sent by the unit of one car, and the expected responses."""

    car: int
    serial: str
    read_at: str | None = None
    place_at: str | None = None
    place: tuple[str | None, str | None] = (None, None)
    known_until: str | None = None  # earlier seconds may already have a reading, and the first one stays
    odometer_at: str | None = None
    odometer: str | None = None
    driven: dict[str, tuple[float, float]] = field(default_factory=dict[str, tuple[float, float]])
    events: dict[int, dict[str, Any]] = field(default_factory=dict[int, dict[str, Any]])

    def begin(self, location: dict[str, Any], telemetry: dict[str, Any]) -> None:
        """Store the server's state before anything is sent."""
        self.read_at = telemetry.get("carDataReadTime")
        self.place_at, self.place = location["date"], (location["latitude"], location["longitude"])
        self.known_until = self.place_at
        self.odometer_at, self.odometer = location["odometerDate"], location["odometer"]

    def tell(self, sample: dict[str, Any], *, is_driven: bool) -> None:
        """Record a sample that the server must accept."""
        at = sample["carDataReadTime"]
        if _later(at, self.read_at):
            self.read_at = at
        if _later(at, self.place_at):
            place = (str(sample["currentLatitude"]), str(sample["currentLongitude"]))
            self.place_at, self.place = at, place
        if _later(at, self.odometer_at):
            self.odometer_at, self.odometer = at, str(sample["odometer"])
        if is_driven and _later(at, self.known_until):
            while len(self.driven) >= REMEMBERED:  # bounds the memory of a simulation of months
                del self.driven[next(iter(self.driven))]
            self.driven[at] = (sample["currentLatitude"], sample["currentLongitude"])


def _later(at: str, than: str | None) -> bool:
    return than is None or datetime.fromisoformat(at) > datetime.fromisoformat(than)


async def check(
    client: Client, accounts: list[CarLedger], summary: SimulationSummary, pick: Callable[[list[str]], list[str]]
) -> None:
    """Compare all sent data with the server's responses, and record disagreements."""
    at_once = asyncio.Semaphore(CHECKS_AT_ONCE)

    def compare(subject: str, expected: Any, actual: Any) -> None:
        summary.checks += 1
        if expected != actual:
            summary.disagreements.append(f"{subject}: sent {expected}, the server returns {actual}")

    async def one(account: CarLedger) -> None:
        async with at_once:
            path = f"/cars/{account.car}"
            telemetry = await client.get(f"{path}/telemetry")
            compare(f"car {account.car}, carDataReadTime", _time(account.read_at), _time(telemetry["carDataReadTime"]))
            if account.read_at is None or _later(telemetry["carDataReadTime"], account.read_at):
                summary.disagreements.append(
                    f"car {account.car} has newer data than were sent: another client sends data for it"
                )
            location = await client.get(f"{path}/location")
            actual = (_time(location["date"]), _number(location["latitude"]), _number(location["longitude"]))
            place = (_time(account.place_at), _number(account.place[0]), _number(account.place[1]))
            compare(f"car {account.car}, position", place, actual)
            found_odometer = (_time(location["odometerDate"]), _number(location["odometer"]))
            compare(
                f"car {account.car}, odometer", (_time(account.odometer_at), _number(account.odometer)), found_odometer
            )
            for at in pick(sorted(account.driven)):
                there = await client.get(f"{path}/location/{at}")
                found_place = (_number(there["latitude"]), _number(there["longitude"]))
                compare(f"car {account.car}, position at {at}", account.driven[at], found_place)
            for id, sent in account.events.items():
                stored = await client.get(f"/events/{id}", missing={})
                compare(f"event {id}", sent, {name: stored.get(name) for name in sent})

    await asyncio.gather(*(one(account) for account in accounts))
    compare(
        "samples accepted, known or rejected", summary.samples, summary.accepted + summary.duplicates + summary.refused
    )
    compare("samples rejected", summary.refused_expected, summary.refused)
    summary.checks += 1
    if summary.duplicates < summary.repeated:
        summary.disagreements.append(
            f"{summary.repeated} samples were repeated, but only {summary.duplicates} were known"
        )


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def _number(text: str | None) -> float | None:
    return None if text is None else float(text)
