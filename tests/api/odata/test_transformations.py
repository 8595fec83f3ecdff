"""`$apply` and `$compute` over the real resources, the OASIS cases, limits and errors."""

from __future__ import annotations

import contextlib
from typing import Any
from urllib.parse import quote

import pytest

from keyrack.api.odata import Limits, Shape, query
from keyrack.api.permissions import Permission
from keyrack.api.schema.fields import RESOURCES, Complex, Field, Relation, Resource, date_time, double, string
from keyrack.core import errors
from keyrack.fleet.schema import ASSIGNMENT, CAR, EVENT, PRODUCT, SERVICE, USER
from keyrack.telemetry.schema import TELEMETRY
from tests.api.odata import oracle
from tests.api.odata.fleet import Fleet, make_fleet
from tests.api.odata.parse_cost import MOST, steps
from tests.api.odata.test_query_strings import refusal

CARS_BY_BRAND = [{"brand": None, "n": 1}, {"brand": "BMW", "n": 1}, {"brand": "VW", "n": 1}]


@pytest.fixture(scope="module")
def fleet(sql: Any) -> Fleet:
    return make_fleet(sql)


@pytest.mark.parametrize(
    ("resource", "text", "rows"),
    [
        (CAR, "$apply=groupby((brand),aggregate($count as n))", CARS_BY_BRAND),
        (CAR, "$apply=groupby((BRAND,brand),aggregate($count as n))", CARS_BY_BRAND),
        (CAR, "$apply=groupby((brand))&$orderby=brand desc&$top=2", [{"brand": "VW"}, {"brand": "BMW"}]),
        (CAR, "$apply=groupby((brand))/orderby(brand desc)/skip(1)/top(1)", [{"brand": "BMW"}]),
        (CAR, "$apply=filter(vin ne null)/groupby((brand))&$filter=brand ne null", [{"brand": "VW"}]),
        (CAR, "$apply=filter(vin eq 'none')/groupby((brand))", []),
        (
            CAR,
            "$apply=filter(vin eq 'none')/aggregate($count as n,id with max as id1,brand with countdistinct as b)",
            [{"n": 0, "id1": None, "b": 0}],
        ),
        (
            CAR,
            "$apply=aggregate(brand with countdistinct as b,brand/$count as c,$count as n)",
            [{"b": 2, "c": 2, "n": 3}],
        ),
        (CAR, "$apply=aggregate(name with min as first,name with max as last)", [{"first": "Alpha", "last": "beta"}]),
        (CAR, "$apply=aggregate(products/$count with sum as boxes)", [{"boxes": 3}]),
        (CAR, "$apply=search(red)/aggregate($count as n)", [{"n": 1}]),
        (CAR, "$apply=aggregate($count as n)/compute(n mul 2 as m,n divby 2 as half)", [{"n": 3, "m": 6, "half": 1.5}]),
        (CAR, "$apply=groupby((brand),aggregate($count as n))/aggregate(n with average as m)", [{"m": 1}]),
        (
            ASSIGNMENT,
            "$apply=aggregate(lifetime with sum as s,lifetime with average as a)",
            [{"s": 1814400, "a": 604800}],
        ),
        (
            ASSIGNMENT,
            "$apply=groupby((user/userData/firstName),aggregate($count as n))",
            [
                {"user": {"userData": {"firstName": "Ann"}}, "n": 2},
                {"user": {"userData": {"firstName": "Bob"}}, "n": 1},
            ],
        ),
        (
            ASSIGNMENT,
            "$apply=groupby((car/brand),aggregate(user with countdistinct as users,car/$count as cars))",
            [{"car": {"brand": None}, "users": 1, "cars": 1}, {"car": {"brand": "VW"}, "users": 2, "cars": 1}],
        ),
        (
            ASSIGNMENT,
            "$apply=groupby((car/brand,user/userData/lastName))&$select=car/brand,user($select=userData)"
            "&$filter=car/brand eq null",
            [{"car": {"brand": None}, "user": {"userData": {"lastName": "Lee"}}}],
        ),
        (
            PRODUCT,
            "$apply=groupby((car/name),aggregate($count as n))&$orderby=n desc&$top=1",
            [{"car": {"name": "Alpha"}, "n": 2}],
        ),
        (PRODUCT, "$apply=groupby((car/name),aggregate($count as n))&$top=1", [{"car": None, "n": 1}]),
        (
            PRODUCT,
            "$apply=groupby((type),aggregate($count as n))/filter(n gt 1)&$select=type",
            [{"type": "vendor Box"}],
        ),
        (
            EVENT,
            "$apply=compute(date(utcDateTime) as day)/groupby((day,type),"
            "aggregate($count as n,utcDateTime with max as last))",
            [
                {"day": "2026-05-01", "type": "CarClosed", "n": 1, "last": "2026-05-01T10:00:00Z"},
                {"day": "2026-05-01", "type": "CarOpened", "n": 2, "last": "2026-05-01T11:00:00Z"},
            ],
        ),
        (EVENT, "$apply=aggregate(dateTime with min as first)", [{"first": "2026-05-01T09:00:00"}]),
        (EVENT, "$apply=groupby((type))&$filter=type eq 'CarOpened'", [{"type": "CarOpened"}]),
        (EVENT, "$apply=filter(car/brand eq 'VW')/aggregate(latitude with average as m)", [{"m": 52.5}]),
        (SERVICE, "$apply=groupby((product/car/brand))", [{"product": {"car": {"brand": "VW"}}}]),
        (SERVICE, "$apply=aggregate(contract with countdistinct as n,product/$count as m)", [{"n": 1, "m": 1}]),
        (PRODUCT, "$apply=groupby((car/name))/aggregate(car with countdistinct as n)", [{"n": 2}]),
        (CAR, "$apply=compute(1 as one,now() gt mindatetime() as yes)/groupby((one,yes))", [{"one": 1, "yes": True}]),
        (CAR, "$apply=filter(products/any(p:p/car/name eq name))/aggregate($count as n)", [{"n": 2}]),
        (PRODUCT, "$apply=filter(car/products/$count eq 2 and car/name ne null)/aggregate($count as n)", [{"n": 2}]),
        (USER, "$apply=groupby((userData))&$top=1", [{"userData": {"firstName": "Ann", "lastName": "Lee"}}]),
        (USER, "$apply=aggregate(userData with countdistinct as n,userData/lastName/$count as m)", [{"n": 2, "m": 1}]),
        (CAR, "$compute=concat(name,'!') as z&$select=z&$filter=z eq 'Alpha!'", [{"z": "Alpha!"}]),
        (CAR, "$compute=length(name) as l,l mul 2 as m&$select=m&$orderby=l desc,name&$top=1", [{"m": 10}]),
        (CAR, "$compute=brand eq 'VW' as ours&$filter=ours&$select=name,ours", [{"name": "Alpha", "ours": True}]),
        (CAR, "$compute=products/$count as n&$select=name,n&$orderby=n desc&$top=1", [{"name": "Alpha", "n": 2}]),
        (PRODUCT, "$compute=car/name as of&$select=of&$orderby=of desc&$top=1", [{"of": "beta"}]),
        (EVENT, "$compute=7 div (latitude sub 52.5) as x&$select=x&$filter=x eq null&$top=1", [{"x": None}]),
        (EVENT, "$compute=latitude mul 2 as x,INF as y&$select=x,y&$top=1", [{"x": 105.0, "y": "INF"}]),
        (
            EVENT,
            "$compute=utcDateTime as a,time(utcDateTime) as b&$select=a,b&$top=1&$orderby=a desc",
            [{"a": "2026-05-01T11:00:00Z", "b": "11:00:00"}],
        ),
        (CAR, "$apply=groupby((brand))&$compute=length(brand) as l&$filter=l eq 3", [{"brand": "BMW", "l": 3}]),
        (CAR, "$apply=top(1)&$select=name", [{"name": "Alpha"}]),
        (CAR, "$apply=filter(name eq @n)/aggregate($count as n)&@n='Alpha'", [{"n": 1}]),
    ],
)
def test_transformations_return_the_expected_rows(fleet: Fleet, resource: Resource, text: str, rows: list[Any]) -> None:
    assert fleet.ask(resource, text) == rows


