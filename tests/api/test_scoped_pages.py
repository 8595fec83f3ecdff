"""Each page source finds the same events and assignments of a scope."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from keyrack.api.list_responses import RecentKeys
from keyrack.api.odata import Limits, Query, query
from keyrack.api.read_sql import Select
from keyrack.api.schema.fields import Resource
from keyrack.api.schema.group_scope import in_group_scope, scoped_list
from keyrack.api.scoped_page_sql import PageSource, otherwise
from keyrack.fleet.schema import ASSIGNMENT, CAR, EVENT, PRODUCT, SERVICE, USER
from keyrack.telemetry.schema import POSITION
from tests.support.servers import Sql, migrated_database

CARS, USERS, EVENTS = 40, 6, 4_000
# The cars of each scope: all, every second one, one with old events alone, one without events, none
SCOPES = {
    "all": "true", "half": "n % 2 = 0", "old": "n = 38", "idle": "n = 39", "few": "n in (3, 17, 38)", "none": "false"
}  # fmt: skip
# Rows of customer $1: several events in each second, several assignments of each car with the same start
FILL = """
insert into car (customer_id, name) select $1, 'Car ' || n from generate_series(0, 39) n;
insert into person (email_address, type) select 'p' || n || '.' || $1 || '@example.org', 'Normal'
  from generate_series(0, 5) n;
insert into customer_user (customer_id, user_id) select $1, user_id from person where email_address like '%.$1@%';
insert into product (customer_id, unique_id, serial_number, sap_number, kind, car_id)
  select $1, 'U$1.' || car_id, 'S' || car_id, 'P', 'Box', car_id from car where customer_id = $1;
insert into service (customer_id, name, product_id)
  select $1, 'Service', product_id from product where customer_id = $1;
insert into event (customer_id, event_id, local_at, local_text, utc_at, user_id, car_id, type, user_agent)
  select $1, n, t, '', t, (array(select user_id from customer_user where customer_id = $1 order by 1))[1 + n * 7 % 6],
    (array(select car_id from car where customer_id = $1 order by 1))[1 + case when n < 50 then 38 else n * n % 37 end],
    'CarOpened', 'tests'
  from generate_series(1, 4000) n,
    lateral (select '2026-01-01Z'::timestamptz + make_interval(secs => (n * 13 + n % 7 * 40) / 50) t) x;
insert into assignment (customer_id, car_id, user_id, starts_at, lifetime, renewable_after)
  select $1, c.car_id, (array(select user_id from customer_user where customer_id = $1 order by 1))[1 + k * 5 % 6],
    '2026-01-01Z'::timestamptz + make_interval(hours => k % 11), 604800, 302400
  from car c, generate_series(1, 20) k where c.customer_id = $1
"""
MEMBERS = """
insert into group_car select $1, $2, car_id
  from (select car_id, row_number() over (order by car_id) - 1 as n from car where customer_id = $1) c where {cars};
insert into group_user select $1, $2, user_id
  from (select user_id, row_number() over (order by user_id) as n from customer_user where customer_id = $1) u
  where n % 3 > 0;
