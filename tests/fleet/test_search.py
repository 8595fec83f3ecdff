"""`$search` in the API and in the console: matches, their order, and tenant isolation."""

from __future__ import annotations

import pytest

from tests.support.people import Person, Town
from tests.support.servers import Sql


@pytest.fixture(scope="module")
def fleet(town: Town) -> Person:
    """A customer with realistic names of cars and users."""
    person = town.person("searcher")
    for name, plate, vin in (
        ("City 10", "K-PC 1469", "WVWZZZ1KZ6W145600"), ("City 2", "K-AI 2456", None), ("Größer", "M-ÜN 77", None),
        ("Zoo 1469", "B-X 1", None), ("Bauer City", "HH-KR 102 E", None),
    ):  # fmt: skip
        person.car(name, licensePlate=plate, vin=vin)
    person.user("j@example.org", userData={"firstName": "Jürgen", "lastName": "Größmann"})
    person.user("l@example.org", userData={"firstName": "Łukasz", "lastName": "Nguyễn"})
    person.group("Überführung 3")
    return person


def names(person: Person, path: str, search: str, order: str = "searchrank(),naturalorder(name)") -> list[str]:
    answer = person.get(path, params={"$search": search, "$orderby": order})
    assert answer.status_code in (200, 404), answer.text
    return [row["name"] for row in answer.json()] if answer.status_code == 200 else []


@pytest.mark.parametrize(
    ("search", "expected"),
    [
        ("KPC1469", ["City 10"]),
        ('"k-pc1469"', ["City 10"]),
        ("k pc 1469", ["City 10"]),
        ("K-PC 14", ["City 10"]),
        ("hhkr102e", ["Bauer City"]),
        ("groesser", ["Größer"]),
        ("GROSSER", ["Größer"]),
        ("mun77", ["Größer"]),
        ("1469", ["City 10", "Zoo 1469"]),  # a word of both starts with it, so natural order decides
        ("456", ["City 2"]),  # inside a plate, but not inside a VIN
        ("145600", ["City 10"]),
        ("wvw", ["City 10"]),
        ("wv", []),
        ("14", ["City 10", "Zoo 1469"]),  # matches neither the start nor the inside of a VIN
        ("city", ["City 2", "City 10", "Bauer City"]),
        ("city AND NOT bauer", ["City 2", "City 10"]),
        ("zoo OR groesser", ["Größer", "Zoo 1469"]),
        ("er", []),
        ("uer", ["Bauer City"]),
    ],
)
def test_a_car_is_found_by_typical_searches(fleet: Person, search: str, expected: list[str]) -> None:
    if search in ("1469", "14"):
        assert sorted(names(fleet, "/cars", search)) == expected
    else:
        assert names(fleet, "/cars", search) == expected
    assert sorted(names(fleet, "/positions", search, "carId")) == sorted(expected)


@pytest.mark.parametrize(
    "search", ["grossmann", "groessmann", "juergen", "jurgen", "JÜRGEN", "juergen grossmann", "Ju\u0308rgen"]
)
def test_a_user_is_found_by_typical_searches(fleet: Person, search: str) -> None:
    rows = fleet.get("/users", params={"$search": search}).json()
    assert [row["userData"]["lastName"] for row in rows] == ["Größmann"]


def test_groups_and_users_of_other_scripts_are_found(fleet: Person) -> None:
    assert names(fleet, "/groups", "ueberfuehrung") == names(fleet, "/groups", "uberfuhrung 3") == ["Überführung 3"]
    assert len(fleet.get("/users", params={"$search": "lukasz nguyen"}).json()) == 1


