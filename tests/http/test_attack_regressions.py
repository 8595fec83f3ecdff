"""Bugs that attacks on a running server found, each as its smallest request."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import asyncpg
import httpx
import pytest

from keyrack.core.error_codes import NO_CUSTOMER
from keyrack.core.settings import Settings
from keyrack.core.ssrf_guard import Guard
from keyrack.db.group_commit import GroupCommitter
from keyrack.db.session_settings import session
from keyrack.telemetry import ingest
from keyrack.telemetry.endpoints import events
from keyrack.telemetry.ingest import UNKNOWN_UNIT, Telemetry
from keyrack.telemetry.json_lines import Report, lines
from tests.support.people import PASSWORD, Person, Town, refused, web
from tests.support.servers import SELDOM, TESTS, RunningServer, Sql, eventually
from tests.telemetry.endpoints.test_ingest import unit_of


@pytest.mark.parametrize("order", ["null eq null", "null ne null desc", "null lt 1", "null in (null)", "null in (1)"])
def test_ordering_by_a_constant_returns_rows_by_id(alice: Person, order: str) -> None:
    cars = [alice.car("Same"), alice.car("Same")]
    answer = alice.get("/cars", params={"$orderby": order, "$filter": f"id ge {cars[0]}", "$select": "id"})
    assert (answer.status_code, answer.json()) == (200, [{"id": id} for id in cars])


@pytest.mark.parametrize("join", ["enable_hashjoin", "enable_mergejoin", "enable_nestloop"])
def test_old_history_is_dropped_with_every_query_plan(sql: Sql, join: str) -> None:
    joins = {"enable_hashjoin", "enable_mergejoin", "enable_nestloop"} - {join}
    try:
        for other in joins:
            sql.execute(f"set {other} = off")
        assert sql.rows("select drop_history('2000-01-01')") == []
    finally:
        for other in joins:
            sql.execute(f"reset {other}")


# .NET programs send the first instant of the year 1 for an unknown time


def test_an_assignment_may_start_in_the_year_1(alice: Person) -> None:
    car, user = alice.car_with_box(), alice.user()
    id = alice.assignment(car, user, "0001-01-01T00:00:00Z", end="9999-12-31T23:59:59Z")
    whole = alice.get(f"/assignments/{id}").json()
    assert (whole["start"], whole["end"]) == ("0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z")


@pytest.mark.parametrize(
    ("time", "year"),
    [("0001-01-01T00:00:00Z", 1), ("0001-01-01T00:00:00.000001Z", 1), ("9999-12-31T23:59:59.999999Z", 9999)],
)
def test_events_at_the_first_and_last_instants_are_filtered(alice: Person, time: str, year: int) -> None:
    car = alice.car()
    id = alice.event(car, alice.user(), dateTime=time, utcDateTime=time)
    assert alice.get(f"/events/{id}").json()["utcDateTime"] == time
    for name in ("dateTime", "utcDateTime"):
        for condition in (f"year({name}) eq {year}", f"{name} eq {time}"):
            answer = alice.get(f"/cars/{car}/events", params={"$filter": condition, "$select": "id"})
            assert (answer.status_code, answer.json()) == (200, [{"id": id}])


@pytest.mark.parametrize(("day", "year"), [("0001-01-01", 1), ("0001-01-02", 1), ("9999-12-31", 9999)])
def test_first_and_last_days_are_filtered(alice: Person, day: str, year: int) -> None:
    car = alice.car()
    answer = alice.get("/cars", params={"$filter": f"id eq {car} and year({day}) eq {year}", "$select": "id"})
    assert (answer.status_code, answer.json()) == (200, [{"id": car}])


# One delivery does not block other requests


class Counted:
    """Counts the turns of other tasks while a coroutine runs."""

    def __init__(self) -> None:
        self.turns = 0

    async def during(self, work: Any) -> Any:
        async def others() -> None:
            while True:
                self.turns += 1
                await asyncio.sleep(0)

        task = asyncio.create_task(others())
        try:
            return await work
        finally:
            task.cancel()


NOT_A_SAMPLE = b'{"x":1}'
FORMS = [b"\n".join([NOT_A_SAMPLE] * 20_000), b"[" + b",".join([NOT_A_SAMPLE] * 20_000) + b"]"]


@pytest.mark.parametrize("body", FORMS, ids=["lines", "array"])
def test_rejected_lines_do_not_block_other_requests(body: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ingestion yields after each time slice. Here a slice ends after every line."""
    monkeypatch.setattr(ingest, "AT_A_TIME", 0.0)

    async def deliver() -> tuple[int, int]:
        counted = Counted()
        nowhere: Any = None  # nothing is stored
        report: Report = await counted.during(Telemetry(GroupCommitter(nowhere), Settings()).ingest(1, body))
        return report.refusals, counted.turns

    refused_lines, turns = asyncio.run(deliver())
    assert refused_lines == 20_000
    assert turns >= 10_000


