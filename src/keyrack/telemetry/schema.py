"""Resources of cars with an IQ unit: location, nearest location, telemetry, and positions of all cars."""

from __future__ import annotations

from dataclasses import replace
from typing import LiteralString

from keyrack.api.permissions import Permission
from keyrack.api.schema.fields import (
    Field,
    IndexOrderSource,
    Relation,
    Resource,
    Type,
    boolean,
    date_time,
    double,
    double_as_text,
    int32,
    opaque,
    string,
)
from keyrack.api.schema.group_scope import scoped_by, scoped_itself
from keyrack.fleet.declarations import CARS
from keyrack.fleet.schema import CAR, CAR_SEARCH, SERIAL_NUMBER_IN_SCOPE

# The state that a previous unit reported in this car does not belong to the current one
_STATE: LiteralString = "product {t} left join car_state {t}_state using (customer_id, car_id, product_id)"
_IQ: LiteralString = "{t}.customer_id = :customer and {t}.kind = 'IQ'"

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
    group_scope=scoped_by("car"),
    permission=Permission.POSITIONS_READ,
)

# The reading nearest to the date `:id1`, before or after; of two equally near ones the earlier. A row is a run:
# readings of the same value, with the first one's time and the others' packed. Each look-up is one step in an index of
# one month's partition, because runs do not overlap. The open run is in `car_state`.
_NEAREST: LiteralString = (
    "left join lateral (select n.at, {columns} from ("
    "(select h.at, h.times, {columns} from {table} h where h.customer_id = {t}.customer_id and h.car_id = {t}.car_id"
    " and h.at <= :id1 order by h.at desc limit 1) union all "
    "(select h.at, null, {columns} from {table} h where h.customer_id = {t}.customer_id and h.car_id = {t}.car_id"
    " and h.at > :id1 order by h.at limit 1) union all "
    "select h.{table}_since, h.{table}_times, {columns} from car_state h"
    " where h.customer_id = {t}.customer_id and h.car_id = {t}.car_id"
    ") h cross join lateral packed_times(h.at, h.times) n(at)"
    " order by greatest(n.at - :id1, :id1 - n.at), n.at limit 1) {t}_{table} on true"
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
    group_scope=scoped_by("car"),
    permission=Permission.POSITIONS_READ,
)


def _telemetry_field(name: LiteralString, type: Type, cast: LiteralString) -> Field:
    """A telemetry value, stored under its name in the car's newest state."""
    return Field(type, "({t}_state.telemetry->>'" + name + "')" + cast, nullable=True)


def _always(field: Field, otherwise: LiteralString) -> Field:
    """The field with a default, because the spec requires a value: 0 or false without a reading."""
    return replace(field, sql="coalesce(" + field.sql + ", " + otherwise + ")", nullable=False)


def _text(name: LiteralString) -> Field:
    return _telemetry_field(name, Type.STRING, "")


def _flag(name: LiteralString) -> Field:
    return _telemetry_field(name, Type.BOOLEAN, "::boolean")


def _amount(name: LiteralString) -> Field:
    return _telemetry_field(name, Type.DOUBLE, "::double precision")


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
# The numeric members except the odometer, which has its own history
MEASURES: tuple[LiteralString, ...] = ("rpm", *_DOUBLES)

TELEMETRY = Resource(
    "Telemetry",
    _STATE,
    _IQ + " and {t}_state.read_at is not null",
    {
        "selectedCulture": _text("selectedCulture"),
        "deviceSerialNumber": string("{t}.serial_number", nullable=True),
        "vin": _text("vin"),
        "odometer": _always(double("{t}_state.odometer"), "0"),
        "rpm": _always(_telemetry_field("rpm", Type.INT32, "::integer"), "0"),
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
    group_scope=replace(scoped_by("car"), fields={"deviceSerialNumber": SERIAL_NUMBER_IN_SCOPE}),
    permission=Permission.POSITIONS_READ,
)

# Every car has one row, also without a unit or without reports. An assignment without end ends at `infinity`: the index
# then finds those in force and those to come, and skips all that have ended.
_IN_FORCE: LiteralString = (
    " from assignment a where a.customer_id = {t}.customer_id and a.car_id = {t}.car_id"
    " and coalesce(a.ends_at, 'infinity') > now() and a.starts_at <= now())"
)
_LAST_IN_FORCE: LiteralString = "(select max(coalesce(a.ends_at, 'infinity')) as until" + _IN_FORCE
POSITION = Resource(
    "Position",
    "car {t} left join product {t}_unit on {t}_unit.customer_id = {t}.customer_id and {t}_unit.car_id = {t}.car_id"
    " and {t}_unit.kind = 'IQ'"
    " left join car_state {t}_state on {t}_state.customer_id = {t}_unit.customer_id"
    " and {t}_state.car_id = {t}_unit.car_id and {t}_state.product_id = {t}_unit.product_id"
    " left join lateral " + _LAST_IN_FORCE + " {t}_use on true",
    "{t}.customer_id = :customer",
    {
        "carId": int32("{t}.car_id"),
        **CARS.fields_in_forms,
        "hasUnit": boolean("({t}_unit.product_id is not null)"),
        "latitude": double("{t}_state.latitude", nullable=True),
        "longitude": double("{t}_state.longitude", nullable=True),
        "utcDateTime": date_time("{t}_state.position_at", nullable=True),
        "lastSeen": date_time("{t}_state.read_at", nullable=True),
        "ignition": _flag("ignition"),
        "isDriving": _flag("isDriving"),
        # As a condition: one look at all assignments in force. In the output, the join above already has the value
        "inUse": Field(Type.BOOLEAN, "(exists (select" + _IN_FORCE + ")", json="({t}_use.until is not null)"),
        "inUseUntil": date_time("nullif({t}_use.until, 'infinity')", nullable=True),
    },
    relations={
        **{name: CAR.relations[name] for name in ("products", "assignments", "groups")},
        "hiddenAssignments": Relation(
            "HiddenAssignment", "{t}.customer_id = {p}.customer_id and {t}.car_id = {p}.car_id"
        ),
    },
    key=("carId",),
    walks=("name", "licensePlate", "vin"),
    search=CAR_SEARCH,
    newest=IndexOrderSource(
        "lastSeen",
        "car_state {l}",
        "{l}.customer_id = :customer and {l}.read_quarter is not null",
        "{l}.read_quarter desc, {l}.read_at desc",
        "{l}.car_id",
    ),
    group_scope=scoped_itself("car"),
    permission=Permission.POSITIONS_READ,
)
