"""The cost of traces and metrics: server CPU time per request with and without them.

Servers on one database run throughout and get requests in turn (`benchmarks.slices`). Two of the servers have both
features off. Ratios refer to the mean of these two in the same round. The distance of their ratios from 1 shows the
precision. The collector, a separate process, discards its input.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import multiprocessing
import statistics
import urllib.request
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from benchmarks.estimates import ratio
from benchmarks.foundation import UNLIMITED, Running, database, free_port, load, running
from benchmarks.load import http
from benchmarks.sizes import sized
from benchmarks.slices import Variant, alternate_servers
from benchmarks.tables import row, table

READS, WRITES = sized((800, 400), tiny=(8, 4))  # requests per slice
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


def compare(servers: Sequence[Running], requests: Sequence[bytes], count: int) -> list[str]:
    """The cells of a row: the microseconds of the first two servers, which are `OFF`, and the ratio of each."""
    every = alternate_servers(*(Variant(server, requests) for server in servers), count=count)
    cpu = [slices.each("cpu") for slices in every]
    floor = [statistics.mean(both) for both in zip(*cpu[: len(OFF)], strict=True)]
    return [f"{statistics.median(floor):.0f} us", *(ratio(own, floor).cell() for own in cpu)]


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
            for name, request, count in (
                ("GET /cars/{carId}", http("GET", "/v3/cars/1", headers), READS),
                ("PUT /assignments", http("PUT", "/v3/assignments", headers, body), WRITES),
            ):
                cpu, *ratios = compare([*found.values()], [request], count)
                row(f"{name}, {cpu}", *ratios)
