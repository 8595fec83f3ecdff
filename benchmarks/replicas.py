"""Reads with and without a replica: the share that leaves the primary, and the cost, in one run.

The primary, its replica and the servers share the machine. Meanwhile another process writes in another customer or in
the same one, or nothing is written. "without" is a server without replicas.
"""

from __future__ import annotations

import asyncio
import functools
import json
import statistics
import threading
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import asyncpg
from tests.db.replication.cluster import Cluster, running_cluster

from benchmarks.estimates import ratio
from benchmarks.foundation import SMALL, UNLIMITED, Running, free_port, load, running, token
from benchmarks.load import Connections, cpu_since, cpu_times, http, typical
from benchmarks.sizes import sized
from benchmarks.slices import Variant, alternate, alternate_servers
from benchmarks.tables import note, row, table

CUSTOMERS, CARS = 3, 2_000
ELSEWHERE = 3  # a customer without reads
COUNT = sized(200, tiny=20)  # requests per slice
CONNECTIONS = 4
CHAIN = sized(300, tiny=5)  # reads one after another
PAUSE = 0.02  # seconds between two concurrent writes
POSITION = "Keyrack-Position"


@dataclass(frozen=True)
class Spent:
    """CPU microseconds per request, and milliseconds until its response."""

    server: float
    leader: float
    replica: float
    p50: float


def backends(dsn: str) -> list[int]:
    """The processes of a database server that serve Keyrack."""

    async def ask() -> list[int]:
        raw = await asyncpg.connect(dsn)
        rows = await raw.fetch("select pid from pg_stat_activity where application_name like 'keyrack%'")
        await raw.close()
        return [row["pid"] for row in rows]

    return asyncio.run(ask())


def reads(metrics: int) -> dict[str, float]:
    """The number of reads by answering server."""
    text = urllib.request.urlopen(f"http://127.0.0.1:{metrics}/metrics", timeout=10).read().decode()
    lines = [line for line in text.splitlines() if line.startswith("keyrack_reads_total{")]
    return {line.split('server="')[1].split('"')[0]: float(line.rpartition(" ")[2]) for line in lines}


@contextmanager
def writing(port: int, headers: dict[str, str], customer: int) -> Iterator[None]:
    """Write in the customer continuously within the context."""
    ended = threading.Event()

    def write() -> None:
        body = json.dumps({"name": "New car"}).encode()
        told = headers | {"Customer-ID": str(customer), "Content-Type": "application/json"}
        while not ended.wait(PAUSE):
            request = urllib.request.Request(f"http://127.0.0.1:{port}/v3/cars", body, told, method="PUT")
            urllib.request.urlopen(request, timeout=10).close()

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def spent(connections: Connections, cluster: Cluster, requests: Sequence[bytes]) -> Spent:
    """The cost of a slice of these requests."""
    before = [cpu_times(backends(each.dsn)) for each in (cluster.leader, cluster.replica)]
    result = connections.measure(requests)
    leader, replica = (cpu_since(times) / len(requests) * 1e6 for times in before)
    assert set(result.statuses) == {200}, result.statuses
    return Spent(result.cpu, leader, replica, result.p50)


def cells(slices: Sequence[Spent], *parts: str) -> str:
    """The medians of these parts of the CPU time, and of the response time."""
    cpu, p50 = ([statistics.median(getattr(s, part) for s in slices) for part in of] for of in (parts, ["p50"]))
    return f"{' + '.join(f'{part:.0f}' for part in cpu)}, {p50[0]:.2f}"


def chained(port: int, metrics: int, headers: dict[str, str]) -> float:
    """The share of chained reads that leave the primary.

    Each read sends the position of the previous response.
    """
    before, seen = reads(metrics), {}
    for number in range(CHAIN):
        path = f"/v3/cars/{1 + number % 100}"
        request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=headers | seen)
        seen = {POSITION: urllib.request.urlopen(request, timeout=10).headers[POSITION]}
    return (reads(metrics)["replica"] - before["replica"]) / CHAIN


def main() -> None:
    """Print the table of benchmarks/results.md, "Read replicas"."""
    with running_cluster() as cluster, ExitStack() as stack:
        key = asyncio.run(load(cluster.leader.dsn, CUSTOMERS, CARS))
        env = {"KEYRACK_DATABASE_URL": cluster.leader.dsn, **UNLIMITED}
        servers: list[Running] = []
        metrics = free_port()
        with_replica = {
            "KEYRACK_READ_DATABASE_URL": cluster.replica.dsn, "KEYRACK_METRICS": f"127.0.0.1:{metrics}",
        }  # fmt: skip
        for more in ({}, with_replica):
            port = free_port()
            command = ["keyrack", "serve", "--port", str(port), "--no-worker"]
            servers.append(stack.enter_context(running(command, port, "/health", env | more)))
        without, at_replica = servers
        signed_in = key | {"Authorization": f"Bearer {token(without.port, key)}"}
        small = signed_in | {"Customer-ID": str(SMALL)}
        time.sleep(sized(3.0, tiny=0.5))  # time for the replay of the first heartbeats
        table(
            "replicas reads", "CPU us: Keyrack + primary (+ replica), p50 ms", "without", "with", "Keyrack", "primary",
            "reads at the replica",
        )  # fmt: skip
        for name, paths in (
            ("GET /cars/{carId}", [f"/cars/{id}" for id in range(1, 101)]),
            ("GET /cars?$top=100", ["/cars?$top=100"]),
        ):
            for meanwhile, customer in (("no writes", 0), ("writes elsewhere", ELSEWHERE), ("writes here", SMALL)):
                requests = [http("GET", "/v3" + path, small) for path in paths] * (COUNT // len(paths) or 1)
                with ExitStack() as others:
                    if customer:
                        others.enter_context(writing(without.port, signed_in, customer))
                    opened = [
                        others.enter_context(Connections(server.pid, server.port, CONNECTIONS)) for server in servers
                    ]
                    before = reads(metrics)
                    one, other = alternate(*(functools.partial(spent, of, cluster, requests) for of in opened))
                    counts = {server: count - before.get(server, 0.0) for server, count in reads(metrics).items()}
                row(
                    f"{name}, {meanwhile}",
                    cells(one, "server", "leader"),
                    cells(other, "server", "leader", "replica"),
                    ratio([s.server for s in other], [s.server for s in one]).cell(),
                    ratio([s.leader for s in other], [s.leader for s in one]).cell(),
                    f"{counts.get('replica', 0.0) / sum(counts.values()):.1%}",
                )
        for meanwhile, customer in (("elsewhere", ELSEWHERE), ("here", SMALL)):
            with writing(without.port, signed_in, customer):
                share = chained(at_replica.port, metrics, small)
            note(
                f"Chained reads at the replica, each with the position of the previous response, "
                f"writes {meanwhile}: {share:.1%}."
            )
        write = [http("PUT", "/v3/cars", small, {"name": "New car"})]
        variants = (Variant(server, write) for server in servers)
        one, other = alternate_servers(*variants, count=COUNT, connections=CONNECTIONS)
        medians = [typical(slices.results) for slices in (one, other)]
        costs = [f"{of.cpu:.0f} us and {of.p50:.2f} ms" for of in medians]
        times = ratio(other.each("cpu"), one.each("cpu")).cell()
        note(f"`PUT /cars`: {costs[0]} without, {costs[1]} with: {times}.")
