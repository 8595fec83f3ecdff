"""The newest positions of all cars: rows, values, and the lists of an overview."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from keyrack.api.odata import Limits, query
from keyrack.telemetry.endpoints.positions import endpoints
from tests.support.people import Person, Town
from tests.telemetry.endpoints.test_ingest import Unit, ago, unit_of

PLACE = {"currentLatitude": 52.5, "currentLongitude": 13.4}


@pytest.fixture
def unit(alice: Person) -> Unit:
    return unit_of(alice)


def listed(person: Person, **options: str) -> list[dict[str, Any]]:
    answer = person.get("/positions", params={f"${name}": value for name, value in options.items()})
    assert answer.status_code == 200, answer.text
    return answer.json()


def of(person: Person, car: int) -> dict[str, Any]:
    (row,) = listed(person, filter=f"carId eq {car}")
    return row


def total(person: Person, condition: str) -> int:
    """The number of rows, as a tile of an overview requests it."""
    answer = person.get("/positions", params={"$filter": condition, "$count": "true", "$top": "0"})
    assert (answer.status_code, answer.json()) == (200, []), answer.text
    return int(answer.headers["x-total-count"])


def test_a_car_shows_the_newest_values_of_its_unit(alice: Person, unit: Unit) -> None:
    car = {
        "name": "Golf", "licensePlate": "B-KR 1", "vin": "WVW1", "brand": "VW", "model": "Golf", "description": "Pool",
    }  # fmt: skip
    steps = [{"op": "replace", "path": f"/{name}", "value": value} for name, value in car.items()]
    assert alice.patch(f"/cars/{unit.car}", steps).status_code == 204
    nothing = {
        "externalId": None, "latitude": None, "longitude": None, "utcDateTime": None, "lastSeen": None,
        "ignition": None, "isDriving": None, "inUse": False, "inUseUntil": None,
    }  # fmt: skip
    assert of(alice, unit.car) == {"carId": unit.car, **car, "hasUnit": True, **nothing}
    unit.tell(9, **PLACE, ignition=True)
    unit.tell(5, isDriving=True)
    assert of(alice, unit.car) == {
        "carId": unit.car, **car, "hasUnit": True, **nothing, "latitude": 52.5, "longitude": 13.4,
        "utcDateTime": ago(9), "lastSeen": ago(5), "ignition": True, "isDriving": True,
    }  # fmt: skip


def test_a_car_without_a_unit_is_listed_without_a_position(alice: Person) -> None:
    car = alice.car("Bare")
    row = of(alice, car)
    assert (row["hasUnit"], row["latitude"], row["lastSeen"], row["inUse"]) == (False, None, None, False)


def test_values_of_another_unit_are_not_shown(alice: Person, unit: Unit) -> None:
    unit.tell(5, **PLACE)
    (product,) = [row["id"] for row in alice.get(f"/cars/{unit.car}/products").json()]
    assert alice.delete("/installations", {"carId": unit.car, "productId": product}).status_code == 204
    row = of(alice, unit.car)
    assert (row["hasUnit"], row["latitude"], row["lastSeen"]) == (False, None, None)
    alice.box_in(unit.car, "IQ")
    row = of(alice, unit.car)
    assert (row["hasUnit"], row["latitude"], row["lastSeen"]) == (True, None, None)


def test_a_box_in_the_car_adds_no_row(alice: Person, unit: Unit) -> None:
    alice.box_in(unit.car)
    unit.tell(5, **PLACE)
    assert of(alice, unit.car)["latitude"] == 52.5


def moment(**of: float) -> str:
    return (datetime.now(UTC) + timedelta(**of)).isoformat(timespec="seconds").replace("+00:00", "Z")


def test_in_use_lasts_until_the_last_assignment_in_force_ends(alice: Person) -> None:
    car, user = alice.car_with_box(), alice.user()
    alice.assignment(car, user, moment(days=-9), end=moment(days=-8))
    alice.assignment(car, user, moment(days=8), end=moment(days=9))
    assert (of(alice, car)["inUse"], of(alice, car)["inUseUntil"]) == (False, None)
    soon, later = moment(hours=1), moment(hours=3)
    alice.assignment(car, user, moment(days=-2), end=later)
    alice.assignment(car, user, moment(days=-1), end=soon)
    assert (of(alice, car)["inUse"], of(alice, car)["inUseUntil"]) == (True, later)
    alice.assignment(car, user, moment(days=-1))
    assert (of(alice, car)["inUse"], of(alice, car)["inUseUntil"]) == (True, None)
    assert car in {row["carId"] for row in listed(alice, filter="inUse eq true")}


def test_in_use_can_be_filtered_sorted_and_counted(town: Town) -> None:
    with_key, person = [], town.person("use")
    user = person.user()
    for used in (True, False, True):
        car = person.car_with_box()
        if used:
            person.assignment(car, user, moment(days=-1))
            with_key.append(car)
    conditions = ("inUse eq true", "inUse", "true eq inUse", "inUse ne false", "not (inUse eq false)")
    for condition in conditions:
        assert [row["carId"] for row in listed(person, filter=condition)] == with_key, condition
        assert (total(person, condition), total(person, f"not ({condition})")) == (2, 1), condition
    assert [row["inUse"] for row in listed(person, orderby="inUse desc,carId")] == [True, True, False]
    figures = listed(person, apply="groupby((inUse),aggregate($count as n))", orderby="n")
    assert figures == [{"inUse": False, "n": 1}, {"inUse": True, "n": 2}]
    assert total(person, "ignition eq true") == total(person, "ignition eq false") == 0
    assert total(person, "not (ignition eq true)") == total(person, "not (ignition eq false)") == 3
    person.client.close()


FLEET = """
with cars as (
  insert into car (customer_id, name, brand)
  select $1, 'Car ' || n, case when n % 50 = 0 then 'Rare' end from generate_series(1, 900) n returning *
), units as (
  insert into product (customer_id, unique_id, serial_number, sap_number, kind, car_id)
  select $1, 'N' || $1 || '-' || car_id, 'N' || $1 || '-' || car_id, 'P', 'IQ', car_id from cars where car_id % 9 > 0
  returning *
)
insert into car_state (customer_id, car_id, product_id, read_at)
select $1, car_id, product_id, date_trunc('minute', now()) - car_id * 7919 % 100 * interval '1 minute'
from units where car_id % 9 > 1
"""
# The units of these cars were removed just after they had reported
OTHERS = "update car_state set product_id = null, read_at = now() where customer_id = $1 and car_id % 9 < 8"


def test_pages_by_last_seen_equal_the_sorted_list(town: Town) -> None:
    """Many rows have the same minute. The index finds the first pages, or not."""
    person = town.person("newest")
    person.sql.execute(FLEET, person.customer)
    for table in ("car", "product", "car_state"):
        person.sql.execute(f"analyze {table}")

    def pages(condition: str, last: int, skips: tuple[int, ...]) -> None:
        narrowed = {"filter": condition} if condition else {}
        rows = listed(person, select="carId,lastSeen", **narrowed)
        rows.sort(key=lambda row: row["carId"], reverse=last < 0)
        rows.sort(key=lambda row: row["lastSeen"] or "", reverse=True)
        order = "lastSeen desc,carId desc" if last < 0 else "lastSeen desc"
        for skip in skips:
            found = listed(person, select="carId,lastSeen", orderby=order, top="40", skip=str(skip), **narrowed)
            assert found == rows[skip : skip + 40], (condition, last, skip)

    for last in (1, -1):
        pages("", last, (0, 40, 660, 880, 900))
        pages("brand eq 'Rare'", last, (0, 10))
    person.sql.execute(OTHERS, person.customer)
    pages("", 1, (0, 40, 660))
    upwards = listed(person, select="lastSeen", orderby="lastSeen", top="900")
    assert upwards == sorted(upwards, key=lambda row: row["lastSeen"] or "")
    person.client.close()


def test_moved_and_unseen_cars_are_found_by_a_filter(carol: Person) -> None:
    """Carol's fleet has no other writers, so its figures are exact."""
    standing, moving, silent = (unit_of(carol) for _ in range(3))
    bare = carol.car()
    before = total(carol, "hasUnit eq true")
    standing.tell(60, **PLACE)
    moving.tell(60, **PLACE)
    moving.tell(1, currentLatitude=52.6, currentLongitude=13.5)
    mine = {standing.car, moving.car, silent.car, bare}
    moved = listed(carol, filter=f"utcDateTime gt {ago(30)}", select="carId,latitude")
    assert [row for row in moved if row["carId"] in mine] == [{"carId": moving.car, "latitude": 52.6}]
    unseen = f"hasUnit eq true and (lastSeen eq null or lastSeen lt {ago(30)})"
    assert {row["carId"] for row in listed(carol, filter=unseen)} & mine == {standing.car, silent.car}
    assert total(carol, "hasUnit eq true") == before
    assert total(carol, unseen) == len(listed(carol, filter=unseen))


