"""The order of numbers: no gaps, losses or inversions, with any writers and long transactions."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Iterator, MutableMapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

from keyrack.changelog.visibility_watermark import VisibilityWatermark, writers
from keyrack.db import schema_version
from tests.changelog.outbox import EACH, FOUR, IDS, WRITE, House, by_horizon, house, storm, until, wrong
from tests.support.log_lines import captured_events
from tests.support.servers import fresh_database, migrated_database

SECONDS = float(os.environ.get("KEYRACK_ORDER", "1.5"))  # of a storm
TRIES = 10  # storms, of which one must show the unsound order
ELSEWHERE = "insert into elsewhere default values"
BLOCKED, RESUMED = "sequencing blocked by an old transaction", "sequencing resumed"


@pytest.fixture(scope="module")
def own(database_server: str) -> Iterator[str]:
    """A database without other sequencers."""
    with migrated_database(database_server) as dsn:
        asyncio.run(_execute(dsn, "create table elsewhere (at timestamptz not null default now())"))
        yield dsn


async def _execute(dsn: str, sql: str) -> None:
    raw = await asyncpg.connect(dsn)
    await raw.execute(sql)
    await raw.close()


@asynccontextmanager
async def opened(raw: asyncpg.Connection, sql: str, *args: object) -> AsyncGenerator[None]:
    """A transaction that has run this statement and stays open."""
    transaction = raw.transaction()
    await transaction.start()
    await raw.execute(sql, *args)
    yield
    await transaction.commit()


def impatient(home: House) -> VisibilityWatermark:
    """A watermark that soon logs the transaction that it waits for."""
    return VisibilityWatermark(home.db, warn_after=0.3)


def blocked_by(logs: Sequence[MutableMapping[str, Any]], **fields: object) -> list[MutableMapping[str, Any]]:
    """The log lines about a transaction with these fields; other tests' sequencers wait for others."""
    return [line for line in logs if line["event"] == BLOCKED and fields.items() <= line.items()]


def test_an_older_transaction_writes_later(own: str) -> None:
    """The lock on the row decides the order, so B comes first.

    A begins first and writes last. C is unrelated, comes between them and stays open. By the oldest running
    transaction, A would be numbered without B.
    """

    async def main() -> None:
        async with house(own) as home, home.writer() as a, home.writer() as b, home.writer() as c:
            customer = next(IDS)
            async with opened(c, ELSEWHERE):
                pass
            old = a.transaction()
            await old.start()
            await a.execute(ELSEWHERE)  # the smallest id
            async with opened(c, ELSEWHERE):  # the next one
                await b.execute(WRITE, customer, "car", 1)  # the largest id, and the first change
                await a.execute(WRITE, customer, "car", 2)
                await old.commit()
                # unrelated transactions block nothing
                assert await home.numbering().sequence(VisibilityWatermark(home.db)) == 2
                assert await home.numbered(customer) == [(customer, 1, "car", 1), (customer, 2, "car", 2)]

    asyncio.run(main())


def test_both_transactions_in_one_batch(own: str) -> None:
    """The same, numbered after all have ended: the order is not that of the transaction ids."""

    async def main() -> None:
        async with house(own) as home, home.writer() as a, home.writer() as b:
            customer = next(IDS)
            async with opened(a, ELSEWHERE):
                await b.execute(WRITE, customer, "car", 1)
                await a.execute(WRITE, customer, "car", 2)
            assert await home.numbering().sequence(VisibilityWatermark(home.db)) == 2
            assert await home.numbered(customer) == [(customer, 1, "car", 1), (customer, 2, "car", 2)]

    asyncio.run(main())


def test_a_number_drawn_first_may_be_committed_last(own: str) -> None:
    """An open transaction that has drawn a number blocks later ones, is logged once, and loses nothing."""

    async def main() -> None:
        async with house(own) as home, home.writer() as slow, home.writer() as quick, home.writer() as next_one:
            customer, pid = next(IDS), slow.get_server_pid()
            with captured_events(BLOCKED, RESUMED) as logs:
                async with opened(slow, WRITE, customer, "first", 1):
                    await quick.execute(WRITE, customer, "second", 1)
                    round = asyncio.create_task(home.numbering().sequence(impatient(home)))
                    await until(lambda: _is(blocked_by(logs, pid=pid)), "a line about who is in the way")
                    (writer,) = await writers(home.db)
                    assert (writer.pid, writer.gid) == (pid, None)
                    assert await home.numbered(customer) == [] and not round.done()
                    # a later transaction is not waited for
                    later = next_one.transaction()
                    await later.start()
                    await next_one.execute(WRITE, customer, "third", 1)
                assert await round == 2
                assert await home.numbered(customer) == [(customer, 1, "first", 1), (customer, 2, "second", 1)]
                await later.commit()
                assert await home.numbering().sequence(VisibilityWatermark(home.db)) == 1
            (line,) = blocked_by(logs, pid=pid)
            assert (line["log_level"], line["prepared"]) == ("warning", None)
            assert line["database"] and line["seconds"] >= 0
            assert RESUMED in [line["event"] for line in logs]

    asyncio.run(main())


