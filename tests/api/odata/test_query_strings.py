"""Query strings over the real resources: decoding, shapes, $select, $expand, $search, limits, and hostile ones."""

from __future__ import annotations

import contextlib
from typing import Any
from urllib.parse import quote

import pytest

from keyrack.api.odata import OPTIONS, Limits, Shape, query
from keyrack.api.odata.parse_paths import FUNCTIONS
from keyrack.api.schema.fields import Resource
from keyrack.core import errors
from keyrack.fleet.schema import BRAND, CAR, CONTRACT, EVENT, GROUP, KEY, PRODUCT, SERVICE, USER
from keyrack.telemetry.schema import TELEMETRY
from tests.api.odata.fleet import Fleet, make_fleet
from tests.api.odata.parse_cost import MOST, steps


@pytest.fixture(scope="module")
def fleet(sql: Any) -> Fleet:
    return make_fleet(sql)


def refusal(text: str | bytes, resource: Resource = CAR, shape: Shape = Shape.COLLECTION, **limits: int) -> str:
    """The text of the refusal of a query string."""
    raw = text.encode() if isinstance(text, str) else text
    with pytest.raises((errors.BadRequest, errors.NotImplemented)) as found:
        query(resource, raw, shape, alias="t", limits=Limits(**limits))
    if found.value.status == 400:
        assert found.value.text.startswith("The query specified in the URI is not valid. ")
    return found.value.text.removeprefix("The query specified in the URI is not valid. ")


def test_no_query_is_the_plain_read(fleet: Fleet) -> None:
    plan = fleet.plan(CAR, b"")
    sql = plan.sql
    assert (sql.columns, sql.where, sql.order, sql.limit) == (CAR.json_columns("t"), "", CAR.order("t"), "")
    assert fleet.ids(CAR, "") == fleet.cars


@pytest.mark.parametrize(
    "text",
    [
        "$filter=name eq 'Alpha'",
        "filter=NAME EQ 'Alpha'",
        "%24FILTER=name%20eq%20%27Alpha%27",
        "$filter=name+eq+'Alpha'",
        "$filter=name eq @p&@p='Alpha'",
        "$filter=name eq @p&@p=@q&@q='Alpha'",
        "x=1&&$filter=$it/name eq 'Alpha'&customer=2",
        "$filter=tolower(licenseplate) eq 'a-1'",
        "$filter=contains(description,'red')&$format=json",
        "$search=RED",
        '$search="d c" AND NOT off',
        "$filter=brand in ('VW', 'Audi')",
        "$filter=products/$count eq 2",
        "$filter=products/any(p:p/type eq 'vendor IQ')",
        "$filter=assignments/any(a:a/userId eq 0) or groups/any(g:g/name eq 'Pool')",
        "$filter=products/any(x:x/service/name eq 'Sharing')",
        "$filter=products/any(products:products/id gt 0 and products/uniqueId eq 'U2')",
        "$orderby=licensePlate desc,name&$top=1&$skip=1",
    ],
)
def test_one_car_in_many_spellings(fleet: Fleet, text: str) -> None:
    assert fleet.ids(CAR, text) == fleet.cars[:1]