def test_positions_are_filtered_by_group_and_sorted_by_name(alice: Person, unit: Unit) -> None:
    group = alice.group()
    assert alice.put(f"/groups/{group}/cars", {"carId": unit.car}).status_code == 204
    (row,) = listed(alice, filter=f"groups/any(g:g/id eq {group})", select="carId", expand="groups($select=id)")
    assert row == {"carId": unit.car, "groups": [{"id": group}]}
    names = [row["name"] for row in listed(alice, orderby="name desc", search="Car")]
    assert names == sorted(names, reverse=True)


def test_a_movement_changes_the_etag_of_positions(alice: Person, unit: Unit) -> None:
    path = f"/positions?$filter=carId eq {unit.car}"
    tag = alice.get(path).headers["etag"]
    assert alice.get(path, headers={"If-None-Match": tag}).status_code == 304
    unit.tell(5, **PLACE)
    answer = alice.get(path, headers={"If-None-Match": tag})
    assert (answer.status_code, answer.headers["etag"] != tag) == (200, True)


def test_positions_of_another_customer_are_not_listed(alice: Person, bob: Person, unit: Unit) -> None:
    unit.tell(5, **PLACE)
    assert unit.car in {row["carId"] for row in listed(alice)}
    assert unit.car not in {row["carId"] for row in listed(bob)}
    assert listed(bob, filter=f"carId eq {unit.car}") == []


