"""EXPLAIN over 20,000 cars: usual filters and sort orders use an index."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from keyrack.api.odata import Limits, Shape, query
from keyrack.api.read_sql import Select
from keyrack.api.schema.fields import Resource
from keyrack.db.named_parameters import compile_statement
from keyrack.fleet.schema import ASSIGNMENT, CAR, EVENT, SERVICE
from keyrack.telemetry.schema import POSITION
from keyrack.webhooks.outcome_payload import OPERATION
from tests.support.servers import Sql, migrated_database

CARS = 20_000
DEFINITIONS = "select indexdef from pg_indexes where indexname = any($1::text[])"
PAGES = ["$orderby=name&$top=10", "$orderby=licensePlate&$top=10", "$top=10", "$orderby=id desc"]

# PostgreSQL 17's built-in locale and C order by bytes. The C.UTF-8 of the C library does, too, but does not declare it
ORDERED_BY_BYTES = """
select coalesce((to_jsonb(d)->>'datlocprovider') = 'b', false) or d.datcollate in ('C', 'POSIX')
from pg_database d where d.datname = current_database()
"""


@pytest.fixture(scope="module")
def sql(database_server: str) -> Iterator[Sql]:
    """A separate database, because plans depend on the statistics of all rows."""
    with migrated_database(database_server) as dsn:
        statements = Sql(dsn)
        yield statements
        statements.close()


@pytest.fixture(scope="module")
def customer(sql: Any) -> int:
    customer = sql.value("insert into customer (name) values ('Large') returning customer_id")
    sql.execute(
        "insert into car (customer_id, name, license_plate, vin) select $1, 'Car ' || n,"
        " case when n % 10 = 0 then null else 'P-' || n end, case when n % 3 = 0 then null else 'V' || n end"
        " from generate_series(1, $2::int) n",
        customer,
        CARS,
    )
    sql.execute(
        "insert into event (customer_id, event_id, local_at, local_text, utc_at, user_id, car_id, type, user_agent)"
        " select $1, n, t, '', t, n % 50, n % 100, 'CarOpened', 'tests' from generate_series(1, 20000) n,"
        " lateral (select '2026-01-01Z'::timestamptz + make_interval(mins => n) t) x",
        customer,
    )
    sql.execute("insert into service (customer_id, name) select $1, 'S' || n from generate_series(1, 5000) n", customer)
    user = sql.value(
        "insert into person (email_address, type) values ($1, 'Normal') returning user_id", f"l{customer}@example.org"
    )
    sql.execute("insert into customer_user (customer_id, user_id) values ($1, $2)", customer, user)
    sql.execute(
        "insert into assignment (customer_id, car_id, user_id, starts_at, ends_at, lifetime, renewable_after)"
        " select $1, car_id, $2, t, case when car_id % 100 > 0 then t + interval '1 day' end, 604800, 302400"
        " from car, lateral (select '2026-01-01Z'::timestamptz + make_interval(mins => car_id % 20000) t) x"
        " where customer_id = $1",
        customer,
        user,
    )
    sql.execute(
        "insert into operation (customer_id, kind, state, car_id, user_id, request, checksum, requested_at,"
        " finished_at) select $1, 'CreateAssignment', 'Succeeded', n % 100, n % 50, '{}', 'X', t, t"
        " from generate_series(1, 20000) n,"
        " lateral (select '2026-01-01Z'::timestamptz + make_interval(mins => n) t) x",
        customer,
    )
    sql.execute(
        "with unit as (insert into product (customer_id, unique_id, serial_number, sap_number, kind, car_id)"
        " select $1, 'L' || car_id, 'L' || car_id, 'P', 'IQ', car_id from car where customer_id = $1 returning *)"
        " insert into car_state (customer_id, car_id, product_id, read_at)"
        " select $1, car_id, product_id, now() - car_id % 20000 * interval '1 minute' from unit",
        customer,
    )
    for table in ("car", "event", "assignment", "service", "operation", "product", "car_state"):
        sql.execute(f"analyze {table}")
    return customer


def nodes(plan: dict[str, Any]) -> Any:
    yield plan
    for child in plan.get("Plans", []):
        yield from nodes(child)


def explain(sql: Any, customer: int, resource: Resource, text: str) -> list[dict[str, Any]]:
    plan = query(resource, text.encode(), Shape.COLLECTION, alias="t", limits=Limits())
    where = f" and {plan.sql.where}" if plan.sql.where else ""
    statement = compile_statement(
        f"explain (format json) select {plan.sql.columns} from {resource.table.format(t='t')}"
        f" where t.customer_id = :customer{where} order by {plan.sql.order}{plan.sql.limit}"
    )
    explained = sql.value(statement.sql, *statement.select({"customer": customer, **plan.parameters}))
    return list(nodes(json.loads(explained)[0]["Plan"]))


@pytest.mark.parametrize(
    ("resource", "text", "columns"),
    [
        (CAR, "$filter=id eq 5", "customer_id, car_id"),
        (CAR, "$filter=id in (5,6,7)", "customer_id, car_id"),
        (CAR, "$filter=name eq 'Car 5'", "customer_id, name, car_id"),
        (CAR, "$filter=name in ('Car 5','Car 6')", "customer_id, name, car_id"),
        (CAR, "$filter=licensePlate eq 'P-7'", "customer_id, license_plate NULLS FIRST, car_id"),
        (CAR, "$filter=licensePlate in ('P-7','P-8')", "customer_id, license_plate NULLS FIRST, car_id"),
        (CAR, "$filter=vin eq 'V7'", "customer_id, vin NULLS FIRST, car_id"),
        (CAR, "$filter=startswith(licensePlate,'P-77')", "customer_id, license_plate NULLS FIRST, car_id"),
        (CAR, "$top=10", "customer_id, car_id"),
        (CAR, "$orderby=id desc&$top=10", "customer_id, car_id"),
        (CAR, "$orderby=name&$top=10", "customer_id, name, car_id"),
        (CAR, "$orderby=name desc,id desc&$top=10", "customer_id, name, car_id"),
        (CAR, "$orderby=licensePlate&$top=10", "customer_id, license_plate NULLS FIRST, car_id"),
        (CAR, "$orderby=licensePlate desc,id desc&$top=10", "customer_id, license_plate NULLS FIRST, car_id"),
        (CAR, "$filter=name gt 'Car 5'&$orderby=name&$top=10", "customer_id, name, car_id"),
        (EVENT, "$filter=id gt 19990", "customer_id, event_id"),
        (EVENT, "$filter=carId eq 7 and utcDateTime ge 2026-01-14T00:00:00Z", "customer_id, car_id, utc_at, event_id"),
        (EVENT, "$filter=utcDateTime ge 2026-01-14T20:00:00Z", "customer_id, utc_at, event_id"),
        (EVENT, "$filter=utcDateTime ge '2026-01-14T20:00:00.123456Z'", "customer_id, utc_at, event_id"),
        (EVENT, "$filter=utcDateTime eq 2026-01-14T22:00:00.1 02:00", "customer_id, utc_at, event_id"),
        (EVENT, "$orderby=utcDateTime desc,id desc&$top=10", "customer_id, utc_at, event_id"),
        (ASSIGNMENT, "$filter=start ge 2026-01-14T20:00:00Z", "customer_id, starts_at, assignment_id"),
        (ASSIGNMENT, "$orderby=start&$top=10", "customer_id, starts_at, assignment_id"),
        (
            ASSIGNMENT,
            "$filter=start lt 2030-01-01T00:00:00Z and (end eq null or end gt 2026-06-01T00:00:00Z)&$top=5000",
            "customer_id, ends_at, assignment_id",
        ),
        (ASSIGNMENT, "$filter=carId in (1,2,3)", "customer_id, car_id,"),
        (OPERATION, "$orderby=requested desc,id desc&$top=50", "customer_id, requested_at, operation_id"),
        (
            OPERATION,
            "$filter=carId eq 7&$orderby=requested,id&$top=50",
            "customer_id, car_id, requested_at, operation_id",
        ),
        (
            OPERATION,
            "$filter=userId eq 7&$orderby=requested,id&$top=50",
            "customer_id, user_id, requested_at, operation_id",
        ),
        (SERVICE, "$filter=name eq 'S7'", "customer_id, name, service_id"),
        (CAR, "$search=1234", "customer_id, search_text gin_trgm_ops"),
        (CAR, "$search=P-1234 Car&$orderby=searchrank(),naturalorder(name)", "customer_id, search_text gin_trgm_ops"),
        (CAR, "$orderby=naturalorder(name)&$top=10", "customer_id, sort_key NULLS FIRST, car_id"),
        (CAR, "$orderby=naturalorder(name) desc,id desc&$top=10", "customer_id, sort_key NULLS FIRST, car_id"),
    ],
)
def test_a_query_uses_its_index(sql: Any, customer: int, resource: Resource, text: str, columns: str) -> None:
    if "startswith" in text and not sql.value(ORDERED_BY_BYTES):
        pytest.skip("the collation of this server is not known to order by bytes, which a prefix in an index needs")
    if "$search" in text and not sql.value("select to_regclass('car_search') is not null"):
        pytest.skip("this server has no pg_trgm and btree_gin")
    plan = explain(sql, customer, resource, text)
    used = [node["Index Name"] for node in plan if "Index Name" in node]
    definitions = [row[0].partition("(")[2].removesuffix(")") for row in sql.rows(DEFINITIONS, used)]
    assert any(columns == found or (columns.endswith(",") and found.startswith(columns)) for found in definitions), plan
    # The caller is looked up by the primary key, or by a scan, since a server has few managers and clients
    assert not any(
        node["Node Type"] == "Seq Scan" and node["Relation Name"] not in ("manager", "client") for node in plan
    )


@pytest.mark.parametrize(
    "text", ["$orderby=name&$top=10", "$orderby=licensePlate&$top=10", "$top=10", "$orderby=id desc"]
)
def test_a_page_is_not_sorted(sql: Any, customer: int, text: str) -> None:
    assert not any(node["Node Type"] == "Sort" for node in explain(sql, customer, CAR, text))


@pytest.mark.parametrize(
    ("expand", "looks"),
    [
        ("assignments($count=true)", 1),
        ("assignments($count=true;$filter=userId gt 0;$orderby=start desc)", 1),
        ("assignments/$count", 1),
        ("assignments/$count($filter=start ge 2026-01-02T00:00:00Z)", 1),
        ("assignments($count=true;$top=2)", 2),  # a page stops early, a count does not
    ],
)
def test_an_expanded_count_is_one_index_lookup_per_row(sql: Any, customer: int, expand: str, looks: int) -> None:
    plan = explain(sql, customer, CAR, f"$top=10&$expand={expand}")
    scans = [node for node in plan if node.get("Relation Name") == "assignment"]
    assert len(scans) == looks, scans
    assert all("Index" in node["Node Type"] for node in scans), scans
    assert all("car_id" in node["Index Cond"] for node in scans), scans


def test_expanded_rows_are_found_by_index(sql: Any, customer: int) -> None:
    plan = explain(sql, customer, CAR, "$top=10&$expand=products,assignments")
    assert not any(node["Node Type"] == "Seq Scan" and node["Relation Name"] == "assignment" for node in plan)


def ran(sql: Any, customer: int, text: str) -> list[dict[str, Any]]:
    """The executed plan of a read of positions, with the endpoint's parameters."""
    plan = query(POSITION, text.encode(), Shape.COLLECTION, alias="t", limits=Limits())
    statement = Select(POSITION).statement(plan.sql)
    values = statement.select({"customer": customer, "rows": 100_000, "size": 1_000_000, **plan.parameters})
    explained = sql.value("explain (analyze, timing off, format json) " + statement.sql, *values)
    return [node for node in nodes(json.loads(explained)[0]["Plan"]) if node["Actual Loops"]]