@pytest.mark.parametrize(
    ("resource", "text", "count"),
    [
        (EVENT, "$filter=type eq 'CarOpened'", 2),
        (EVENT, "$filter=type in (Any.Prefix'CarOpened')", 2),
        (EVENT, "$filter=type ne V.T'CarOpened'", 1),
        (EVENT, "$filter=utcDateTime ge 2026-05-01T10:00:00Z", 2),
        (EVENT, "$filter=utcDateTime ge 2026-05-01T11:00:00+01:00", 2),  # the plus is a blank, and meant as a plus
        (EVENT, "$filter=utcDateTime gt '2026-05-01' and date(utcDateTime) eq 2026-05-01", 3),
        (EVENT, "$filter=car/name eq 'Alpha' and user/userData/lastName eq 'Lee'", 3),
        (EVENT, "$filter=latitude add 0.5 eq 53", 3),
        (EVENT, "$filter=id eq 99999999999", 0),
        (EVENT, "$filter=id eq 99999999999999999999", 0),
        (EVENT, "$filter=utcDateTime lt now() and utcDateTime gt mindatetime()", 3),
        (PRODUCT, "$filter=car eq null", None),
        (PRODUCT, "$filter=car/name eq null", 1),
        (USER, "$filter=userData/lastName eq null&$orderby=userData/firstName desc", 1),
        (GROUP, "$filter=cars/any() and users/$count eq 1 and products/all(p:false)", 1),
        (SERVICE, "$filter=isTerminated eq false and contract/orderNumber eq 'O1'", 1),
        (SERVICE, "$filter=not isTerminated", 1),
        (CONTRACT, "$filter=end gt start&$orderby=orderNumber", 1),
    ],
)
def test_filters_of_other_resources(fleet: Fleet, resource: Resource, text: str, count: int | None) -> None:
    if count is None:
        assert "is not a value" in refusal(text, resource)
    else:
        assert len(fleet.ask(resource, text)) == count


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("$filter=dateTime eq 2026-05-01T10:00:00", [2]),
        ("$filter=dateTime eq '2026-05-01T10:00:00'", [2]),
        ("$filter=dateTime eq 2026-05-01T10:00:00 05:00", [2]),  # a wall clock: the offset says nothing about it
        ("$filter=2026-05-01T10:00:00 lt dateTime", [3]),
        ("$filter=dateTime in (2026-05-01T09:00:00,'2026-05-01T10:00:00',2026-05-01T11:00:00Z)", [1, 2, 3]),
        ("$filter=dateTime ge 2026-05-01 and hour(dateTime) ge 10 and date(dateTime) eq 2026-05-01", [2, 3]),
        ("$filter=date(dateTime) eq dateTime or dateTime le utcDateTime and dateTime lt now()", [1, 2, 3]),
        ("$filter=dateTime ne null&$orderby=dateTime desc", [3, 2, 1]),
    ],
)
def test_a_wall_clock_is_compared_with_what_it_shows(fleet: Fleet, text: str, ids: list[int]) -> None:
    assert fleet.ids(EVENT, text) == ids


@pytest.mark.parametrize(
    "text",
    [
        "$filter=utcDateTime ge 2026-05-01T10:00:00",
        "$filter=2026-05-01T10:00:00 lt utcDateTime",
        "$filter=utcDateTime in (2026-05-01T10:00:00)",
        "$filter=date(utcDateTime) eq 2026-05-01T10:00:00",
        "$filter=hour(2026-05-01T10:00:00) eq 10",
        "$filter=userAgent eq 2026-05-01T10:00:00",
        "$filter=null eq 2026-05-01T10:00:00",
    ],
)
def test_elsewhere_a_date_time_needs_an_offset(text: str) -> None:
    expected = "The date-time '2026-05-01T10:00:00' has no offset. Add one, such as Z or +01:00."
    assert refusal(text, EVENT) == expected


def test_select_shows_what_is_asked_for_in_the_models_order(fleet: Fleet) -> None:
    assert list(fleet.ask(CAR, "$select=VIN,id,name,name")[0]) == ["id", "name", "vin"]
    assert list(fleet.ask(CAR, "$select=*")[0]) == list(CAR.fields)
    assert fleet.ask(USER, "$select=userData/firstName&$orderby=id&$top=1") == [{"userData": {"firstName": "Ann"}}]
    assert fleet.ask(USER, "$select=userData($select=lastName)&$top=1") == [{"userData": {"lastName": "Lee"}}]
    assert fleet.ask(CAR, "$select=products&$top=1") == [{}]


def test_select_never_changes_which_rows_come(fleet: Fleet) -> None:
    rows = fleet.ask(CAR, "$filter=vin ne null&$orderby=name desc")
    assert fleet.ask(CAR, "$filter=vin ne null&$orderby=name desc&$select=id") == [{"id": row["id"]} for row in rows]


def test_expand_shows_relations_in_one_statement(fleet: Fleet) -> None:
    cars = fleet.ask(
        CAR,
        "$select=name&$expand=groups,assignments($orderby=start desc;$top=1;$select=id),"
        "products($filter=type eq 'vendor Box';$select=id;$expand=service($select=name))",
    )
    assert list(cars[0]) == ["name", "products", "assignments", "groups"]
    assert cars[0]["products"] == [{"id": fleet.products[0], "service": {"name": "Sharing"}}]
    assert cars[1]["products"] == [{"id": fleet.products[2], "service": None}]
    assert cars[2]["products"] == []
    assert len(cars[0]["assignments"]) == 1
    assert [group["name"] for group in cars[0]["groups"]] == ["Pool"]