def test_filtered_rows_keep_their_members(fleet: Fleet) -> None:
    assert fleet.ask(CAR, "$apply=identity") == fleet.ask(CAR, "")
    rows = fleet.ask(CAR, "$apply=filter(brand eq 'VW')/orderby(name)&$expand=products&$search=red")
    assert rows == fleet.ask(CAR, "$filter=brand eq 'VW'&$expand=products")
    whole = fleet.ask(CAR, "$compute=length(name) as l&$expand=products($filter=id gt $it/l;$select=id)&$top=1")[0]
    assert list(whole) == [*CAR.fields, "products", "l"]
    for select in ("*", "*,l", "l,*", "*,L,id"):
        shown = fleet.ask(CAR, f"$compute=length(name) as l&$select={select}&$top=1")[0]
        assert list(shown) == [*CAR.fields, "l"]
    assert list(fleet.ask(CAR, "$compute=length(name) as l&$select=id&$top=1")[0]) == ["id"]
    counted = fleet.ask(CAR, "$compute=length(name) as l&$expand=products($count=true)&$select=l&$top=1")[0]
    assert list(counted) == ["products@odata.count", "products", "l"]


def test_rows_can_be_grouped_by_a_whole_object(fleet: Fleet) -> None:
    rows = fleet.ask(PRODUCT, "$apply=groupby((car),aggregate($count as n))")
    assert [row["car"] and row["car"]["id"] for row in rows] == [None, *fleet.cars[:2]]
    assert rows[1]["car"] == fleet.ask(CAR, f"$filter=id eq {fleet.cars[0]}")[0]