def test_positions_are_not_shown_unless_the_customer_stores_them(alice: Person, unit: Unit) -> None:
    alice.sql.execute("update customer set keeps_positions = false where customer_id = $1", alice.customer)
    try:
        unit.tell(5, **PLACE)
        row = of(alice, unit.car)
        assert (row["latitude"], row["utcDateTime"], row["lastSeen"]) == (None, None, ago(5))
    finally:
        alice.sql.execute("update customer set keeps_positions = true where customer_id = $1", alice.customer)


def test_an_assignment_in_force_is_found_by_its_end(alice: Person) -> None:
    """The index skips all assignments that have ended."""
    (row,) = [row for row in endpoints.rows if row.path == "/positions"]
    assert row.read is not None
    select = row.read.select
    asked = query(select.resource, b"", select.shape, alias="t", limits=Limits())
    statement, car = select.statement(asked.sql), alice.car()
    alice.execute_unrecorded(
        "insert into assignment (customer_id, car_id, user_id, starts_at, ends_at, lifetime, renewable_after)"
        " select $1, $2, $3, '2020-01-01Z', '2021-01-01Z', 604800, 302400 from generate_series(1, 3000)",
        car, alice.user(),
    )  # fmt: skip
    alice.sql.execute("analyze assignment")
    alice.sql.execute("set enable_seqscan = off")
    try:
        values = statement.arguments(customer=alice.customer, rows=10, size=1_000)
        plan = alice.sql.rows(f"explain {statement.sql}", *values)
    finally:
        alice.sql.execute("reset enable_seqscan")
        alice.execute_unrecorded("delete from assignment where customer_id = $1 and car_id = $2", car)
    text = "\n".join(line[0] for line in plan)
    assert "assignment_of_car_end" in text, text