def test_expand_of_every_relation_of_the_rules(fleet: Fleet) -> None:
    listed = {
        CAR: "products,assignments,groups",
        USER: "assignments,groups",
        PRODUCT: "service,car",
        SERVICE: "product,contract",
        EVENT: "car,user",
        GROUP: "cars,users,services,products",
    }
    for resource, relations in listed.items():
        row = fleet.ask(resource, f"$expand={relations}")[0]
        for name in relations.split(","):
            assert isinstance(row[name], list) is resource.relations[name].is_collection, name


def test_a_count_stands_before_what_is_expanded(fleet: Fleet) -> None:
    box, iq, other, _ = fleet.products
    cars = fleet.ask(CAR, "$select=name&$expand=groups/$count,products($select=id;$count=true),assignments")
    assert list(cars[0]) == ["name", "products@odata.count", "products", "assignments", "groups@odata.count"]
    assert [car["products@odata.count"] for car in cars] == [2, 1, 0]
    assert [car["products"] for car in cars] == [[{"id": box}, {"id": iq}], [{"id": other}], []]
    assert [car["groups@odata.count"] for car in cars] == [1, 0, 0]
    assert list(fleet.ask(CAR, "$expand=products($count=true)")[0]) == [
        *CAR.fields, "products@odata.count", "products",
    ]  # fmt: skip
    assert "products@odata.count" not in fleet.ask(CAR, "$expand=products($count=false)")[0]


def test_a_count_is_of_what_the_filter_leaves_whatever_page_is_shown(fleet: Fleet) -> None:
    of_type = "$filter=type eq 'vendor Box'"
    for expand in (
        f"products/$count({of_type})",
        f"products($count=true;{of_type})",
        f"products({of_type};$top=0;$count=true)",
        f"products({of_type};$skip=1;COUNT=TRUE)",
        "products/$count($search=U1 OR U3)",
        "products/$count(search=s1 OR S3;filter=true)",
    ):
        rows = fleet.ask(CAR, f"$select=name,id&$expand={expand}&$orderby=id")
        assert [row["products@odata.count"] for row in rows] == [1, 1, 0], expand
        assert ("products" in rows[0]) is ("/$count" not in expand), expand
    assert fleet.ask(CAR, "$select=products&$expand=products/$count&$top=1") == [{"products@odata.count": 2}]
    assert fleet.ask(CAR, "$filter=id eq 0&$expand=products($count=true)") == []


def test_counts_stand_on_both_levels(fleet: Fleet) -> None:
    group = {"name": "Pool", "cars@odata.count": 1, "users@odata.count": 1}
    row = fleet.ask(CAR, "$select=id&$expand=groups($select=name;$count=true;$top=1;$expand=users/$count,cars/$count)")
    assert row[0] == {"id": fleet.cars[0], "groups@odata.count": 1, "groups": [group]}
    inner = "$select=id;$expand=products($count=true;$select=id)"
    products = [{"id": product} for product in fleet.products[:2]]
    car = {"id": fleet.cars[0], "products@odata.count": 2, "products": products}
    whole = fleet.ask(GROUP, f"$select=name&$expand=cars($count=true;{inner})")
    assert whole == [{"name": "Pool", "cars@odata.count": 1, "cars": [car]}]
    single = fleet.ask(PRODUCT, f"$select=id&$expand=car({inner})&$orderby=id")
    assert single[0] == {"id": fleet.products[0], "car": car}
    assert single[3] == {"id": fleet.products[3], "car": None}


def test_a_count_stays_inside_the_tenant(fleet: Fleet, sql: Any) -> None:
    counted = fleet.ask(CAR, "$expand=products/$count,assignments($count=true)")
    everything = sql.value("select count(*) from product where car_id is not null")
    assert sum(car["products@odata.count"] for car in counted) == 3 < everything
    assert [car["assignments@odata.count"] for car in counted] == [2, 0, 1]


