"""Reads with a replica beside reads without: how many leave the leader, and what each costs, in one run.

The leader, its replica and the servers share the machine. Clients send back the position of a write that goes on all
the time (`returned`), or none (`none`); "without" is a server that was given no replicas.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import asyncpg
from tests.database.cluster import Cluster, running_cluster

from benchmarks.foundation import SMALL, UNLIMITED, Running, free_port, load, running, token
from benchmarks.load import cpu_seconds, http, machine, measure

CUSTOMERS, CARS = 3, 2_000
ROUNDS = 3  # by turns, so that what else the machine does meets all
COUNT = 1_500  # requests of a round
PAUSE = 0.02  # seconds between two writes of whoever writes meanwhile
POSITION = "Keyrack-Position"


@dataclass
class Spent:
    """Microseconds of CPU a request, and milliseconds until its answer."""

    server: float = 0.0
    leader: float = 0.0
    replica: float = 0.0
    p50: float = 0.0


def backends(dsn: str) -> list[int]:
    """The processes of a server that serve Keyrack."""

    async def ask() -> list[int]:
        raw = await asyncpg.connect(dsn)
        rows = await raw.fetch("select pid from pg_stat_activity where application_name like 'keyrack%'")
        await raw.close()
        return [row["pid"] for row in rows]

    return asyncio.run(ask())


def reads(metrics: int) -> dict[str, float]:
    """How many reads who has answered."""
    text = urllib.request.urlopen(f"http://127.0.0.1:{metrics}/metrics", timeout=10).read().decode()
    lines = [line for line in text.splitlines() if line.startswith("keyrack_reads_total{")]
    return {line.split('server="')[1].split('"')[0]: float(line.rpartition(" ")[2]) for line in lines}


@contextmanager
def writing(port: int, headers: dict[str, str]) -> Iterator[None]:
    """Somebody of another customer writes all the time."""
    ended = threading.Event()

    def write() -> None:
        body = json.dumps({"name": "New car"}).encode()
        told = headers | {"Customer-ID": "3", "Content-Type": "application/json"}
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
    """Add to `total` what one round of these requests costs."""
    measure(server.pid, server.port, requests, len(requests) * 8)  # the connections are open and their plans made
    places = [backends(each.dsn) for each in (cluster.leader, cluster.replica)]
    before = [sum(map(cpu_seconds, pids)) for pids in places]
    result = measure(server.pid, server.port, requests, COUNT, 4)
    leader, replica = (sum(map(cpu_seconds, pids)) - was for pids, was in zip(places, before, strict=True))
    assert set(result.statuses) == {200}, result.statuses
    total.server += result.cpu / ROUNDS
    total.leader += leader / COUNT * 1e6 / ROUNDS
    total.replica += replica / COUNT * 1e6 / ROUNDS
    total.p50 += result.p50 / ROUNDS


def position(port: int, headers: dict[str, str]) -> str:
    """The position of now."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v3/operations?$top=1", headers=headers)
    return urllib.request.urlopen(request, timeout=10).headers[POSITION]


def main() -> None:
    print(f"Reads at a replica beside reads at the leader on {machine()}, Python {sys.version.split()[0]}")
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
        time.sleep(3)  # the first heartbeats have been replayed
        print("\n| | without: us of server + leader, p50 ms | with: us of server + leader + replica, p50 ms | server |"
              " leader | leave the leader |\n|---|---|---|---|---|---|")  # fmt: skip
        for name, paths in (("GET /cars/{carId}", [f"/cars/{id}" for id in range(1, 101)]), ("100 rows", ["/cars"])):
            for told in ("none", "returned", "at rest"):
                totals, counts = (Spent(), Spent()), {"replica": 0.0}
                for _ in range(ROUNDS):
                    with ExitStack() as load_of_others:
                        if told != "at rest":
                            load_of_others.enter_context(writing(without.port, signed_in))
                        seen = small | ({POSITION: position(at_replica.port, small)} if told == "returned" else {})
                        requests = [http("GET", "/v3" + path, seen) for path in paths]
                        spent(without, cluster, requests, totals[0])
                        before = reads(metrics)
                        spent(at_replica, cluster, requests, totals[1])
                        after = reads(metrics)
                    for server in after:
                        counts[server] = counts.get(server, 0.0) + after[server] - before.get(server, 0.0)
                one, other = totals
                share = counts["replica"] / sum(counts.values())
                print(
                    f"| {name}, {told} | {one.server:.0f} + {one.leader:.0f}, {one.p50:.2f} "
                    f"| {other.server:.0f} + {other.leader:.0f} + {other.replica:.0f}, {other.p50:.2f} "
                    f"| **{other.server / one.server:.2f}** | **{other.leader / one.leader:.2f}** | {share:.1%} |"
                )
        write = [http("PUT", "/v3/cars", small, {"name": "New car"})]
        costs = [measure(server.pid, server.port, write, COUNT, 4) for _ in range(ROUNDS) for server in servers]
        cpu = [sum(one.cpu for one in costs[place::2]) / ROUNDS for place in (0, 1)]
        p50 = [sum(one.p50 for one in costs[place::2]) / ROUNDS for place in (0, 1)]
        print(f"\nPUT /cars: {cpu[0]:.0f} us and {p50[0]:.2f} ms without, {cpu[1]:.0f} us and {p50[1]:.2f} ms with:"
              f" **{cpu[1] / cpu[0]:.2f}**")  # fmt: skip
