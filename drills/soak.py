"""The soak drill: a mixed load for a long time, with a check for growth.

Stored data grow as expected. Memory, open files and connections of each process must not grow, nor tables that hold
only pending work.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import asyncpg

from drills.load import Ledger, Load, Receiver
from drills.machines import tree
from drills.nodes import Fleet, Keyrack
from drills.verdict import drained
from keyrack.core.settings.cells import MAIN
from keyrack.db.embedded.server import EmbeddedServer

STREAMS = 40  # live streams of the fleet, like those of consoles
OPEN = "01"  # state of a connection in /proc/net/tcp
EVERY = 10.0  # seconds between two measurements
WARM = 1 / 3  # share of the time before slopes are measured
QUEUES = ("customer_hold", "operation_lane", "delivery_lane", "rate_limit", "write_check", "event_counter")
SIZE = "select sum(pg_total_relation_size(c.oid)) from pg_class c where c.relname = any($1::text[]) and c.relkind = 'r'"
SESSIONS = "select count(*) from pg_stat_activity where datname = current_database()"
MOST = {"MB": 6.0, "files": 2.0, "MB of queues": 2.0, "sessions": 2.0}  # maximum growth per hour


@dataclass
class Series:
    """One figure over time."""

    unit: str
    points: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])

    @property
    def slope(self) -> float:
        """The growth per hour, by least squares over the points after the warm-up."""
        rest = self.points[int(len(self.points) * WARM) :]
        return slope(rest) * 3600


def slope(points: Sequence[tuple[float, float]]) -> float:
    """The slope of the line that fits best.

    >>> slope([(0, 1.0), (1, 3.0), (2, 5.0)])
    2.0
    """
    count = len(points)
    if count < 2:
        return 0.0
    middle = sum(x for x, _ in points) / count, sum(y for _, y in points) / count
    above = sum((x - middle[0]) * (y - middle[1]) for x, y in points)
    return above / (sum((x - middle[0]) ** 2 for x, _ in points) or 1.0)


async def soak(state: Path, minutes: float, speed: float) -> int:
    """Run the load on an embedded server below `state`. Returns 1 if a figure grows that must not."""
    with EmbeddedServer(state / "database") as server:
        keyrack, ledger = Keyrack(state, {MAIN: server.dsn}), Ledger()
        connector = aiohttp.TCPConnector(limit=0)
        async with Receiver(ledger) as receiver, aiohttp.ClientSession(connector=connector) as http:
            try:
                await keyrack.start()
                fleet = await keyrack.fleet(http)
                await keyrack.register(http, fleet, receiver.url)
                load = Load(keyrack, fleet, http, ledger, speed)
                load.start()
                watching = [asyncio.create_task(_watch(http, keyrack, fleet, n)) for n in range(STREAMS)]
                series = await _look(keyrack, server.dsn, minutes * 60)
                for task in watching:
                    task.cancel()
                await asyncio.gather(*watching, return_exceptions=True)
                await load.stop()
                await drained(server.dsn)
            finally:
                await keyrack.stop()
    return _say(series, ledger)


async def _watch(http: aiohttp.ClientSession, keyrack: Keyrack, fleet: Fleet, number: int) -> None:
    """Follow one node's stream, and reconnect whenever the server ends it."""
    timeout = aiohttp.ClientTimeout(total=None)
    while True:
        with suppress(aiohttp.ClientError, TimeoutError, OSError):
            url = keyrack.urls[number % len(keyrack.urls)] + "/v3/live"
            async with http.get(url, headers=fleet.headers, timeout=timeout) as answer:
                async for _ in answer.content:
                    pass
        await asyncio.sleep(1)


async def _look(keyrack: Keyrack, dsn: str, seconds: float) -> dict[str, Series]:
    series: dict[str, Series] = {}
    sql = await asyncpg.connect(dsn)
    begun = time.monotonic()
    ports = {urlsplit(url).port for url in keyrack.urls}

    def note(name: str, unit: str, value: float) -> None:
        series.setdefault(name, Series(unit)).points.append((time.monotonic() - begun, value))

    try:
        while time.monotonic() - begun < seconds:
            callers = _callers(ports)
            for program in keyrack.programs:
                if program.pid is not None:
                    note(f"{program.name}, memory", "MB", sum(map(_resident, tree(program.pid))))
                    note(f"{program.name}, open files without callers", "files", _files(program.pid, callers))
            note("tables of pending work", "MB of queues", float(await sql.fetchval(SIZE, QUEUES)) / 1e6)
            note("sessions of the database", "sessions", await sql.fetchval(SESSIONS))
            await asyncio.sleep(EVERY)
    finally:
        await sql.close()
    return series


def _callers(ports: Set[int | None]) -> Set[str]:
    """The connections to these ports, by the names of their files.

    They do not count: the drill's client reuses connections in turn, and keeps as many as it ever needed at once.
    """
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return {f"socket:[{row[9]}]" for row in rows if int(row[1].partition(":")[2], 16) in ports and row[3] == OPEN}


def _files(pid: int, callers: Set[str]) -> int:
    """The number of open files without callers' connections."""
    return sum(_target(path) not in callers for path in Path(f"/proc/{pid}/fd").iterdir())


def _target(descriptor: Path) -> str:
    with suppress(OSError):  # closed in the meantime
        return str(descriptor.readlink())
    return ""


def _resident(pid: int) -> float:
    """MB of anonymous memory."""
    with suppress(OSError, StopIteration):
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("RssAnon")).split()[1]) / 1024
    return 0.0


def _say(series: dict[str, Series], ledger: Ledger) -> int:
    print("\n| | First | After warm-up | Last | Per hour | Limit |\n|---|---|---|---|---|---|")
    wrong = list(ledger.faults)
    for name, one in series.items():
        values = [value for _, value in one.points]
        warm = values[int(len(values) * WARM)]
        print(
            f"| {name}, {one.unit} | {values[0]:.1f} | {warm:.1f} | {values[-1]:.1f} "
            f"| {one.slope:+.1f} | {MOST[one.unit]:+.1f} |"
        )
        if one.slope > MOST[one.unit]:
            wrong.append(f"{name} grows by {one.slope:.1f} {one.unit} per hour")
    print(
        f"\n{sum(ledger.statuses.values()):,} requests {dict(ledger.statuses)}; {len(ledger.operations):,} operations, "
        f"{len(ledger.first):,} outcomes delivered, {len(ledger.events):,} events, {len(ledger.samples):,} samples"
    )
    if lost := set(ledger.operations) - set(ledger.first):
        wrong.append(f"the outcomes of {len(lost)} operations were never delivered, such as {sorted(lost)[:5]}")
    for text in wrong:
        print(f"WRONG: {text}")
    return 1 if wrong else 0
