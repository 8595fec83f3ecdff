"""Long lists, in chunks or from a file, equal a single statement's bytes.

Chunks continue after the key of the sort order.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import random
import socket
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import asyncpg
import httpx
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from keyrack.api.response_spool import NO_ROOM, TOO_LONG, Spool
from keyrack.core.errors import Unavailable
from keyrack.core.settings import Settings
from tests.support.people import Person, Town, refused, web
from tests.support.servers import DEADLINE, RunningServer, Sql

NAMES = ["Same", "Same", "same", "Ä", "", "Z\\u", 'q"']
FIELDS = ["id", "name", "licensePlate", "vin", "brand", "tolower(name)", "assignments/$count", "products/$count"]
PLAIN = {"Accept-Encoding": "identity"}
SIZES = {"rows": {"list_chunk_rows": 3}, "bytes": {"list_chunk_rows": 50, "list_chunk_bytes": 700}}


@pytest.fixture(scope="module", params=SIZES)
def pieces(request: pytest.FixtureRequest, dsn: str, settings: Settings) -> Iterator[RunningServer]:
    """A server with small chunks."""
    with RunningServer(settings.model_copy(update=SIZES[request.param]), dsn, worker=False) as running:
        yield running


@pytest.fixture(scope="module")
def fleet(alice: Person, bob: Person) -> Person:
    """A fleet with many equal and missing values, beside a neighbour's fleet."""
    chance = random.Random(7)
    for person in (bob, alice):
        for _ in range(30):
            members = {name: chance.choice([None, "A", "a", "B"]) for name in ("vin", "licensePlate", "brand")}
            person.car(chance.choice(NAMES) or "N", **members, description="x" * chance.choice([0, 1, 200]))
        car, user, group = person.car_with_box("Boxed"), person.user(), person.group("Pool")
        for number in range(5):
            person.event(car, user, utcDateTime=f"2026-05-0{1 + number % 3}T08:00:00.00{number}Z")
        person.put(f"/groups/{group}/cars", {"carId": car})
    return alice


def from_pieces(running: RunningServer, person: Person, path: str, query: dict[str, str]) -> httpx.Response:
    return web().get(f"{running.url}/v3{path}?{urlencode(query)}", headers=person.headers | PLAIN)


def same(running: RunningServer, person: Person, path: str, query: dict[str, str]) -> httpx.Response:
    """Check that chunks have the bytes of the whole response, and return it."""
    whole = person.get(f"{path}?{urlencode(query)}")
    answer = from_pieces(running, person, path, query)
    assert (answer.status_code, answer.content) == (whole.status_code, whole.content), (path, query)
    assert "content-length" in whole.headers
    assert answer.headers["content-type"] == whole.headers["content-type"]
    assert answer.headers.get("x-total-count") == whole.headers.get("x-total-count")
    return answer


ITEM = st.tuples(st.sampled_from(FIELDS), st.sampled_from(["", " desc"])).map("".join)
QUERY = st.fixed_dictionaries(
    {},
    optional={
        "$orderby": st.lists(ITEM, min_size=1, max_size=3).map(",".join),
        "$top": st.integers(0, 40).map(str),
        "$skip": st.integers(0, 40).map(str),
        "$filter": st.sampled_from(["vin ne null", "contains(name,'a') or brand eq 'A'", "id lt 0"]),
        "$search": st.sampled_from(["same", "A"]),
        "$select": st.sampled_from(["vin", "name,id", "products"]),
        "$expand": st.sampled_from(
            ["products", "assignments,groups($select=name)", "products($count=true),groups/$count"]
        ),
        "$count": st.just("true"),
    },
)


@examples(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(query=QUERY)
def test_chunks_have_the_bytes_of_the_whole_list(pieces: RunningServer, fleet: Person, query: dict[str, str]) -> None:
    """B2: for any order, nulls, ties, directions and pages are those of one statement."""
    same(pieces, fleet, "/cars", query)


@pytest.mark.parametrize("direction", ["", " desc"])
@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("/cars", "id"),
        ("/cars", "name"),
        ("/cars", "licensePlate"),
        ("/cars", "vin"),
        ("/cars", "brand"),
        ("/cars/{car}/events", "utcDateTime"),
        ("/cars/{car}/events", "dateTime"),
        ("/products", "serialNumber"),
        ("/groups", "name"),
        ("/groups/{group}/cars", "name"),
        ("/cars/{car}/assignments", "start"),
        ("/cars/{car}/products", "id"),
        ("/operations", "id"),
        ("/users", "userData/lastName"),
        ("/brands", "$it"),
        ("/customers", "id"),
        ("/services", "name"),
    ],
)
def test_every_list_can_be_sent_in_chunks(
    pieces: RunningServer, fleet: Person, path: str, field: str, direction: str
) -> None:
    """B2: lists of every resource, including lists below a parent and of plain values."""
    car = fleet.get("/cars?$filter=name eq 'Boxed'").json()[0]["id"]
    group = fleet.get("/groups").json()[0]["id"]
    same(pieces, fleet, path.format(car=car, group=group), {"$orderby": field + direction})


