"""B5: housekeeping: each step alone, in pieces, within its time, by one worker; and the operator sees how it stands."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import asyncpg
import pytest
from typer.testing import CliRunner

from keyrack.cli.main import application
from keyrack.core.settings import Settings
from keyrack.db.connection import Database
from keyrack.db.row_batches import run_in_batches
from keyrack.ops import housekeeping
from keyrack.ops.housekeeping import AGAIN, EVERY, STEPS, Housekeeping, HousekeepingTask
from keyrack.server.worker import connect
from keyrack.webhooks import cleanup
from tests.support.log_lines import captured_events
from tests.webhooks.delivery_database import LOCAL, Office

SHORT = 5  # seconds of a step: less than the step that is slow or blocked, more than any other on a busy machine
NOT_FINISHED = f"Not finished within {SHORT} seconds; it continues in the next run."
NAMES = {step.name for step in STEPS}
OTHERS = "select count(*) from housekeeping where step <> 'disabled webhooks' and last_good is not null"
SLOW = """
create function slow() returns trigger language plpgsql as $$ begin perform pg_sleep(0.5); return null; end $$;
create trigger slow after update on delivery for each statement execute function slow()
"""
FAST = "drop trigger if exists slow on delivery; drop function if exists slow()"


class House:
    """A database that only this housekeeping looks after."""

    def __init__(self, office: Office, db: Database, settings: Settings, steps: Sequence[HousekeepingTask]) -> None:
        self.office, self.db, self.sql = office, db, office.sql
        self.steps = steps
        self.keeping = Housekeeping(db, settings, steps)

    async def round(self) -> int:
        """Do everything that is due; how many steps."""
        done = 0
        while await self.keeping.one():
            done += 1
        return done

    async def due(self) -> None:
        await self.sql.execute("update housekeeping set due_at = now()")

    async def row(self, step: str) -> Any:
        return await self.sql.fetchrow("select * from housekeeping where step = $1", step)

    async def disabled(self, lanes: int, hours: int = 73) -> int:
        """A webhook for which deliveries wait, each in a lane of its own, disabled for so long."""
        id = await self.office.webhook("https://example.org/")
        await self.sql.execute(
            "with d as (insert into delivery (customer_id, webhook_id, message_id, type, lane, payload)"
            " select 1, $1, gen_random_uuid(), 'assignment.created', n, '{}' from generate_series(1, $2::integer) n"
            " returning lane) insert into delivery_lane (customer_id, webhook_id, lane) select 1, $1, lane from d",
            id, lanes,
        )  # fmt: skip
        await self.sql.execute(
            "update webhook set is_enabled = false, disabled_at = now() - make_interval(hours => $2)"
            " where webhook_id = $1",
            id, hours,
        )  # fmt: skip
        return id


@contextlib.asynccontextmanager
async def house(dsn: str, steps: Sequence[HousekeepingTask] = STEPS, **settings: Any) -> AsyncGenerator[House]:
    wanted = LOCAL.model_copy(update=settings)
    async with Office.open(dsn) as office:
        await office.sql.execute(FAST)
        await office.sql.execute("truncate housekeeping")
        await office.sql.execute(housekeeping.KNOW, [step.name for step in steps])
        db = await connect(dsn, wanted)
        try:
            yield House(office, db, wanted, steps)
        finally:
            await office.sql.execute(FAST)
            await db.close()


def test_many_deliveries_of_a_disabled_webhook_are_given_up_in_pieces(own: str) -> None:
    """B5: a step that is not finished within its time keeps what it has done, lets the others have their turn, and goes
    on in the next rounds until nothing is left.
    """

    async def main() -> None:
        async with house(own, housekeeping_seconds=SHORT, housekeeping_rows=50) as keep:
            await keep.disabled(3_000)
            young = await keep.disabled(5, hours=71)
            await keep.sql.execute(SLOW)
            assert await keep.round() == len(STEPS)
            row = await keep.row("disabled webhooks")
            assert row["last_error"] == NOT_FINISHED
            assert (row["last_good"], row["failures"], row["held_until"]) == (None, 1, None)
            assert await keep.sql.fetchval(OTHERS) == len(STEPS) - 1
            assert 0 < await keep.office.count("Dead") < 3_000
            await keep.sql.execute(FAST)
            for _ in range(100):
                await keep.due()
                await keep.round()
                if (await keep.row("disabled webhooks"))["last_good"]:
                    break
            assert (await keep.office.count("Dead"), await keep.office.count("Waiting")) == (3_000, 5)
            lanes = "select webhook_id, count(*) from delivery_lane group by webhook_id"
            assert [tuple(row) for row in await keep.sql.fetch(lanes)] == [(young, 5)]
            assert (await keep.row("disabled webhooks"))["failures"] == 0

    asyncio.run(main())


def test_a_step_that_is_blocked_or_fails_stops_no_other(own: str) -> None:
    """B5: somebody holds a row that one step wants; another step has a fault. Both are told, all others go well."""

    async def broken(_db: Database, _settings: Settings) -> None:
        raise KeyError("no such thing")

    async def main() -> None:
        async with house(
            own, (HousekeepingTask("broken", broken), *STEPS), housekeeping_seconds=SHORT, lock_timeout_seconds=60
        ) as keep:
            with captured_events("housekeeping task failed") as logs:
                for _ in range(2):
                    await keep.due()
                    assert await keep.round() == len(STEPS) + 1
                await keep.disabled(10)
                other = await asyncpg.connect(own)
                async with other.transaction():
                    await other.execute("select from delivery for update")
                    await keep.due()
                    assert await keep.round() == len(STEPS) + 1
            await other.close()
            assert await keep.sql.fetchval(OTHERS) == len(STEPS) - 1
            # The server of other tests, whose logs are altered on purpose, does its housekeeping in this process, too
            steps = ("broken", "disabled webhooks", "deliveries")
            failures = [line for line in logs if line["step"] in steps]
            assert [(line["failures"], line["alert"]) for line in failures if line["step"] == "broken"] == [
                (1, False), (2, False), (3, True),
            ]  # fmt: skip
            assert {line["step"]: line["error"] for line in failures} == {
                "broken": "KeyError('no such thing')",
                "disabled webhooks": NOT_FINISHED,
            }
            waits = "select extract(epoch from due_at - now())::float8 from housekeeping where step = $1"
            assert 0 < await keep.sql.fetchval(waits, "broken") <= AGAIN
            assert AGAIN < await keep.sql.fetchval(waits, "deliveries") <= EVERY
            await keep.due()
            with captured_events("housekeeping task recovered") as logs:
                await keep.round()
            assert [line["step"] for line in logs if line["step"] in steps] == ["disabled webhooks"]

    asyncio.run(main())


def test_one_worker_does_a_step_at_a_time(own: str) -> None:
    """B5: whoever has taken a step keeps the others from it, until its lease has run out."""
    running = most = total = 0

    async def count(_db: Database, _settings: Settings) -> None:
        nonlocal running, most, total
        running, total = running + 1, total + 1
        most = max(most, running)
        await asyncio.sleep(0.05)
        running -= 1

    async def main() -> None:
        async with house(own, (HousekeepingTask("alone", count),)) as keep:
            done = await asyncio.gather(*(Housekeeping(keep.db, LOCAL, keep.steps).one() for _ in range(6)))
            assert (sorted(done), most, total) == ([False] * 5 + [True], 1, 1)
            await keep.sql.execute("update housekeeping set due_at = now(), held_until = now() + interval '1 hour'")
            assert await keep.round() == 0
            # Its worker was killed
            await keep.sql.execute("update housekeeping set held_until = now() - interval '1 second'")
            assert await keep.round() == 1

    asyncio.run(main())


def test_a_worker_keeps_house(own: str) -> None:
    """B5: the steps run without being asked for, whatever happened to the connections."""

    async def main() -> None:
        async with Office.open(own) as office:
            await office.sql.execute("truncate housekeeping")
            good = (
                f"select count(*) from housekeeping where last_good is not null and step = any('{{{','.join(NAMES)}}}')"
            )
            async with office.worker():
                await office.until("steps", good, len(NAMES))
                await office.sql.execute(
                    "select pg_terminate_backend(pid) from pg_stat_activity"
                    " where datname = current_database() and pid <> pg_backend_pid()"
                )
                await office.sql.execute("truncate housekeeping")
                await office.until("steps", good, len(NAMES))

    asyncio.run(main())


def test_a_piece_that_takes_too_long_is_tried_smaller(own: str) -> None:
    """B5: where a statement's time is too short for a piece, half of it may be done."""

    async def main() -> None:
        async with house(own, statement_timeout_seconds=2) as keep:
            await keep.sql.execute("create sequence calls")
            await run_in_batches(
                keep.db, 400, "select case when $1 > 200 then length(pg_sleep(60)::text)"
                " when nextval('calls') < 3 then $1 else 0 end::bigint",
            )  # fmt: skip
            assert await keep.sql.fetchval("select last_value from calls") == 3
            await keep.sql.execute("drop sequence calls")
            with pytest.raises(asyncpg.QueryCanceledError):
                await run_in_batches(keep.db, 60, "select length(pg_sleep(60)::text)::bigint where $1 > 0")

    asyncio.run(main())