def test_expand_stays_inside_the_tenant(fleet: Fleet, sql: Any) -> None:
    theirs = {row[0] for row in sql.rows("select product_id from product where customer_id = $1", fleet.neighbour)}
    shown = [p["id"] for car in fleet.ask(CAR, "$expand=products") for p in car["products"]]
    assert shown and not theirs.intersection(shown)


def test_a_complex_member_may_be_expanded(fleet: Fleet, sql: Any) -> None:
    sql.execute("insert into key_form (name) values ('Round') on conflict do nothing")
    sql.execute(
        "insert into brand_key (brand, box_name, key_form_id) select 'Volvo', 'B1', key_form_id from key_form"
        " where name = 'Round' on conflict do nothing"
    )
    keys = fleet.ask(KEY, "$filter=brand eq 'Volvo'&$select=boxName&$expand=keyForm($select=imageUrl)")
    assert list(keys[0]) == ["boxName", "keyForm"]
    assert list(keys[0]["keyForm"]) == ["imageUrl"]
    assert fleet.ask(KEY, "$filter=keyForm/name eq 'Round' and brand eq 'Volvo'&$orderby=keyForm/id")
    assert fleet.ask(BRAND, "$filter=startswith($it,'Vol')&$orderby=$this desc", Shape.SCALARS) == ["Volvo"]
    assert fleet.ask(BRAND, "$search=volv&$top=1", Shape.SCALARS) == ["Volvo"]


def test_count_is_known(fleet: Fleet) -> None:
    assert fleet.plan(CAR, "$count=true").sql.count
    assert not fleet.plan(CAR, "count=FALSE").sql.count
    plan = fleet.plan(CAR, "$filter=id gt 1&$top=2&$skip=4&$expand=products($filter=id gt 3)")
    assert (plan.top, plan.skip, len(plan.args)) == (2, 4, 3)


def test_text_is_literal_in_contains(fleet: Fleet) -> None:
    for text in ("0%25 o", "f_r"):
        assert fleet.ids(CAR, f"$filter=contains(description,'{text}')") == fleet.cars[2:]
    assert fleet.ids(CAR, "$filter=contains(description,'f%25r') or startswith(description,'5_')") == []


ONE = ["filter=true", "orderby=name", "top=1", "skip=1", "count=true", "search=a", "apply=identity"]


@pytest.mark.parametrize("text", ONE)
def test_one_object_takes_no_options_of_collections(text: str) -> None:
    assert "cannot be applied to one object" in refusal(f"${text}", shape=Shape.ONE)


@pytest.mark.parametrize("text", ["select=*", "expand=a", "compute=1 as a"])
def test_plain_values_take_no_options_of_objects(text: str) -> None:
    assert "cannot be applied to an array of plain values" in refusal(f"${text}", BRAND, Shape.SCALARS)


