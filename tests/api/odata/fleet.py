"""A small fleet for queries over the real resources."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

from keyrack.api.odata import Limits, Query, Shape, query
from keyrack.api.read_sql import Select
from keyrack.api.schema.fields import Resource
from keyrack.db.named_parameters import NamedStatement, compile_statement

LIMITS = Limits()


@dataclass
class Fleet:
    """Two customers with similar rows. Queries run as the first one."""

    sql: Any
    customer: int
    neighbour: int
    cars: list[int]
    users: list[int]
    products: list[int]

    def plan(self, resource: Resource, text: str | bytes, shape: Shape = Shape.COLLECTION) -> Query:
        raw = text.encode() if isinstance(text, str) else text
        return query(resource, raw, shape, alias="t", limits=LIMITS)

    def statement(self, resource: Resource, plan: Query, shape: Shape = Shape.COLLECTION) -> NamedStatement:
        parts = plan.sql
        if parts.source is not None:
            items = Select(resource).items(parts)
            return replace(items, sql=f"select coalesce(json_agg(item), '[]'::json) from ({items.sql}) i")
        where = " and ".join(part for part in (resource.scope.format(t="t"), parts.where) if part) or "true"
        item = "r.value" if shape is Shape.SCALARS or parts.value else "r"
        order = f" order by {parts.order}" if parts.order else ""
        rows = f"select {parts.columns} from {resource.table.format(t='t')} where {where}{order}{parts.limit}"
        return compile_statement(f"select coalesce(json_agg({item}), '[]'::json) from ({rows}) r")

    def ask(self, resource: Resource, text: str | bytes, shape: Shape = Shape.COLLECTION) -> Any:
        """The rows of the response to a query string."""
        plan = self.plan(resource, text, shape)
        statement = self.statement(resource, plan, shape)
        values = statement.select({"customer": self.customer, **plan.parameters})
        return json.loads(self.sql.value(statement.sql, *values))

    def ids(self, resource: Resource, text: str) -> list[int]:
        return [row["id"] for row in self.ask(resource, text)]


def make_fleet(sql: Any) -> Fleet:
    """Create cars with products, services, contracts, groups, assignments and events for two customers."""
    made: list[Fleet] = []
    for name in ("Ours", "Theirs"):
        customer = sql.value("insert into customer (name) values ($1) returning customer_id", name)

        def add(table: str, key: str, customer: int = customer, **columns: Any) -> int:
            names = ", ".join(["customer_id", *columns])
            places = ", ".join(f"${number}" for number in range(1, len(columns) + 2))
            return sql.value(
                f"insert into {table} ({names}) values ({places}) returning {key}", customer, *columns.values()
            )

        cars = [
            add("car", "car_id", name="Alpha", license_plate="A-1", brand="VW", vin="V1", description="red car"),
            add("car", "car_id", name="beta", license_plate=None, brand="BMW", vin=None, description=None),
            add("car", "car_id", name="Gamma", license_plate="C-3", brand=None, vin="V3", description="50% off_road"),
        ]
        users = []
        for first, last in (("Ann", "Lee"), ("Bob", None)):
            user = sql.value(
                "insert into person (email_address, first_name, last_name, type) values ($1, $2, $3, 'Normal')"
                " returning user_id",
                f"{first}.{customer}@example.org".lower(),
                first,
                last,
            )
            users.append(add("customer_user", "user_id", user_id=user))
        products = [
            add(
                "product", "product_id", unique_id="U1", serial_number="S1", sap_number="P1", kind="Box", car_id=cars[0]
            ),
            add(
                "product", "product_id", unique_id="U2", serial_number="S2", sap_number="P2", kind="IQ", car_id=cars[0]
            ),
            add(
                "product", "product_id", unique_id="U3", serial_number="S3", sap_number="P3", kind="Box", car_id=cars[1]
            ),
            add("product", "product_id", unique_id="U4", serial_number="S4", sap_number="P4", kind="Box"),
        ]
        service = add("service", "service_id", name="Sharing", product_id=products[0])
        sql.execute(
            "insert into contract (customer_id, service_id, order_number, document_number, starts_at, ends_at)"
            " values ($1, $2, 'O1', 'D1', '2026-01-01Z', '2027-01-01Z')",
            customer,
            service,
        )
        group = add("fleet_group", "group_id", name="Pool")
        add("group_car", "car_id", group_id=group, car_id=cars[0])
        add("group_user", "user_id", group_id=group, user_id=users[0])
        for number, (car, user) in enumerate(((cars[0], users[0]), (cars[0], users[1]), (cars[2], users[0]))):
            sql.execute(
                "insert into assignment (customer_id, car_id, user_id, starts_at, ends_at, lifetime, renewable_after)"
                " values ($1, $2, $3, '2026-01-01Z'::timestamptz + make_interval(days => $4), null, 604800, 302400)",
                customer,
                car,
                user,
                number,
            )
        for number, kind in enumerate(("CarOpened", "CarClosed", "CarOpened"), 1):
            sql.execute(
                "insert into event (customer_id, event_id, local_at, local_text, utc_at, user_id, car_id, type,"
                " user_agent, latitude) select $1, $2, t, '2026-05-01T10:00:00', t, $3, $4, $5, 'tests', 52.5"
                " from (select '2026-05-01T08:00:00Z'::timestamptz + make_interval(hours => $2) t) x",
                customer,
                number,
                users[0],
                cars[0],
                kind,
            )
        made.append(Fleet(sql, customer, 0, cars, users, products))
    ours, theirs = made
    ours.neighbour = theirs.customer
    return ours
