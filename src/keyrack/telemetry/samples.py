"""Samples: the members that a unit may report, and their bounds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Final, Literal

from pydantic import ConfigDict, FailFast, Field, TypeAdapter, ValidationError, with_config
from typing_extensions import TypedDict

from keyrack.api.schema.request_body import WHOLE_NUMBER, Latitude, Longitude, Moment, Text, int32_from
from keyrack.core.settings import Settings
from keyrack.core.text import without_byte_order_mark
from keyrack.telemetry.json_lines import InvalidLine, explained, is_array, repeated_member, texts, too_many

Json = dict[str, Any]


def _within(least: float, most: float) -> Any:
    return Field(ge=least, le=most, allow_inf_nan=False, json_schema_extra={"format": "double"})


# The spec names no units of measure. Values are stored as reported; the bounds only reject what no car can mean
Percent = Annotated[float, _within(0, 100)]
Temperature = Annotated[float, _within(-100, 1_500)]
Pressure = Annotated[float, _within(0, 2_000)]
Amount = Annotated[float, _within(0, 100_000_000)]
Distance = Annotated[float, _within(-1_000_000, 1_000_000)]
Voltage = Annotated[float, _within(0, 2_000)]
Speed = Annotated[float, _within(0, 500)]
Revolutions = Annotated[int, int32_from(0, 30_000), WHOLE_NUMBER]
Flag = bool | None
SHORT = 262_144  # bytes of an array that is parsed in one step, at most
STRICT = ConfigDict(extra="forbid", strict=True)


@with_config({**STRICT, "title": "Trouble"})
class TroubleCode(TypedDict):
    """A diagnostic trouble code."""

    key: Text
    value: Text


@with_config(STRICT)
class Sample(TypedDict, total=False):
    """Readings of one unit at one time: the properties of the spec's telemetry, and the unit."""

    serialNumber: Text | None
    uniqueId: Text | None
    carDataReadTime: Moment
    currentLatitude: Latitude | None
    currentLongitude: Longitude | None
    odometer: Amount | None
    selectedCulture: Text | None
    vin: Text | None
    rpm: Revolutions | None
    dtc: Annotated[list[TroubleCode], Field(max_length=100)] | None
    isDriving: Flag
    isHybrid: Flag
    chargeState: Flag
    ignition: Flag
    driverSeatbelt: Flag
    isTractionControlActive: Flag
    isCruiseControlActive: Flag
    isCruiseControlEnabled: Flag
    isParkingBrakeEngaged: Flag
    isLeftTurnSignalActive: Flag
    isRightTurnSignalActive: Flag
    fuelType: Text | None
    timeToNextService: Text | None
    fuelConsumption: Amount | None
    totalFuelUsed: Amount | None
    fuelLevelVolume: Amount | None
    fuelLevelPercent: Percent | None
    engineHours: Amount | None
    distanceToNextService: Distance | None
    adBlueLevel: Amount | None
    fuelFilterLifeRemaining: Percent | None
    oilLevel: Amount | None
    oilTemperature: Temperature | None
    oilLifeRemaining: Percent | None
    transmissionOilTemperature: Temperature | None
    engineTemperature: Temperature | None
    engineCoolantTemperature: Temperature | None
    batteryVoltage: Voltage | None
    currentSpeed: Speed | None
    tirePressureFrontLeft: Pressure | None
    tirePressureFrontRight: Pressure | None
    tirePressureRearLeft: Pressure | None
    tirePressureRearRight: Pressure | None
    interiorTemperature: Temperature | None
    outsideTemperature: Temperature | None
    frontBrakeLifeRemaining: Percent | None
    rearBrakeLifeRemaining: Percent | None


ONE: Final = TypeAdapter(Sample)
ALL: Final = TypeAdapter(Annotated[list[Sample], FailFast()])
# The members with text values
TEXTS: Final = (
    "serialNumber", "uniqueId", "carDataReadTime", "selectedCulture", "vin", "fuelType", "timeToNextService",
)  # fmt: skip
Kind = Literal["serialNumber", "uniqueId"]


@dataclass(slots=True)
class CheckedSample:
    """A sample that has passed all checks."""

    line: int
    unit: tuple[Kind, str]
    at: datetime
    position: tuple[float, float] | None
    odometer: float | None
    values: Json  # all other members that have a value


def readings(
    body: bytes, settings: Settings, named: str | None = None
) -> Iterable[tuple[int, CheckedSample | InvalidLine]]:
    """The samples of a body (JSON lines or an array). `named` is the serial number of the only permitted unit.

    JSON is parsed and checked in one step. Raises `NotALine` for an array that is not valid JSON, and `ContentTooLarge`
    for too many lines.
    """
    body = without_byte_order_mark(body)
    samples = _at_once(body)
    if samples is None:
        for line, text in texts(body, settings):
            yield line, text if isinstance(text, InvalidLine) else _checked(line, text, named)
        return
    if len(samples) > settings.ingest_max_lines:
        raise too_many(settings)
    for line, sample in enumerate(samples, 1):
        yield line, _reading(line, sample, named)


def _at_once(body: bytes) -> list[Sample] | None:
    """Parse a short array in one step, which is faster; None if a sample is invalid."""
    if len(body) > SHORT or not is_array(body):
        return None
    try:
        samples = ALL.validate_json(body)
    except ValidationError:
        return None
    return None if _may_repeat_members(body, samples) and repeated_member(body) else samples


def _checked(line: int, text: bytes, named: str | None) -> CheckedSample | InvalidLine:
    try:
        sample = ONE.validate_json(text)
    except ValidationError as error:
        return InvalidLine(explained(error))
    reason = repeated_member(text) if _may_repeat_members(text, [sample]) else None
    return reason or _reading(line, sample, named)


def _may_repeat_members(text: bytes, samples: Sequence[Sample]) -> bool:
    """Whether the JSON of these samples has more strings than the samples need.

    A repeated member adds at least one. An escaped quotation mark in a value counts as half a string, so a positive
    result proves nothing. `repeated_member` proves it with a second pass over the JSON; this check costs an eighth of
    that.
    """
    needed = 0
    for sample in samples:
        needed += len(sample)
        for name in TEXTS:
            if sample.get(name) is not None:
                needed += 1
        needed += 4 * len(sample.get("dtc") or ())  # a code has two members, both with text values
    return text.count(b'"') != 2 * needed


def _reading(line: int, sample: Sample, named: str | None) -> CheckedSample | InvalidLine:
    values: Json = {name: value for name, value in sample.items() if value is not None}
    at = values.pop("carDataReadTime", None)
    serial, unique = values.pop("serialNumber", None), values.pop("uniqueId", None)
    if named is not None:
        if serial not in (None, named) or unique is not None:
            return InvalidLine("A unit can only deliver its own samples.")
        serial = named
    if serial is not None and unique is not None:
        return InvalidLine("A sample must have `serialNumber` or `uniqueId`, not both.")
    unit: tuple[Kind, str]
    if serial is not None:
        unit = ("serialNumber", serial)
    elif unique is not None:
        unit = ("uniqueId", unique)
    else:
        return InvalidLine("The sample has neither `serialNumber` nor `uniqueId`.")
    if at is None:
        return InvalidLine("`carDataReadTime` is missing.")
    latitude, longitude = values.pop("currentLatitude", None), values.pop("currentLongitude", None)
    if (latitude is None) != (longitude is None):
        return InvalidLine("`currentLatitude` and `currentLongitude` must be given together.")
    position = None if latitude is None else (latitude, longitude)
    return CheckedSample(line, unit, at, position, values.pop("odometer", None), values)