@pytest.mark.parametrize(
    ("fill", "left"),
    [
        (
            "insert into access_change (at) select now() - n * interval '1 minute' from generate_series(1, 260) n",
            "select count(*) = 59 from access_change where at < now() - interval '30 seconds'",
        ),
        (
            "insert into rate_limit select 'b' || n, now() - n * interval '1 minute' from generate_series(1, 260) n",
            "select count(*) = 59 from rate_limit where key like 'b%'",
        ),
        (
            "insert into idempotency_key select 1, n, 'k', 'r', 'a', now() - n * interval '1 hour'"
            " from generate_series(1, 260) n",
            "select count(*) = 23 from idempotency_key",
        ),
    ],
)
def test_what_nobody_needs_is_forgotten(own: str, fill: str, left: str) -> None:
    async def main() -> None:
        async with house(own, housekeeping_rows=50) as keep:
            await keep.sql.execute("truncate access_change, rate_limit, idempotency_key")
            await keep.sql.execute(fill)
            await keep.round()
            assert await keep.sql.fetchval(left)
            assert await keep.sql.fetchval("select count(*) from housekeeping where last_error is not null") == 0

    asyncio.run(main())


def test_a_webhook_that_is_enabled_again_keeps_what_waits(own: str) -> None:
    async def main() -> None:
        async with house(own) as keep:
            await keep.disabled(3)
            await keep.sql.execute("update webhook set is_enabled = true")
            assert await keep.sql.fetchval("select disabled_at from webhook") is None
            await cleanup.disabled_webhooks(keep.db, LOCAL)
            await keep.sql.execute("update webhook set is_enabled = false")
            await keep.sql.execute("update webhook set url = 'https://example.org/2'")
            assert await keep.sql.fetchval("select disabled_at > now() - interval '1 minute' from webhook")
            await cleanup.disabled_webhooks(keep.db, LOCAL)
            assert await keep.office.count("Waiting") == 3

    asyncio.run(main())


