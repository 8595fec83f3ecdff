"""The failover drill: load, a series of failures, and a check at the end."""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from drills.cluster import Cluster
from drills.failures import Failure
from drills.load import Ledger, Load, Receiver
from drills.nodes import Keyrack
from drills.probes import Revocations, Writers
from drills.verdict import Verdict, judge

QUIET = 6.0  # seconds between two failures
WATCHED = 2  # a revoked key is watched for this multiple of the pause


@dataclass
class Outcome:
    """The effect of a failure: seconds without writes and without reads, at the node that was affected more."""

    failure: Failure
    writes: float
    reads: float
    moved: bool
    whole: float  # seconds until the cluster was complete again


async def drill(
    cluster: Cluster, state: Path, failures: Sequence[Failure], speed: float, quiet: float = QUIET
) -> tuple[list[Outcome], Verdict]:
    """Run each failure on the primary of the running cluster under load, and check the result."""
    keyrack = Keyrack(state, cluster.dsn)
    ledger, writers = Ledger(), Writers(cluster)
    connector = aiohttp.TCPConnector(limit=0)
    async with Receiver(ledger) as receiver, aiohttp.ClientSession(connector=connector) as http:
        try:
            await keyrack.start()
            fleet = await keyrack.fleet(http)
            await keyrack.register(http, fleet, receiver.url)
            load, revocations = Load(keyrack, fleet, http, ledger, speed), Revocations(keyrack, fleet, http)
            await writers.start()
            load.start()
            await asyncio.sleep(quiet)
            print(f"  {await _used(quiet):.0%} of the machine's CPU time is used before the first failure", flush=True)
            outcomes = [await _befall(cluster, failure, ledger, revocations, quiet) for failure in failures]
            await asyncio.sleep(quiet)
            await load.stop()
            await writers.stop()
            verdict = await judge(cluster.dsn_of(await cluster.leader()), fleet, ledger, writers)
        finally:
            await writers.stop()
            await keyrack.stop()
    verdict.none("invalid responses", ledger.faults)
    verdict.told["keys revoked during failures"] = revocations.done
    verdict.told["requests with these keys rejected"] = revocations.refused
    verdict.none("revoked keys accepted", revocations.faults)
    verdict.none("restarts of Keyrack processes", [one.name for one in keyrack.programs if one.starts != 1])
    verdict.told["requests"] = sum(ledger.statuses.values())
    verdict.told["of these without a response"] = ledger.statuses[0]
    verdict.told["of these with 503"] = ledger.statuses[503]
    verdict.told["requests retried with their idempotency key"] = ledger.again
    print(f"  direct writes by timeline: {dict(sorted(writers.timelines().items()))}")
    return outcomes, verdict


async def _befall(
    cluster: Cluster, failure: Failure, ledger: Ledger, revocations: Revocations, quiet: float
) -> Outcome:
    """Run one failure, from a complete cluster to a complete cluster; a key is revoked during it."""
    await cluster.until_whole(180)
    leader, key = await cluster.leader(), await revocations.prepare()
    await asyncio.sleep(quiet + random.random())
    begun = time.monotonic()
    await failure.begin(cluster, leader)
    revoking = asyncio.create_task(revocations.revoke(*key, watched=WATCHED * quiet))
    await asyncio.sleep(failure.lasts)
    await failure.end(cluster, leader)
    await cluster.until_whole(180)
    whole = time.monotonic() - begun
    await revoking
    after = await cluster.leader()
    outcome = Outcome(
        failure, *(max(longest_gap(times, begun) for times in kind) for kind in (ledger.writes, ledger.reads)),
        moved=after != leader, whole=whole,
    )  # fmt: skip
    print(
        f"  {failure.name}: {outcome.writes:.1f} s without writes (goal {failure.goal:g}), "
        f"{outcome.reads:.1f} s without reads; {leader} -> {after}; recovered after {whole:.0f} s",
        flush=True,
    )
    return outcome


def longest_gap(times: Sequence[float], begun: float) -> float:
    """The longest time between two successes, starting with the last one before `begun`.

    >>> longest_gap([1.0, 2.0, 2.5, 9.0, 9.5], 2.7)
    6.5
    """
    before = max((time for time in times if time <= begun), default=begun)
    seen = [before, *sorted(time for time in times if time > begun)]
    return max((after - one for one, after in itertools.pairwise(seen)), default=float("inf"))


async def _used(seconds: float) -> float:
    """The share of CPU time in use, measured over some seconds."""
    first = _ticks()
    await asyncio.sleep(seconds)
    last = _ticks()
    return (last[0] - first[0]) / (last[1] - first[1])


def _ticks() -> tuple[int, int]:
    """The used and the total CPU time since the start of the machine."""
    values = [int(value) for value in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return sum(values) - values[3] - values[4], sum(values)
