"""Limits on connections, in total and per address. The longest idle connection is closed first."""

from __future__ import annotations

import json
import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from keyrack.core.error_codes import FULL, FULL_OF_ONE, ErrorCode
from keyrack.core.settings import Settings
from keyrack.http.connection_limits import ConnectionLimiter
from tests.http.test_hostile_input import Line, head
from tests.support.people import Person, fetch
from tests.support.servers import DEADLINE, Process, RunningServer

SERVE = ("serve", "--port", "0", "--no-worker", "--json")


class Guest:
    def __init__(self) -> None:
        self.left = False

    def leave_room(self) -> None:
        self.left = True


def test_the_longest_idle_connection_is_closed() -> None:
    """B3: a connection with an active request stays open."""
    crowd, guests = ConnectionLimiter(3, 3, ""), [Guest() for _ in range(6)]
    for guest in guests[:3]:
        assert crowd.enter(guest, "10.0.0.1") is None
    crowd.busy(guests[0])
    assert crowd.enter(guests[3], "10.0.0.2") is None
    assert [guest.left for guest in guests] == [False, True, False, False, False, False]
    crowd.idle(guests[0])  # now the most recent idle connection
    assert crowd.enter(guests[4], "10.0.0.2") is None
    assert guests[2].left
    for guest in (guests[0], guests[3], guests[4]):
        crowd.busy(guest)
    assert crowd.enter(guests[5], "10.0.0.3") == FULL
    crowd.leave(guests[5])
    crowd.leave(guests[0])
    crowd.leave(guests[0])
    assert crowd.enter(guests[5], "10.0.0.3") is None


def test_an_address_at_its_limit_closes_its_own_connections_only() -> None:
    """B3: connections of a client are limited, those of a proxy are not. An IPv6 client is its network."""
    crowd = ConnectionLimiter(100, 2, "192.0.2.0/24, 2001:db8:9::1")

    def entered(host: str) -> tuple[Guest, ErrorCode | None]:
        guest = Guest()
        refusal = crowd.enter(guest, host)
        crowd.busy(guest)
        return guest, refusal

    assert [entered("10.0.0.1")[1] for _ in range(3)] == [None, None, FULL_OF_ONE]
    assert [entered("::ffff:10.0.0.1")[1]] == [FULL_OF_ONE]
    assert [entered(f"2001:db8::{n}")[1] for n in range(3)] == [None, None, FULL_OF_ONE]
    assert [entered(f"2001:db8:1:{n}::")[1] for n in range(3)] == [None] * 3
    assert [entered("192.0.2.7")[1] for _ in range(5)] == [None] * 5
    assert [entered("2001:db8:9::1")[1] for _ in range(5)] == [None] * 5
    idle, busy = Guest(), entered("10.0.0.9")[0]
    assert crowd.enter(idle, "10.0.0.9") is None
    assert entered("10.0.0.9")[1] is None
    assert (idle.left, busy.left) == (True, False)


@pytest.fixture
def few(dsn: str, settings: Settings) -> Iterator[RunningServer]:
    """A server with a limit of four connections and no trusted proxy."""
    bounds = {"max_client_connections": 4, "max_client_connections_per_address": 3, "trusted_proxies": ""}
    with RunningServer(settings.model_copy(update=bounds), dsn, worker=False) as running:
        yield running


def test_an_idle_connection_is_closed_for_a_new_one(few: RunningServer, alice: Person) -> None:
    """B3: a new client is served although idle connections fill the limit."""
    with ExitStack() as stack:
        lines = [stack.enter_context(Line(few)) for _ in range(3)]
        for line in lines:
            line.send(head(alice, "GET", "/v3/customers"))
            assert line.reply().status == 200
        lines[0].send(head(alice, "GET", "/v3/customers"))  # makes the second one the longest idle
        assert lines[0].reply().status == 200
        new = stack.enter_context(Line(few))
        new.send(head(alice, "GET", "/v3/customers"))
        assert new.reply().status == 200
        assert lines[1].closed()
        lines[0].send(head(alice, "GET", "/v3/customers"))
        assert lines[0].reply().status == 200


def test_a_rejected_connection_gets_an_explanation(few: RunningServer, alice: Person) -> None:
    """B3: 503 with a text if all connections of an address are busy."""
    with ExitStack() as stack:
        for _ in range(3):
            line = stack.enter_context(Line(few))
            more = ("Content-Type: application/json", "Content-Length: 9", "Expect: 100-continue")
            line.send(head(alice, "PUT", "/v3/cars", *more))
            assert line.reply().status == 100  # the connection is busy now
        with Line(few) as late:
            reply = late.reply()
            assert (reply.status, reply.text, late.closed()) == (503, FULL_OF_ONE.text, True)


def test_idle_connections_do_not_exhaust_the_open_files(dsn: str, alice: Person) -> None:
    """B3: with 260 idle connections and a limit of 200 files, others are served. The log has one line."""
    process = Process(*SERVE, env={"KEYRACK_DATABASE_URL": dsn}, files="-n 200")
    try:
        assert process.popen.stdout is not None
        url = json.loads(process.popen.stdout.readline())["url"]
        with ExitStack() as stack:
            for _ in range(260):
                stack.enter_context(socket.create_connection(("127.0.0.1", urlsplit(url).port or 0), timeout=DEADLINE))
            for _ in range(3):
                assert fetch("GET", f"{url}/cars", headers=alice.headers).status_code == 200
            assert len(list(Path(f"/proc/{process.popen.pid}/fd").iterdir())) < 190
    finally:
        process.stop()
    assert process.popen.stderr is not None
    said = process.popen.stderr.read()
    assert said.count("connection limit reached") == 1
    assert "Too many open files" not in said


def test_the_soft_limit_of_files_is_raised_at_startup(dsn: str) -> None:
    """B3: the soft limit becomes the hard limit."""
    process = Process(*SERVE, env={"KEYRACK_DATABASE_URL": dsn}, files="-n 300 && ulimit -S -n 200")
    try:
        assert process.popen.stdout is not None
        process.popen.stdout.readline()
        assert resource.prlimit(process.popen.pid, resource.RLIMIT_NOFILE) == (300, 300)
    finally:
        process.stop()
