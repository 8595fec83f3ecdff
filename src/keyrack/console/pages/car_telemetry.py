"""Telemetry of a car: the newest values, and the odometer over time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from typing import Any

from keyrack.console.local_times import in_utc, instant, utc
from keyrack.console.rendering import clock, root
from keyrack.core.errors import BadRequest, NotFound
from keyrack.http.page_router import Visit

TIRES = ("tirePressureFrontLeft", "tirePressureFrontRight", "tirePressureRearLeft", "tirePressureRearRight")
# The values of the page in their order, each a field of `GET /cars/{carId}/telemetry`
FIGURES = (
    "fuelLevelPercent", "odometer", "ignition", "currentSpeed", "batteryVoltage", "outsideTemperature",
    "engineCoolantTemperature", "tirePressure", "distanceToNextService", "dtc",
)  # fmt: skip
ELECTRIC = "Electric"


@dataclass(frozen=True)
class Range:
    """A period of a chart: the number of buckets, and their hours."""

    hours: float
    buckets: int


RANGES = {"day": Range(1, 24), "week": Range(6, 28), "month": Range(24, 30)}
DEFAULT_RANGE = "week"


@dataclass(frozen=True)
class CarTelemetry:
    """The newest telemetry of a car.

    `has_unit`: whether the car has a tracker. `last_seen`: the time of its last report, None for never. `fresh_until`:
    the time from which the report is stale, "" if it is stale. `figures`: the values by name. `missing_figures`: the
    names of values that the tracker has never reported.
    """

    has_unit: bool
    last_seen: str | None
    driving: bool | None
    electric: bool
    charging: bool
    figures: dict[str, Any]
    missing_figures: list[str]
    fresh_until: str = ""


def is_stale(visit: Visit, place: Mapping[str, Any]) -> bool:
    """Whether the last report of a car is stale. `place` is its row of `GET /positions`."""
    seen: str | None = place["lastSeen"]
    return seen is not None and not _fresh_until(visit, seen)


def _fresh_until(visit: Visit, seen: str) -> str:
    """The time from which a report of the time `seen` is stale; "" if it is stale."""
    until = instant(seen) + timedelta(minutes=visit.settings.telemetry_stale_minutes)
    return utc(until) if until > datetime.now(UTC) else ""


async def telemetry(visit: Visit, car: int) -> CarTelemetry:
    (place,) = (await visit.call("GET", "/positions", query={"$filter": f"carId eq {car}"})).json
    if not place["lastSeen"]:
        return CarTelemetry(place["hasUnit"], None, None, False, False, {}, [])
    try:
        readings = (await visit.call("GET", "/cars/{carId}/telemetry", car)).json
        where = (await visit.call("GET", "/cars/{carId}/location", car)).json
    except NotFound:  # the tracker was taken out
        return CarTelemetry(False, None, None, False, False, {}, [])
    # Telemetry has 0 for an odometer that was never read (spec, "Telemetry"); the location has null
    values = {name: readings.get(name) for name in FIGURES} | {
        "odometer": None if where["odometer"] is None else float(where["odometer"]),
        "tirePressure": [readings[name] for name in TIRES]
        if all(readings[name] is not None for name in TIRES)
        else None,
    }
    return CarTelemetry(
        True, place["lastSeen"], place["isDriving"], readings["fuelType"] == ELECTRIC, bool(readings["chargeState"]),
        {name: value for name, value in values.items() if value is not None},
        [name for name, value in values.items() if value is None], _fresh_until(visit, place["lastSeen"]),
    )  # fmt: skip


@dataclass(frozen=True)
class ChartBucket:
    """A bucket of the chart: its time, the odometer at its end in km, and the km since the previous bucket."""

    at: str
    odometer: float
    driven: float


@dataclass(frozen=True)
class Chart:
    """The odometer over a period. `source` is the script's request for the same data.

    `refused` is the reason for no data: the operator keeps or returns less than the period.
    """

    range: str
    ranges: tuple[str, ...]
    source: str
    hours: float
    begins: str
    ends: str
    readings: list[ChartBucket]
    refused: str = ""


async def chart(visit: Visit, car: int) -> Chart:
    """The period of the address, up to the end of the current hour or day."""
    name = visit.query_value("range") if visit.query_value("range") in RANGES else DEFAULT_RANGE
    wanted = RANGES[name]
    until = ceiling(datetime.now(clock(visit).zone), wanted.hours)
    since = until - timedelta(hours=wanted.hours * wanted.buckets)
    begins, ends = utc(since), utc(until)
    query = {"fields": "odometer", "from": begins, "to": ends, "points": str(wanted.buckets)}
    source = f"{root(visit)}/api/v3/cars/{car}/samples?fields=odometer&from={begins}&to={ends}&points={wanted.buckets}"
    try:
        buckets = (await visit.call("GET", "/cars/{carId}/samples", car, query=query)).json["series"]["odometer"]
    except BadRequest as refusal:
        return Chart(name, tuple(RANGES), "", wanted.hours, begins, ends, [], refusal.text)
    return Chart(name, tuple(RANGES), source, wanted.hours, begins, ends, _readings(buckets))


def _readings(buckets: list[dict[str, Any]]) -> list[ChartBucket]:
    readings: list[ChartBucket] = []
    last = buckets[0]["min"] if buckets else 0.0
    for bucket in buckets:
        readings.append(ChartBucket(bucket["utcDateTime"], bucket["last"], max(bucket["last"] - last, 0.0)))
        last = bucket["last"]
    return readings


def ceiling(moment: datetime, hours: float) -> datetime:
    """The next moment at which the hours of the day are a multiple of `hours`, in UTC."""
    midnight = datetime.combine(moment.date(), time.min, moment.tzinfo)
    whole = (moment.hour + moment.minute / 60) // hours + 1
    return in_utc(midnight + timedelta(hours=whole * hours))
