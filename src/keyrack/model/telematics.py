"""In charge of what a car with an IQ unit tells, as part of the model: location, nearest location, telemetry."""

from __future__ import annotations

from dataclasses import replace
from typing import LiteralString

from keyrack.model.fields import Field, Resource, Type, date_time, double, double_as_text, opaque, string

# What another unit told, before this one was in the car, is not its own
_STATE: LiteralString = "product {t} left join car_state {t}_state using (customer_id, car_id, product_id)"
_IQ: LiteralString = "{t}.customer_id = $1 and {t}.kind = 'IQ'"

LOCATION = Resource(
    "Location",
    _STATE,
    _IQ,
    {
        "latitude": double_as_text("{t}_state.latitude"),
        "longitude": double_as_text("{t}_state.longitude"),
        "date": date_time("{t}_state.position_at", nullable=True),
        "odometerDate": date_time("{t}_state.odometer_at", nullable=True),
        "odometer": double_as_text("{t}_state.odometer"),
    },
    key=(),
)

# Nearest to the date $3, before or after; of two that are equally near the earlier one. A row is a stretch: readings
# that told the same, the first one's time and the others' packed. Each look-up is one step in an index of one month's
# partition, for stretches do not overlap; the one that has not ended stands in `car_state`.
_NEAREST: LiteralString = (
    "left join lateral (select n.at, {columns} from ("
    "(select h.at, h.times, {columns} from {table} h where h.customer_id = {t}.customer_id and h.car_id = {t}.car_id"
    " and h.at <= $3 order by h.at desc limit 1) union all "
    "(select h.at, null, {columns} from {table} h where h.customer_id = {t}.customer_id and h.car_id = {t}.car_id"
    " and h.at > $3 order by h.at limit 1) union all "
    "select h.{table}_since, h.{table}_times, {columns} from car_state h"
    " where h.customer_id = {t}.customer_id and h.car_id = {t}.car_id"
    ") h cross join lateral packed_times(h.at, h.times) n(at)"
    " order by greatest(n.at - $3, $3 - n.at), n.at limit 1) {t}_{table} on true"
)
LOCATION_AT = Resource(
    "Location",
    (
        "product {t} "
        + _NEAREST.replace("{table}", "position").replace("{columns}", "h.latitude, h.longitude")
        + " "
        + _NEAREST.replace("{table}", "odometer").replace("{columns}", "h.odometer")
    ),
    _IQ,
    {
        "latitude": double_as_text("{t}_position.latitude"),
        "longitude": double_as_text("{t}_position.longitude"),
        "date": date_time("{t}_position.at", nullable=True),
        "odometerDate": date_time("{t}_odometer.at", nullable=True),
        "odometer": double_as_text("{t}_odometer.odometer"),
    },
    key=(),
)


def _told(name: LiteralString, type: Type, cast: LiteralString) -> Field:
    """A telemetry value: kept by its name in the car's newest state."""
    return Field(type, "({t}_state.telemetry->>'" + name + "')" + cast, nullable=True)


def _always(told: Field, otherwise: LiteralString) -> Field:
    """The same where the spec wants a value: what the unit never told is 0 or false."""
    return replace(told, sql="coalesce(" + told.sql + ", " + otherwise + ")", nullable=False)


def _text(name: LiteralString) -> Field:
    return _told(name, Type.STRING, "")


def _flag(name: LiteralString) -> Field:
    return _told(name, Type.BOOLEAN, "::boolean")


def _amount(name: LiteralString) -> Field:
    return _told(name, Type.DOUBLE, "::double precision")


_BOOLEANS: tuple[LiteralString, ...] = (
    "isHybrid", "chargeState", "ignition", "driverSeatbelt", "isTractionControlActive", "isCruiseControlActive",
    "isCruiseControlEnabled", "isParkingBrakeEngaged", "isLeftTurnSignalActive", "isRightTurnSignalActive",
)  # fmt: skip
_DOUBLES: tuple[LiteralString, ...] = (
    "fuelConsumption", "totalFuelUsed", "fuelLevelVolume", "fuelLevelPercent", "engineHours", "distanceToNextService",
    "adBlueLevel", "fuelFilterLifeRemaining", "oilLevel", "oilTemperature", "oilLifeRemaining",
    "transmissionOilTemperature", "engineTemperature", "engineCoolantTemperature", "batteryVoltage",
    "currentSpeed", "tirePressureFrontLeft", "tirePressureFrontRight",
    "tirePressureRearLeft", "tirePressureRearRight", "interiorTemperature", "outsideTemperature",
    "frontBrakeLifeRemaining", "rearBrakeLifeRemaining",
)  # fmt: skip

TELEMETRY = Resource(
    "Telemetry",
    _STATE,
    _IQ + " and {t}_state.read_at is not null",
    {
        "selectedCulture": _text("selectedCulture"),
        "deviceSerialNumber": string("{t}.serial_number", nullable=True),
        "vin": _text("vin"),
        "odometer": _always(double("{t}_state.odometer"), "0"),
        "rpm": _always(_told("rpm", Type.INT32, "::integer"), "0"),
        "dtc": opaque("coalesce({t}_state.telemetry->'dtc', '[]')"),
        "isDriving": _always(_flag("isDriving"), "false"),
        "carDataReadTime": date_time("{t}_state.read_at"),
        **{name: _flag(name) for name in _BOOLEANS},
        "fuelType": _text("fuelType"),
        "timeToNextService": _text("timeToNextService"),
        "currentLongitude": double("{t}_state.longitude", nullable=True),
        "currentLatitude": double("{t}_state.latitude", nullable=True),
        **{name: _amount(name) for name in _DOUBLES},
    },
    key=(),
)
