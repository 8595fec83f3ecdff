"""More to do than time: the busiest are put off first, on connections that stay, and it is over by itself."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

from keyrack.http.overload import FEW, LASTS, TICK, Overload
from keyrack.reasons import OVERLOADED
from tests.conftest import Person, Process, Sql, eventually
from tests.http.test_crowd import SERVE
from tests.http.test_hostile import Line, head
from tests.http.test_neighbours import locked, waiting

TARGET = 1.0


def asked(method: str, path: str, customer: int) -> dict[str, object]:
    return {"method": method, "path": path, "headers": [(b"customer-id", b"%d" % customer)]}


def with_busy_and_late(late: float, act: Callable[[Overload], None]) -> None:
    """Have many requests of customer 1 and one of customer 2 under way, and everything late by so much."""

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


def test_in_time_everything_is_taken() -> None:
    def act(load: Overload) -> None:
        assert all(taken(load, method, "/v3/cars", 1) for method in ("GET", "PUT"))

    with_busy_and_late(0.9 * TARGET, act)


def test_the_busiest_are_put_off_reads_first() -> None:
    def act(load: Overload) -> None:
        assert not taken(load, "GET", "/v3/cars", 1)
        assert taken(load, "PUT", "/v3/cars", 1)
        assert taken(load, "GET", "/v3/cars", 2)
        assert taken(load, "GET", "/v3/cars", 3)

    with_busy_and_late(1.5 * TARGET, act)


def test_later_their_writes_too() -> None:
    def act(load: Overload) -> None:
        assert not taken(load, "PUT", "/v3/cars", 1)
        assert taken(load, "PUT", "/v3/cars", 2)

    with_busy_and_late(3 * TARGET, act)


def test_at_last_everybody_but_what_helps() -> None:
    def act(load: Overload) -> None:
        assert not any(taken(load, method, "/v3/cars", 3) for method in ("GET", "PUT"))
        assert taken(load, "GET", "/v3/health", 1)
        assert taken(load, "POST", "/console/sign-out", 1)
        assert taken(load, "DELETE", "/v3/sessions", 1)
        assert taken(load, "GET", "/v3/live", 1)

    with_busy_and_late(5 * TARGET, act)


def test_a_moment_is_no_overload() -> None:
    """Late by more than the target, but not for long: a burst is taken."""

    async def main() -> None:
        now = 100.0
        load = Overload(LASTS / 4, lambda: now)
        for _ in range(FEW):
            assert taken(load, "GET", "/v3/cars", 1)
        now += TICK + LASTS / 2
        assert taken(load, "GET", "/v3/cars", 1)

    asyncio.run(main())


def test_what_is_done_counts_no_more() -> None:
    def act(load: Overload) -> None:
        for _ in range(2):
            load.leave("1")
        assert taken(load, "GET", "/v3/cars", 1)

    with_busy_and_late(5 * TARGET, act)


def test_with_little_to_do_it_is_late_for_other_reasons() -> None:
    async def main() -> None:
        now = 100.0
        load = Overload(TARGET, lambda: now)
        for _ in range(FEW - 1):
            assert taken(load, "GET", "/v3/cars", 1)
        now += 10 * TARGET
        assert taken(load, "GET", "/v3/cars", 1)

    asyncio.run(main())


def test_a_server_that_was_held_up_says_so_at_once(dsn: str, alice: Person, bob: Person, sql: Sql) -> None:
    """Stopped for a while, it finds more than it can do: who came meanwhile hears 503, and keeps the connection."""
    patient = {f"KEYRACK_{name}": "60" for name in ("READ_TIMEOUT", "HOLD_SECONDS", "SHARE_SECONDS")}
    process = Process(*SERVE, env={"KEYRACK_DATABASE_URL": dsn, "KEYRACK_OVERLOAD_SECONDS": "0.1", **patient})
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


def again(line: Line, person: Person) -> int:
    line.send(head(person, "GET", "/v3/customers"))
    return line.reply().status


def state(pid: int) -> str:
    """Of a process, as the kernel has it: T is stopped."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