insert into group_product select $1, $2, product_id from product where customer_id = $1 and product_id % 3 = 0;
insert into group_service select $1, $2, service_id from service where customer_id = $1 and service_id % 3 = 0
"""


def run_all(sql: Sql, text: str, *values: object) -> None:
    for statement in text.split(";\n"):
        for number, value in enumerate(values, 1):
            statement = statement.replace(f"${number}", str(value))
        sql.execute(statement)


@pytest.fixture(scope="module")
def sql(database_server: str) -> Iterator[Sql]:
    """A separate database, because plans depend on the statistics of all rows."""
    with migrated_database(database_server) as dsn:
        statements = Sql(dsn)
        yield statements
        statements.close()


@pytest.fixture(scope="module")
def scopes(sql: Sql) -> dict[str, dict[str, int]]:
    """The scopes of a customer, beside another one with the same rows."""
    other, customer = (
        sql.value("insert into customer (name) values ($1) returning customer_id", name) for name in ("Other", "Ours")
    )
    for id in (other, customer):
        run_all(sql, FILL, id)
    found: dict[str, dict[str, int]] = {}
    for name, cars in SCOPES.items():
        add = "insert into fleet_group (customer_id, name) values ($1, $2) returning group_id"
        group = sql.value(add, customer, name)
        run_all(sql, MEMBERS.replace("{cars}", cars), customer, group)
        found[name] = {"customer": customer, "scope": sql.value("select scope_of($1, array[$2::int])", customer, group)}
    sql.execute("analyze")
    return found


def planned(resource: Resource, text: str) -> tuple[Select, Query]:
    scoped = scoped_list(resource)
    select = Select(scoped, paged=resource is EVENT)
    return select, query(scoped, text.encode(), select.shape, alias="t", limits=Limits())


def row(sql: Sql, select: Select, plan: Query, scope: dict[str, int], source: PageSource, *, explain: str = "") -> Any:
    """The row of a statement, or its plan."""
    statement = select.from_source(source).statement(plan.sql)
    values = {**plan.parameters, **scope, "rows": 1_000, "size": 10_000}
    rows = sql.rows(explain + statement.sql, *statement.select(values))
    return rows[0]


ORDERS = {
    EVENT: ["", "id", "id desc", "utcDateTime", "utcDateTime desc", "utcDateTime desc,id desc", "utcDateTime,id desc"],
    ASSIGNMENT: ["", "id", "id desc", "start", "start desc", "start desc,id desc"],
}
BOUNDS = {
    "": ["", "id gt 60", "id le 100", "id gt 500 and 550 ge id", "id eq 77", "id lt 0"],
    "id": ["", "id gt 60", "id gt 3990", "id le 100", "id gt 500 and id le 550"],
    "utcDateTime": ["", "utcDateTime ge 2026-01-01T00:10:00Z", "utcDateTime lt 2026-01-01T00:00:20Z"],
    "start": ["", "start ge 2026-01-01T05:00:00Z", "start gt 2026-01-01T01:00:00Z and start lt 2026-01-01T03:00:00Z"],
}

OTHER_FILTERS = {
    EVENT: ["id mod 2 eq 0", "userId ge 3 and id gt 60", "car/name eq 'Car 17'", "id gt 60 or id lt 9"],
    ASSIGNMENT: ["id mod 7 eq 0", "end eq null", "car/name gt 'Car 17'"],
}


@st.composite
def pages(draw: st.DrawFn) -> tuple[Resource, str]:
    resource = draw(st.sampled_from([EVENT, ASSIGNMENT]))
    order = draw(st.sampled_from(ORDERS[resource]))
    bound = draw(st.sampled_from([*BOUNDS[order.split(",")[0].removesuffix(" desc")], *OTHER_FILTERS[resource]]))
    options = {
        "$orderby": order,
        "$filter": bound,
        "$top": draw(st.sampled_from(["0", "1", "3", "20", "300", "5000", *([""] if resource is EVENT else [])])),
        "$skip": draw(st.sampled_from(["", "", "1", "30", "900"])),
        "$count": draw(st.sampled_from(["", "true"])),
        "$expand": draw(st.sampled_from(["", "", "car($select=name),user"])),
    }
    return resource, "&".join(f"{name}={text}" for name, text in options.items() if text)


@given(page=pages(), name=st.sampled_from(list(SCOPES)))
@examples(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_each_source_gives_the_page_of_the_join(
    sql: Sql, scopes: dict[str, dict[str, int]], page: tuple[Resource, str], name: str
) -> None:
    select, plan = planned(*page)
    assert select.can_page_by(plan)
    joined = row(sql, select, plan, scopes[name], PageSource.SCOPE)
    assert dict(row(sql, select, plan, scopes[name], otherwise(plan.sql))) == dict(joined)
    first = dict(row(sql, select, plan, scopes[name], PageSource.FIRST_ROWS))
    if first.pop("is_complete"):
        assert first == dict(joined)


@pytest.mark.parametrize(("name", "top", "expected"), [("all", 10, True), ("old", 10, False), ("old", 2_000, True)])
def test_the_first_rows_are_complete_if_they_fill_the_page_or_are_all(
    sql: Sql, scopes: dict[str, dict[str, int]], name: str, top: int, expected: bool
) -> None:
    select, plan = planned(EVENT, f"$orderby=utcDateTime desc&$top={top}")
    assert row(sql, select, plan, scopes[name], PageSource.FIRST_ROWS)["is_complete"] is expected


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", []):
        yield from nodes(child)


def events_read(sql: Sql, scope: dict[str, int], text: str, source: PageSource) -> float:
    """The number of events that a statement reads."""
    select, plan = planned(EVENT, text)
    read = row(sql, select, plan, scope, source, explain="explain (analyze, format json) ")[0]
    scans = [node for node in nodes(json.loads(read)[0]["Plan"]) if node.get("Relation Name", "").startswith("event")]
    return sum((node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"] for node in scans)


@pytest.mark.parametrize("text", ["$orderby=utcDateTime desc&$top=10", "$orderby=id desc&$top=10"])
def test_a_page_of_events_reads_a_bounded_number_of_rows(
    sql: Sql, scopes: dict[str, dict[str, int]], text: str
) -> None:
    assert events_read(sql, scopes["all"], text, PageSource.FIRST_ROWS) <= 2 * (5 * 10 + 100) + 2
    # The best row of each car, and the rows of ten cars; the user of every third row is not in the scope
    assert events_read(sql, scopes["all"], text, PageSource.EACH_MEMBER) <= 10 * CARS
    assert events_read(sql, scopes["idle"], text, PageSource.EACH_MEMBER) == 0


@pytest.mark.parametrize("text", ["$filter=carId eq 3", "$filter=id gt 3 or id lt 2", "$filter=id ne 3", "$search=t"])
def test_other_filters_do_not_look_at_each_member(text: str) -> None:
    select, plan = planned(EVENT, text)
    assert select.can_page_by(plan) and otherwise(plan.sql) is PageSource.SCOPE


@pytest.mark.parametrize("text", ["$orderby=type&$top=1", "$apply=aggregate($count as n)", f"$skip={2**63}"])
def test_orders_without_an_index_and_far_pages_use_the_join(text: str) -> None:
    select, plan = planned(EVENT, text)
    assert not select.can_page_by(plan)


def test_a_list_without_pages_uses_the_join() -> None:
    select, plan = planned(ASSIGNMENT, "$orderby=start desc")
    assert not select.can_page_by(plan)


def test_no_other_caller_has_another_source() -> None:
    for resource in (EVENT, ASSIGNMENT):
        select = Select(resource)
        plan = query(resource, b"$orderby=id desc&$top=10", select.shape, alias="t", limits=Limits())
        assert not select.can_page_by(plan)


@pytest.mark.parametrize("resource", [CAR, USER, SERVICE, PRODUCT, POSITION], ids=lambda resource: resource.name)
@pytest.mark.parametrize("name", SCOPES)
def test_a_count_without_reading_rows_is_the_number_of_rows(
    sql: Sql, scopes: dict[str, dict[str, int]], resource: Resource, name: str
) -> None:
    select, plan = planned(resource, "$count=true")
    found = row(sql, select, plan, scopes[name], PageSource.SCOPE)
    joined = Select(in_group_scope(resource))
    assert found["total"] == row(sql, joined, plan_of(joined), scopes[name], PageSource.SCOPE)["total"]
    assert found["total"] == len(json.loads(found["body"]))


def plan_of(select: Select) -> Query:
    return query(select.resource, b"$count=true", select.shape, alias="t", limits=Limits())


def test_recent_keys_expire_and_have_a_limit() -> None:
    keys = RecentKeys(60.0, 2)
    keys.add(1)
    assert 1 in keys and 2 not in keys
    keys.add(2)
    keys.add(3)
    assert [key in keys for key in (1, 2, 3)] == [False, False, True]
    expired = RecentKeys(0.0, 2)
    expired.add(1)
    assert 1 not in expired