def test_one_object_can_be_selected_from(fleet: Fleet) -> None:
    assert fleet.plan(TELEMETRY, "$select=rpm,dtc&$format=application/json", Shape.ONE).sql.columns.count(" as ") == 2
    assert fleet.plan(CAR, "$select=id&$expand=products", Shape.ONE).sql.where == ""


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("$filter=foo eq 1", "Could not find a property named 'foo' on type 'Car'."),
        ("$select=foo", "Could not find a property named 'foo' on type 'Car'."),
        ("$orderby=foo", "Could not find a property named 'foo' on type 'Car'."),
        ("$expand=foo", "Could not find a property named 'foo' on type 'Car'."),
        ("$expand=name", "'name' cannot be expanded on type 'Car'."),
        ("$filter=name eq 1", "cannot compare Edm.String with Edm.Int32"),
        ("$filter=name", "must be Edm.Boolean"),
        ("$filter=not name eq 'a'", "Did you mean not (...)?"),
        ("$filter=true eq 1", "cannot compare Edm.Boolean"),
        ("$filter=id add 'a' eq 1", "takes numbers"),
        ("$filter=id div 0 eq 1", "divided by zero"),
        ("$filter=id mod 0.0 eq 1", "divided by zero"),
        ("$filter=length(id) eq 1", "'length' takes Edm.String"),
        ("$filter=contains('a')", "takes 2 arguments"),
        ("$filter=substring(name,1,-1) eq 'a'", "cannot be negative"),
        ("$filter=products/name eq 1", "products"),
        ("$filter=products/all(p:p/foo eq 1)", "Could not find a property named 'foo' on type 'Product'."),
        ("$filter=name/any(p:true)", "is not a collection"),
        ("$filter=year(name) eq 1", "'year' takes"),
        ("$filter=id in ('a')", "cannot compare"),
        ("$filter=name in name", "takes a list"),
        ("$filter=name eq @a&@a=@b&@b=@a", "contains itself"),
        ("$filter=" + "1" * 41 + " eq id", "digits"),
        ("$filter=id eq 1e999", "out of range"),
        ("$filter=2020-02-31 gt 2020-01-01", "does not exist"),
        ("$filter=true&filter=true", "more than once"),
        ("$FILTER=true&%24filter=true", "more than once"),
        ("@a=1&@a=2", "more than once"),
        ("$filter=", "has no value"),
        ("$top", "has no value"),
        ("$foo=1", "Query option '$foo' is not known"),
        ("$id=1", "is not known"),
        ("$top=x", "position 0"),
        ("$format=xml", "The only format is json"),
        ("$expand=products,products", "more than once"),
        ("$expand=products($filter=foo eq 1)", "Could not find a property named 'foo' on type 'Product'."),
        ("$expand=products($expand=car($expand=groups))", "limit of 2 levels"),
        ("$expand=products($expand=car($filter=true))", "only contain $select and $expand"),
        ("$expand=products($expand=car($count=true))", "only contain $select and $expand"),
        ("$expand=products($expand=car($count=false))", "only contain $select and $expand"),
        ("$expand=products($expand=car/$count)", "'car' is not a collection, so it has no /$count."),
        ("$expand=name/$count", "'name' cannot be expanded on type 'Car'."),
        ("$expand=foo/$count", "Could not find a property named 'foo' on type 'Car'."),
        ("$expand=products,products/$count", "'products' is expanded more than once."),
        ("$expand=products/$count($top=1)", "one of the options $filter, $search was expected"),
        ("$expand=products/$count($count=true)", "one of the options $filter, $search was expected"),
        ("$expand=products/$count()", "one of the options $filter, $search was expected"),
        ("$expand=products/$count/$count", "an operator or the end was expected"),
        ("$expand=products/$ref/$count", "an operator or the end was expected"),
        ("$expand=products/$count($filter=id)", "must be Edm.Boolean"),
        ("$expand=products($count=1)", "'true' or 'false' was expected"),
        ("$expand=products($count=true;count=true)", "$count is given more than once"),
        ("$select=products($count=true)", "has no parts to select"),
        ("$select=userData/x", "Could not find"),
        ("$filter=%FF eq 1", "UTF-8"),
        ("$filter=name eq '%C0%80'", "UTF-8"),
        ("$filter=name eq '%00'", "U+0000"),
        ("a=%00", "U+0000"),
        ("$filter=name eq '%zz'", "percent"),
    ],
)
def test_what_cannot_be_had_is_refused(text: str, part: str) -> None:
    assert part in refusal(text)


OF_CAR = [*CAR.fields, *CAR.relations]
OF_PRODUCT = [*PRODUCT.fields, *PRODUCT.relations]


