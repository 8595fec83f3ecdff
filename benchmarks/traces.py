"""The cost of traces and metrics: server CPU time per request with and without them.

Servers on one database run throughout and get requests in rounds, each time in another order. So other load on the
machine affects all alike. Two of the servers have both features off. Ratios refer to the mean of these two in the same
round. The distance of their ratios from 1 shows the precision. All ratios are medians over the rounds. The collector, a
separate process, discards its input.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import multiprocessing
import random
import statistics
import urllib.request
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from benchmarks.foundation import UNLIMITED, Running, database, free_port, load, running
from benchmarks.load import http, measure
from benchmarks.sizes import sized
from benchmarks.tables import row, table

ROUNDS = sized(25, tiny=1)
READS, WRITES = sized(
    (800, 400), tiny=(8, 4)
)  # short turns of a server, so that a round has the same conditions for all
CONNECTIONS = 8
OFF = ("off", "off again")
START = "2026-01-01T08:00:00Z"


class Handler(BaseHTTPRequestHandler):
    """A collector that accepts everything."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None: ...


def collect(port: int) -> None:
    ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()


@contextlib.contextmanager
def collector() -> Iterator[str]:
    """Start a collector, and yield its address."""
    port = free_port()
    process = multiprocessing.get_context("spawn").Process(target=collect, args=(port,), daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{port}/v1/traces"
    finally:
        process.terminate()
        process.join()


@contextlib.contextmanager
def servers(dsn: str, kinds: dict[str, dict[str, str]]) -> Iterator[dict[str, Running]]:
    """Start a server of each kind with its settings."""
    with contextlib.ExitStack() as stack:
        found: dict[str, Running] = {}
        for name, settings in kinds.items():
            port = free_port()
            env = {"KEYRACK_DATABASE_URL": dsn, **UNLIMITED, **settings}
            command = ["keyrack", "serve", "--port", str(port), "--no-worker"]
            found[name] = stack.enter_context(running(command, port, "/health", env))
        yield found


def signed_in(port: int, headers: dict[str, str]) -> dict[str, str]:
    """The headers of the manager of all customers."""
    body = b"username=bench&password=bench&grant_type=password"
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v3/oauth2/token", body, headers)
    with urllib.request.urlopen(request) as answer:
        token = json.loads(answer.read())["access_token"]
    return {**headers, "Authorization": f"Bearer {token}", "Customer-ID": "1"}


def compare(found: dict[str, Running], requests: Sequence[bytes], count: int) -> dict[str, tuple[float, float]]:
    """Median microseconds per request and ratio to `OFF`, by kind of server."""
    cpu: dict[str, list[float]] = {name: [] for name in found}
    names, order = list(found), random.Random(1)
    for number in range(-1, ROUNDS):
        for name in order.sample(names, len(names)):
            one = found[name]
            result = measure(one.pid, one.port, requests, count, CONNECTIONS)
            assert set(result.statuses) <= {200, 204}, result.statuses
            if number >= 0:  # the first round warms up
                cpu[name].append(result.cpu)
    floor = [statistics.mean(both) for both in zip(*(cpu[name] for name in OFF), strict=True)]
    ratios = {name: statistics.median(own / off for own, off in zip(cpu[name], floor, strict=True)) for name in names}
    return {name: (statistics.median(cpu[name]), ratios[name]) for name in names}


def show(title: str, found: dict[str, tuple[float, float]]) -> None:
    cpu = statistics.mean(found[name][0] for name in OFF)
    row(f"{title}, {cpu:.0f} us", *(f"{ratio:.2f}" for _, ratio in found.values()))


def main() -> None:
    """Print the table of ratios of benchmarks/results.md, "Traces"."""
    with database("traces") as dsn, collector() as address:
        headers = asyncio.run(load(dsn, 100, 1_000))
        told = {"KEYRACK_TRACES": address}
        kinds: dict[str, dict[str, str]] = {
            **{name: {} for name in OFF}, "traces 1 %": {**told, "KEYRACK_TRACES_SAMPLE_RATIO": "0.01"},
            "traces 100 %": {**told, "KEYRACK_TRACES_SAMPLE_RATIO": "1"}, "metrics": {"KEYRACK_METRICS": "127.0.0.1:0"},
        }  # fmt: skip
        with servers(dsn, kinds) as found:
            headers = signed_in(found["off"].port, headers)
            body: dict[str, Any] = {"carId": 1, "userId": 1, "start": START}
            table("traces ratios", "", *OFF, "traces, 1 % (goal: below 1.05)", "traces, 100 %", "metrics")
            show("GET /cars/{carId}", compare(found, [http("GET", "/v3/cars/1", headers)], READS))
            show("PUT /assignments", compare(found, [http("PUT", "/v3/assignments", headers, body)], WRITES))
