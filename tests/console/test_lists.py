"""Lists: their address, its OData, files, and bulk actions."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from html import unescape
from typing import Any

import httpx
import pytest
from playwright.sync_api import Page, expect

from keyrack.core.text import FORMULA
from tests.console.axe import faults
from tests.console.conftest import Desk
from tests.support.people import Person, Town, nobody_works
from tests.support.servers import RunningServer, eventually
from tests.telemetry.endpoints.test_ingest import passed, unit_of

pytestmark = pytest.mark.cluster

# Address -> the label of the search
LISTS = {
    "cars": "Search cars",
    "users": "Search people",
    "groups": "Search groups",
    "boxes": "Search key boxes",
    "services": "Search services",
    "events": "Search openings",
    "operations": "Search requests",
    "assignments/list": "Search bookings",
    "deliveries": "Search deliveries",
    "changes": "Search the history",
}
HOOK = "http://127.0.0.1:9/hook"
PARTIAL = {"HX-Request": "true", "HX-Request-Type": "partial"}


@pytest.fixture(scope="module")
def fleet(town: Town) -> Iterator[Person]:
    """A fleet with objects of each kind."""
    person = town.person("fleet")
    golf = person.car("Golf <b>", licensePlate="B-KR 1", vin="WVW1", brand="VW", model="Golf")
    person.box_in(golf)
    person.car("Polo", brand="VW", description="=1+1")
    person.car("Leon", brand="Seat")
    user = person.user("kim@example.org", userData={"firstName": "Kim", "lastName": "Doe"})
    person.assignment(golf, user, "2026-01-01T08:00:00Z")
    person.event(golf, user)
    hook = person.put("/webhooks", {"url": HOOK}).json()["id"]
    assert person.post(f"/webhooks/{hook}/test").status_code == 201
    group = person.group("Pool")
    assert person.put(f"/groups/{group}/cars", {"carId": golf}).status_code == 204
    eventually(lambda: person.get("/changes?$filter=kind eq 'group.carAdded'").json(), "the number of the last change")
    yield person
    person.client.close()


def names(answer: httpx.Response) -> list[str]:
    """The names of the table's rows."""
    assert answer.status_code == 200, answer.text
    found = re.findall(r'<th class="p1[^"]*" scope="row">(.*?)</th>', answer.text, re.DOTALL)
    return [unescape(re.sub(r"<[^>]+>", "", name)).strip() for name in found]


def lines(answer: httpx.Response) -> list[str]:
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    return answer.content.decode("utf-8-sig").split("\r\n")[:-1]


@pytest.mark.parametrize("name", LISTS)
def test_each_list_has_its_page_and_its_file(fleet: Person, visitor: httpx.Client, name: str) -> None:
    page = visitor.get(f"/{fleet.customer}/{name}")
    assert page.status_code == 200
    assert f'aria-label="{LISTS[name]}"' in page.text
    assert page.text.count("<h1>") == 1
    file = lines(visitor.get(f"/{fleet.customer}/{name}.csv"))
    assert file[-1].startswith("Complete: ") and len(file) == len(names(page)) + 2


@pytest.mark.parametrize("name", LISTS)
def test_every_column_and_every_filter_is_understood(fleet: Person, visitor: httpx.Client, name: str) -> None:
    address = f"/{fleet.customer}/{name}"
    page = visitor.get(address).text
    keys = re.findall(r'name="column" value="([^"]+)"', page)
    assert visitor.get(f"{address}?columns={','.join(keys)}").status_code == 200
    for sort in re.findall(r'id="sort-([^"]+)"', visitor.get(f"{address}?columns={','.join(keys)}").text):
        assert visitor.get(f"{address}?sort={sort}").status_code == 200
        assert visitor.get(f"{address}?sort=-{sort}").status_code == 200
    for select, options in re.findall(
        r'<select class="input" id="filter-\w+" name="(\w+)">(.*?)</select>', page, re.DOTALL
    ):
        for value in re.findall(r'value="([^"]+)"', options):
            assert visitor.get(address, params={select: value}).status_code == 200, (select, value)
    assert visitor.get(f"{address}?q=kim+%22golf+b%22").status_code == 200


