"""The failover drill: load, a series of failures, and a check at the end."""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from drills.cluster import Cluster
from drills.failures import Failure
from drills.load import Ledger, Load, Receiver
from drills.nodes import Fleet, Keyrack
from drills.probes import Revocations, Writers
from drills.verdict import Verdict, judge
from keyrack.core.error_codes import OVERLOADED
from keyrack.core.settings.cells import MAIN

NORTH = "north"  # the cell on the cluster, if there are two
SHARE = 0.25  # of the load, for the cell that has no failures
LONGEST_WAIT = 10.0  # maximum seconds until a worker has applied an operation in that cell
LONGEST_GAP = 3.0  # maximum seconds without an answer in that cell; a lookup waits for up to 1 s for the other one
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
    gap: float | None  # seconds without an answer in the other cell


@dataclass(frozen=True)
class Traffic:
    """The callers of a cell's customer: its load, and its keys that are revoked."""

    database: str  # address of the cell
    fleet: Fleet
    load: Load
    revocations: Revocations

    @property
    def ledger(self) -> Ledger:
        return self.load.ledger


async def drill(
    cluster: Cluster, state: Path, failures: Sequence[Failure], speed: float, quiet: float, main: str | None
) -> tuple[list[Outcome], dict[str, Verdict]]:
    """Run failures on the primary under load, and check each cell.

    With `main`, the address of another database, there are two cells: `main` there, and `north` on the cluster.
    """
    databases = {MAIN: cluster.dsn} if main is None else {NORTH: cluster.dsn, MAIN: main}  # the one that fails first
    keyrack, writers = Keyrack(state, databases), Writers(cluster)
    connector = aiohttp.TCPConnector(limit=0)
    async with AsyncExitStack() as receivers, aiohttp.ClientSession(connector=connector) as http:
        try:
            await keyrack.start()
            cells = [
                await receivers.enter_async_context(_traffic(keyrack, http, cell, dsn, speed, share))
                for (cell, dsn), share in zip(databases.items(), (1.0, SHARE), strict=False)
            ]
            await writers.start()
            for cell in cells:
                cell.load.start()
            await asyncio.sleep(quiet)
            print(f"  {await _used(quiet):.0%} of the machine's CPU time is used before the first failure", flush=True)
            outcomes = [await _befall(cluster, failure, cells, quiet) for failure in failures]
            await asyncio.sleep(quiet)
            await asyncio.gather(*(cell.load.stop() for cell in cells))
            await writers.stop()
            verdicts = await _judge(cells, writers)
        finally:
            await writers.stop()
            await keyrack.stop()
    restarted = [program.name for program in keyrack.programs if program.starts != 1]
    verdicts[cells[0].fleet.cell].none("restarts of Keyrack processes", restarted)
    print(f"  direct writes by timeline: {dict(sorted(writers.timelines().items()))}")
    return outcomes, verdicts


@asynccontextmanager
async def _traffic(
    keyrack: Keyrack, http: aiohttp.ClientSession, cell: str, dsn: str, speed: float, share: float
) -> AsyncIterator[Traffic]:
    """The callers of a new customer, and the receiver of its webhook."""
    ledger = Ledger()
    async with Receiver(ledger) as receiver:
        fleet = await keyrack.fleet(http, cell)
        await keyrack.register(http, fleet, receiver.url)
        yield Traffic(dsn, fleet, Load(keyrack, fleet, http, ledger, speed, share), Revocations(keyrack, fleet, http))


async def _judge(cells: Sequence[Traffic], writers: Writers) -> dict[str, Verdict]:
    """The verdict on each cell, the failing one first."""
    failing, *others = cells
    verdicts = {failing.fleet.cell: await judge(failing.database, failing.fleet, failing.ledger, writers)}
    _count(failing, verdicts[failing.fleet.cell])
    for cell in others:
        verdict = verdicts[cell.fleet.cell] = await judge(cell.database, cell.fleet, cell.ledger)
        _count(cell, verdict)
        judge_unaffected(cell.ledger, verdict)
        verdict.none("commands that failed", cell.revocations.failed)
    return verdicts


def _count(cell: Traffic, verdict: Verdict) -> None:
    """Add the requests of the cell, and those with its revoked keys."""
    ledger, revocations = cell.ledger, cell.revocations
    verdict.none("invalid responses", ledger.faults)
    verdict.told["keys revoked during failures"] = revocations.done
    verdict.told["requests with these keys rejected"] = revocations.refused
    verdict.none("revoked keys accepted", revocations.faults)
    verdict.told["requests"] = sum(ledger.statuses.values())
    verdict.told["of these without a response"] = ledger.statuses[0]
    verdict.told["of these with 503"] = ledger.statuses[503]
    verdict.told["of these for lack of CPU time"] = sum(
        times for error, times in ledger.errors.items() if OVERLOADED.text in error
    )
    verdict.told["requests retried with their idempotency key"] = ledger.again


def judge_unaffected(ledger: Ledger, verdict: Verdict) -> None:
    """Check that a cell's callers did not notice another cell's failures.

    A 503 for lack of CPU time is not counted: the drill has the machine of a whole installation.
    """
    verdict.none("requests without success", [e for e in ledger.errors.elements() if OVERLOADED.text not in e])
    gaps = [longest_gap(times, min(times, default=0.0)) for times in (*ledger.writes, *ledger.reads)]
    for what, most, seconds in (
        ("gaps without an answer", LONGEST_GAP, gaps), ("waits for a worker", LONGEST_WAIT, ledger.waits),
    ):  # fmt: skip
        verdict.none(f"{what} of more than {most:g} s", [f"{value:.1f} s" for value in seconds if value > most])


async def _befall(cluster: Cluster, failure: Failure, cells: Sequence[Traffic], quiet: float) -> Outcome:
    """Run one failure, from a complete cluster to a complete cluster; a key of each cell is revoked during it."""
    await cluster.until_whole(180)
    leader, keys = await cluster.leader(), [await cell.revocations.prepare() for cell in cells]
    await asyncio.sleep(quiet + random.random())
    begun = time.monotonic()
    await failure.begin(cluster, leader)
    revoking = [
        asyncio.create_task(cell.revocations.revoke(*key, watched=WATCHED * quiet))
        for cell, key in zip(cells, keys, strict=True)
    ]
    await asyncio.sleep(failure.lasts)
    await failure.end(cluster, leader)
    await cluster.until_whole(180)
    whole = time.monotonic() - begun
    await asyncio.gather(*revoking)
    return _outcome(failure, cells, begun, whole, leader, await cluster.leader())


def _outcome(
    failure: Failure, cells: Sequence[Traffic], begun: float, whole: float, leader: str, after: str
) -> Outcome:
    failing, *others = (cell.ledger for cell in cells)
    writes, reads = _gap(failing.writes, begun), _gap(failing.reads, begun)
    gap = max((_gap([*ledger.writes, *ledger.reads], begun) for ledger in others), default=None)
    outcome = Outcome(failure, writes, reads, moved=after != leader, whole=whole, gap=gap)
    print(
        f"  {failure.name}: {writes:.1f} s without writes (goal {failure.goal:g}), {reads:.1f} s without reads"
        f"{'' if gap is None else f', {gap:.1f} s without answers in the other cell'}; "
        f"{leader} -> {after}; recovered after {whole:.0f} s",
        flush=True,
    )
    return outcome


def _gap(nodes: Sequence[Sequence[float]], begun: float) -> float:
    """The longest gap in successes since `begun`, of the worst node."""
    return max(longest_gap(times, begun) for times in nodes)


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
