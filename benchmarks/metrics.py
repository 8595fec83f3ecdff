"""The cost of metrics per request, and of a scrape for the serving process."""

from __future__ import annotations

import os
import timeit
from time import process_time
from typing import Any

from benchmarks.sizes import sized
from benchmarks.tables import row, table
from keyrack.core.metrics.catalog import (
    LOOKUPS,
    OF_PROCESS,
    OF_SERVER,
    QUEUE_IN_USE,
    REQUEST_SECONDS,
    REQUESTS,
    STATEMENT_SECONDS,
)
from keyrack.core.metrics.exposition import MetricsPage
from keyrack.core.metrics.instruments import snapshot
from keyrack.http.access_log import RequestObserver
from keyrack.http.request_state import request_state

TIMES = sized(100_000, tiny=100)
READ = 1_000.0  # microseconds of a point read at a client, including the network
HEADERS = {"type": "http.response.start", "status": 200, "headers": []}
BODY = {"type": "http.response.body", "body": b"{}"}


def main() -> None:
    """Print the table of benchmarks/results.md, "Metrics"."""
    table("metrics costs", "", "")
    request = _best(_request)
    parts = _best(_parts)
    row("The metrics of a request, and its id in the response", f"{request:.1f} us")
    row("The metrics of a point read: three cache lookups, a connection, a statement", f"{parts:.1f} us")
    row(
        f"Both, as a share of a point read of {READ:,.0f} us (goal: below 2 %)",
        f"**{100 * (request + parts) / READ:.1f} %**",
    )
    for route in range(100):
        for method in ("GET", "PUT"):
            REQUESTS.add(method, f"/route/{route}", "200")
            REQUEST_SECONDS.observe(0.001, method, f"/route/{route}")
    page = _page()
    lines = page.text({})[0].count(b"\n")
    row(
        "A snapshot of a process with 200 routes, which it sends to its parent",
        f"{_ms(lambda: snapshot(OF_PROCESS)):.1f} ms",
    )
    row(f"The metrics page of {lines:,} lines, built from it", f"{_ms(_text):.1f} ms")


def _best(work: Any) -> float:
    """CPU microseconds per call: the best of five runs, because other processes disturb the rest."""
    return min(timeit.repeat(work, timer=process_time, number=TIMES, repeat=5)) / TIMES * 1e6


def _ms(work: Any) -> float:
    return min(timeit.repeat(work, timer=process_time, number=3, repeat=5)) / 3 * 1e3


def _request() -> None:
    scope: dict[str, Any] = {}
    state = request_state(scope)
    state.route, state.customer, state.caller = "/cars/{carId}", 1, 1
    observed = RequestObserver(scope, _send, ((b"x-request-id", b"x"),))
    observed(dict(HEADERS))
    observed(BODY)
    observed.end("GET", "/cars/1", logged=False)


def _send(_message: Any) -> None: ...


HIT = LOOKUPS.of("keys", "hit")
TAKEN = QUEUE_IN_USE.of("bench")
SECONDS = STATEMENT_SECONDS.of("bench")


def _parts() -> None:
    HIT.value += 1
    HIT.value += 1
    HIT.value += 1
    TAKEN.value += 1
    SECONDS.observe(0.0004)
    TAKEN.value -= 1


def _page() -> MetricsPage:
    page = MetricsPage()
    page.add(snapshot(OF_PROCESS), "0", os.getpid())
    page.add(snapshot(OF_SERVER))
    return page


def _text() -> bytes:
    return _page().text({})[0]
