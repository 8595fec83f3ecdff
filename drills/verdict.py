"""The check after a drill: acknowledged calls against the rows of the surviving database."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import asyncpg

from drills.load import STEPS, Ledger
from drills.nodes import Fleet
from drills.probes import Writers

DRAINED = 120.0  # seconds until all outcomes must be delivered


@dataclass
class Verdict:
    """Counts of a drill, and its errors; a good drill has none."""

    told: dict[str, int] = field(default_factory=dict[str, int])
    wrong: list[str] = field(default_factory=list[str])

    def none(self, what: str, missing: Any) -> None:
        """Record a collection that must be empty."""
        self.told[what] = len(missing)
        if missing:
            self.wrong.append(f"{what}: {len(missing)}, such as {sorted(map(str, missing))[:5]}")


async def drained(dsn: str) -> dict[str, int]:
    """The pending work after the time for completion."""
    sql, end = await asyncpg.connect(dsn, timeout=10), time.monotonic() + DRAINED
    try:
        while True:
            left = {
                "operations pending": await sql.fetchval("select count(*) from operation where state = 'Pending'"),
                "outcomes waiting": await sql.fetchval("select count(*) from delivery where state = 'Waiting'"),
            }
            if not any(left.values()) or time.monotonic() > end:
                return left
            await asyncio.sleep(0.3)
    finally:
        await sql.close()


async def judge(dsn: str, fleet: Fleet, ledger: Ledger, writers: Writers | None = None) -> Verdict:
    """Compare the ledger, and any direct writes, with the surviving database."""
    verdict = Verdict()
    for what, left in (await drained(dsn)).items():
        verdict.none(f"{what} at the end", range(left))
    sql = await asyncpg.connect(dsn, timeout=10)
    try:
        await _cars(sql, fleet, ledger, verdict)
        if writers is not None:
            await _direct_writes(sql, writers, verdict)
        await _samples(sql, fleet, ledger, verdict)
        await _outcomes(sql, fleet, ledger, verdict)
        await _feed(sql, fleet, ledger, verdict)
    finally:
        await sql.close()
    return verdict


async def _cars(sql: Any, fleet: Fleet, ledger: Ledger, verdict: Verdict) -> None:
    names = [row[0] for row in await sql.fetch("select name from car where customer_id = $1", fleet.customer)]
    verdict.told["cars acknowledged"] = len(ledger.cars)
    verdict.none("cars lost", set(ledger.cars) - set(names))
    verdict.none("cars created twice", _twice(names))


async def _direct_writes(sql: Any, writers: Writers, verdict: Verdict) -> None:
    probes = {row[0] for row in await sql.fetch("select id from drill_probe")}
    verdict.told["direct writes acknowledged"] = len(writers.acknowledged)
    verdict.none("of these lost", writers.acknowledged.keys() - probes)


async def _samples(sql: Any, fleet: Fleet, ledger: Ledger, verdict: Verdict) -> None:
    stored = await sql.fetch(
        "select odometer from odometer where customer_id = $1"
        " union all select odometer from car_state where customer_id = $1 and odometer is not null",
        fleet.customer,
    )
    verdict.told["samples acknowledged"] = len(ledger.samples)
    verdict.none("samples lost", set(ledger.samples) - {int(row[0]) for row in stored})


def _twice(names: Iterable[str]) -> list[str]:
    """The names that occur more than once."""
    return [name for name, times in Counter(names).items() if times > 1]


async def _outcomes(sql: Any, fleet: Fleet, ledger: Ledger, verdict: Verdict) -> None:
    rows = await sql.fetch(
        "select operation_id::text as id, state, assignment_id from operation where customer_id = $1", fleet.customer
    )
    known = {row["id"] for row in rows}
    told = await sql.fetch("select message_id::text from delivery where customer_id = $1", fleet.customer)
    verdict.told["operations acknowledged"] = len(ledger.operations)
    verdict.none("operations lost", set(ledger.operations) - known)
    verdict.none("operations applied twice", known - set(ledger.operations))
    verdict.none("operations that failed", [row["id"] for row in rows if row["state"] != "Succeeded"])
    verdict.told["outcomes received"] = len(ledger.first)
    verdict.told["of these repeated"] = ledger.received - len(ledger.first)
    verdict.none("outcomes lost", known - set(ledger.first))
    verdict.none("outcomes duplicated", _twice(row[0] for row in told))
    verdict.none("outcomes of unknown operations", set(ledger.first) - known)
    order: dict[int, list[str]] = {}
    for id, payload in ledger.first.items():
        order.setdefault(payload["assignmentId"], []).append(id)
    whole = {made: ids for made, ids in ledger.lives.items() if len(ids) == STEPS}
    verdict.none(
        "assignments with outcomes out of order", [made for made, ids in whole.items() if order.get(made) != ids]
    )


async def _feed(sql: Any, fleet: Fleet, ledger: Ledger, verdict: Verdict) -> None:
    rows = await sql.fetch("select event_id, user_agent from event where customer_id = $1", fleet.customer)
    stored = {row[0]: row[1] for row in rows}
    verdict.told["events acknowledged"] = len(ledger.events)
    verdict.none("events lost or changed", [id for id, said in ledger.events.items() if stored.get(id) != said])
    verdict.none("feed numbers missing", set(range(1, len(stored) + 1)) - stored.keys())
    verdict.none("events that differ in the feed", [id for id, said in ledger.fed.items() if stored.get(id) != said])
    verdict.none("events missing in the feed", ledger.events.keys() - ledger.fed.keys())