def test_lists_along_an_index_have_no_length_and_others_have(fleet: Person, dsn: str, settings: Settings) -> None:
    """B2: chunks along an index, a file without one. Short lists are one response."""
    with RunningServer(settings.model_copy(update={"list_chunk_rows": 5}), dsn, worker=False) as running:
        for query, length in (
            ({}, False),
            ({"$orderby": "id desc,brand"}, False),
            ({"$orderby": "name desc"}, False),
            ({"$orderby": "vin,id", "$expand": "products", "$search": "a"}, False),
            ({"$orderby": "vin,id", "$expand": "products($count=true),groups/$count"}, False),
            ({"$orderby": "brand", "$expand": "products($count=true)"}, True),
            ({"$orderby": "brand"}, True),
            ({"$orderby": "name,id desc"}, False),
            ({"$orderby": "name,vin"}, True),
            ({"$orderby": "tolower(name)"}, True),
            ({"$top": "5"}, True),
            ({"$top": "6"}, False),
        ):
            assert ("content-length" in same(running, fleet, "/cars", query).headers) is length, query


def test_errors_of_lists_are_the_same_in_chunks(pieces: RunningServer, fleet: Person) -> None:
    """B2: the status precedes the first byte, for a missing parent, an empty list or an invalid query."""
    empty = fleet.car("Empty")
    for path in ("/cars/0/events", f"/cars/{empty}/products", f"/cars/{empty}/events", "/brands/none/keys"):
        same(pieces, fleet, path, {})
    same(pieces, fleet, "/cars", {"$filter": "1 div id eq 'x'"})
    same(pieces, fleet, "/cars", {"$orderby": "id div 0"})


@pytest.fixture(scope="module")
def eventful(alice: Person, sql: Sql) -> int:
    """A car with more events than a page holds."""
    car, user = alice.car(), alice.user()
    sql.execute(
        "insert into event (customer_id, event_id, local_at, local_text, utc_at, user_id, car_id, type, user_agent)"
        " select $1, 10000 + n, now(), '2026-05-01T10:00:00', now(), $2, $3, 'CarOpened', 'x'"
        " from generate_series(1, 1005) n",
        alice.customer,
        user,
        car,
    )
    return car


def test_a_full_page_of_events_has_a_link_to_the_next(
    alice: Person, eventful: int, dsn: str, settings: Settings
) -> None:
    """B2: a list with its own limit ends there. The header comes first."""
    with RunningServer(settings.model_copy(update={"list_chunk_rows": 300}), dsn, worker=False) as running:
        answer = same(running, alice, f"/cars/{eventful}/events", {})
    assert len(answer.json()) == 1000
    assert answer.headers["link"].endswith('$skip=1000>; rel="next"')


@pytest.mark.parametrize("order", ["", "?$orderby=brand"])
def test_head_of_a_long_list_has_no_length(pieces: RunningServer, fleet: Person, order: str) -> None:
    answer = web().head(f"{pieces.url}/v3/cars{order}", headers=fleet.headers)
    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["content-type"] == "application/json"
    assert "content-length" not in answer.headers


def test_a_client_of_http_1_0_gets_no_chunks(pieces: RunningServer, fleet: Person) -> None:
    """B2: such a client does not understand chunks and gets the length."""
    fields = "".join(f"{name}: {value}\r\n" for name, value in fleet.headers.items())
    with socket.create_connection(("127.0.0.1", pieces.port), timeout=DEADLINE) as line:
        line.sendall(f"GET /v3/cars HTTP/1.0\r\n{fields}\r\n".encode())
        answer = http.client.HTTPResponse(line)
        answer.begin()
        assert answer.getheader("transfer-encoding") is None
        body = answer.read()
    assert int(answer.getheader("content-length") or 0) == len(body)
    assert body == fleet.get("/cars").content


def test_a_list_above_the_spool_size_is_rejected(fleet: Person, dsn: str, settings: Settings) -> None:
    """B2: the space for long responses is limited, and the error names the limit."""
    few = settings.model_copy(update={"list_chunk_rows": 2, "spool_bytes": 4_000})
    with RunningServer(few, dsn, worker=False) as running:
        for _ in range(3):  # a rejected list releases its space
            refused(from_pieces(running, fleet, "/cars", {"$orderby": "brand"}), 400, TOO_LONG.format(most=2_000))
            same(running, fleet, "/cars", {"$orderby": "brand", "$top": "5", "$select": "id"})
        same(running, fleet, "/cars", {})


def test_one_customer_cannot_use_all_spool_space() -> None:
    """B2: unread responses use one customer's share of the space only."""

    async def parts(size: int) -> Any:
        yield b"x" * size

    async def attempt() -> None:
        spool = Spool(100, None)
        kept = await spool.keep(1, parts(40))
        with pytest.raises(Unavailable, match=NO_ROOM.text):
            await spool.keep(1, parts(20))
        other = await spool.keep(2, parts(50))
        with pytest.raises(Unavailable, match=NO_ROOM.text):
            await spool.keep(3, parts(20))
        await kept.close()
        del other
        assert [part async for part in await spool.keep(1, parts(50))] == [b"x" * 50]

    asyncio.run(attempt())