def test_the_operator_sees_how_it_stands(own: str) -> None:
    """B5: `keyrack housekeeping list` tells each step's last good round, its last error, and what is late."""

    async def main() -> None:
        async with house(own) as keep:
            await keep.round()
            await keep.sql.execute(
                "update housekeeping set last_good = '2026-01-02T03:04:05Z', failures = 7, last_error = 'It broke.',"
                " last_error_at = '2026-02-03T04:05:06Z' where step = 'deliveries'"
            )
            await keep.sql.execute(
                "update housekeeping set last_good = null, due_at = now() - interval '1 day' where step = 'operations'"
            )
            await keep.sql.execute("update housekeeping set last_good = null where step = 'rate limits'")
            await keep.sql.execute("delete from housekeeping where step = 'sessions'")

    asyncio.run(main())

    def run(*words: str) -> str:
        result = CliRunner(env={"KEYRACK_DATABASE_URL": own}).invoke(
            application("housekeeping"), ["housekeeping", "list", *words]
        )
        assert result.exit_code == 0, result.stderr
        return result.stdout

    rows = {row["step"]: row for row in json.loads(run("--json"))}
    assert set(rows) == NAMES
    assert {name for name, row in rows.items() if row["late"]} == {"deliveries", "operations"}
    late = rows["deliveries"]
    assert (late["lastGood"], late["failures"]) == ("2026-01-02T03:04:05Z", 7)
    assert (late["lastError"], late["lastErrorAt"]) == ("It broke.", "2026-02-03T04:05:06Z")
    assert rows["operations"]["lastGood"] is None
    assert rows["history"]["lastGood"] and rows["history"]["seconds"] >= 0 and rows["history"]["lastError"] is None
    text = run()
    assert text.splitlines()[0].split()[:4] == ["STEP", "LATE", "LAST", "GOOD"]
    assert any(line.startswith("deliveries") and "2026-01-02 03:04" in line for line in text.splitlines())
