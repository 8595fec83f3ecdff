"""Load shedding: the busiest customers are deferred first, connections stay open, and it ends by itself."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from keyrack.core.error_codes import OVERLOADED
from keyrack.core.settings import Settings
from keyrack.http.load_shedding import ALL, FEW, LASTS, TICK, TURNS, Admission, DeferredConnections, Overload
from tests.http.test_connection_limits import SERVE
from tests.http.test_hostile_input import Line, Reply, head
from tests.http.test_noisy_neighbours import locked, patient, waiting
from tests.support.people import Person
from tests.support.servers import SELDOM, Process, RunningServer, Sql, eventually

TARGET = 1.0
TYPE = "Content-Type: application/x-www-form-urlencoded"


def asked(method: str, path: str, customer: int) -> dict[str, object]:
    return {"method": method, "path": path, "headers": [(b"customer-id", b"%d" % customer)]}


def with_busy_and_late(late: float, act: Callable[[Overload], None]) -> None:
    """Run `act` under the given event loop lag.

    Many requests of customer 1 and one request of customer 2 are active.
    """

    async def main() -> None:
        now = 100.0
        load = Overload(TARGET, lambda: now)
        for customer in (*[1] * FEW, 2):
            assert load.enter(asked("GET", "/v3/cars", customer), "10.0.0.1") == str(customer)
        now += TICK + late
        act(load)

    asyncio.run(main())


def taken(load: Overload, method: str, path: str, customer: int) -> bool:
    return load.enter(asked(method, path, customer), "10.0.0.1") is not None


@pytest.mark.parametrize("query", ["wait=60", "x=1&wait=60", "%20wait%09=60", "x=1&+wait+=60"])
def test_a_long_poll_is_not_counted(query: str) -> None:
    scope = asked("GET", "/v3/changes", 1) | {"query_string": query.encode()}
    assert Overload(TARGET, lambda: 100.0).enter(scope, "10.0.0.1") == ""


def test_a_request_that_only_waits_is_not_counted() -> None:
    def act(load: Overload) -> None:
        for admission in [Admission(load, "1") for _ in range(FEW)]:
            for _ in range(2):  # when it begins to wait, and with its response
                admission.end()
        assert taken(load, "GET", "/v3/cars", 1)

    with_busy_and_late(2 * ALL * TARGET, act)


def test_without_lag_every_request_is_accepted() -> None:
    def act(load: Overload) -> None:
        assert all(taken(load, method, "/v3/cars", 1) for method in ("GET", "PUT"))

    with_busy_and_late(0.9 * TARGET, act)


def test_reads_of_the_busiest_customers_are_deferred_first() -> None:
    def act(load: Overload) -> None:
        assert not taken(load, "GET", "/v3/cars", 1)
        assert taken(load, "PUT", "/v3/cars", 1)
        assert taken(load, "GET", "/v3/cars", 2)
        assert taken(load, "GET", "/v3/cars", 3)

    with_busy_and_late(1.5 * TARGET, act)


def test_more_lag_defers_writes_of_the_busiest_customers() -> None:
    def act(load: Overload) -> None:
        assert not taken(load, "PUT", "/v3/cars", 1)
        assert taken(load, "PUT", "/v3/cars", 2)

    with_busy_and_late(3 * TARGET, act)


def test_extreme_lag_defers_all_but_essential_requests() -> None:
    def act(load: Overload) -> None:
        assert not any(taken(load, method, "/v3/cars", 3) for method in ("GET", "PUT"))
        assert taken(load, "GET", "/v3/health", 1)
        assert taken(load, "POST", "/console/sign-out", 1)
        assert taken(load, "DELETE", "/v3/sessions", 1)
        assert taken(load, "GET", "/v3/live", 1)

    with_busy_and_late(5 * TARGET, act)


def test_a_short_burst_is_accepted() -> None:
    """The lag exceeds the target, but only briefly."""

    async def main() -> None:
        now = 100.0
        load = Overload(LASTS / 4, lambda: now)
        for _ in range(FEW):
            assert taken(load, "GET", "/v3/cars", 1)
        now += TICK + LASTS / 2
        assert taken(load, "GET", "/v3/cars", 1)

    asyncio.run(main())


def test_finished_requests_are_not_counted() -> None:
    def act(load: Overload) -> None:
        for _ in range(2):
            load.leave("1")
        assert taken(load, "GET", "/v3/cars", 1)

    with_busy_and_late(5 * TARGET, act)


def test_lag_with_few_requests_is_not_overload() -> None:
    async def main() -> None:
        now = 100.0
        load = Overload(TARGET, lambda: now)
        for _ in range(FEW - 1):
            assert taken(load, "GET", "/v3/cars", 1)
        now += 10 * TARGET
        assert taken(load, "GET", "/v3/cars", 1)

    asyncio.run(main())


def test_a_resumed_server_sheds_load_at_once(dsn: str, alice: Person, bob: Person, sql: Sql) -> None:
    """After a stop, the server finds more requests than it can serve. Deferred clients get 503 and stay connected."""
    names = ("STATEMENT_TIMEOUT_SECONDS", "LOCK_TIMEOUT_SECONDS", "DB_QUEUE_TIMEOUT_SECONDS")
    long = {f"KEYRACK_{name}": "60" for name in names}
    process = Process(*SERVE, env={"KEYRACK_DATABASE_URL": dsn, "KEYRACK_LOAD_SHEDDING_LAG_SECONDS": "0.1", **long})
    try:
        assert process.popen.stdout is not None
        url = urlsplit(json.loads(process.popen.stdout.readline())["url"])
        with ExitStack() as stack:
            lines = [stack.enter_context(Line(url)) for _ in range(FEW + 4)]
            read, write, other, health, *busy = lines
            for line in lines:
                line.send(head(alice, "GET", "/v3/customers"))
                assert line.reply().status == 200
            with locked(sql, "product"):
                for line in busy:
                    line.send(head(alice, "GET", "/v3/products"))
                health.send(head(alice, "GET", "/v3/health"))
                assert health.reply().status == 200
                eventually(lambda: waiting(sql, "product"))
                process.popen.send_signal(signal.SIGSTOP)
                eventually(lambda: state(process.popen.pid) == "T", "the process's stop")
                stopped = time.monotonic()
                read.send(head(alice, "GET", "/v3/customers"))
                write.send(
                    head(alice, "PUT", "/v3/groups", "Content-Length: 2", "Content-Type: application/json") + b"{}"
                )
                other.send(head(bob, "GET", "/v3/customers"))
                health.send(head(alice, "GET", "/v3/health"))
                eventually(lambda: time.monotonic() > stopped + 1.0)
                process.popen.send_signal(signal.SIGCONT)
                for line in (read, write, other):
                    reply = line.reply()
                    assert (reply.status, reply.text) == (503, OVERLOADED.text)
                    assert (reply.headers["retry-after"], reply.headers.get("connection")) == ("1", None)
                    assert reply.headers["x-request-id"]
                assert health.reply().status == 200
            assert {line.reply().status for line in busy} == {200}, "what was under way goes on"
            for line in (read, write, other):
                eventually(lambda line=line: again(line, alice) == 200, "the end of the overload")
    finally:
        os.kill(process.popen.pid, signal.SIGCONT)
        process.stop()


async def until(done: Callable[[], bool]) -> int:
    """Return the number of ticks until the condition is true."""
    for ticks in itertools.count():
        if done():
            return ticks
        await asyncio.sleep(TICK)
    raise AssertionError


class Insistent:
    """A connection whose client repeats a deferred request at once."""

    def __init__(self, turns: DeferredConnections, seen: list[Insistent]) -> None:
        self._turns = turns
        self._seen = seen

    def go_on(self) -> None:
        self._seen.append(self)
        self._turns.wait(self)


@pytest.mark.parametrize("many", [1, 4 * TURNS])
def test_deferred_connections_are_read_in_turn(many: int) -> None:
    """A limited number per tick, the longest waiting first, and each equally often."""

    async def main() -> None:
        turns, seen = DeferredConnections(), list[Insistent]()
        guests = [Insistent(turns, seen) for _ in range(many)]
        begun = time.monotonic()
        for guest in guests:
            turns.wait(guest)
        await until(lambda: len(seen) >= 12 * many)
        assert len(seen) <= min(TURNS, many) * ((time.monotonic() - begun) / TICK + 1)
        assert seen[: 12 * many] == guests * 12

    asyncio.run(main())


def test_remaining_connections_are_read_quickly_after_the_overload() -> None:
    class Content(Insistent):
        def go_on(self) -> None:
            self._seen.append(self)

    async def main() -> None:
        turns, seen = DeferredConnections(), list[Insistent]()
        guests = [Content(turns, seen) for _ in range(1_000)]
        for guest in guests:
            turns.wait(guest)
        turns.forget(guests[-1])
        looks = await until(lambda: len(seen) >= len(guests) - 1)
        assert looks * TURNS < len(guests) / 4
        assert seen == guests[:-1]

    asyncio.run(main())


def test_a_client_that_ignores_retry_after_waits(settings: Settings, dsn: str, alice: Person) -> None:
    """This holds for every error with Retry-After. The connection stays open."""
    few = settings.model_copy(
        update={"login_rate_per_username_and_address": SELDOM, "login_burst_per_username_and_address": 1}
    )
    form = f"grant_type=password&username={alice.username}&password=wrong"
    told = ("Host: keyrack", f"vendor-API-Key: {alice.api_key}", f"Content-Length: {len(form)}", TYPE)
    request = "\r\n".join(["POST /oauth2/token HTTP/1.1", *told, "", form]).encode()
    with RunningServer(few, dsn, worker=False) as running, Line(running) as line:
        eventually(lambda: answer(line, request).status == 429)
        begun = time.monotonic()
        for _ in range(20):
            assert answer(line, request).headers["retry-after"]
        assert time.monotonic() - begun > 20 * TICK / 2, "each time until its turn"


@pytest.fixture
def nearly_full(
    settings: Settings, dsn: str, alice: Person, sql: Sql, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Line]:
    """A connection to a server that lags and accepts one more request.

    The clock of the server makes it lag.
    """
    hurried = partial(Overload, clock=lambda: 1_000 * time.monotonic())
    monkeypatch.setattr("keyrack.http.connections.Overload", hurried)
    with (
        RunningServer(patient(settings, load_shedding_lag_seconds=1), dsn, worker=False) as running,
        ExitStack() as stack,
    ):
        *lines, line = [stack.enter_context(Line(running)) for _ in range(FEW)]
        with locked(sql, "product"):
            for one in lines:
                one.send(head(alice, "GET", "/products"))
            eventually(lambda: waiting(sql, "product"))
            yield line
        assert {one.reply().status for one in lines} == {200}


def test_pipelined_requests_are_deferred_one_by_one(nearly_full: Line, bob: Person) -> None:
    """Hundreds of requests follow an accepted one. Each gets a response, in order, and the connection stays open."""
    nearly_full.send(b"".join(head(bob, "GET", "/cars", f"X-Request-Id: {number}") for number in range(200)))
    replies = [nearly_full.reply() for _ in range(200)]
    assert [reply.headers["x-request-id"] for reply in replies] == [str(number) for number in range(200)]
    assert {reply.status for reply in replies} == {200, 503}


def test_a_deferred_head_request_gets_no_body(nearly_full: Line, bob: Person) -> None:
    """A body would be read as the beginning of the next response."""
    nearly_full.send(b"".join(head(bob, method, "/cars") for method in ("GET", "HEAD", "GET")))
    assert nearly_full.reply().status == 200
    assert (bare := nearly_full.reply(bare=True)).status == 503
    assert int(bare.headers["content-length"]) > 0
    assert nearly_full.reply().status == 200


def answer(line: Line, request: bytes) -> Reply:
    line.send(request)
    return line.reply()


def again(line: Line, person: Person) -> int:
    return answer(line, head(person, "GET", "/v3/customers")).status


def state(pid: int) -> str:
    """The state of a process in /proc. T means stopped."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