@pytest.mark.parametrize(
    ("resource", "text", "parameter", "position", "suggestion", "valid"),
    [
        (CAR, "$filter=nmae eq 'a'", "$filter", 0, "name", OF_CAR),
        (CAR, "$filter= ( id gt 1 ) and nmae eq 'a'", "$filter", 17, "name", OF_CAR),
        (CAR, "$filter=$it/nmae eq 'a'", "$filter", 4, "name", OF_CAR),
        (CAR, "$filter=products/any(p:p/typ eq 'a')", "$filter", 17, "type", OF_PRODUCT),
        (CAR, "$filter=products/any(p:p/service/nmae eq 'a')", "$filter", 25, "name", None),
        (CAR, "$filter=productss/any()", "$filter", 0, "products", OF_CAR),
        (CAR, "$filter=productss/$count gt 1", "$filter", 0, "products", OF_CAR),
        (CAR, "$filter=contain(name,'a')", "$filter", 0, "contains", list(FUNCTIONS)),
        (USER, "$filter=userData/lastname eq 'a' or userData/firstNam eq 'a'", "$filter", 37, "firstName", None),
        (CAR, "$filter=name eq @p&@p=concat(nmae,'a')", "@p", 7, "name", OF_CAR),
        (CAR, "$orderby=id,nmae desc", "$orderby", 3, "name", OF_CAR),
        (CAR, "$select=id,nmae", "$select", 3, "name", OF_CAR),
        (USER, "$select=id,userData/lastNam", "$select", 12, "lastName", None),
        (USER, "$select=userData($select=firstName,lastNam)", "$select", 27, "lastName", None),
        (CAR, "$expand=groups,product", "$expand", 7, "products", OF_CAR),
        (CAR, "$expand=products($select=typ)", "$expand", 17, "type", OF_PRODUCT),
        (CAR, "$expand=products($filter=typ eq 'a')", "$expand", 17, "type", OF_PRODUCT),
        (CAR, "$expand=products($orderby=id,typ)", "$expand", 21, "type", OF_PRODUCT),
        (CAR, "$expand=products($expand=servise)", "$expand", 17, "service", OF_PRODUCT),
        (CAR, "$compute=nmae as x", "$compute", 0, "name", OF_CAR),
        (CAR, "$compute=id as number&$filter=numbr gt 1", "$filter", 0, "number", ["number", *OF_CAR]),
        (CAR, "$apply=groupby((id,brnad))", "$apply", 12, "brand", OF_CAR),
        (SERVICE, "$apply=groupby((contract/ordrNumber))", "$apply", 18, "orderNumber", None),
        (CAR, "$apply=filter(nmae eq 'a')", "$apply", 7, "name", OF_CAR),
        (
            CAR,
            "$apply=groupby((brand),aggregate($count as cars))&$orderby=car desc",
            "$orderby",
            0,
            "cars",
            ["brand", "cars"],
        ),
        (CAR, "$apply=groupby((brand))&$select=brnad", "$select", 0, "brand", ["brand"]),
        (CAR, "$apply=identity/groupy((brand))", "$apply", 9, "groupby", None),
    ],
)
def test_an_unknown_name_has_its_place_and_a_suggestion(
    resource: Resource, text: str, parameter: str, position: int, suggestion: str, valid: list[str] | None
) -> None:
    with pytest.raises(errors.BadRequest) as refused:
        query(resource, text.encode(), Shape.COLLECTION, alias="t", limits=Limits())
    (error,) = refused.value.errors
    assert (error.code, error.parameter, error.position) == ("unknown", parameter, position)
    assert error.detail.endswith(f"Did you mean '{suggestion}'?")
    assert error.detail[1:] in refused.value.text
    assert suggestion in error.valid if valid is None else list(error.valid) == valid


def test_a_name_beside_a_time_is_told_how_a_time_is_written() -> None:
    with pytest.raises(errors.BadRequest, match="Write a time as 2026-01-31T08:00:00Z") as refused:
        query(EVENT, b"$filter=utcDateTime gt yesterday", Shape.COLLECTION, alias="t", limits=Limits())
    (error,) = refused.value.errors
    assert (error.code, error.parameter, error.position) == ("unknown", "$filter", 15)


@pytest.mark.parametrize("text", ["utcDateTime gt 2026-05-01T10:00:00", "utcDateTime gt 'soon'"])
def test_a_time_of_another_form_has_an_error_with_its_option(text: str) -> None:
    with pytest.raises(errors.BadRequest) as refused:
        query(EVENT, f"$filter={text}".encode(), Shape.COLLECTION, alias="t", limits=Limits())
    (error,) = refused.value.errors
    assert (error.code, error.parameter) == ("wrong-form", "$filter")


BARE = "requires a collection before it. The collections are products, assignments, groups."