def test_cars_are_found_by_when_they_were_seen_and_never_seen_ones_are_last(town: Town) -> None:
    person = town.person("seen")
    hours = {"Hour": 0.5, "Day": 2, "Three days": 30, "Week": 100, "Month": 200, "Older": 800}
    units = {name: unit_of(person) for name in (*hours, "Silent")}
    for name, unit in units.items():
        person.patch(f"/cars/{unit.car}", [{"op": "replace", "path": "/name", "value": name}])
    for name, ago in hours.items():
        units[name].tell(60 * ago - passed(), currentLatitude=53.5, currentLongitude=10.0)
    person.car("No unit")
    with person.browser() as client:
        here = f"/{person.customer}/cars"
        oldest_first = ["Older", "Month", "Week", "Three days", "Day", "Hour"]
        never = ["Silent", "No unit"]
        assert names(client.get(f"{here}?sort=seen"))[:6] == oldest_first
        assert set(names(client.get(f"{here}?sort=seen"))[6:]) == {*never}
        assert names(client.get(f"{here}?sort=-seen"))[:6] == oldest_first[::-1]
        assert set(names(client.get(f"{here}?sort=-seen"))[6:]) == {*never}
        for value, cars in (
            ("hour", oldest_first[5:]), ("day", oldest_first[4:]), ("not-hour", [*oldest_first[:5], "Silent"]),
            ("not-day", [*oldest_first[:4], "Silent"]), ("not-3-days", [*oldest_first[:3], "Silent"]),
            ("long", [*oldest_first[:2], "Silent"]), ("not-30-days", [*oldest_first[:1], "Silent"]), ("never", never),
        ):  # fmt: skip
            assert set(names(client.get(f"{here}?seen={value}"))) == {*cars}, value
    person.client.close()


def test_deliveries_of_all_webhooks_are_a_list(town: Town) -> None:
    person = town.person("deliveries")
    hooks = [person.put("/webhooks", {"url": f"{HOOK}/{name}"}).json()["id"] for name in ("booking", "billing")]
    tests = [person.post(f"/webhooks/{hook}/test").json()["id"] for hook in hooks]
    with person.browser() as client:
        address = f"/{person.customer}/deliveries"
        page = client.get(address).text
        for hook, test in zip(hooks, tests, strict=True):
            assert f'href="/console/{person.customer}/webhooks/{hook}/deliveries/{test}"' in page
            assert f'<a href="/console/{person.customer}/webhooks/{hook}">' in page
        assert lines(client.get(f"{address}.csv?columns=webhook,type&sort=webhook")) == [
            "Webhook,Type", f"{HOOK}/billing,webhook.test", f"{HOOK}/booking,webhook.test", "Complete: 2 rows",
        ]  # fmt: skip
        for narrowed in (f"webhook={hooks[1]}", "q=billing"):
            shown = client.get(f"{address}?{narrowed}").text
            assert re.findall(r'name="id" value="(\d+)"', shown) == [str(tests[1])]
        assert f'href="/console{address}"' in client.get(f"/{person.customer}/webhooks").text
        assert (
            f'href="/console{address}?webhook={hooks[1]}"' in client.get(f"/{person.customer}/webhooks/{hooks[1]}").text
        )
        disabled = [{"op": "replace", "path": "/enabled", "value": False}]
        assert person.patch(f"/webhooks/{hooks[0]}", disabled).status_code == 204
        asked = {"ids": ",".join(map(str, [*tests, 2**40])), "meant": "true"}
        done = unescape(client.post(f"{address}/bulk/replay", data=asked).text)
        assert "1 of 3 are done, 2 were rejected." in done
        assert "The webhook is disabled. Enable it first." in done and "This delivery is no longer stored." in done
    person.client.close()


def test_a_car_says_who_has_it_until_when_and_whether_its_box_has_a_service(carol: Person) -> None:
    car = carol.car_with_box("Golf")
    carol.car_with_box("Polo")
    for name, end in (("Kim", None), ("Sue", "2999-01-01T08:00:00Z")):
        user = carol.user(userData={"firstName": name, "lastName": "Lee"})
        carol.assignment(car, user, "2026-01-01T08:00:00Z", **({"end": end} if end else {}))
    (box,) = carol.get(f"/cars/{car}/products").json()
    carol.sql.execute("update service set is_terminated = true where product_id = $1", box["id"])
    with carol.browser() as browser:
        address = f"/{carol.customer}/cars"
        assert lines(browser.get(f"{address}.csv?columns=name,box,now"))[1:-1] == [
            'Golf,Service ended,"Kim Lee without end, Sue Lee until 2999-01-01 08:00:00"', "Polo,Built in,",
        ]  # fmt: skip
        ended = browser.get(f"{address}?box=ended")
        assert names(ended) == ["Golf"]
        assert re.findall(r"<br>|without end|until", ended.text) == ["without end", "<br>", "until"]


def test_a_search_looks_into_what_matters(fleet: Person, visitor: httpx.Client) -> None:
    def found(list: str, q: str) -> list[str]:
        return names(visitor.get(f"/{fleet.customer}/{list}", params={"q": q}))

    assert found("cars", "wvw1") == found("cars", "b-kr golf") == ["Golf <b>"]
    assert found("cars", '"golf vw"') == []
    assert found("users", "doe") == ["Doe, Kim"]
    assert found("assignments/list", "kim b-kr") == ["Golf <b>"]
    assert len(found("operations", "kim")) == len(found("events", "DOE golf")) == 1
    assert found("events", "nobody") == []