def test_a_prepared_transaction_is_waited_for(own: str) -> None:
    """Also if it is prepared during the wait: it has no process any more, but still its locks."""

    async def main() -> None:
        async with house(own) as home, home.writer() as raw:
            if await home.db.fetchval("select current_setting('max_prepared_transactions')") == "0":
                pytest.skip("the server takes no prepared transactions: max_prepared_transactions is 0")
            customer, numbering = next(IDS), home.numbering()
            await raw.execute("begin")
            await raw.execute(WRITE.replace("$1", str(customer)).replace("$2", "'car'").replace("$3", "1"))
            async with home.writer() as other:
                await other.execute(WRITE, customer, "other", 1)
            with captured_events(BLOCKED) as logs:
                round = asyncio.create_task(numbering.sequence(impatient(home)))
                open_one = raw.get_server_pid()
                await until(lambda: _is(blocked_by(logs, pid=open_one)), "that the open transaction is waited for")
                await raw.execute("prepare transaction 'of the test'")
                try:
                    (writer,) = await writers(home.db)
                    assert (writer.pid, writer.gid) == (None, "of the test")
                    again = asyncio.create_task(numbering.sequence(impatient(home)))
                    await until(lambda: _is(blocked_by(logs, prepared="of the test")), "that it is waited for")
                    assert not round.done() and not again.done()
                finally:  # otherwise the database could not be dropped
                    await raw.execute("commit prepared 'of the test'")
                assert await round + await again == 2
            assert await home.numbered(customer) == [(customer, 1, "car", 1), (customer, 2, "other", 1)]

    asyncio.run(main())


def test_a_rollback_leaves_no_gap(own: str) -> None:
    """Whole transactions, and parts of them."""

    async def main() -> None:
        async with house(own) as home, home.writer() as raw:
            customer = next(IDS)
            await raw.execute(WRITE, customer, "car", 1)
            undone = raw.transaction()
            await undone.start()
            await raw.execute(WRITE, customer, "car", 2)
            await undone.rollback()
            async with raw.transaction():
                piece = raw.transaction()
                await piece.start()
                await raw.execute(WRITE, customer, "car", 2)
                await piece.rollback()
                await raw.execute(WRITE, customer, "car", 3)
            assert await home.numbering().sequence(VisibilityWatermark(home.db)) == 2
            assert await home.numbered(customer) == [(customer, 1, "car", 1), (customer, 2, "car", 3)]

    asyncio.run(main())


def test_a_transaction_that_draws_a_number_has_an_id(own: str) -> None:
    """Otherwise a number below the watermark could be drawn by a transaction with an id above it."""

    async def main() -> None:
        async with house(own) as home, home.writer() as raw:
            default = await home.db.fetchval(
                "select pg_get_expr(adbin, adrelid) from pg_attrdef d join pg_attribute a"
                " on a.attrelid = d.adrelid and a.attnum = d.adnum"
                " where d.adrelid = 'change_inbox'::regclass and a.attname = 'seq'"
            )
            async with raw.transaction():
                assert await raw.fetchval("select pg_current_xact_id_if_assigned()::text") is None
                await raw.fetchval(f"select {default}")
                assert await raw.fetchval("select pg_current_xact_id_if_assigned()::text") is not None

    asyncio.run(main())


def test_a_sequence_that_was_never_used(database_server: str) -> None:
    with fresh_database(database_server) as dsn:

        async def main() -> None:
            await schema_version.migrate(dsn)
            async with house(dsn) as home:
                assert await VisibilityWatermark(home.db).advance() == 0
                assert await home.numbering().sequence(VisibilityWatermark(home.db)) == 0
                async with home.writer() as raw:
                    assert await raw.fetchval(WRITE, 7, "car", 1) == 1
                    assert await VisibilityWatermark(home.db).advance() == 1
                assert await home.numbering().sequence(VisibilityWatermark(home.db)) == 1
                assert await home.numbered(7) == [(7, 1, "car", 1)]

        asyncio.run(main())


@pytest.mark.parametrize("elsewhere", [False, True], ids=["by snapshots", "by locks"])
def test_a_storm_keeps_its_order(own: str, elsewhere: bool) -> None:
    """Three workers, twenty-four writers, one transaction in ten rolled back: no loss, gap or inversion.

    Also while an unrelated transaction is open all the time, so that only the locks show which ones have ended.
    """

    async def main() -> None:
        async with house(own, sequencer_batch_rows=100) as home, home.writer() as other:
            customers = [next(IDS) for _ in range(FOUR)]
            if elsewhere:
                await other.execute("begin")
                await other.execute(ELSEWHERE)
            async with home.workers(3):
                made = await storm(home, customers, SECONDS)
            numbered = await home.numbered(*customers)
            assert len(made) == FOUR * EACH and len(numbered) == sum(made.values())
            assert wrong(numbered, made) == []
            print(f"\n{len(numbered)} changes in {SECONDS:g} s, in order")

    asyncio.run(main())


def test_an_unsound_order_is_detected(own: str) -> None:
    """The same storm, numbered below the oldest running transaction: nothing is lost, but the order is wrong."""

    async def main() -> None:
        async with house(own) as home:
            for _ in range(TRIES):
                customers = [next(IDS) for _ in range(FOUR)]
                taken, ends = list[tuple[int, int, str, int]](), asyncio.Event()
                numbering = asyncio.create_task(by_horizon(home, taken, ends))
                made = await storm(home, customers, SECONDS)
                ends.set()
                await numbering
                found = wrong(taken, made)
                print(f"\n{len(found)} of {len(taken)} changes are in the wrong place")
                if any("stands behind" in one for one in found):
                    return
        pytest.fail("nothing was found wrong with an order that does not hold")

    asyncio.run(main())


async def _is(value: object) -> bool:
    return bool(value)