@pytest.mark.parametrize(
    ("resource", "text", "expected"),
    [
        (CAR, "any()", f"'any' {BARE}"),
        (CAR, "ALL()", f"'all' {BARE}"),
        (CAR, "not any() and name eq 'a'", f"'any' {BARE}"),
        (CAR, "products/any(p:any())", f"'any' {BARE}"),
        (EVENT, "any()", "'any' requires a collection before it, and type 'Event' has none."),
        (CAR, "any(p:p/id eq 1)", "Syntax error at position 0 of $filter: 'any' requires a collection before it."),
        (CAR, "true and all(p:true)", "Syntax error at position 9 of $filter: 'all' requires a collection before it."),
        (CAR, "$it/any(p:true)", "Syntax error at position 4 of $filter: 'any' requires a collection before it."),
        (CAR, "$it/any()", "'$it' is not a collection."),
        (CAR, "name/any()", "'name' is not a collection."),
        (CAR, "name/all(n:n eq 'a')", "'name' is not a collection."),
        (PRODUCT, "car/any(c:c/name eq 'a')", "'car' is not a collection."),
        (PRODUCT, "car/name/any()", "'car/name' is not a collection."),
        (CAR, "products/type/any(t:true)", "'products/type' is not a collection."),
        (CAR, "products/any(p:p/any())", "'p' is not a collection."),
        (CAR, "foo/any()", "Could not find a property named 'foo' on type 'Car'."),
        (USER, "userData/any()", "'userData' is not a collection."),
        (USER, "userData/firstName/any()", "'userData/firstName' is not a collection."),
        (USER, "userData/foo/any()", "Could not find a property named 'foo' on type 'UserData'."),
        (
            CAR,
            "products/service/any()",
            "'products/service' continues after a collection. Query its rows by products/any(x:x/service/...).",
        ),
        (
            GROUP,
            "cars/products/$count gt 1",
            "'cars/products' continues after a collection. Query its rows by cars/any(x:x/products/...).",
        ),
        (
            CAR,
            "products/all()",
            "Syntax error at position 0 of $filter: 'all' takes a variable and a condition, such as (x:x/name eq 'a').",
        ),
        (
            CAR,
            "products/any(type eq 'a')",
            "Syntax error at position 0 of $filter: 'any' takes a variable and a condition, such as (x:x/name eq 'a').",
        ),
    ],
)
def test_any_and_all_say_what_they_miss(resource: Resource, text: str, expected: str) -> None:
    assert refusal(f"$filter={text}", resource) == expected


def test_any_without_a_path_is_refused_wherever_it_stands() -> None:
    for text in ("$orderby=any()", "$expand=products($filter=any())", "$filter=@a&@a=any()"):
        assert "'any' requires a collection before it" in refusal(text)


def test_enumerations_know_their_members() -> None:
    assert "The members are CarOpened, CarClosed" in refusal("$filter=type eq 'Opened'", EVENT)
    assert "The members are" in refusal("$filter=type in ('CarOpened','x')", EVENT)
    assert "only be compared with an enumeration" in refusal("$filter=name eq A.B'x'")


@pytest.mark.parametrize("option", ["index=1", "$skiptoken=a", "deltatoken=a"])
def test_options_that_are_not_supported(option: str) -> None:
    name = option.removeprefix("$").split("=")[0]
    assert refusal(option) == f"Query option '${name}' is not supported."
    assert "Syntax error" in refusal(f"{option}&$filter=(")


@pytest.mark.parametrize(
    ("expand", "what"),
    [
        ("products($levels=2)", "$levels in parentheses"),
        ("products($levels=max;$count=true)", "$levels in parentheses"),
        ("products($compute=id add 1 as next)", "$compute in parentheses"),
        ("products($expand=car($compute=id add 1 as next))", "$compute in parentheses"),
        ("products/$ref", "/$ref in $expand"),
        ("products/$ref($count=true)", "/$ref in $expand"),
        ("*", "'*' in $expand"),
    ],
)
def test_what_expand_does_not_have_is_refused_by_name(expand: str, what: str) -> None:
    with pytest.raises(errors.NotImplemented) as found:
        query(CAR, f"$expand={expand}".encode(), Shape.COLLECTION, alias="t", limits=Limits())
    assert (found.value.status, found.value.text) == (501, f"{what} is not supported.")