def test_filters_add_up_and_stand_there_as_odata(fleet: Person, visitor: httpx.Client) -> None:
    address = f"/{fleet.customer}/cars"
    assert names(visitor.get(address)) == ["Golf <b>", "Leon", "Polo"]
    both = visitor.get(f"{address}?brand=VW&use=now")
    assert names(both) == ["Golf <b>"]
    assert "Brand: VW" in both.text and "Use: Booked now" in both.text
    nothing = visitor.get(f"{address}?brand=Nobody&columns=name&rows=compact").text
    assert f'href="/console{address}">Clear filters</a>' in both.text
    assert nothing.count(f'href="/console{address}?columns=name&amp;rows=compact">Clear filters</a>') == 2
    (told,) = re.findall(r'<code id="odata-text">(.*?)</code>', both.text)
    assert unescape(told) == "/positions?$filter=inUse eq true and brand eq 'VW'"
    path, _, query = unescape(told).partition("?$filter=")
    assert [row["name"] for row in fleet.get(path, params={"$filter": query}).json()] == ["Golf <b>"]
    assert names(visitor.get(f"{address}?box=without&sort=-name")) == ["Polo", "Leon"]
    group = fleet.get("/groups").json()[0]["id"]
    assert names(visitor.get(f"{address}?group={group}")) == ["Golf <b>"]


def test_somebodys_own_filter_stands_beside_the_others(fleet: Person, visitor: httpx.Client) -> None:
    address = f"/{fleet.customer}/cars"
    own = {"filter": "name eq 'Leon' or startswith(name,'G')"}
    assert names(visitor.get(address, params=own)) == ["Golf <b>", "Leon"]
    assert names(visitor.get(address, params={**own, "brand": "VW"})) == ["Golf <b>"]
    # A condition that closes its parentheses is invalid on its own
    broken = visitor.get(address, params={"filter": "name eq 'x') or (true", "brand": "VW"})
    assert broken.status_code == 400
    assert "Syntax error at position 11: an operator or the end was expected." in unescape(broken.text)
    assert "<mark>) or (true</mark>" in unescape(broken.text)
    misspelt = visitor.get(address, params={"filter": "nmae eq 'a'"})
    assert misspelt.status_code == 400
    assert "The filter names nmae, which does not exist here. Did you mean 'name'?" in unescape(misspelt.text)
    assert "<mark>nmae eq 'a'</mark>" in unescape(misspelt.text)
    missing = visitor.get(address, params={"filter": "name eq'a'"})
    assert "an operator or the end was expected. A blank is missing after 'eq'." in unescape(missing.text)
    assert visitor.get(address, params={"filter": " not(name eq 'Leon') "}).status_code == 200
    assert visitor.get(address, params={"filter": "nothing eq 1"}).status_code == 400
    assert visitor.get(address, params={"filter": "name"}).status_code == 400


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("foo=1", "This list has no parameter foo."),
        ("q=a&q=b", "The address has q more than once."),
        ("sort=groups", "The list cannot be sorted by groups."),
        ("sort=nothing", "The list cannot be sorted by nothing."),
        ("columns=name,nothing", "The list has no column nothing."),
        ("rows=huge", "huge is not a valid value of rows."),
        ("page=0", "0 is not a valid value of page."),
        ("page=-1", "-1 is not a valid value of page."),
        ("use=never", "never is not a valid value of Use."),
        ("group=x", "x is not a valid value of Group."),
        ("q=" + "x" * 201, "The search is too long: at most 200 characters and 10 words."),
        ("q=" + "x+" * 11, "The search is too long: at most 200 characters and 10 words."),
        ("filter=" + "x" * 2001, "The filter is too long: at most 2000 characters."),
    ],
)
def test_what_an_address_says_wrongly_is_refused_in_words(
    fleet: Person, visitor: httpx.Client, query: str, said: str
) -> None:
    answer = visitor.get(f"/{fleet.customer}/cars?{query}")
    assert answer.status_code == 400
    assert said in unescape(answer.text)
    assert visitor.get(f"/{fleet.customer}/cars.csv?{query}").status_code == 400


def test_a_form_ends_at_a_short_address(fleet: Person, visitor: httpx.Client) -> None:
    address = f"/{fleet.customer}/cars"
    answer = visitor.get(f"{address}?q=&brand=&column=seen&column=name&sort=name")
    assert (answer.status_code, answer.headers["location"]) == (303, f"/console{address}?columns=name,seen")
    part = visitor.get(f"{address}?q=golf&brand=", headers=PARTIAL)
    assert part.headers["hx-replace-url"] == f"/console{address}?q=golf"
    assert part.text.lstrip().startswith('<div class="list" id="list"') and "<h1>" not in part.text
    again = visitor.get(f"{address}?q=golf", headers=PARTIAL | {"HX-History-Restore-Request": "true"})
    assert "<h1>Cars</h1>" in again.text


def test_a_list_has_pages_and_ends_with_its_last(town: Town) -> None:
    person = town.person("pages")
    person.execute_unrecorded(
        "insert into car (customer_id, name) select $1, 'Car ' || lpad(n::text, 3, '0') from generate_series(1, 120) n",
    )
    with person.browser() as visitor:
        address = f"/{person.customer}/cars"
        first = visitor.get(address)
        assert "1 to 50 of 120" in first.text and f'href="/console{address}?page=2"' in first.text
        last = visitor.get(f"{address}?page=3&sort=-name")
        assert names(last)[-1] == "Car 001" and "101 to 120 of 120" in last.text
        assert "All 120 that match" in last.text
        beyond = visitor.get(f"{address}?page=9")
        assert (beyond.status_code, beyond.headers["location"]) == (303, f"/console{address}?page=3")
    person.client.close()