@pytest.mark.parametrize("body", FORMS, ids=["lines", "array"])
def test_rejected_events_do_not_block_other_requests(body: bytes) -> None:
    settings = Settings()
    report = Report(settings.ingest_max_reported_rejections)
    pauses = [part for part in events._parts(lines(body, settings), report, None, settings) if not part]
    assert (report.refusals, len(report.rejections), len(pauses)) == (20_000, 1_000, 200)


# Log-ins


@pytest.fixture(scope="module")
def strict(dsn: str, settings: Settings) -> Iterator[RunningServer]:
    """A server with few failed log-ins."""
    few = {
        "login_rate_per_username_and_address": SELDOM,
        "login_burst_per_username_and_address": 3,
        "login_rate_per_address": SELDOM,
        "login_burst_per_address": 6,
    }
    with RunningServer(settings.model_copy(update=few), dsn, worker=False) as running:
        yield running


def log_in(running: RunningServer, key: str, username: str, password: str, address: str) -> int:
    return (
        web()
        .post(
            running.url + "/oauth2/token",
            data={"username": username, "password": password, "grant_type": "password"},
            headers={"vendor-API-Key": key, "X-Forwarded-For": address},
        )
        .status_code
    )


def test_another_spelling_of_a_username_has_the_same_login_limit(town: Town, strict: RunningServer) -> None:
    iris = town.person("iris")
    assert [log_in(strict, iris.api_key, iris.username, "wrong", "10.3.0.1") for _ in range(4)] == [401] * 3 + [429]
    assert log_in(strict, iris.api_key, iris.username.upper(), "wrong", "10.3.0.1") == 429


@pytest.mark.parametrize("letter", ["\u0130", "ｉ"])
def test_a_lookalike_letter_makes_another_username(town: Town, strict: RunningServer, letter: str) -> None:
    iris = town.person("iris")
    name = iris.username.replace("i", letter)
    assert log_in(strict, iris.api_key, name, PASSWORD, "10.3.0.2") == 401
    assert log_in(strict, iris.api_key, iris.username, PASSWORD, "10.3.0.2") == 200


def test_a_throttled_address_locks_out_no_other_address(town: Town, strict: RunningServer) -> None:
    victim, key = town.person("victim"), town.key()
    assert [log_in(strict, key, f"nobody-{n}", "wrong", "10.4.0.1") for n in range(7)] == [401] * 6 + [429]
    assert [log_in(strict, key, victim.username, "wrong", "10.4.0.1") for _ in range(4)] == [429] * 4
    assert log_in(strict, victim.api_key, victim.username, PASSWORD, "10.4.0.2") == 200


# Rows that are removed while another request writes to them


def meanwhile(dsn: str, sql: Sql, change: list[tuple[str, Any]], call: Callable[[], httpx.Response]) -> httpx.Response:
    """Return the response of a call that waits for a concurrent, uncommitted change."""

    async def removing(thread: ThreadPoolExecutor) -> httpx.Response:
        connection = await asyncpg.connect(dsn, server_settings=session(Settings()) | {"keyrack.who": TESTS})
        try:
            transaction = connection.transaction()
            await transaction.start()
            for statement, argument in change:
                await connection.execute(statement, argument)
            answer = asyncio.get_running_loop().run_in_executor(thread, call)
            waiting = "select exists (select from pg_locks where not granted and $1 = any(pg_blocking_pids(pid)))"
            own = connection.get_server_pid()
            await asyncio.to_thread(eventually, lambda: answer.done() or sql.value(waiting, own), "the wait")
            await transaction.commit()
            return await answer
        finally:
            await connection.close()

    with ThreadPoolExecutor(1) as thread:
        return asyncio.run(removing(thread))


def test_telemetry_of_a_car_that_is_being_deleted_is_rejected(alice: Person, dsn: str, sql: Sql) -> None:
    unit = unit_of(alice)
    answer = meanwhile(
        dsn, sql, [("delete from car where car_id = $1", unit.car)], lambda: unit.deliver(unit.sample(5, rpm=900))
    )
    assert (answer.status_code, answer.json()) == (
        200,
        {"accepted": 0, "duplicates": 0, "refused": [{"line": 1, "reason": UNKNOWN_UNIT}]},
    )


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/cars", {"name": "Late"}),
        ("/groups", {"name": "Late"}),
        ("/users", {"emailAddress": "late@example.org", "userData": {"firstName": "L", "lastName": "ate"}}),
        ("/webhooks", {"url": "https://example.org/"}),
    ],
)
@pytest.mark.parametrize("headers", [{}, {"Idempotency-Key": "late"}], ids=["plain", "idempotent"])
def test_writes_to_a_customer_that_is_being_deleted_get_404(
    carol: Person, dsn: str, sql: Sql, path: str, body: Any, headers: dict[str, str]
) -> None:
    gone = [("delete from customer where customer_id = $1", carol.customer)]
    content = json.dumps(body)
    headers = {"Content-Type": "application/json", **headers}
    refused(meanwhile(dsn, sql, gone, lambda: carol.put(path, content=content, headers=headers)), 404, NO_CUSTOMER)


