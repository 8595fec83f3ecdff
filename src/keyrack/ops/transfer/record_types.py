"""The record types of a customer: each kind of row, in its exported and imported form.

Their order is the import order: rows come before rows that refer to them. `references` names the members with ids of
other kinds, because ids differ between source and target.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import LiteralString

from keyrack.fleet import declarations
from keyrack.webhooks import declarations as webhook_declarations

Member = tuple[LiteralString, LiteralString]  # an SQL expression, and its type


@dataclass(frozen=True, slots=True)
class RecordType:
    """Rows of one kind. `members` have the API's names; `references` maps members with ids to their kinds."""

    name: str
    members: dict[LiteralString, Member]
    rows: LiteralString  # from ... where ... order by ..., with the customer as $1
    into: LiteralString = ""  # the table; a kind without it has its own insert statement
    numbered: LiteralString = ""  # allocates $1 ids: `id` comes from the database
    references: dict[str, str] | None = None
    defaults: dict[str, LiteralString] | None = None  # SQL for members that exports of older releases lack
    has_months: bool = False  # history: `at` determines the partition, and counting rows means reading them

    @property
    def select(self) -> LiteralString:
        """The rows of customer $1 as JSON texts."""
        members = ", ".join([f'{sql} as "{name}"' for name, (sql, _) in self.members.items()])
        return "select row_to_json(r)::text from (select " + members + " " + self.rows + ") r"

    @property
    def count(self) -> LiteralString:
        return "select count(*) from (select 1 " + self.rows + ") r"

    @property
    def insert(self) -> LiteralString:
        """Insert the rows of $2, a JSON array, for customer $1."""
        return self.insert_into(self.into, {})

    def insert_into(self, table: LiteralString, others: Mapping[LiteralString, LiteralString]) -> LiteralString:
        """Insert the rows into a table, with the columns `others` added or replaced.

        `others` is column -> SQL.
        """
        absent = self.defaults or {}
        given: dict[LiteralString, LiteralString] = {}
        for name, (sql, _) in self.members.items():
            column = sql.rpartition(".")[2]
            given[column] = f'coalesce(r."{name}", {absent[name]})' if name in absent else f'r."{name}"'
        given |= others
        again: LiteralString = "" if self.numbered else " on conflict do nothing"
        into: LiteralString = "insert into " + table + " (customer_id, " + ", ".join(given) + ")"
        return into + " select $1, " + ", ".join(given.values()) + " " + self.input_rows + again

    @property
    def key(self) -> str:
        """The member that identifies rows."""
        return next(iter(self.members))

    @property
    def select_by_key(self) -> LiteralString:
        """The rows of customer $1 with one of the keys $2, as JSON texts."""
        return self.select + ' where r."' + next(iter(self.members)) + '" = any($2)'

    @property
    def input_rows(self) -> LiteralString:
        """The rows of $2 as a table."""
        return "from jsonb_to_recordset($2::jsonb) r (" + ", ".join(
            [f'"{name}" {type}' for name, (_, type) in self.members.items()]
        ) + ")"  # fmt: skip


def _next(table: LiteralString, column: LiteralString) -> LiteralString:
    return "select nextval(pg_get_serial_sequence('" + table + "', '" + column + "')) from generate_series(1, $1)"


def _all(table: LiteralString, order: LiteralString) -> LiteralString:
    return "from " + table + " where customer_id = $1 order by " + order


TEXT: LiteralString = "text"
INT: LiteralString = "integer"
TIME: LiteralString = "timestamptz"
REAL: LiteralString = "double precision"
FLAG: LiteralString = "boolean"
JSON: LiteralString = "jsonb"


def _group(item: LiteralString, member: LiteralString) -> RecordType:
    table: LiteralString = "group_" + item
    return RecordType(
        f"group-{item}s",
        {"groupId": ("group_id", INT), member: (item + "_id", INT)},
        _all(table, "group_id, " + item + "_id"),
        table,
        references={"groupId": "groups", member: f"{item}s"},
    )