def test_three_empty_lists_are_told_apart(carol: Person, fleet: Person, visitor: httpx.Client) -> None:
    with carol.browser() as client:
        for name in [name for name in LISTS if name != "changes"]:  # that there is a customer is one
            page = client.get(f"/{carol.customer}/{name}").text
            assert re.search(r"<h2>(No|Nothing) [^<]+ yet</h2>", page), name
        assert "Nothing matches" in client.get(f"/{carol.customer}/cars?q=x").text
    assert "Nothing matches" in visitor.get(f"/{fleet.customer}/cars?brand=Nobody").text


def test_a_neighbour_sees_nothing_of_it(bob: Person, fleet: Person, visitor: httpx.Client) -> None:
    car = fleet.get("/cars", params={"$filter": "name eq 'Polo'"}).json()[0]["id"]
    with bob.browser() as client:
        for name in LISTS:
            foreign = client.get(f"/{fleet.customer}/{name}")
            nobodys = client.get(f"/99999999/{name}")
            assert foreign.status_code == nobodys.status_code == 404
            assert client.get(f"/{fleet.customer}/{name}.csv").status_code == 404
        assert names(client.get(f"/{bob.customer}/cars?filter=name eq 'Polo'")) == []
        done = client.post(f"/{bob.customer}/cars/bulk/delete", data={"ids": car, "meant": "true"})
        assert "Unable to find a car" in done.text and "Polo" not in done.text
    assert fleet.get(f"/cars/{car}").status_code == 200


def test_a_file_has_what_is_shown_in_the_persons_zone(fleet: Person) -> None:
    with fleet.browser() as client:
        known = {"username": fleet.username, "password": fleet.password, "time_zone": "Europe/Berlin"}
        assert client.post("/sign-in", data=known).status_code == 303
        file = client.get(f"/{fleet.customer}/assignments/list.csv?columns=car,user,start")
    assert file.headers["content-disposition"] == 'attachment; filename="assignments.csv"'
    assert lines(file) == [
        "Car,Person,Start (Europe/Berlin)", "Golf <b>,Kim Doe,2026-01-01 09:00:00", "Complete: 1 rows",
    ]  # fmt: skip


def test_no_spreadsheet_runs_what_a_file_says(town: Town) -> None:
    person = town.person("formula")
    texts = [f"{sign}1+1|cmd" for sign in FORMULA if sign not in "\t\r\n"] + ["  =1+1", 'a"b,c', "plain"]
    elsewhere = {"a;=1+1": "a;'=1+1", "a,  @b": "a,  '@b", "a - b, 2-3": "a - b, 2-3"}  # cut at another separator
    for text in [*texts, *elsewhere]:
        person.car("Car", description=text)
    with person.browser() as client:
        file = client.get(f"/{person.customer}/cars.csv?columns=description,id&sort=id").content.decode("utf-8-sig")
    rows = [row[0] for row in csv.reader(io.StringIO(file))][1:-1]
    guarded = [text if text in ('a"b,c', "plain") else "'" + text for text in texts]
    assert rows == [*guarded, *elsewhere.values()]
    person.client.close()


def test_a_long_file_is_sent_in_pieces_and_says_that_it_is_whole(town: Town) -> None:
    person = town.person("long")
    person.execute_unrecorded(
        "insert into car (customer_id, name, brand) select $1, 'Car ' || n, 'Škoda' from generate_series(1, 20000) n",
    )
    with person.browser() as client, client.stream("GET", f"/{person.customer}/cars.csv") as answer:
        assert answer.headers["transfer-encoding"] == "chunked"
        pieces = [piece for piece in answer.iter_bytes() if piece]
    file = b"".join(pieces).decode("utf-8-sig").split("\r\n")
    assert len(pieces) > 5
    assert (len(file), file[-2]) == (20_003, "Complete: 20000 rows")
    assert len(set(file[1:-2])) == 20_000 and all("Škoda" in line for line in file[1:-2])
    person.client.close()


def test_a_file_of_a_list_in_pages_has_all_of_them(town: Town) -> None:
    person = town.person("events")
    car, user = person.car(), person.user()
    person.sql.execute(
        "insert into event (customer_id, event_id, local_at, local_text, utc_at, user_id, car_id, type, user_agent)"
        " select $1, n, t, '2026-01-01T00:00:00', t, $2, $3, 'CarOpened', 'tests' from generate_series(1, 10500) n,"
        " lateral (select '2026-01-01Z'::timestamptz + make_interval(secs => n) t) x",
        person.customer, user, car,
    )  # fmt: skip
    with person.browser() as client:
        file = lines(client.get(f"/{person.customer}/events.csv?columns=id"))
    assert file == ["Number", *(str(n) for n in range(10_500, 0, -1)), "Complete: 10500 rows"]
    person.client.close()