# Webhooks


@pytest.mark.parametrize("address", ["fec0::1", "feff:ffff::1"])
def test_site_local_addresses_are_not_dialled(address: str) -> None:
    assert not Guard(Settings()).may_dial(address)


# Responses and addresses


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v3", 200), ("/cars", 200), ("/cars/0", 404), ("/nothing", 404), ("/openapi.json", 200), ("/docs", 200),
        ("/console/sign-in", 200), ("/console/assets/nothing", 303), ("/console/nothing", 303), ("/health", 200),
        ("/cars?$filter=%C3%A4%FF", 400), ("/cars?" + "x" * 9_000, 414), ("/.well-known/jwks.json", 200),
    ],
)  # fmt: skip
@pytest.mark.parametrize("has_key", [True, False])
def test_every_response_has_the_security_headers(
    alice: Person, server: RunningServer, path: str, status: int, has_key: bool
) -> None:
    answer = web().get(server.url + path, headers=alice.headers if has_key else {})
    assert answer.status_code in (status, 401)
    assert answer.headers.get_list("x-content-type-options") == ["nosniff"]
    assert answer.headers.get_list("cross-origin-resource-policy") == ["same-origin"]


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"no HTTP\r\n\r\n", b"GET / HTTP/2.0\r\n\r\n", b"GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n",
        b"NONE / HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\nX: " + b"x" * 40_000 + b"\r\n\r\n",
    ],
)  # fmt: skip
def test_parser_errors_have_the_security_headers(server: RunningServer, request_bytes: bytes) -> None:
    head = sent_as_it_is(server, request_bytes)
    assert head[0].split()[1] in ("400", "431")
    assert head.count("x-content-type-options: nosniff") == 1
    assert head.count("cross-origin-resource-policy: same-origin") == 1


def sent_as_it_is(server: RunningServer, request_bytes: bytes) -> list[str]:
    """Send the bytes and return the lines of the response head."""
    address = httpx.URL(server.url)
    assert address.port is not None
    received = b""
    with socket.create_connection((address.host, address.port), 10) as line, suppress(ConnectionResetError):
        line.sendall(request_bytes)
        while b"\r\n\r\n" not in received and (more := line.recv(65_536)):
            received += more
    return received.partition(b"\r\n\r\n")[0].decode().split("\r\n")


@pytest.mark.parametrize(
    "path",
    [
        "//console", "//console/sign-in", "///console/sign-in", "/%63onsole/sign-in", "/%2Fconsole/sign-in",
        "/v3//console/sign-in", "/console/api//console/sign-in", "/v3/%63onsole/sign-in", "//console/api/v3/cars",
        "/%63onsole/api/v3/cars", "//console/assets/console.css",
    ],
)  # fmt: skip
def test_no_other_spelling_of_the_path_reaches_the_console(alice: Person, server: RunningServer, path: str) -> None:
    """A proxy may match the bytes of the path against its rule for `/console`."""
    with alice.browser() as browser:
        cookies = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
    request = f"GET {path} HTTP/1.1\r\nHost: x\r\nCookie: {cookies}\r\nConnection: close\r\n\r\n"
    head = sent_as_it_is(server, request.encode())
    assert head[0].split()[1] in ("401", "404")
    assert not [line for line in head if line.startswith(("content-type: text/html", "location:"))]


@pytest.mark.parametrize("prefix", ["/v3", "/v3/v3", "/console/api", "/console/api/v3", "/console/api/v3/v3"])
@pytest.mark.parametrize("page", ["", "/", "/sign-in", "/assets/nothing", "/api/cars", "//sign-in", "%2Fsign-in"])
def test_the_console_has_one_address(alice: Person, server: RunningServer, prefix: str, page: str) -> None:
    """A proxy rule for `/console` must cover every page."""
    answer = web().get(f"{server.url}{prefix}/console{page}", headers=alice.headers)
    assert answer.status_code in (401, 404)
    assert "text/html" not in answer.headers["content-type"]
    assert "location" not in answer.headers