_POSITIONS: LiteralString = """
from (
  select car_id, n.at, latitude, longitude from position p, packed_times(p.at, p.times) n(at) where p.customer_id = $1
  union all
  select car_id, n.at, latitude, longitude from car_state s, packed_times(s.position_since, s.position_times) n(at)
  where s.customer_id = $1
) r order by car_id, at
"""
_ODOMETERS: LiteralString = """
from (
  select car_id, n.at, odometer from odometer p, packed_times(p.at, p.times) n(at) where p.customer_id = $1
  union all
  select car_id, n.at, odometer from car_state s, packed_times(s.odometer_since, s.odometer_times) n(at)
  where s.customer_id = $1
) r order by car_id, at
"""

PRODUCTS = RecordType(
    "products",
    {
        "id": ("product_id", INT), "kind": ("kind", TEXT), **declarations.PRODUCTS.exported,
    },
    _all("product", "product_id"), "product", _next("product", "product_id"), defaults=declarations.PRODUCTS.absent,
)  # fmt: skip
SERVICES = RecordType(
    "services",
    {
        "id": ("service_id", INT), **declarations.SERVICES.exported,
    },
    _all("service", "service_id"), "service", _next("service", "service_id"), defaults=declarations.SERVICES.absent,
)  # fmt: skip
CONTRACTS = RecordType(
    "contracts",
    {
        "serviceId": ("service_id", INT), **declarations.CONTRACTS.exported,
    },
    _all("contract", "service_id"), "contract", references={"serviceId": "services"},
)  # fmt: skip
CARS = RecordType(
    "cars",
    {
        "id": ("car_id", INT), **declarations.CARS.exported,
        "bookings": ("bookings", TEXT), "bookingGap": ("booking_gap", INT),
    },
    _all("car", "car_id"), "car", _next("car", "car_id"), defaults=declarations.CARS.absent,
)  # fmt: skip
USERS = RecordType(
    "users",
    {
        "id": ("user_id", INT), **declarations.PEOPLE.exported, "type": ("type", TEXT),
        "createdAt": ("created_at", TIME), **declarations.USERS.exported,
    },
    "from customer_user join person using (user_id) where customer_id = $1 order by user_id",
    numbered=_next("person", "user_id"),
)  # fmt: skip
GROUPS = RecordType(
    "groups",
    {"id": ("group_id", INT), **declarations.GROUPS.exported},
    _all("fleet_group", "group_id"), "fleet_group", _next("fleet_group", "group_id"),
    defaults=declarations.GROUPS.absent,
)  # fmt: skip
GROUP_CARS = _group("car", "carId")
GROUP_USERS = _group("user", "userId")
GROUP_SERVICES = _group("service", "serviceId")
GROUP_PRODUCTS = _group("product", "productId")
PAIRINGS = RecordType(
    "pairings",
    {"serviceId": ("service_id", INT), "productId": ("product_id", INT)},
    "from service where customer_id = $1 and product_id is not null order by service_id",
    references={"serviceId": "services", "productId": "products"},
)
INSTALLATIONS = RecordType(
    "installations",
    {"productId": ("product_id", INT), "carId": ("car_id", INT)},
    "from product where customer_id = $1 and car_id is not null order by product_id",
    references={"productId": "products", "carId": "cars"},
)
ASSIGNMENTS = RecordType(
    "assignments",
    {
        "id": ("assignment_id", INT), "carId": ("car_id", INT), "userId": ("user_id", INT),
        "start": ("starts_at", TIME), "end": ("ends_at", TIME),
        "lifetime": ("lifetime", INT), "renewableAfter": ("renewable_after", INT),
        "exclusive": ("is_exclusive", FLAG), "bookingGap": ("booking_gap", INT), **declarations.ASSIGNMENTS.exported,
    },
    _all("assignment", "assignment_id"), "assignment", _next("assignment", "assignment_id"),
    references={"carId": "cars", "userId": "users"}, defaults={"exclusive": "false", "bookingGap": "0"},
)  # fmt: skip
# In order of submission. The caller is a manager, who does not belong to the customer, and is left out
OPERATIONS = RecordType(
    "operations",
    {
        "id": ("operation_id", "uuid"), "kind": ("kind", TEXT), "cause": ("cause", TEXT), "state": ("state", TEXT),
        "carId": ("car_id", INT), "userId": ("user_id", INT), "assignmentId": ("assignment_id", INT),
        "request": ("request", JSON), "result": ("result", JSON), "checksum": ("checksum", TEXT),
        "errorMessage": ("error_message", TEXT), "errorCode": ("error_code", TEXT), "attempts": ("attempts", INT),
        "requestedAt": ("requested_at", TIME),
        "finishedAt": ("finished_at", TIME), "applied": ("applied", "bigint"), "askedFrom": ("asked_from", TEXT),
        "requestId": ("request_id", TEXT), "traceparent": ("traceparent", TEXT), "isLimited": ("is_limited", FLAG),
    },
    _all("operation", "seq"), "operation",
    references={"carId": "cars", "userId": "users", "assignmentId": "assignments"},
    defaults={"isLimited": "true"},  # a pending operation may have been limited, and must not exceed its limit
)  # fmt: skip
EVENTS = RecordType(
    "events",
    {
        "id": ("event_id", INT), "dateTime": ("local_text", TEXT), "localTime": ("local_at", TIME),
        "utcDateTime": ("utc_at", TIME), "userId": ("user_id", INT), "carId": ("car_id", INT), "type": ("type", TEXT),
        "userAgent": ("user_agent", TEXT), "latitude": ("latitude", REAL), "longitude": ("longitude", REAL),
        "clientId": ("client_id", TEXT),
    },
    _all("event", "event_id"), "event", references={"carId": "cars", "userId": "users"},
)  # fmt: skip
CAR_STATES = RecordType(
    "car-states",
    {
        "carId": ("car_id", INT), "productId": ("product_id", INT), "positionAt": ("position_at", TIME),
        "latitude": ("latitude", REAL), "longitude": ("longitude", REAL), "odometerAt": ("odometer_at", TIME),
        "odometer": ("odometer", REAL), "readAt": ("read_at", TIME), "telemetry": ("telemetry", JSON),
        "told": ("told", JSON),
    },
    _all("car_state", "car_id"), "car_state", references={"carId": "cars", "productId": "products"},
)  # fmt: skip
POSITIONS = RecordType(
    "positions",
    {"carId": ("car_id", INT), "at": ("at", TIME), "latitude": ("latitude", REAL), "longitude": ("longitude", REAL)},
    _POSITIONS, references={"carId": "cars"}, has_months=True,
)  # fmt: skip
ODOMETERS = RecordType(
    "odometers",
    {"carId": ("car_id", INT), "at": ("at", TIME), "odometer": ("odometer", REAL)},
    _ODOMETERS, references={"carId": "cars"}, has_months=True,
)  # fmt: skip
TELEMETRY = RecordType(
    "telemetry",
    {
        "carId": ("car_id", INT), "at": ("at", TIME), "readAt": ("read_at", TIME), "readings": ("readings", JSON),
        "told": ("told", JSON),
    },
    _all("telemetry", "car_id, at"), "telemetry", references={"carId": "cars"}, has_months=True,
)  # fmt: skip
WEBHOOKS = RecordType(
    "webhooks",
    {
        "id": ("webhook_id", INT), **webhook_declarations.WEBHOOKS.exported, "createdAt": ("created_at", TIME),
    },
    _all("webhook", "webhook_id"), numbered=_next("webhook", "webhook_id"),
    defaults=webhook_declarations.WEBHOOKS.absent,
)  # fmt: skip
# Managers to which a rule applies belong to the installation, and get their roles after the import
FACTOR_RULES = RecordType("factor-rules", {"role": ("role", TEXT)}, _all("factor_rule", "role"), "factor_rule")
ERASURES = RecordType(
    "erasures",
    {"userId": ("user_id", INT), "askedAt": ("asked_at", TIME), "lastEvent": ("last_event", INT)},
    _all("erasure", "user_id"), "erasure", references={"userId": "users"},
)  # fmt: skip

KINDS = (
    PRODUCTS, SERVICES, CONTRACTS, CARS, USERS, GROUPS, GROUP_CARS, GROUP_USERS, GROUP_SERVICES, GROUP_PRODUCTS,
    PAIRINGS, INSTALLATIONS, ASSIGNMENTS, OPERATIONS, EVENTS, CAR_STATES, POSITIONS, ODOMETERS, TELEMETRY, WEBHOOKS,
    FACTOR_RULES, ERASURES,
)  # fmt: skip
BY_NAME = {kind.name: kind for kind in KINDS}