def test_a_file_is_cut_off_in_words_and_a_page_is_whole(sql: Any, dsn: str, server: RunningServer) -> None:
    """The database reads a list row by row, and pages collect all rows that files stream."""
    bounded = server.settings.model_copy(
        update={"console_export_max_rows": 2, "console_bulk_max_rows": 2, "list_chunk_rows": 1}
    )
    with RunningServer(bounded, dsn, worker=False) as running:
        person = Town(sql, running).person("cut")
        for number in range(3):
            person.car(f"Car {number}")
        with person.browser() as client:
            address = f"/{person.customer}/cars"
            file = lines(client.get(f"{address}.csv?columns=name"))
            too_many = client.post(f"{address}/bulk/delete", data={"all": "true"})
            page, board = client.get(address), client.get(f"/{person.customer}/assignments/board")
        person.client.close()
    assert file == ["Name", "Car 0", "Car 1", "Incomplete: only the first 2 rows. Narrow the list to get the others."]
    assert too_many.status_code == 400
    assert "3 rows are too many. At most 2 are possible at once." in too_many.text
    assert all(f"Car {number}" in answer.text for answer in (page, board) for number in range(3))


def test_work_with_many_rows_is_asked_for_done_and_told_row_by_row(town: Town) -> None:
    person = town.person("bulk")
    cars = [person.car(f"Car {number}") for number in range(3)]
    group = person.group("Pool")
    assert person.put(f"/groups/{group}/cars", {"carId": cars[0]}).status_code == 204
    with person.browser() as client:
        address = f"/{person.customer}/cars/bulk"
        asked = client.post(f"{address}/group", data={"id": cars[:2]})
        assert "Add 2 cars to a group" in asked.text
        assert "<li>Car 0</li>" in asked.text and "<li>Car 1</li>" in asked.text
        assert "Choose an entry first." in client.post(f"{address}/group", data={"ids": cars[0], "meant": "true"}).text
        assert len(person.get(f"/groups/{group}/cars").json()) == 1
        ids = f"{cars[0]},{cars[1]}"
        done = client.post(f"{address}/group", data={"ids": ids, "meant": "true", "group": group})
        assert (
            "The car is already assigned to the group." in done.text
            and "1 of 2 are done, 1 were rejected." in done.text
        )
        assert len(person.get(f"/groups/{group}/cars").json()) == 2
        asked = client.post(f"{address}/delete?q=car", data={"all": "true"})
        assert "Delete 3 cars" in asked.text and len(person.get("/cars").json()) == 3
        fields = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', asked.text))
        assert sorted(fields["ids"].split(",")) == sorted(map(str, cars))
        done = client.post(f"{address}/delete", data=fields)
        assert "All 3 are done." in done.text and person.get("/cars").json() == []
        assert "All 3 are done." in client.post(f"{address}/delete", data=fields).text  # sent again by a reload
        assert client.post(f"{address}/nothing", data={"ids": "1"}).status_code == 404
        for wrong in ({}, {"ids": "x"}, {"ids": "1,-2"}, {"id": "9" * 20}):
            assert client.post(f"{address}/delete", data=wrong).status_code == 400
    person.client.close()


def test_the_ends_of_assignments_are_asked_for_and_come(town: Town, bob: Person) -> None:
    person = town.person("ends")
    user = person.user()
    ends = [person.assignment(person.car_with_box(f"Pool {number}"), user) for number in range(2)]
    address = f"/{person.customer}/assignments/list/bulk/end"
    with person.browser() as client:
        with nobody_works(person):
            asked = {"ids": f"{ends[0]},{ends[1]},999999999", "meant": "true", "key": "ends"}
            page = client.post(address, data=asked).text
            assert "2 of 3 are done, 1 were rejected." in page
            again = re.findall(r'data-outcome="Pending".*?hx-get="/console([^"]+)"', page)
            assert again and page.count("Being processed</span>") == 2 and f'href="/console{again[0]}">Refresh' in page
            more = client.post(address, data={"ids": ends[0], "meant": "true"}).text
            second = re.findall(r'hx-get="/console([^"]+)"', more)[0]
        eventually(lambda: "Pending" not in client.get(second).text, "the second end")
        assert "All 1 are done." in client.get(second).text
        eventually(lambda: "Pending" not in client.get(again[0]).text, "the outcomes")
        shown = client.get(again[0], headers=PARTIAL).text
        assert "All 2 are done." in shown and "hx-get" not in shown and "<h1>" not in shown
        assert shown.index("Pool 0") < shown.index("Pool 1") and shown.count("Done</span>") == 2
        repeated = client.post(address, data=asked).text  # sent again by a reload
        assert repeated.count("The booking has already ended. It stays in the history.") == 2
        assert "0 of 3 are done, 3 were rejected." in repeated
        root = f"/{person.customer}/operations"
        assert client.get(f"{root}/outcomes").headers["location"] == f"/console{root}"
        for wrong in ("x", ",".join(["00000000-0000-4000-8000-000000000000"] * 101)):
            assert client.get(f"{root}/outcomes?ids={wrong}").status_code == 404
    with bob.browser() as client:
        theirs = again[0].replace(f"/{person.customer}/", f"/{bob.customer}/")
        assert client.get(theirs).status_code == client.get(again[0]).status_code == 404
    person.client.close()


