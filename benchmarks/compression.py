"""Plain and gzip lists, with and without threads: CPU, bytes, and delay of other requests."""

from __future__ import annotations

import asyncio
import json
import threading
import time
import urllib.request
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import asyncpg

from benchmarks.estimates import ratio
from benchmarks.foundation import LARGE, SMALL, UNLIMITED, database, free_port, load, running, token
from benchmarks.load import Result, http, measure, typical
from benchmarks.sizes import sized
from benchmarks.slices import Variant, alternate_servers
from benchmarks.tables import row, table

HUGE, HUGE_CARS = 3, sized(2_900, tiny=300)  # the customer whose cars are one chunk of the largest size
CUSTOMERS, CARS = 100, 2_000
REQUESTS = {SMALL: sized(75, tiny=20), LARGE: sized(30, tiny=5), HUGE: sized(10, tiny=5)}  # per slice
BESIDE = sized(1_000, tiny=20)  # requests beside the readers of the largest list
HOP_BYTES = sized(20_000_000, tiny=500_000)  # bytes that are compressed in each way
WAYS = {
    "plain": {},
    "gzip": {"KEYRACK_GZIP_OFFLOAD_MIN_BYTES": "1000000000"},
    "gzip in threads": {"KEYRACK_GZIP_OFFLOAD_MIN_BYTES": "1"},
}
MORE = """
insert into car (customer_id, name, vin, license_plate, brand, model, description)
  select 3, 'Car ' || n, 'WVWZZZ1KZ' || lpad(n::text, 8, '0'), 'B-KR ' || n, 'Volkswagen', 'Golf', md5(n::text)
  from generate_series(1, $1::integer) n
"""


@dataclass(frozen=True)
class Server:
    """A server process with one of the settings, and its request headers."""

    pid: int
    port: int
    headers: dict[str, str]

    def request(self, path: str, customer: int) -> bytes:
        return http("GET", "/v3" + path, self.headers | {"Customer-ID": str(customer)})

    def body(self, customer: int) -> bytes:
        url = f"http://127.0.0.1:{self.port}/v3/cars"
        asked = urllib.request.Request(url, headers=self.headers | {"Customer-ID": str(customer)})
        with urllib.request.urlopen(asked, timeout=30) as answer:
            return answer.read()


@contextmanager
def server(dsn: str, headers: dict[str, str], way: str) -> Iterator[Server]:
    port = free_port()
    env = {"KEYRACK_DATABASE_URL": dsn, "KEYRACK_LIST_CHUNK_ROWS": "5000", **UNLIMITED, **WAYS[way]}
    with running(["keyrack", "serve", "--port", str(port), "--no-worker"], port, "/health", env) as process:
        coding = {"Accept-Encoding": "identity" if way == "plain" else "gzip"}
        signed = headers | {"Authorization": f"Bearer {token(port, headers)}"} | coding
        yield Server(process.pid, port, signed)


def beside(server: Server) -> Result:
    """Response times of a small read while four clients read the largest list continuously."""
    stop = threading.Event()

    def flood() -> None:
        while not stop.is_set():
            measure(server.pid, server.port, [server.request("/cars", HUGE)], 20, connections=4)

    thread = threading.Thread(target=flood)
    thread.start()
    time.sleep(sized(0.5, tiny=0.05))
    try:
        return measure(server.pid, server.port, [server.request("/cars/1", SMALL)], BESIDE, connections=1)
    finally:
        stop.set()
        thread.join()


async def more(dsn: str) -> None:
    raw = await asyncpg.connect(dsn)
    await raw.execute(MORE, HUGE_CARS)
    await raw.execute("vacuum analyze car")
    await raw.close()


def levels(body: bytes) -> None:
    table("compression levels", "level", f"bytes of {len(body):,}", "CPU ms")
    for level in range(1, 7):
        best = min(_timed(body, level) for _ in range(9))
        row(level, f"{len(zlib.compress(body, level, 31)):,}", f"{best * 1e3:.2f}")


def _timed(body: bytes, level: int) -> float:
    start = time.thread_time()
    zlib.compress(body, level, 31)
    return time.thread_time() - start


async def hops(body: bytes) -> None:
    """CPU of compression in the event loop, which it blocks, and in a thread."""
    loop, threads = asyncio.get_running_loop(), ThreadPoolExecutor(2)
    table("compression threads", "bytes", "in the loop us", "in a thread us")
    for size in (4_096, 16_384, 65_536, 262_144):
        part, count = body[:size], max(HOP_BYTES // size, 1)
        cpu = time.process_time()
        for _ in range(count):
            zlib.compress(part, 1, 31)
        own = time.process_time() - cpu
        cpu = time.process_time()
        for _ in range(count):
            await loop.run_in_executor(threads, zlib.compress, part, 1, 31)
        handed = time.process_time() - cpu
        row(f"{size:,}", f"{own / count * 1e6:,.0f}", f"{handed / count * 1e6:,.0f}")
    threads.shutdown()


def main() -> None:
    """Print the tables of benchmarks/results.md, "Compressed answers"."""
    with database("compression") as dsn:
        headers = asyncio.run(load(dsn, CUSTOMERS, CARS))
        asyncio.run(more(dsn))
        with ExitStack() as stack:
            servers = {way: stack.enter_context(server(dsn, headers, way)) for way in WAYS}
            table("compression lists", "", "rows", "bytes", "CPU us", "p50 ms", "times the plain CPU")
            for customer, count in REQUESTS.items():
                variants = (Variant(one, [one.request("/cars", customer)], 200) for one in servers.values())
                lists = alternate_servers(*variants, count=count)
                rows = len(json.loads(servers["plain"].body(customer)))
                for (way, one), slices in zip(servers.items(), lists, strict=True):
                    medians = typical(slices.results)
                    cells = f"{len(one.body(customer)):,}", f"{medians.cpu:,.0f}", f"{medians.p50:.2f}"
                    row(way, f"{rows:,}", *cells, ratio(slices.each("cpu"), lists[0].each("cpu")).cell())
            body = servers["plain"].body(HUGE)
            waits = {way: beside(one) for way, one in servers.items()}
        table("compression neighbours", f"small reads, while four clients read {HUGE_CARS:,} cars", "p50 ms", "p99 ms")
        for way, result in waits.items():
            row(way, f"{result.p50:.2f}", f"{result.p99:.2f}")
        levels(body)
        asyncio.run(hops(body))
