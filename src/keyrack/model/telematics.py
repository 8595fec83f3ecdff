"""In charge of what a car with an IQ unit tells, as part of the model: location, nearest location, telemetry."""

from __future__ import annotations

from typing import LiteralString

from keyrack.model.fields import Field, Resource, Type, date_time, double, double_as_text, opaque, string

_STATE: LiteralString = "product {t} left join car_state {t}_state using (customer_id, car_id)"
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

# Nearest to the date $3, before or after: each look-up is one step in an index of one month's partition. The newest
# reading stands in `car_state`, and history has it only if it told something new.
_NEAREST: LiteralString = (
    "left join lateral (select * from ("
    "(select h.at, {columns} from {table} h where h.customer_id = {t}.customer_id and h.car_id = {t}.car_id"
    " and h.at <= $3 order by h.at desc limit 1) union all "
    "(select h.at, {columns} from {table} h where h.customer_id = {t}.customer_id and h.car_id = {t}.car_id"
    " and h.at > $3 order by h.at limit 1) union all "
    "select h.{table}_at, {columns} from car_state h where h.customer_id = {t}.customer_id and h.car_id = {t}.car_id"
    " and h.{table}_at is not null) n order by abs(extract(epoch from n.at - $3)), n.at limit 1) {t}_{table} on true"
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
    _IQ,
    {
        "selectedCulture": _text("selectedCulture"),
        "deviceSerialNumber": string("{t}.serial_number", nullable=True),
        "vin": _text("vin"),
        "odometer": double("{t}_state.odometer", nullable=True),
        "rpm": _told("rpm", Type.INT32, "::integer"),
        "dtc": opaque("coalesce({t}_state.telemetry->'dtc', '[]')"),
        "isDriving": _flag("isDriving"),
        "carDataReadTime": date_time("{t}_state.read_at", nullable=True),
        **{name: _flag(name) for name in _BOOLEANS},
        "fuelType": _text("fuelType"),
        "timeToNextService": _text("timeToNextService"),
        "currentLongitude": double("{t}_state.longitude", nullable=True),
        "currentLatitude": double("{t}_state.latitude", nullable=True),
        **{name: _amount(name) for name in _DOUBLES},
    },
    key=(),
)
