"""Pages with small limits of the API, and with more data than a page can show."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.console.test_lists import lines, names
from tests.support.people import Person, Town
from tests.support.servers import RunningServer

LOW = {"odata_top": 20, "odata_items": 20}
CARS = 45
WEEK = "from=2031-11-24&days=7"
FLEET = """
with driver as (
  insert into person (email_address, first_name, last_name, type) values ($2, 'Kim', 'Lee', 'Anonymous')
  returning user_id
), linked as (
  insert into customer_user (customer_id, user_id) select $1, user_id from driver returning user_id
), cars as (
  insert into car (customer_id, name) select $1, 'Car ' || lpad(n::text, 2, '0') from generate_series(1, $3) n
  returning car_id
), events as (
  insert into event (customer_id, event_id, local_at, local_text, utc_at, user_id, car_id, type, user_agent)
  select $1, row_number() over (), now(), '2026-01-01T00:00:00', now(), user_id, car_id, 'CarOpened', 'tests'
  from linked, cars
)
insert into assignment (customer_id, car_id, user_id, starts_at, ends_at, lifetime, renewable_after)
select $1, car_id, user_id, t, t + interval '1 hour', 604800, 302400
from linked, cars, generate_series(1, $4) n,
  lateral (select '2031-11-24Z'::timestamptz + make_interval(hours => 4 * n) t) x
"""


def person_with(town: Town, name: str, each: int) -> Person:
    """A person with the cars, and this number of assignments of each."""
    person = town.person(name)
    person.sql.execute(FLEET, person.customer, f"{name}{person.customer}@example.org", CARS, each)
    for table in ("car", "assignment"):
        person.sql.execute(f"analyze {table}")
    return person


@pytest.fixture(scope="module")
def low(sql: Any, dsn: str, server: RunningServer) -> Iterator[tuple[Person, httpx.Client]]:
    with RunningServer(server.settings.model_copy(update=LOW), dsn, worker=False) as running:
        person = person_with(Town(sql, running), "low", 1)
        with person.browser() as client:
            yield person, client
        person.client.close()


def test_the_api_keeps_to_them(low: tuple[Person, httpx.Client]) -> None:
    person, _ = low
    assert person.get("/cars", params={"$top": "21"}).status_code == 400
    wanted = ",".join(map(str, range(21)))
    assert person.get("/cars", params={"$filter": f"id in ({wanted})"}).status_code == 400


def test_a_board_is_asked_for_in_pages(low: tuple[Person, httpx.Client]) -> None:
    person, client = low
    shown = client.get(f"/{person.customer}/assignments/board?{WEEK}").text
    assert shown.count("data-car=") == CARS
    assert shown.count('class="bar ') >= CARS
    assert "bookings are shown" not in shown


def test_lists_their_files_and_their_pages_are_whole(low: tuple[Person, httpx.Client]) -> None:
    person, client = low
    address = f"/{person.customer}"
    assert names(client.get(f"{address}/cars")) == [f"Car {n:02}" for n in range(1, CARS + 1)]
    for name in ("cars", "events", "assignments/list"):
        file = lines(client.get(f"{address}/{name}.csv?columns=id"))
        assert file[-1] == f"Complete: {CARS} rows", name
    for page in ("", "/users", "/groups", "/boxes", "/operations", "/cars/new", "/assignments/new"):
        assert client.get(address + page).status_code == 200, page


def test_many_rows_are_worked_on(low: tuple[Person, httpx.Client]) -> None:
    person, client = low
    address = f"/{person.customer}/cars/bulk"
    group = person.group("All")
    asked = client.post(f"{address}/group", data={"all": "true"})
    assert (asked.status_code, f"Add {CARS} cars" in asked.text) == (200, True)
    done = client.post(f"{address}/group", data={"all": "true", "meant": "true", "group": str(group)})
    assert (done.status_code, f"All {CARS} are done." in done.text, "Car 45" in done.text) == (200, True, True)
    members = client.get(f"/{person.customer}/groups/{group}").text
    assert all(f"Car {n:02}" in members for n in (1, 20, 21, 45))
    other, ids = person.group("Other"), [str(row["id"]) for row in person.get("/cars").json()]
    chosen = client.get(f"/{person.customer}/groups/{other}/add/cars", params={"id": ids})
    assert (chosen.status_code, chosen.text.count(" checked")) == (200, CARS)


def test_more_bars_than_can_be_shown_are_told_with_a_way_out(town: Town) -> None:
    person = person_with(town, "bars", 40)
    with person.browser() as client:
        address = f"/{person.customer}/assignments/board?{WEEK}"
        many, one = client.get(address), client.get(f"{address}&q=02")
    assert "Only 1,500 times are shown, those that begin first" in many.text
    assert "Search for cars, or show fewer days." in many.text
    assert "bookings are shown" not in one.text
    assert many.text.count('id="bar-') == 1_500 and len(many.content) < 1_500_000
    person.client.close()