def test_top_and_skip_in_apply_keep_the_members(fleet: Fleet) -> None:
    assert fleet.ask(EVENT, "$apply=orderby(id desc)/top(2)") == fleet.ask(EVENT, "$orderby=id desc&$top=2")
    assert fleet.ask(USER, "$apply=skip(1)&$orderby=id") == fleet.ask(USER, "$skip=1")


def test_aliases_of_the_client_are_parameters(fleet: Fleet) -> None:
    name = "Zähler_zq7"
    text = f"$apply=groupby((brand),aggregate($count as {name}))&$compute={name} add 777001 as zq7&$orderby={name}"
    plan = fleet.plan(CAR, text)
    statement = fleet.statement(CAR, plan)
    assert "zq7" not in statement.sql and "777" not in statement.sql
    assert fleet.ask(CAR, text)[0] == {"brand": None, name: 1, "zq7": 777002}
    other = fleet.plan(CAR, text.replace("zq7", "b").replace("777001", "3"))
    assert statement == fleet.statement(CAR, other)


def test_aggregations_do_not_count_another_customer_s_rows(fleet: Fleet, sql: Any) -> None:
    assert fleet.ask(CAR, "$apply=filter(true or 1 eq 1)/aggregate($count as n)") == [{"n": 3}]
    sql.execute("update car set brand = 'Theirs' where customer_id = $1", fleet.neighbour)
    for resource in (PRODUCT, EVENT, ASSIGNMENT):
        assert "Theirs" not in str(fleet.ask(resource, "$apply=groupby((car/brand),aggregate($count as n))"))


