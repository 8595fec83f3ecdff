"""Retention of changes: chosen by the customer, dropped by months, erased by days, always provable."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from keyrack.changelog import retention
from keyrack.changelog.transparency import epochs
from keyrack.changelog.transparency.export_format import ExportedChange, Head
from keyrack.changelog.transparency.export_reader import read
from keyrack.changelog.transparency.export_verifier import Verification, name_of
from keyrack.changelog.transparency.signed_notes import Checkpoint, signed
from keyrack.changelog.visibility_watermark import VisibilityWatermark
from keyrack.cli.main import application
from keyrack.db.audit_context import acting, system
from tests.changelog.outbox import IDS, WRITE, House, house
from tests.changelog.transparency.vectors import LOG
from tests.cli.test_operator_commands import Operator
from tests.support.people import Person
from tests.support.servers import Sql, migrated_database

CHANGES = "select * from change where customer_id = $1 order by change_id"
INSERT = "insert into customer (customer_id, name, changes_days) values ($1, 'One', $2)"
LATER = """
with gone as (
  update clock.ahead set by = date_trunc('month', now() + by) + interval '1 month 14 days' - now() returning by)
select now() + by from gone
"""


# A clock in front of PostgreSQL's, which a test can advance: the sequencer reads its times from it
CLOCK = """
create schema clock;
create table clock.ahead (by interval);
insert into clock.ahead values ('0');
create function clock.clock_timestamp() returns timestamptz language sql volatile
  as 'select pg_catalog.clock_timestamp() + by from clock.ahead';
do $$ begin
  execute format('alter database %I set search_path to public, clock, pg_catalog', current_database());