def test_more_rows_than_a_piece_are_worked_on_piece_by_piece(town: Town) -> None:
    person = town.person("pieces")
    person.sql.execute(
        "insert into fleet_group (customer_id, name) select $1, 'Group ' || n from generate_series(1, 130) n",
        person.customer,
    )
    with person.browser() as client:
        address = f"/{person.customer}/groups/bulk/delete"
        fields = {"all": "true", "meant": "true", "key": "one"}
        first = client.post(address, data=fields)
        assert "100 of 130 so far." in first.text and len(person.get("/groups").json()) == 30
        rest = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', first.text))
        last = client.post(address, data=rest, headers=PARTIAL)
        assert "All 130 are done." in last.text and person.get("/groups").json() == []
    person.client.close()


def test_a_form_is_refused_at_its_fields_and_keeps_what_was_typed(fleet: Person, visitor: httpx.Client) -> None:
    address = f"/{fleet.customer}/cars/new"
    empty = visitor.post(address, data={"name": " ", "licensePlate": "B-KR 9"})
    assert empty.status_code == 400 and 'value="B-KR 9"' in empty.text and 'href="#input-name"' in empty.text
    taken = visitor.post(f"/{fleet.customer}/groups/new", data={"name": "Pool"})
    assert taken.status_code == 409 and "A group with the same name already exists." in taken.text
    key = {"name": "Once", "key": "the-same"}
    first, again = visitor.post(address, data=key), visitor.post(address, data=key)
    assert (first.status_code, first.headers["location"]) == (303, again.headers["location"])
    made = int(first.headers["location"].rpartition("/")[2].removesuffix("?added"))
    assert fleet.get(f"/cars/{made}").json()["name"] == "Once"
    assert fleet.delete(f"/cars/{made}").status_code == 204


SHARED = """
with users as (
  insert into person (email_address, first_name, last_name, type)
  select $1 || 'u' || n || '@example.org', 'User', lpad(n::text, 2, '0'), 'Anonymous' from generate_series(1, 8) n
  returning user_id, last_name
), linked as (
  insert into customer_user (customer_id, user_id) select $1::int, user_id from users returning user_id
)
insert into assignment (customer_id, car_id, user_id, starts_at, ends_at, lifetime, renewable_after)
select $1::int, c, user_id, now() + (last_name::int - 6.5) * interval '1 day', null, 604800, 302400
from linked join users using (user_id), unnest($2::int[]) c where c = $2[1] or last_name::int > 1
"""


def test_who_and_what_is_too_much_for_a_cell_is_told(town: Town) -> None:
    """Six have the shared car and two come next; five have the other one."""
    person = town.person("shared")
    shared, other = person.car("Alpha"), person.car("Beta")
    person.sql.execute(SHARED, str(person.customer), [shared, other])
    for number in range(11):
        assert person.put(f"/groups/{person.group(f'G{number:02}')}/cars", {"carId": shared}).status_code == 204
    with person.browser() as client:
        page = client.get(f"/{person.customer}/cars").text
        heading, *rows = lines(client.get(f"/{person.customer}/cars.csv?columns=name,now,next,groups"))
    assert heading == "Name,With,Next booking,Groups"
    alpha, beta = csv.reader(rows[:2])
    assert alpha[1] == ", ".join([*(f"User {n:02} without end" for n in range(1, 6)), "and more"])
    assert (alpha[2], alpha[3]) == ("and more", ", ".join([*(f"G{n:02}" for n in range(10)), "and more"]))
    assert beta[1] == ", ".join(f"User {n:02} without end" for n in range(2, 7)) and beta[2].startswith("User 07 from ")
    assert page.count(f'<a href="/console/{person.customer}/cars/{shared}">and more</a>') == 2
    person.client.close()


# In the browser, by role and name


def test_a_car_is_found_by_typing_and_the_list_can_be_sent_on(desk: Desk, fleet: Person) -> None:
    page = desk(fleet)
    page.goto(f"/console/{fleet.customer}/cars")
    search = page.get_by_role("searchbox", name="Search cars")
    search.press_sequentially("polo")
    page.wait_for_url(f"**/console/{fleet.customer}/cars?q=polo")
    expect(page.get_by_role("rowheader")).to_have_text(["Polo"])
    expect(search).to_be_focused()
    other = desk(fleet)
    other.goto(page.url)
    expect(other.get_by_role("rowheader")).to_have_text(["Polo"])
    other.context.clear_cookies()
    other.get_by_role("searchbox", name="Search cars").fill("polos")
    sign_in = other.get_by_role("alert").get_by_role("link", name="Sign in again")
    expect(sign_in).to_have_attribute("href", re.compile("cars%3Fq%3Dpolos$"))
    expect(other.get_by_role("rowheader")).to_have_text(["Polo"])