@pytest.mark.parametrize(
    ("resource", "text", "part"),
    [
        (CAR, "$apply=groupby((foo))", "Could not find a property named 'foo' on type 'Car'."),
        (CAR, "$apply=groupby((name/x))", "'name/x' continues after a property that has no properties."),
        (CAR, "$apply=groupby((products))", "'products' has many rows, and groupby takes paths with one value."),
        (
            CAR,
            "$apply=groupby((brand),aggregate($count as name))",
            "The alias 'name' is the name of a property of 'Car'.",
        ),
        (CAR, "$apply=aggregate($count as products)", "The alias 'products' is the name of a property of 'Car'."),
        (CAR, "$apply=aggregate($count as n,id with max as n)", "The alias 'n' is given more than once."),
        (CAR, "$apply=compute(id as a)/aggregate(a with max as a)", "The alias 'a' is given more than once."),
        (CAR, "$apply=groupby((brand))/top(1)&$filter=products/any()", "'products' is not in the result of $apply."),
        (CAR, "$apply=groupby((name),aggregate($count as Name))", "The alias 'Name' is the name of a property of"),
        (CAR, "$compute=1 as a,2 as A", "The alias 'A' is given more than once."),
        (CAR, "$compute=1 as a,2 as a", "The alias 'a' is given more than once."),
        (CAR, "$compute=id add 1 as id", "The alias 'id' is the name of a property of 'Car'."),
        (CAR, "$apply=aggregate($count as n)&$compute=1 as n", "The alias 'n' is given more than once."),
        (CAR, "$apply=aggregate(name with sum as n)", "The method 'sum' takes numbers, not Edm.String."),
        (CAR, "$apply=aggregate(null with max as n)", "The method 'max' does not take null."),
        (CAR, "$apply=aggregate(name)", "'name' requires 'with' and a method."),
        (CAR, "$apply=aggregate(name as n)", "'name' requires 'with' and a method."),
        (CAR, "$apply=aggregate(Budget)", "The custom aggregate 'Budget' is not supported."),
        (CAR, "$apply=aggregate(products/id with sum as n)", "which has many rows, in aggregate is not supported."),
        (CAR, "$apply=aggregate(products/$count as n)", "which has many rows, in aggregate is not supported."),
        (USER, "$apply=aggregate(userData with max as n)", "takes values, and 'userData' is an object."),
        (EVENT, "$apply=aggregate(car/id with sum as n)", "The method 'sum' along a relation is not supported."),
        (CAR, "$apply=groupby((brand))&$filter=name eq 'a'", "'name' is not in the result of $apply."),
        (CAR, "$apply=groupby((brand))&$orderby=foo", "Could not find a property named 'foo' on type 'Car'."),
        (CAR, "$apply=groupby((brand))&$select=id", "'id' is not in the result of $apply."),
        (CAR, "$apply=groupby((brand))&$select=brand/x", "'brand' has no parts to select."),
        (CAR, "$apply=groupby((brand))/filter(products/any())", "'products' is not in the result of $apply."),
        (CAR, "$apply=groupby((brand))&$filter=brand/any()", "is not a collection."),
        (EVENT, "$apply=groupby((car/brand))&$filter=car eq null", "'car' is an object. Name one of its properties."),
        (
            EVENT,
            "$apply=groupby((car/brand))&$filter=car/name eq null",
            "Could not find a property named 'name' on type 'car'.",
        ),
        (EVENT, "$apply=groupby((type))&$filter=type eq 'Opened'", "The members are CarOpened, CarClosed"),
        (
            CAR,
            "$apply=groupby((brand))&$expand=products",
            "$expand after groupby, aggregate, top or skip in $apply is not",
        ),
        (
            CAR,
            "$apply=aggregate($count as n)&$search=a",
            "$search after groupby, aggregate, top or skip in $apply is not",
        ),
        (CAR, "$apply=top(1)/search(a)", "search after groupby, aggregate, top or skip in $apply is not"),
        (CAR, "$apply=top(1)&$filter=products/any()", "The relation 'products' after top or skip in $apply is not"),
        (CAR, "$apply=concat(identity,identity)", "The transformation 'concat' is not supported."),
        (CAR, "$apply=groupby((rollup(brand,model)))", "'rollup' is not supported."),
        (CAR, "$apply=groupby((brand),top(1))", "Another transformation than 'aggregate' in groupby is not supported."),
        (
            CAR,
            "$apply=aggregate(id with Custom.median as n)",
            "The aggregation method 'Custom.median' is not supported.",
        ),
        (
            CAR,
            "$apply=aggregate(id with sum from brand with max as n)",
            "The keyword 'from' in $apply is not supported.",
        ),
        (CAR, "$compute=null as n", "'n' cannot be computed, because its type would be null."),
        (EVENT, "$compute=2026-01-01T00:00:00 as n", "has no offset. Add one, such as Z or +01:00."),
        (CAR, "$expand=products($compute=id add 1 as n)", "$compute in parentheses is not supported."),
        (CAR, "$apply=identity&$skiptoken=a&$apply=top(1)", "more than once"),
    ],
)
def test_invalid_transformations_are_rejected(resource: Resource, text: str, part: str) -> None:
    assert part in refusal(text, resource)


@pytest.mark.parametrize(
    ("text", "limit", "value"),
    [
        ("$apply=identity/identity", "transformations", 1),
        ("$apply=groupby((brand,model))", "properties", 1),
        ("$apply=groupby((brand),aggregate($count as n))", "properties", 1),
        ("$compute=1 as a,2 as b", "properties", 1),
        ("$apply=top(6)", "top", 5),
        ("$apply=orderby(id,name)", "orderby", 1),
        ("$apply=filter(true or true)/filter(true)", "nodes", 3),
        ("$apply=compute(id add id as a)/compute(a add a as b)/compute(b add b as c)", "nodes", 20),
        ("$compute=id add 1 as a&$filter=a add a add a eq 1", "nodes", 10),
        ("$compute=id add 1 add 2 as a&$orderby=a,a add 1,a add 2", "nodes", 10),
        ("$apply=concat(concat(top(1),top(2)),top(3))", "nesting", 1),
    ],
)
def test_each_limit_of_transformations_has_its_own_error(text: str, limit: str, value: int) -> None:
    assert f"limit of {value}" in refusal(text, **{limit: value})


GROWING = ["groupby((a{n}))", "groupby((name),aggregate(a{n} with max as a{n}x))", "top(5)"]


@pytest.mark.parametrize("stage", GROWING)
def test_an_expression_cannot_grow_through_stages(stage: str) -> None:
    """An alias costs as much as its expression, also in a later stage.

    Nine stages of ten parts would make a gigabyte.
    """
    made, before = list[str](), "name"
    for n in range(9):
        made += [f"compute({'concat(' * 9 + before}{f',{before})' * 9} as a{n})", stage.format(n=n)]
        before = f"a{n}x" if "x" in stage else f"a{n}"
    text = "$apply=" + "/".join(made)
    assert "more parts than the limit of 400" in refusal(text)
    once = "$apply=" + "/".join(made[:2])
    query(CAR, quote(once, safe="$=").encode(), Shape.COLLECTION, alias="t", limits=Limits())