def test_results_are_ordered_by_id_without_orderby(fleet: Person) -> None:
    rows = fleet.get("/cars", params={"$search": "city"}).json()
    assert [row["name"] for row in rows] == ["City 10", "City 2", "Bauer City"]
    assert names(fleet, "/cars", "city", "name") == ["Bauer City", "City 10", "City 2"]
    rows = fleet.get("/cars", params={"$orderby": "naturalorder(name) desc"}).json()
    assert [row["name"] for row in rows] == ["Zoo 1469", "Größer", "City 10", "City 2", "Bauer City"]


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ({"$orderby": "searchrank()"}, "'searchrank()' can only be used in $orderby, together with $search."),
        (
            {"$filter": "searchrank() eq 0", "$search": "a"},
            "'searchrank()' can only be used in $orderby, together with $search.",
        ),
        ({"$filter": "searchmatches(name,'a')"}, "'name' is not one object."),
        ({"$filter": "searchmatches(groups,'a')"}, "'groups' is not one object."),
        ({"$filter": "searchmatches($it,1)"}, "The function 'searchmatches' takes the path of an object and a text."),
        ({"$filter": "searchmatches()"}, "The function 'searchmatches' takes 2 arguments."),
        ({"$filter": "searchmatches(-5)"}, "The function 'searchmatches' takes 2 arguments."),
        ({"$filter": "searchmatches('%')"}, "The function 'searchmatches' takes 2 arguments."),
        ({"$orderby": "naturalorder(id)"}, "The function 'naturalorder' takes Edm.String, not Edm.Int32."),
    ],
)
def test_search_functions_are_rejected_elsewhere(fleet: Person, query: dict[str, str], text: str) -> None:
    answer = fleet.get("/cars", params=query)
    assert answer.status_code == 400
    assert text in answer.text.replace("\\u0027", "'")


def test_related_objects_match_like_a_search(fleet: Person, bob: Person) -> None:
    car = fleet.car_with_box("Böxle")
    user = fleet.user(userData={"firstName": "Änne", "lastName": "Strauß"})
    fleet.assignment(car, user)

    def assigned(word: str, path: str = "car") -> list[int]:
        answer = fleet.get("/assignments", params={"$filter": f"searchmatches({path},'{word}')"})
        return [row["carId"] for row in answer.json()] if answer.status_code == 200 else []

    assert assigned("boexle") == assigned("strauss", "user") == [car]
    assert assigned("strauss") == assigned("boexle", "user") == []
    assert len(fleet.get("/cars", params={"$filter": "searchmatches($it,'boxle')"}).json()) == 1
    assert names(bob, "/cars", "boxle") == []


def test_a_row_without_a_search_text_is_found(fleet: Person, sql: Sql) -> None:
    car = fleet.car("Ältester Wagen", licensePlate="D-AB 12")
    sql.execute("alter table car disable trigger fill_search_text")
    sql.execute("update car set search_text = null, sort_key = null where car_id = $1", car)
    sql.execute("alter table car enable trigger fill_search_text")
    assert names(fleet, "/cars", "aeltester") == names(fleet, "/cars", "dab12") == ["Ältester Wagen"]
    assert names(fleet, "/cars", "NOT altester AND NOT city AND NOT zoo AND NOT grosser AND NOT boxle") == []


def test_a_list_is_sorted_by_rank_until_a_column_is_chosen(town: Town) -> None:
    person = town.person("sorter")
    for name in ("Alter 5 Golf", "Golf 10", "Golf 9", "Golf"):
        person.car(name)

    def places(query: str) -> list[str]:
        text = client.get(f"/{person.customer}/cars.csv{query}").text
        return [line.split(",")[0] for line in text.splitlines()[1:-1]]  # the last line has the count

    with person.browser() as client:
        assert places("?q=golf") == ["Golf", "Golf 9", "Golf 10", "Alter 5 Golf"]
        assert places("?q=golf&sort=name") == ["Alter 5 Golf", "Golf", "Golf 9", "Golf 10"]
        assert places("") == ["Alter 5 Golf", "Golf", "Golf 9", "Golf 10"]
        page = client.get(f"/{person.customer}/cars", params={"q": "golf"}).text
        assert 'aria-sort="' not in page.replace('aria-sort="none"', "")
        assert "q=golf&amp;sort=name" in page