def row_height(page: Page) -> float:
    return page.get_by_role("row", name="Leon").evaluate("row => row.getBoundingClientRect().height")


def test_filters_columns_and_order_are_chosen(desk: Desk, fleet: Person) -> None:
    page = desk(fleet)
    page.goto(f"/console/{fleet.customer}/cars")
    page.get_by_text("Filter", exact=True).click()
    page.get_by_role("combobox", name="Key box").select_option("No box")
    page.get_by_role("button", name="Apply filters").click()
    expect(page.get_by_role("list", name="Filters")).to_contain_text("Key box: No box")
    expect(page.get_by_role("rowheader")).to_have_text(["Leon", "Polo"])
    page.get_by_role("columnheader", name="Name").get_by_role("link").click()
    expect(page.get_by_role("rowheader")).to_have_text(["Polo", "Leon"])
    expect(page.get_by_role("columnheader", name="Name")).to_have_attribute("aria-sort", "descending")
    page.get_by_text("Columns", exact=True).click()
    comfortable = row_height(page)
    page.get_by_role("checkbox", name="Groups").uncheck()
    page.get_by_role("checkbox", name="Compact rows").check()
    page.get_by_role("button", name="Show columns").click()
    expect(page.get_by_role("columnheader", name="Groups")).to_have_count(0)
    assert row_height(page) < comfortable
    page.get_by_role("link", name="Remove filter: Key box: No box").click()
    expect(page.get_by_role("rowheader")).to_have_count(3)
    page.go_back()
    expect(page.get_by_role("rowheader")).to_have_text(["Polo", "Leon"])


def test_a_file_is_downloaded(desk: Desk, fleet: Person) -> None:
    page = desk(fleet)
    page.goto(f"/console/{fleet.customer}/cars?brand=Seat&columns=name")
    with page.expect_download() as download:
        page.get_by_role("link", name="Export CSV").click()
    assert download.value.suggested_filename == "cars.csv"
    assert download.value.path().read_text("utf-8-sig").splitlines() == ["Name", "Leon", "Complete: 1 rows"]


def test_a_new_car_comes_into_an_open_list_whose_ticks_stay(desk: Desk, town: Town) -> None:
    person = town.person("live")
    person.car("First")
    page = desk(person)
    page.goto(f"/console/{person.customer}/cars")
    page.get_by_role("checkbox", name="Select First").check()
    expect(page.get_by_text("Live", exact=True)).to_be_visible()
    person.car("Second")
    expect(page.get_by_role("rowheader")).to_have_text(["First", "Second"])
    expect(page.get_by_role("checkbox", name="Select First")).to_be_checked()
    expect(page.get_by_role("checkbox", name="Select First")).to_be_focused()
    expect(page.get_by_role("group", name="Selected rows")).to_contain_text("1 selected")
    every = page.get_by_role("checkbox", name="Select all on this page")
    every.focus()
    person.car("Third")
    expect(page.get_by_role("rowheader")).to_have_text(["First", "Second", "Third"])
    expect(every).to_be_focused()
    person.client.close()


def test_many_end_after_it_was_asked_and_the_outcomes_come_in(desk: Desk, town: Town) -> None:
    person = town.person("many")
    for number in range(3):
        person.assignment(person.car_with_box(f"Car {number}"), person.user())
    page = desk(person)
    page.goto(f"/console/{person.customer}/assignments/list")
    page.get_by_role("checkbox", name="Select Car 0").check()
    page.get_by_role("checkbox", name="Select Car 2").check()
    page.get_by_role("group", name="Selected rows").get_by_role("button", name="End").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("End 2 bookings now")
    with nobody_works(person):
        page.get_by_role("button", name="End 2 bookings now").click()
        expect(page.get_by_role("status").filter(has_text="All 2 are requested.")).to_be_visible()
        expect(page.get_by_role("row", name="Car 2")).to_contain_text("Being processed")
    expect(page.get_by_role("row", name="Car 2")).to_contain_text("Done")
    expect(page.get_by_role("status").filter(has_text="All 2 are done.")).to_be_attached()
    assert faults(page) == []
    page.goto(f"/console/{person.customer}/assignments/list?state=now")
    expect(page.get_by_role("rowheader")).to_have_text(["Car 1"])
    page.goto(f"/console/{person.customer}/assignments/list?state=over&sort=car")
    expect(page.get_by_role("rowheader")).to_have_text(["Car 0", "Car 2"])  # they stay in the history
    person.client.close()