@pytest.mark.parametrize("key", ["", ",carId desc"])
def test_the_last_seen_cars_are_found_by_the_index_on_quarters(sql: Any, customer: int, key: str) -> None:
    done = ran(sql, customer, f"$orderby=lastSeen desc{key}&$top=10&$skip=20")
    used = [node["Index Name"] for node in done if "Index Name" in node]
    assert "car_state_read_quarter" in used
    read = [node for node in done if node.get("Relation Name") == "car"]
    assert all("Index" in node["Node Type"] for node in read), read
    assert max(node["Actual Rows"] * node["Actual Loops"] for node in read) < 1_000, read


@pytest.mark.parametrize("order", ["", "&$orderby=brand", "&$orderby=lastSeen"])
def test_only_the_rows_of_a_page_look_up_their_assignments(sql: Any, customer: int, order: str) -> None:
    done = ran(sql, customer, f"$filter=lastSeen ne null{order}&$top=10&$count=true")
    looks = [node["Actual Loops"] for node in done if node.get("Relation Name") == "assignment"]
    assert looks and max(looks) == 10, done


@pytest.mark.parametrize("use", ["inUse eq true", "inUse eq false"])
def test_cars_in_use_are_counted_by_one_scan_of_assignments(sql: Any, customer: int, use: str) -> None:
    done = ran(sql, customer, f"$filter={use}&$top=0&$count=true")
    assert sum(node["Actual Loops"] for node in done if node.get("Relation Name") == "assignment") == 1, done


