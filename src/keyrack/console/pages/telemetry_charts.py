"""Charts of fuel, battery and temperatures over time, with a table."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from keyrack.console.local_times import utc
from keyrack.console.pages.car_telemetry import DEFAULT_RANGE, ELECTRIC, Range, ceiling
from keyrack.console.rendering import clock
from keyrack.core.errors import BadRequest, NotFound
from keyrack.http.page_router import Visit

# The charts in their order: the field of telemetry, and the least height of its scale
LEVELS = {
    "fuelLevelPercent": 100.0, "batteryVoltage": 2.0, "engineCoolantTemperature": 20.0, "outsideTemperature": 10.0,
    "interiorTemperature": 10.0,
}  # fmt: skip
RANGES = {"day": Range(0.5, 48), "week": Range(3, 56), "month": Range(12, 60)}
WIDTH, HEIGHT, EDGE = 300.0, 72.0, 4.0  # of the picture, and its margins above and below

Bucket = dict[str, Any]


@dataclass(frozen=True)
class TelemetrySeries:
    """One field over time: the last value with its time, the lowest and the highest.

    `line` and `span` are SVG paths: the last value of each bucket, and the area from the lowest to the highest. Buckets
    without a value are gaps.
    """

    name: str
    last: float
    at: str
    least: float
    most: float
    line: str
    span: str


@dataclass(frozen=True)
class Levels:
    """The fields with values in the period. `rows` have the start of a bucket, and each field's bucket or None.

    `refused` is the reason for no data: the operator returns less than the period.
    """

    range: str
    ranges: tuple[str, ...]
    begins: str
    ends: str
    electric: bool
    levels: list[TelemetrySeries]
    rows: list[tuple[str, list[Bucket | None]]]
    refused: str = ""


async def levels(visit: Visit, car: int) -> Levels:
    """The period of the address, up to the end of the current bucket."""
    name = visit.query_value("range") if visit.query_value("range") in RANGES else DEFAULT_RANGE
    wanted = RANGES[name]
    until = ceiling(datetime.now(clock(visit).zone), wanted.hours)
    since = until - timedelta(hours=wanted.hours * wanted.buckets)
    begins, ends = utc(since), utc(until)
    query = {"fields": ",".join(LEVELS), "from": begins, "to": ends, "points": str(wanted.buckets)}
    try:
        series = (await visit.call("GET", "/cars/{carId}/samples", car, query=query)).json["series"]
    except BadRequest as refusal:
        return Levels(name, tuple(RANGES), begins, ends, False, [], [], refusal.text)
    buckets_by_member = {member: series[member] for member in LEVELS if series[member]}
    level_series = [_level(member, buckets, since, wanted) for member, buckets in buckets_by_member.items()]
    return Levels(
        name, tuple(RANGES), begins, ends, await _is_electric(visit, car), level_series, _rows(buckets_by_member)
    )


async def _is_electric(visit: Visit, car: int) -> bool:
    try:
        readings = (await visit.call("GET", "/cars/{carId}/telemetry", car, query={"$select": "fuelType"})).json
    except NotFound:  # the tracker was taken out
        return False
    return readings["fuelType"] == ELECTRIC


def _rows(buckets_by_member: dict[str, list[Bucket]]) -> list[tuple[str, list[Bucket | None]]]:
    """The rows of the table, the newest first."""
    at = {
        member: {bucket["utcDateTime"]: bucket for bucket in buckets} for member, buckets in buckets_by_member.items()
    }
    times = sorted({time for buckets in at.values() for time in buckets}, key=datetime.fromisoformat, reverse=True)
    return [(time, [buckets.get(time) for buckets in at.values()]) for time in times]


def _level(member: str, buckets: list[Bucket], since: datetime, wanted: Range) -> TelemetrySeries:
    least, most = min(bucket["min"] for bucket in buckets), max(bucket["max"] for bucket in buckets)
    low, high = _scale(member, least, most)
    width = WIDTH / wanted.buckets
    line: list[str] = []
    span: list[str] = []
    before = None
    for bucket in buckets:
        number = round((datetime.fromisoformat(bucket["utcDateTime"]) - since) / timedelta(hours=wanted.hours))
        last, top, bottom = (_height(bucket[value], low, high) for value in ("last", "max", "min"))
        left, right = round(number * width, 1), round((number + 1) * width, 1)
        line.append(f"V{last}H{right}" if before == number - 1 else f"M{left} {last}H{right}")
        if top != bottom:
            span.append(f"M{left} {top}H{right}V{bottom}H{left}Z")
        before = number
    newest = buckets[-1]
    return TelemetrySeries(member, newest["last"], newest["lastDateTime"], least, most, "".join(line), "".join(span))


def _scale(member: str, least: float, most: float) -> tuple[float, float]:
    """The bottom and the top of the scale, so that a small change looks small."""
    if member == "fuelLevelPercent":
        return 0.0, 100.0
    missing = max(LEVELS[member] - (most - least), 0.0)
    return least - missing / 2, most + missing / 2


def _height(value: float, low: float, high: float) -> float:
    return round(HEIGHT - EDGE - (value - low) / (high - low) * (HEIGHT - 2 * EDGE), 1)