end $$
"""


@pytest.fixture
def own(database_server: str) -> Iterator[str]:
    """A database whose months a test may drop."""
    with migrated_database(database_server) as dsn:
        sql = Sql(dsn)
        sql.execute(CLOCK)
        sql.close()
        yield dsn


async def customer(home: House, days: int | None = None) -> int:
    """A customer whose first change is its creation."""
    acting.set(system("tests"))
    id = next(IDS)
    async with home.db.transaction() as connection:
        await connection.execute(
            "insert into customer (customer_id, name, changes_days) values ($1, 'One', $2)", id, days
        )
    await number(home)
    return id


async def write(home: House, id: int, *versions: int) -> None:
    for version in versions:
        await home.db.fetchval(WRITE, id, "1", version)
    await number(home)


async def number(home: House) -> None:
    await home.numbering().sequence(VisibilityWatermark(home.db))


async def later(home: House) -> datetime:
    """Advance the clock to the middle of the next month. Returns the new time."""
    return await home.db.fetchval(LATER)


async def verified(home: House, id: int) -> Verification:
    """The current log, verified to its end."""
    found: Verification | None = None
    async with home.db.transaction() as sql:
        async for one in read(sql, id):
            if isinstance(one, Head):
                found = Verification(one)
            else:
                assert found is not None
                found.take(one)
    assert found is not None
    found.end()
    return found


async def numbers(home: House, id: int) -> list[int]:
    return [row["change_id"] for row in await home.db.fetch(CHANGES, id)]


def test_months_are_dropped_by_class_and_the_rest_verifies(own: str, tmp_path: Path) -> None:
    """From a checkpoint, in the database and by an export. A longer choice keeps changes longer."""

    async def main() -> tuple[int, bytes]:
        async with house(own) as home:
            short, long = await customer(home, 100), await customer(home, 3_660)
            for id in (short, long):
                await write(home, id, 1, 2)
            await later(home)
            for id in (short, long):
                await write(home, id, 3)
            now = await later(home)
            for id in (short, long):
                await write(home, id, 4, 5)
            before = await verified(home, short)
            assert before.tree is not None
            assert await home.db.fetchval("select count(*) from change_edge where customer_id = $1", short) == 2
            # 100 days after the end of the first month, and before those of the second one
            dropped = await retention.prune_partitions(home.db, home.settings, now.replace(day=1) + timedelta(days=99))
            assert dropped and all(name.startswith("change_1_") for name in dropped)
            assert await numbers(home, short) == [4, 5, 6] and await numbers(home, long) == [1, 2, 3, 4, 5, 6]
            log = await home.db.fetchrow("select * from change_log where customer_id = $1", short)
            assert log is not None and (log["oldest_id"], log["last_id"]) == (4, 6)
            after = await verified(home, short)
            assert after.tree is not None and (after.head.behind, after.tree.size) == (3, 6)
            assert after.tree.root == before.tree.root
            assert await home.db.fetchval("select count(*) from change_edge where customer_id = $1", short) == 2
            assert await retention.prune_partitions(home.db, home.settings, now) == []
            # months are made ahead
            ahead = datetime.now(UTC) + timedelta(days=32)
            assert await home.db.fetchval("select to_regclass($1) is not null", f"change_4_{ahead:%Y%m}")
            text = str(Checkpoint(f"x.example/{name_of(short, log['epoch'])}", 6, before.tree.root))
            return short, bytes(signed(text, LOG, at=0))

    id, note = asyncio.run(main())
    (tmp_path / "note").write_bytes(note)
    invoked = CliRunner(env={"KEYRACK_DATABASE_URL": own})
    export = ["audit", "export", "--customer", str(id), "--to", str(tmp_path / "log")]
    assert invoked.invoke(application("audit"), export).exit_code == 0
    for place in ([str(tmp_path / "log")], ["--customer", str(id)]):
        words = ["audit", "verify", *place, "--checkpoint", str(tmp_path / "note"), "--key", str(LOG.key), "--json"]
        told = json.loads(invoked.invoke(application("audit"), words).stdout)
        assert (told["behind"], told["proven"], told["size"]) == (3, 6, 6)


def test_expired_content_is_erased_on_the_day(own: str) -> None:
    """In batches, while the month still exists.

    The records stay and prove the rest. A customer with a longer choice keeps its content.
    """

    async def main() -> None:
        async with house(own, housekeeping_rows=50) as home:
            short, usual = await customer(home, 100), await customer(home)
            for id in (short, usual):
                await write(home, id, *range(59))
            (first,) = {row["recorded_at"] for row in (await home.db.fetch(CHANGES, short))[1:]}
            await retention.erase(home.db, home.settings, first + timedelta(days=99))
            assert (await verified(home, short)).erased == 0
            await retention.erase(home.db, home.settings, first + timedelta(days=100, seconds=1))
            assert (await verified(home, short)).erased == 60 and (await verified(home, usual)).erased == 0
            for row in await home.db.fetch(CHANGES, short):
                assert not any(row[name] for name in ("who", "before", "after", "person", "who_salt", "content_salt"))
            await later(home)
            await write(home, short, 5)
            await retention.erase(home.db, home.settings, first + timedelta(days=101))
            assert (await verified(home, short)).erased == 60
            await retention.erase(home.db, home.settings, first + timedelta(days=401))
            assert (await verified(home, short)).erased == 61 and (await verified(home, usual)).erased == 60

    asyncio.run(main())


def test_another_choice_counts_from_then_on(own: str) -> None:
    """Numbered changes stay in their class, but a shorter choice erases their content at once.

    No change remains before dropped ones.
    """

    async def main() -> None:
        async with house(own) as home:
            id = await customer(home, 800)
            await write(home, id, 1)
            async with home.db.transaction() as connection:
                assert await retention.choose(connection, id, 100)
            await number(home)
            await write(home, id, 2)
            rows = await home.db.fetch(CHANGES, id)
            assert [row["class"] for row in rows] == [3, 3, 1, 1]
            assert (rows[2]["kind"], rows[2]["before"], rows[2]["after"]) == (
                "customer.updated", {"changesDays": 800}, {"changesDays": 100},
            )  # fmt: skip
            whole = await verified(home, id)
            await retention.erase(home.db, home.settings, rows[-1]["recorded_at"] + timedelta(days=101))
            assert (await verified(home, id)).erased == 4
            now = await later(home)
            await write(home, id, 3)
            # the newer class goes first, and then the older changes before it are useless
            await retention.prune_partitions(home.db, home.settings, now.replace(day=1) + timedelta(days=101))
            assert await numbers(home, id) == [5]
            found = await verified(home, id)
            assert found.tree is not None and whole.tree is not None and found.tree.size == 5
            async with home.db.transaction() as connection:
                assert await retention.choose(connection, id, None)
                assert not await retention.choose(connection, next(IDS), 100)
            await number(home)
            assert (await home.db.fetch(CHANGES, id))[-1]["class"] == 2
            assert (await verified(home, id)).last == 6

    asyncio.run(main())


def test_months_of_an_ended_epoch_are_dropped_too(own: str) -> None:
    async def main() -> None:
        async with house(own) as home:
            id = await customer(home, 100)
            await later(home)
            await write(home, id, 1)
            async with home.db.transaction() as connection:
                await epochs.begin(connection, "restore")
            await number(home)
            now = await later(home)
            await write(home, id, 2)
            new = await verified(home, id)
            async with home.db.transaction() as sql:
                (over,) = await sql.fetch("select * from change_epoch where customer_id = $1", id)
            await retention.prune_partitions(home.db, home.settings, now.replace(day=1) + timedelta(days=101 - 28))

            async def old() -> list[Head | ExportedChange]:
                async with home.db.transaction() as sql:
                    return [one async for one in read(sql, id, over["epoch"])]

            head, *changes = await old()
            assert isinstance(head, Head) and head.tree is not None
            assert (head.behind, head.last, head.tree.size, len(changes)) == (1, 2, 1, 1)
            assert (await verified(home, id)).head == new.head
            await retention.prune_partitions(home.db, home.settings, now.replace(day=1) + timedelta(days=101))
            (head,) = await old()
            assert isinstance(head, Head) and head.tree is not None and (head.behind, head.tree.size) == (2, 2)

    asyncio.run(main())


def test_a_customer_chooses_how_long_its_changes_are_kept(bob: Person, dsn: str) -> None:
    operator = Operator(dsn)
    days = "select changes_days from customer where customer_id = $1"
    told = operator.value("privacy", "changes", "--customer", bob.customer, "--days", 800)
    assert told == {"id": bob.customer, "changesDays": 800}
    assert bob.sql.value(days, bob.customer) == 800
    kept = {each["kind"]: each for each in bob.get("/retention").json()}["changes"]
    assert (kept["keptFor"], kept["setting"]) == ("P800D", None)
    assert operator.value("privacy", "changes", "--customer", bob.customer)["changesDays"] is None
    assert bob.sql.value(days, bob.customer) is None
    assert "There is no customer" in operator.refused("privacy", "changes", "--customer", 2**31 - 1)