FIGURES = [
    (CAR, "$apply=groupby((brand),aggregate($count as n))"),
    (CAR, "$apply=filter(brand eq 'VW')/groupby((model),aggregate($count as n))&$orderby=n desc&$top=10"),
    (EVENT, "$apply=groupby((carId),aggregate($count as n))"),
    (EVENT, "$apply=compute(date(utcDateTime) as day)/groupby((day,carId,type),aggregate($count as n))"),
    (EVENT, "$apply=groupby((car/brand,type),aggregate($count as n,car with countdistinct as cars))"),
    (ASSIGNMENT, "$apply=groupby((user/emailAddress),aggregate($count as n))"),
    (ASSIGNMENT, "$apply=filter(end eq null)/groupby((carId),aggregate($count as n))&$orderby=n desc&$top=10"),
]


@pytest.mark.parametrize(("resource", "text"), FIGURES, ids=lambda value: str(value)[:60])
def test_aggregations_read_each_table_once(sql: Any, customer: int, resource: Resource, text: str) -> None:
    """Relations are joined. No plan has a query per row."""
    plan = query(resource, text.encode(), Shape.COLLECTION, alias="t", limits=Limits())
    statement = Select(resource).items(plan.sql)
    values = statement.select({"customer": customer, **plan.parameters})
    explained = sql.value("explain (format json) " + statement.sql, *values)
    found = list(nodes(json.loads(explained)[0]["Plan"]))
    read = [node["Relation Name"] for node in found if "Relation Name" in node]
    assert not any(node.get("Parent Relationship") in ("SubPlan", "InitPlan") for node in found), found
    assert sum(node["Node Type"] == "Aggregate" and node.get("Partial Mode") != "Partial" for node in found) == 1
    assert len(read) == len({*read}), read


def test_a_filter_before_an_aggregation_uses_an_index(sql: Any, customer: int) -> None:
    text = "$apply=filter(carId eq 7 and utcDateTime ge 2026-01-14T00:00:00Z)/groupby((type),aggregate($count as n))"
    plan = query(EVENT, text.encode(), Shape.COLLECTION, alias="t", limits=Limits())
    statement = Select(EVENT).items(plan.sql)
    values = statement.select({"customer": customer, **plan.parameters})
    explained = sql.value("explain (format json) " + statement.sql, *values)
    used = [node["Index Name"] for node in nodes(json.loads(explained)[0]["Plan"]) if "Index Name" in node]
    assert any("(customer_id, car_id, utc_at, event_id)" in row[0] for row in sql.rows(DEFINITIONS, used))
