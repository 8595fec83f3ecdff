"""Reads with and without a replica: the share that leaves the primary, and the cost, in one run.

The primary, its replica and the servers share the machine. Meanwhile another process writes in another customer or in
the same one, or nothing is written. "without" is a server without replicas.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import asyncpg
from tests.db.replication.cluster import Cluster, running_cluster

from benchmarks.foundation import SMALL, UNLIMITED, Running, free_port, load, running, token
from benchmarks.load import cpu_since, cpu_times, http, measure
from benchmarks.sizes import sized
from benchmarks.tables import note, row, table

CUSTOMERS, CARS = 3, 2_000
ELSEWHERE = 3  # a customer without reads
ROUNDS = sized(3, tiny=1)  # in turn, so that other load affects all
COUNT = sized(1_500, tiny=20)  # requests per round
CHAIN = sized(300, tiny=5)  # reads one after another
PAUSE = 0.02  # seconds between two concurrent writes
POSITION = "Keyrack-Position"


@dataclass
class Spent:
    """CPU microseconds per request, and milliseconds until its response."""

    server: float = 0.0
    leader: float = 0.0
    replica: float = 0.0
    p50: float = 0.0


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


def spent(server: Running, cluster: Cluster, requests: Sequence[bytes], total: Spent) -> None:
    """Add the cost of one round of these requests to `total`."""
    measure(
        server.pid, server.port, requests, min(len(requests) * 8, COUNT)
    )  # opens the connections and makes their plans
    before = [cpu_times(backends(each.dsn)) for each in (cluster.leader, cluster.replica)]
    result = measure(server.pid, server.port, requests, COUNT, 4)
    leader, replica = map(cpu_since, before)
    assert set(result.statuses) == {200}, result.statuses
    total.server += result.cpu / ROUNDS
    total.leader += leader / COUNT * 1e6 / ROUNDS
    total.replica += replica / COUNT * 1e6 / ROUNDS
    total.p50 += result.p50 / ROUNDS


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
                totals, counts = (Spent(), Spent()), {"replica": 0.0}
                requests = [http("GET", "/v3" + path, small) for path in paths]
                for _ in range(ROUNDS):
                    with ExitStack() as others:
                        if customer:
                            others.enter_context(writing(without.port, signed_in, customer))
                        spent(without, cluster, requests, totals[0])
                        before = reads(metrics)
                        spent(at_replica, cluster, requests, totals[1])
                        after = reads(metrics)
                    for server in after:
                        counts[server] = counts.get(server, 0.0) + after[server] - before.get(server, 0.0)
                one, other = totals
                share = counts["replica"] / sum(counts.values())
                row(
                    f"{name}, {meanwhile}",
                    f"{one.server:.0f} + {one.leader:.0f}, {one.p50:.2f}",
                    f"{other.server:.0f} + {other.leader:.0f} + {other.replica:.0f}, {other.p50:.2f}",
                    f"**{other.server / one.server:.2f}**", f"**{other.leader / one.leader:.2f}**", f"{share:.1%}",
                )  # fmt: skip
        for meanwhile, customer in (("elsewhere", ELSEWHERE), ("here", SMALL)):
            with writing(without.port, signed_in, customer):
                share = chained(at_replica.port, metrics, small)
            note(
                f"Chained reads at the replica, each with the position of the previous response, "
                f"writes {meanwhile}: {share:.1%}."
            )
        write = [http("PUT", "/v3/cars", small, {"name": "New car"})]
        costs = [measure(server.pid, server.port, write, COUNT, 4) for _ in range(ROUNDS) for server in servers]
        cpu = [sum(one.cpu for one in costs[place::2]) / ROUNDS for place in (0, 1)]
        p50 = [sum(one.p50 for one in costs[place::2]) / ROUNDS for place in (0, 1)]
        note(
            f"`PUT /cars`: {cpu[0]:.0f} us and {p50[0]:.2f} ms without, {cpu[1]:.0f} us and {p50[1]:.2f} ms with:"
            f" **{cpu[1] / cpu[0]:.2f}**."
        )