def test_expanded_rows_are_limited(fleet: Person, dsn: str, settings: Settings) -> None:
    """B2: a relation in a row cannot be sent in chunks. Too many rows are an error, never truncated."""
    car = fleet.get("/cars?$filter=name eq 'Boxed'").json()[0]["id"]
    for number in range(2):
        fleet.put(f"/groups/{fleet.group(f'Many {number}')}/cars", {"carId": car})
    boxed = {"$filter": "name eq 'Boxed'"}
    text = "A relation that is expanded has more than 2 rows. Give it a $top of its own, or ask for less."
    with RunningServer(settings.model_copy(update={"odata_expanded": 2}), dsn, worker=False) as running:
        for path in ("/cars", f"/cars/{car}"):
            refused(from_pieces(running, fleet, path, {"$expand": "groups"}), 400, text)
            refused(from_pieces(running, fleet, path, {"$expand": "groups($count=true)"}), 400, text)
            for counted in ("groups/$count", "groups($count=true;$top=1)", "groups($count=true;$skip=1)"):
                answer = same(running, fleet, path, {"$expand": counted, **({} if "/" in path[1:] else boxed)}).json()
                assert (answer if isinstance(answer, dict) else answer[0])["groups@odata.count"] == 3, counted
            same(running, fleet, path, {"$expand": "groups($top=3;$orderby=name)"})
            same(running, fleet, path, {"$expand": "groups($filter=startswith(name,'Many')),products"})
        # Skipped rows are not expanded, so that the limit does not apply to them
        first = {"$orderby": "name eq 'Boxed' desc,id", "$expand": "groups", "$top": "2"}
        refused(from_pieces(running, fleet, "/cars", first), 400, text)
        others = same(running, fleet, "/cars", {**first, "$skip": "1"}).json()
        plain = fleet.get("/cars", params={"$orderby": "id", "$filter": "name ne 'Boxed'", "$top": "2"}).json()
        assert [{**row, "groups": []} for row in plain] == [{**row, "groups": []} for row in others] != []


@pytest.fixture(scope="module")
def heavy(town: Town, sql: Sql) -> Person:
    """A fleet whose list does not fit into the buffers of a connection."""
    dora = town.person("dora")
    sql.execute(
        "insert into car (customer_id, name, description) select $1, 'Heavy', repeat(chr(128512), 4000)"
        " from generate_series(1, 800)",
        dora.customer,
    )
    return dora


def test_a_failure_during_the_response_aborts_it(
    heavy: Person, dsn: str, settings: Settings, capfd: pytest.CaptureFixture[str]
) -> None:
    """B2: an aborted response is visibly incomplete, and the log has an event."""

    async def locked(answer: Iterator[bytes]) -> None:
        connection = await asyncpg.connect(dsn)
        try:
            async with connection.transaction():
                await connection.execute("lock table car in access exclusive mode")
                with pytest.raises(httpx.RemoteProtocolError, match="incomplete chunked read"):
                    await asyncio.to_thread(list, answer)
        finally:
            await connection.close()

    with RunningServer(settings.model_copy(update={"lock_timeout_seconds": 0.1}), dsn, worker=False) as running:
        with web().stream("GET", f"{running.url}/v3/cars", headers=heavy.headers | PLAIN) as answer:
            assert answer.status_code == 200
            parts = answer.iter_raw()
            assert next(parts).startswith(b'[{"id":')
            asyncio.run(locked(parts))
        assert len(web().get(f"{running.url}/v3/cars", headers=heavy.headers).json()) == 800
    assert "list response aborted" in "".join(capfd.readouterr())


def test_unchanged_rows_appear_once_during_concurrent_changes(
    town: Town, sql: Sql, dsn: str, settings: Settings
) -> None:
    """B2: a long list is no snapshot, but every row that exists throughout appears once."""
    erin = town.person("erin")
    stay = [erin.car(f"Car {number % 7}") for number in range(40)]
    sql.execute("update car set vin = case when car_id % 3 = 0 then 'V' end where customer_id = $1", erin.customer)
    with RunningServer(settings.model_copy(update={"list_chunk_rows": 3}), dsn, worker=False) as running:
        for order in ("id", "name", "name desc", "vin", "vin desc"):
            came: list[bytes] = []
            url = f"{running.url}/v3/cars?$select=id&$orderby={order}"
            with web().stream("GET", url, headers=erin.headers | PLAIN) as answer:
                for chunk in answer.iter_raw():
                    came.append(chunk)
                    erin.delete(f"/cars/{erin.car('Car 3', vin='V')}")
                    erin.car("Car 5")
            ids = [row["id"] for row in json.loads(b"".join(came))]
            assert len(set(ids)) == len(ids)
            assert set(stay) <= set(ids)