def test_the_members_of_a_row_are_limited() -> None:
    items = ",".join(f"{number} as a{number}" for number in range(30))
    assert "limit of 50" in refusal(f"$compute={items}", TELEMETRY, Shape.ONE)
    query(TELEMETRY, f"$compute={items}&$select=a1,rpm".encode(), Shape.ONE, alias="t", limits=Limits())


HOSTILE = [
    "compute(" + ",".join(f"a{n} add a{n} as a{n + 1}" for n in range(29)).replace("a0", "id") + ")",
    "/".join(f"compute(a{n} mul a{n} as a{n + 1})" for n in range(19)).replace("a0", "id"),
    "groupby((" + ",".join(["brand"] * 1_000) + "))",
    "aggregate(" + ",".join(f"id with max as a{n}" for n in range(400)) + ")",
    "/".join(["groupby((brand),aggregate($count as n))"] * 20),
    "/".join(["top(5)/groupby((brand,model,name,vin,description,licensePlate))"] * 10),
    "filter(" + " or ".join(["id eq 1"] * 190) + ")/groupby((" + ",".join(CAR.fields) + "))",
    "compute(" + "round(" * 45 + "id div 0.5" + ")" * 45 + " as a)/filter(a gt a)",
    "groupby((" + "service/product/" * 400 + "id))",
]


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: text[:16])
def test_hostile_transformations_are_compiled_or_rejected_quickly(text: str) -> None:
    raw = b"$apply=" + quote(text).encode()

    def answered() -> None:
        with contextlib.suppress(errors.BadRequest):
            query(CAR, raw, Shape.COLLECTION, alias="t", limits=Limits())

    assert steps(answered) < MOST


# A model of the names in the OASIS cases. `Country` is a string in some of them and a relation in others


def _number(name: str) -> Field:
    return double("{t}." + name.lower(), nullable=True)


_TEXTS = {name: string("{t}.name", nullable=True) for name in ("ID", "Name", "Country", "Month", "Region", "ProductID")}
_NUMBERS = {name: _number(name) for name in ("Amount", "Cost", "Discounts", "TaxRate", "Population")}
_FIELDS: dict[str, Field | Complex] = {**_TEXTS, **_NUMBERS, "Date": date_time("{t}.at")}
_ONE = ("Product", "Customer", "Time", "Continent", "Products_cj", "Sales_cj")
OASIS = Resource(
    "OasisSale",
    "sale {t}",
    "{t}.customer_id = $1",
    _FIELDS,
    key=("ID",),
    relations={
        "Sales": Relation("OasisSale", "{t}.id = {p}.id"),
        **{name: Relation("OasisSale", "{t}.id = {p}.id", is_collection=False) for name in _ONE},
    },
    permission=Permission.CARS_READ,
)
OASIS_COUNTRIES = Resource(
    "OasisCity",
    "city {t}",
    "{t}.customer_id = $1",
    {name: field for name, field in _FIELDS.items() if name != "Country"},
    key=("ID",),
    relations={
        name: Relation("OasisSale", "{t}.id = {p}.id", is_collection=False) for name in ("Country", "Continent")
    },
    permission=Permission.CARS_READ,
)


def answered(option: str, text: str, resource: Resource) -> int:
    """The status of the response to an option."""
    try:
        query(resource, f"${option}={quote(text)}".encode(), Shape.COLLECTION, alias="t", limits=Limits())
    except (errors.BadRequest, errors.NotImplemented) as refused:
        return refused.status
    return 200


@pytest.mark.skipif(not oracle.HERE, reason=oracle.WHY_SKIPPED)
def test_the_oasis_cases_of_apply_and_compute_are_classified_correctly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RESOURCES, "OasisSale", OASIS)
    decided: dict[bool, list[tuple[str, set[int]]]] = {True: [], False: []}
    for case in oracle.cases():
        if case["option"] in ("apply", "compute"):
            statuses = {answered(case["option"], case["text"], model) for model in (OASIS, OASIS_COUNTRIES)}
            decided[case["valid"]].append((case["text"], statuses))
    assert [text for text, statuses in decided[True] if not statuses & {200, 501}] == []
    assert [text for text, statuses in decided[False] if statuses != {400}] == []
    assert sum(200 in statuses for _, statuses in decided[True]) >= 15