@pytest.mark.parametrize(
    ("text", "limit", "value"),
    [
        ("$filter=((true))", "nesting", 1),
        ("$filter=true or true or true", "nodes", 3),
        ("$search=a b c", "nodes", 3),
        ("$filter=id in (1,2,3)", "items", 2),
        ("$orderby=id,name", "orderby", 1),
        ("$select=id,name", "select", 1),
        ("$top=6", "top", 5),
        ("$expand=products($top=6)", "top", 5),
        ("$filter=id eq 1234", "digits", 3),
    ],
)
def test_each_limit_has_its_own_refusal(text: str, limit: str, value: int) -> None:
    assert f"limit of {value}" in refusal(text, **{limit: value})


def test_a_long_list_counts_as_one_part(fleet: Fleet) -> None:
    listed = ",".join(map(str, range(1000)))
    fleet.plan(CAR, f"$filter=id in ({listed})")
    assert "1000" in refusal(f"$filter=id in ({listed},1000)")


def test_equal_shapes_are_equal_statements(fleet: Fleet) -> None:
    one = fleet.plan(CAR, "$filter=name eq 'a' and id in (1,2)&$top=1")
    two = fleet.plan(CAR, "$filter=name eq 'b' and id in (3)&$top=9")
    assert one.sql == two.sql
    assert one.args != two.args


def test_no_text_of_a_client_is_in_the_statement(fleet: Fleet) -> None:
    mark = "zq7"
    text = (
        f"$filter=name eq '{mark}' or id in (777001) or products/any({mark}:{mark}/uniqueId eq '{mark}')"
        f"&$search={mark}&$orderby=indexof(name,'{mark}')&$top=777&$expand=products($filter=id gt 777002)"
    )
    plan = fleet.plan(CAR, text)
    statement = fleet.statement(CAR, plan).sql
    assert mark not in statement and "777" not in statement
    fleet.ask(CAR, text)


HOSTILE = [
    "(" * 200 + "true" + ")" * 200,
    "(" * 7_000,
    "not " * 2_000 + "true",
    "tolower(" * 500 + "name" + ")" * 500,
    " or ".join(["id eq 1"] * 500),
    " add ".join(["1"] * 1_000) + " eq 1",
    "round(" * 49 + "id div 0.5" + ")" * 49 + " eq 1",
    "a/" * 3_000 + "b",
    "products/any(p:" * 60 + "true" + ")" * 60,
    "service/product/" * 400 + "id eq 1",
    "(1 or 1 and 1 eq 1 gt 1 add 1 mul " * 50 + "1" + ")" * 50,
    "id eq " + "9" * 5_000,
    "name in (" + ",".join(["'x'"] * 1_500) + ")",
]


HOSTILE_EXPANDS = [
    "products($count=true;$expand=car(" * 60 + "$count=true" + "))" * 60,
    ",".join(["products/$count"] * 400),
    "products/$count($filter=" + "(" * 3_000,
    "products/$count" * 500,
    "products(" + "$count=true;" * 600 + ")",
    "products/$count($filter=products/any(p:" * 100,
    "a/" * 3_000 + "$count",
]


@pytest.mark.parametrize("text", HOSTILE_EXPANDS, ids=lambda text: text[:24])
def test_hostile_expands_are_refused_in_time(text: str) -> None:
    raw = b"$expand=" + quote(text).encode()

    def refused() -> None:
        with pytest.raises(errors.BadRequest):
            query(CAR, raw, Shape.COLLECTION, alias="t", limits=Limits())

    assert steps(refused) < MOST


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: text[:16])
def test_hostile_filters_are_answered_in_time(text: str) -> None:
    raw = b"$filter=" + quote(text).encode()

    def answered() -> None:
        with contextlib.suppress(errors.BadRequest):
            query(CAR, raw, Shape.COLLECTION, alias="t", limits=Limits())

    assert steps(answered) < MOST


def test_every_relation_leads_to_a_resource() -> None:
    for resource in (CAR, USER, GROUP, PRODUCT, SERVICE, EVENT):
        for name in resource.relations:
            query(resource, f"$expand={name}".encode(), Shape.COLLECTION, alias="t", limits=Limits())
    assert set(OPTIONS) == {
        "filter", "orderby", "top", "skip", "count", "select", "expand", "search", "compute", "apply", "format",
    }  # fmt: skip
