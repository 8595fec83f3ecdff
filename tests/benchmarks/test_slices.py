"""Comparisons in short slices."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from benchmarks.load import Result, http, typical
from benchmarks.slices import Slices, Variant, alternate, alternate_servers, alternate_tasks


def test_variants_alternate_in_random_order() -> None:
    calls: list[str] = []

    def call(name: str) -> int:
        calls.append(name)
        return calls.count(name)

    results = alternate(lambda: call("a"), lambda: call("b"), rounds=30, warm_up=2)
    assert results == ([*range(3, 33)], [*range(3, 33)])
    rounds = Counter(zip(calls[::2], calls[1::2], strict=True))
    assert set(rounds) == {("a", "b"), ("b", "a")}


def test_asynchronous_variants_alternate() -> None:
    calls: list[str] = []

    async def call(name: str) -> str:
        calls.append(name)
        await asyncio.sleep(0)
        return name

    results = asyncio.run(alternate_tasks(lambda: call("a"), lambda: call("b"), rounds=3, warm_up=1))
    assert results == (["a"] * 3, ["b"] * 3)
    assert [{*pair} for pair in zip(calls[::2], calls[1::2], strict=True)] == [{"a", "b"}] * 4


@dataclass
class Served:
    """A server in this process, with the paths of its requests."""

    port: int
    pid: int = field(default_factory=os.getpid)
    paths: list[str] = field(default_factory=list[str])
    clients: set[int] = field(default_factory=set[int])


@contextmanager
def serving(status: int) -> Iterator[Served]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            served.paths.append(self.path)
            served.clients.add(self.client_address[1])
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        served = Served(server.server_address[1])
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield served
        finally:
            server.shutdown()
            thread.join()


def test_slices_of_servers_continue_in_their_requests() -> None:
    numbers = [http("GET", f"/{number}", {}) for number in range(5)]
    prepared: list[str] = []
    with serving(200) as ours, serving(404) as theirs:
        variants = Variant(ours, numbers, prepare=lambda: prepared.append("ours")), Variant(theirs, numbers[:1], 404)
        slices = alternate_servers(*variants, count=4, connections=1, rounds=3)
    rounds = len(prepared)
    assert rounds > 3  # with the warm-up
    assert ours.paths == [f"/{number % 5}" for number in range(4 * rounds)]
    assert theirs.paths == ["/0"] * 4 * rounds
    assert (len(ours.clients), len(theirs.clients)) == (1, 1)
    for of, status in zip(slices, (200, 404), strict=True):
        assert [result.statuses for result in of.results] == [{status: 4}] * 3
        assert all(cpu > 0 for cpu in of.each("cpu"))


@pytest.mark.parametrize(("sent", "expected"), [(404, None), (200, 304)])
def test_an_unexpected_status_ends_the_comparison(sent: int, expected: int | None) -> None:
    with serving(sent) as served, pytest.raises(AssertionError, match=str(sent)):
        alternate_servers(Variant(served, [http("GET", "/", {})], expected), count=2, rounds=1)


def test_the_processes_of_the_database_count_too() -> None:
    with serving(200) as served:
        variant = Variant(served, [http("GET", "/", {})], database=lambda: [os.getpid()])
        (slices,) = alternate_servers(variant, count=10, rounds=2)
    for result in slices.results:
        assert result.database_cpu > 0
        assert result.whole_cpu == result.cpu + result.database_cpu


def test_figures_of_slices_are_medians() -> None:
    results = [Result(10, seconds, 1.0, 2.0, cpu, {200: 10}, 1.0) for seconds, cpu in ((1.0, 30), (9.0, 10), (2.0, 20))]
    assert typical(results) == Result(10, 2.0, 1.0, 2.0, 20, {200: 30}, 1.0)
    assert Slices(results, None).each("whole_cpu") == [31, 11, 21]
