"""In charge of the drill of failover: load, failures one after another, and the reckoning at the end."""

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

QUIET = 6.0  # seconds between two failures in which all is well
WATCHED = 2  # times as long a revoked key is tried


@dataclass
class Outcome:
    """How a failure went: seconds without a write and without a read at the node that had it worse."""

    failure: Failure
    writes: float
    reads: float
    moved: bool
    whole: float  # seconds from its beginning until the cluster was whole again


async def drill(
    cluster: Cluster, state: Path, failures: Sequence[Failure], speed: float, quiet: float = QUIET
) -> tuple[list[Outcome], Verdict]:
    """Let each failure befall the leader of the running cluster while callers call; and judge what is left."""
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
            print(f"  {await _used(quiet):.0%} of the machine's time is used before the first failure", flush=True)
            outcomes = [await _befall(cluster, failure, ledger, revocations, quiet) for failure in failures]
            await asyncio.sleep(quiet)
            await load.stop()
            await writers.stop()
            verdict = await judge(cluster.dsn_of(await cluster.leader()), fleet, ledger, writers)
        finally:
            await writers.stop()
            await keyrack.stop()
    verdict.none("answers that must not be", ledger.faults)
    verdict.told["keys revoked meanwhile"] = revocations.done
    verdict.told["requests with them refused"] = revocations.refused
    verdict.none("old permissions honoured", revocations.faults)
    verdict.none("processes of Keyrack started again", [one.name for one in keyrack.programs if one.starts != 1])
    verdict.told["requests"] = sum(ledger.statuses.values())
    verdict.told["of these without an answer"] = ledger.statuses[0]
    verdict.told["of these answered 503"] = ledger.statuses[503]
    verdict.told["requests sent again with their key"] = ledger.again
    print(f"  writes at the nodes' own ports by timeline: {dict(sorted(writers.timelines().items()))}")
    return outcomes, verdict


async def _befall(
    cluster: Cluster, failure: Failure, ledger: Ledger, revocations: Revocations, quiet: float
) -> Outcome:
    """One failure, from a whole cluster to a whole cluster; a key is revoked in the middle of it."""
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
        f"  {failure.name}: {outcome.writes:.1f} s without a write (goal {failure.goal:g}), "
        f"{outcome.reads:.1f} s without a read; {leader} -> {after}; whole after {whole:.0f} s",
        flush=True,
    )
    return outcome


def longest_gap(times: Sequence[float], begun: float) -> float:
    """Seconds between two that went well, at most, from the last one before `begun` on.

    >>> longest_gap([1.0, 2.0, 2.5, 9.0, 9.5], 2.7)
    6.5
    """
    before = max((time for time in times if time <= begun), default=begun)
    seen = [before, *sorted(time for time in times if time > begun)]
    return max((after - one for one, after in itertools.pairwise(seen)), default=float("inf"))


async def _used(seconds: float) -> float:
    """The share of all cores' time that is used, over so long."""
    first = _ticks()
    await asyncio.sleep(seconds)
    last = _ticks()
    return (last[0] - first[0]) / (last[1] - first[1])


def _ticks() -> tuple[int, int]:
    """Of all cores since the machine's start: those that were used, and all."""
    values = [int(value) for value in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return sum(values) - values[3] - values[4], sum(values)
