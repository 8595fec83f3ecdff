"""`$apply` and `$compute` over HTTP: arrays, pages, missing lists, long lists and tenant isolation."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import pytest

from keyrack.fleet.endpoints.cars import NO_CAR, NO_PRODUCTS
from tests.api.test_list_responses import SIZES, same
from tests.support.people import Person, refused
from tests.support.servers import RunningServer, Sql

BY_BRAND = "groupby((brand),aggregate($count as n))"


def asked(person: Person, path: str, **options: str) -> Any:
    answer = person.get(path + "?" + "&".join(f"${name}={quote(value)}" for name, value in options.items()))
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.fixture(scope="module")
def fleet(alice: Person, bob: Person) -> Person:
    """Two brands and a car without one, beside a neighbour with many more."""
    for person, cars in ((alice, ("VW", "VW", "Audi", None)), (bob, ["VW"] * 9)):
        for brand in cars:
            person.car(brand=brand, model="M")
    car, user = alice.car_with_box("Boxed"), alice.user()
    for kind in ("CarOpened", "CarClosed", "CarOpened"):
        alice.event(car, user, type=kind)
    alice.assignment(car, user)
    group = alice.group("Figures")
    alice.put(f"/groups/{group}/cars", {"carId": car})
    return alice


def test_cars_are_counted_by_brand(fleet: Person, bob: Person) -> None:
    answer = fleet.get(f"/cars?$apply={BY_BRAND}&$orderby=n desc,brand&$top=2&$count=true")
    assert answer.json() == [{"brand": None, "n": 2}, {"brand": "VW", "n": 2}]
    assert answer.headers["X-Total-Count"] == "3"
    assert answer.headers["Content-Type"] == "application/json"
    assert asked(bob, "/cars", apply=BY_BRAND) == [{"brand": "VW", "n": 9}]
    assert fleet.call("HEAD", f"/cars?$apply={BY_BRAND}").status_code == 200
    assert fleet.get(f"/cars?apply={BY_BRAND}").json() == fleet.get(f"/cars?$apply={BY_BRAND}").json()


def test_lists_of_every_resource_can_be_aggregated(fleet: Person) -> None:
    (car,) = [row["id"] for row in asked(fleet, "/cars", filter="name eq 'Boxed'")]
    (group,) = [row["id"] for row in asked(fleet, "/groups", filter="name eq 'Figures'")]
    by_type = "groupby((type),aggregate($count as n))"
    assert asked(fleet, f"/cars/{car}/events", apply=by_type) == [
        {"type": "CarClosed", "n": 1},
        {"type": "CarOpened", "n": 2},
    ]
    assert asked(fleet, f"/cars/{car}/assignments", apply="filter(end eq null)/aggregate($count as n)") == [{"n": 1}]
    assert asked(fleet, f"/groups/{group}/cars", apply=BY_BRAND) == [{"brand": None, "n": 1}]
    assert asked(fleet, f"/cars/{car}/products", apply="aggregate($count as n,car/name with max as of)") == [
        {"n": 1, "of": "Boxed"}
    ]
    states = asked(fleet, "/operations", apply="groupby((state,kind),aggregate($count as n))")
    assert {"state": "Succeeded", "kind": "CreateAssignment", "n": 1} in states
    assert asked(fleet, "/users", apply="aggregate(assignments/$count with sum as n)") == [{"n": 1}]
    assert asked(fleet, "/customers", apply="aggregate($count as n)") == [{"n": 1}]


def test_a_missing_list_gets_404_with_apply(fleet: Person) -> None:
    empty = fleet.car("Empty")
    path = f"/cars/{empty}/products?$apply="
    refused(fleet.get("/cars/999999999/products?$apply=aggregate($count as n)"), 404, NO_CAR)
    refused(fleet.get(path + "groupby((type))"), 404, NO_PRODUCTS)
    refused(fleet.get(path + "filter(id gt 0)"), 404, NO_PRODUCTS)
    assert fleet.get(path + "aggregate($count as n)").json() == [{"n": 0}]
    boxed = asked(fleet, "/cars", filter="name eq 'Boxed'")[0]["id"]
    assert fleet.get(f"/cars/{boxed}/products?$apply=filter(id lt 0)/groupby((type))").json() == []
    assert fleet.get(f"/cars/{empty}/events?$apply=groupby((type))").json() == []


def test_grouped_rows_are_paged_like_the_list(fleet: Person, sql: Sql) -> None:
    car, user = fleet.car("Busy"), fleet.user()
    sql.execute(
        "insert into event (customer_id, event_id, local_at, local_text, utc_at, user_id, car_id, type, user_agent)"
        " select $1, 1000000 + n, t, '', t, $2, $3, 'CarOpened', 'tests' from generate_series(0, 1000) n,"
        " lateral (select '2026-01-01Z'::timestamptz + make_interval(secs => n) t) x",
        fleet.customer,
        user,
        car,
    )
    path = f"/cars/{car}/events?$apply=groupby((utcDateTime),aggregate($count as n))"
    first = fleet.get(path)
    assert len(first.json()) == 1000
    link = first.headers["Link"]
    assert link.endswith('&$skip=1000>; rel="next"')
    rest = fleet.get(path + "&$skip=1000")
    assert rest.json() == [{"utcDateTime": "2026-01-01T00:16:40Z", "n": 1}]
    assert "Link" not in rest.headers
    assert asked(fleet, f"/cars/{car}/events", apply="aggregate($count as n)") == [{"n": 1001}]


@pytest.mark.parametrize("size", SIZES)
def test_computed_lists_are_the_same_in_chunks_and_from_a_file(
    fleet: Person, dsn: str, settings: Any, size: str
) -> None:
    with RunningServer(settings.model_copy(update=SIZES[size]), dsn, worker=False) as running:
        for query in (
            {"$compute": "length(name) as l,brand eq 'VW' as vw"},
            {"$compute": "length(name) as l", "$orderby": "name desc", "$expand": "products"},
            {"$compute": "length(name) as l", "$expand": "products($count=true)", "$select": "l,id"},
            {"$compute": "name as other", "$orderby": "other", "$select": "other"},
            {"$compute": "length(name) as l", "$orderby": "l"},
            {"$apply": "filter(id gt 0)", "$orderby": "name"},
            {"$apply": BY_BRAND},
            {"$apply": "groupby((id,name))", "$count": "true"},
            {"$apply": "top(7)"},
        ):
            same(running, fleet, "/cars", query)
        same(running, fleet, "/products", {"$apply": "filter(car/name ne null)", "$orderby": "serialNumber"})


def test_a_single_row_can_have_computed_properties(fleet: Person) -> None:
    (car,) = asked(fleet, "/cars", filter="name eq 'Boxed'")
    answer = asked(fleet, f"/cars/{car['id']}", compute="length(name) as letters", select="name,letters")
    assert answer == {"name": "Boxed", "letters": 5}
    assert asked(fleet, f"/cars/{car['id']}", compute="1 as one") == car | {"one": 1}
    refused(
        fleet.get(f"/cars/{car['id']}?$apply=identity"),
        400,
        "The query specified in the URI is not valid. Query option '$apply' cannot be applied to one object.",
    )


def test_a_value_out_of_range_gets_400(fleet: Person) -> None:
    assert fleet.get("/cars?$compute=id mul 9223372036854775807 mul 9223372036854775807 as x").status_code == 400
    assert fleet.get("/cars?$apply=aggregate(id mul 1e308 mul 1e308 with sum as x)").status_code == 400


def test_numbers_are_exact(fleet: Person) -> None:
    sums = fleet.get("/cars?$apply=aggregate(id mul 0 add 9007199254740993 with max as big,0.1 with max as tenth)")
    assert json.loads(sums.text, parse_float=str) == [{"big": 9007199254740993, "tenth": "0.1"}]