def test_a_car_is_added_in_a_dialog(desk: Desk, town: Town) -> None:
    person = town.person("adds")
    page = desk(person)
    page.goto(f"/console/{person.customer}/cars")
    page.get_by_role("button", name="Add car").press("Enter")
    dialog = page.get_by_role("dialog", name="Add car")
    expect(dialog.get_by_label("Name")).to_be_focused()
    page.keyboard.press("Shift+Tab")
    expect(dialog.get_by_role("link", name="Close")).to_be_focused()
    dialog.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert", name="There is a problem")).to_be_focused()
    dialog.get_by_label("Name").fill("Pool 7")
    dialog.get_by_label("License plate").fill("B-KR 7")
    dialog.get_by_label("Brand").fill("Audi")
    dialog.get_by_role("button", name="Save").click()
    page.wait_for_url(f"**/console/{person.customer}/cars/*?added")
    expect(page.get_by_role("status").filter(has_text="Pool 7 is added.")).to_be_visible()
    (car,) = person.get("/cars").json()
    assert (car["name"], car["licensePlate"], car["brand"]) == ("Pool 7", "B-KR 7", "Audi")
    person.client.close()


def test_a_list_works_without_a_script(desk: Desk, fleet: Person) -> None:
    page = desk(fleet, java_script_enabled=False)
    page.goto(f"/console/{fleet.customer}/cars")
    page.get_by_role("searchbox", name="Search cars").fill("leon")
    page.get_by_role("button", name="Search", exact=True).click()
    expect(page.get_by_role("rowheader")).to_have_text(["Leon"])
    page.get_by_role("checkbox", name="Select Leon").check()
    page.get_by_role("button", name="Add to group").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Add 1 car to a group")


def test_the_end_of_many_keeps_what_has_begun_and_deletes_what_has_not(town: Town, bob: Person) -> None:
    person = town.person("kinds of ends")
    kim = person.user(userData={"firstName": "Kim", "lastName": "Lee"})
    car = person.car_with_box("Pool")
    past = person.assignment(car, kim, "2026-01-01T08:00:00Z", end="2026-01-02T08:00:00Z")
    begun = person.assignment(car, kim, "2026-01-03T08:00:00Z")
    coming = [
        person.assignment(car, kim, f"{year}-01-01T08:00:00Z", end=f"{year}-01-02T08:00:00Z") for year in (2031, 2032)
    ]
    address, ids = f"/{person.customer}/assignments/list/bulk/end", ",".join(map(str, [past, begun, *coming]))
    with person.browser() as client:
        asked = client.post(address, data={"ids": ids}).text
        assert "Current bookings, which end now and stay among the past ones: 1" in asked
        assert "Upcoming bookings, which are cancelled: 2" in asked
        assert "Past bookings, which do not change: 1" in asked
        listed = re.findall(r"<li>(Pool, .*?)</li>", asked)
        assert len(listed) == 4 and all("Kim" in one and "Lee" in one for one in listed)
        assert "Pool, Kim Lee, Sat 3 Jan, 08:00" in [re.sub("<[^>]+>", "", one) for one in listed]
        assert any("Wed, 1 Jan 2031, 08:00 – Thu, 2 Jan 2031, 08:00" in re.sub("<[^>]+>", "", one) for one in listed)
        page = client.post(address, data={"ids": ids, "meant": "true", "key": "kinds"}).text
        assert (
            "3 of 4 are done, 1 were rejected." in page
            and "The booking has already ended. It stays in the history." in page
        )
    eventually(lambda: person.get(f"/assignments/{coming[1]}").status_code == 404, "the end")
    left = {row["id"]: row for row in person.get("/assignments").json()}
    assert left.keys() == {past, begun}
    assert left[begun]["end"] is not None and left[past]["end"] == "2026-01-02T08:00:00Z"
    with bob.browser() as client:
        theirs = client.post(f"/{bob.customer}/assignments/list/bulk/end", data={"ids": ids}).text
        assert "Kim" not in theirs and "Pool" not in theirs
    person.client.close()


def test_what_is_removed_is_listed_and_the_ends_are_counted(town: Town) -> None:
    person = town.person("removes")
    cars = [person.car(f"Car {number:02}") for number in range(12)]
    user, boxed = person.user(), person.car_with_box("Car with a box")
    twin, plated = person.user(), person.car("Car with a plate", licensePlate="K-PC 1469")
    address, other = (person.get(f"/users/{id}").json()["emailAddress"] for id in (user, twin))
    person.assignment(boxed, user)
    person.assignment(boxed, user, "2031-01-01T08:00:00Z")
    person.assignment(boxed, user, "2026-01-01T08:00:00Z", end="2026-01-02T08:00:00Z")
    with person.browser() as client:
        for path, ids, names in (
            (
                "cars/bulk/delete",
                [*cars, boxed, plated],
                [
                    *(f"Car {number:02}" for number in range(12)),
                    "Car with a box",
                    "Car with a plate, K-PC 1469",
                ],
            ),
            ("users/bulk/remove", [user, twin], [f"User, Uma, {address}", f"User, Uma, {other}"]),
        ):
            asked = client.post(f"/{person.customer}/{path}", data={"ids": ",".join(map(str, ids))}).text
            assert [name for name in names if f"<li>{name}</li>" not in asked] == []
            assert "Current and upcoming bookings that end: 2" in asked
    person.client.close()
