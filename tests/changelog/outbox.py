"""Helpers for tests of numbers: writers into the outbox, sequencers, and a check of the order."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import defaultdict
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import asyncpg

from keyrack.changelog.sequencer import Sequencer
from keyrack.core.settings import Settings
from keyrack.db.change_notifier import Topics
from keyrack.db.connection import Database
from keyrack.fleet import person_erasure
from keyrack.server.worker import connect
from tests.support.servers import DEADLINE

WRITE = """
insert into change_inbox (customer_id, kind, resource, resource_id, who, before, after)
values ($1, 'thing.updated', 'thing', $2, '{"type": "system", "id": "1"}', '{}',
  jsonb_build_object('version', $3::integer))
returning seq
"""
NUMBERED = """
select customer_id, change_id, resource_id, after->>'version' as version from change
where customer_id = any($1) order by customer_id, change_id
"""
THINGS = """
create table if not exists thing (customer_id integer, thing_id integer, version integer not null default 0,
  primary key (customer_id, thing_id));
create table if not exists elsewhere (at timestamptz not null default now())
"""
FOUR, EACH = 4, 5  # customers, and things per customer
ROLLED_BACK = 0.1

IDS = itertools.count(1_000_000)  # of customers, each a new one

Numbered = Sequence[tuple[int, int, str, int]]  # customer, number, thing, version


class House:
    """A database with an outbox and its sequencers."""

    def __init__(self, dsn: str, db: Database, settings: Settings) -> None:
        self.dsn, self.db, self.settings = dsn, db, settings
        self.told: list[tuple[int, Topics]] = []

    def numbering(self) -> Sequencer:
        return Sequencer(self.db, self.settings, lambda customer, topics: self.told.append((customer, topics)))

    @asynccontextmanager
    async def writer(self) -> AsyncGenerator[asyncpg.Connection]:
        raw = await asyncpg.connect(self.dsn)
        try:
            yield raw
        finally:
            raw.terminate()

    async def numbered(self, *customers: int) -> Numbered:
        """The numbered changes, in number order."""
        return [
            (row["customer_id"], row["change_id"], row["resource_id"], int(row["version"]))
            for row in await self.db.fetch(NUMBERED, customers)
        ]

    @asynccontextmanager
    async def workers(self, count: int) -> AsyncGenerator[None]:
        """Run `count` sequencers, each with its own connections, until the outbox is empty."""
        databases = [await connect(self.dsn, self.settings) for _ in range(count)]
        loops = [
            asyncio.create_task(Sequencer(db, self.settings, lambda *_: None).run()) for db in databases
        ]  # fmt: skip
        try:
            yield
            await until(lambda: self._is_empty(), "an empty inbox")
        finally:
            for loop in loops:
                loop.cancel()
            ended = await asyncio.gather(*loops, return_exceptions=True)
            for db in databases:
                await db.close()
        assert all(isinstance(end, asyncio.CancelledError) for end in ended), ended

    async def _is_empty(self) -> bool:
        return not await self.db.fetchval("select exists (select from change_inbox)")


@asynccontextmanager
async def house(dsn: str, **settings: Any) -> AsyncGenerator[House]:
    given = Settings(statement_timeout_seconds=DEADLINE, lock_timeout_seconds=DEADLINE, **settings)
    db = await connect(dsn, given)
    try:
        yield House(dsn, db, given)
    finally:
        await db.close()


def finish_erasing(dsn: str) -> None:
    """Run once the housekeeping step that finishes erasures."""

    async def finish() -> None:
        async with house(dsn) as home:
            await person_erasure.finish(home.db, home.settings)

    asyncio.run(finish())


async def until(condition: Any, what: str) -> None:
    """Wait for an asynchronous condition."""
    async with asyncio.timeout(DEADLINE):
        while not await condition():  # noqa: ASYNC110 - the condition is a query
            await asyncio.sleep(0.01)
    assert await condition(), what


def wrong(numbered: Numbered, made: dict[tuple[int, str], int]) -> list[str]:
    """The violations of the order: gaps, lost or repeated changes, inversions.

    `made` has the newest version of each thing; each version is one change.
    """
    found: list[str] = []
    numbers, versions = defaultdict[int, int](int), defaultdict[tuple[int, str], list[int]](list)
    for customer, number, thing, version in numbered:
        numbers[customer] += 1
        if number != numbers[customer]:
            found.append(f"customer {customer}: {number} stands where {numbers[customer]} should")
        before = versions[customer, thing]
        if before and version < before[-1]:
            found.append(f"customer {customer}, thing {thing}: {version} stands behind {before[-1]}")
        before.append(version)
    for key, newest in made.items():
        if sorted(versions[key]) != list(range(1, newest + 1)):
            found.append(f"{key}: of {newest} changes {len(versions[key])} are there")
    return found


async def storm(home: House, customers: Sequence[int], seconds: float, writers: int = 24) -> dict[tuple[int, str], int]:
    """Change twenty things by concurrent writers for `seconds`; one transaction in ten is rolled back.

    Returns the newest versions.
    """
    async with home.writer() as raw:
        await raw.execute(THINGS)
        await raw.execute(
            "insert into thing (customer_id, thing_id)"
            " select c, t from unnest($1::integer[]) c, generate_series(1, $2) t",
            customers, EACH,
        )  # fmt: skip
        end = asyncio.get_running_loop().time() + seconds
        await asyncio.gather(*(_write(home, customers, end, random.Random(number)) for number in range(writers)))
        rows = await raw.fetch("select * from thing where customer_id = any($1)", customers)
    return {(row["customer_id"], str(row["thing_id"])): row["version"] for row in rows}


async def _write(home: House, customers: Sequence[int], end: float, chance: random.Random) -> None:
    async with home.writer() as raw:
        while asyncio.get_running_loop().time() < end:
            transaction = raw.transaction()
            await transaction.start()
            if chance.random() < 0.3:  # a transaction id before there is a number
                await raw.execute("insert into elsewhere default values")
            customer = chance.choice(customers)
            # in one order, to avoid deadlocks
            for thing in sorted(chance.sample(range(1, EACH + 1), chance.choice((1, 1, 2)))):
                version = await raw.fetchval(
                    "update thing set version = version + 1 where customer_id = $1 and thing_id = $2 returning version",
                    customer, thing,
                )  # fmt: skip
                await raw.execute(WRITE, customer, str(thing), version)
                if chance.random() < 0.2:
                    await asyncio.sleep(chance.random() * 0.01)
            await (transaction.rollback() if chance.random() < ROLLED_BACK else transaction.commit())


async def by_horizon(home: House, taken: list[tuple[int, int, str, int]], ends: asyncio.Event) -> None:
    """An unsound sequencer: takes all rows below the oldest running transaction, in sequence order."""
    numbers = defaultdict[int, int](int)
    async with home.writer() as raw:
        while True:
            last = ends.is_set()
            rows = await raw.fetch(
                "with gone as (delete from change_inbox where xmin::text::bigint"
                " < pg_snapshot_xmin(pg_current_snapshot())::text::bigint"
                " returning seq, customer_id, resource_id, (after->>'version')::integer as version)"
                " select * from gone order by seq"
            )
            for row in rows:
                numbers[row["customer_id"]] += 1
                number = numbers[row["customer_id"]]
                taken.append((row["customer_id"], number, row["resource_id"], row["version"]))
            if last and not rows:
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(0.01):
                    await ends.wait()
