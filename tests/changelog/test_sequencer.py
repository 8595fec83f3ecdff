"""The sequencer: numbers, records, proofs and months of changes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from keyrack.changelog.record_format import FIRST, decode, digest, hash_of, loads
from keyrack.changelog.transparency.merkle_tree import Tree, leaf_hash
from keyrack.changelog.visibility_watermark import VisibilityWatermark
from keyrack.db.change_notifier import NUMBERED
from tests.changelog.outbox import IDS, WRITE, House, house
from tests.support.people import Person
from tests.support.servers import Sql, eventually, migrated_database

INSERT = """
insert into change_inbox (customer_id, kind, resource, resource_id, who, groups, before, after, at)
values ($1, $2, $3, $4, $5, $6, $7, $8, coalesce($9, clock_timestamp()))
"""
ANNA = {"type": "manager", "id": "7", "name": "anna", "address": "192.0.2.1"}
CHANGES = """
select *, who::text as who_text, before::text as before_text, after::text as after_text, person::text as person_text
from change where customer_id = $1 order by change_id
"""
LOG = "select * from change_log where customer_id = $1"


@pytest.fixture(scope="module")
def own(database_server: str) -> Iterator[str]:
    """A database without other sequencers."""
    with migrated_database(database_server) as dsn:
        yield dsn


async def write(
    home: House,
    customer: int,
    kind: str,
    id: str,
    before: Any,
    after: Any,
    groups: tuple[int, ...] = (),
    at: Any = None,
) -> None:
    await home.db.execute(INSERT, customer, kind, kind.partition(".")[0], id, ANNA, groups, before, after, at)


def proven(log: Any, rows: list[Any]) -> None:
    """Check each record of a whole log against the columns of its row."""
    previous, tree = FIRST, Tree()
    for number, row in enumerate(rows, 1):
        record = decode(row["record"])
        assert (record.customer, record.epoch, record.number) == (log["customer_id"], log["epoch"], number)
        assert (row["change_id"], row["class"]) == (number, log["class"])
        assert (record.at, record.recorded_at) == (row["at"], row["recorded_at"])
        assert (record.kind, record.resource, record.resource_id) == (row["kind"], row["resource"], row["resource_id"])
        assert list(record.groups) == row["groups"] and record.previous == previous
        before, after = (text and loads(text) for text in (row["before_text"], row["after_text"]))
        assert record.who == digest("who", row["who_salt"], loads(row["who_text"]))
        if before is None and after is None:
            assert record.content is None and row["content_salt"] is None
        else:
            assert record.content == digest("content", row["content_salt"], {"before": before, "after": after})
        if row["person"] is None:
            assert record.person is None and row["person_salt"] is None
        else:
            assert record.person == digest("person", row["person_salt"], loads(row["person_text"]))
        previous = hash_of(row["record"])
        tree.append(leaf_hash(row["record"]))
    assert (log["last_id"], log["hash"], Tree.read(log["tree"]).root) == (len(rows), previous, tree.root)


def test_each_customer_has_a_log_of_its_own(own: str) -> None:
    """Gapless, in the order of the outbox, with all content; customer 0 is the installation."""

    async def main() -> None:
        async with house(own, sequencer_batch_rows=3) as home:
            customers = (0, next(IDS), next(IDS))
            for number in range(4):
                for customer in customers:
                    before = {"name": f"{number}", "price": 1.50} if number else None
                    after = {"name": f"{number + 1}", "ids": [1, 2**60]} if number < 3 else None
                    await write(home, customer, "car.updated", str(number), before, after, groups=(3, 1))
            assert await home.numbering().sequence(VisibilityWatermark(home.db)) == 12
            for customer in customers:
                rows = await home.db.fetch(CHANGES, customer)
                assert [row["resource_id"] for row in rows] == ["0", "1", "2", "3"]
                assert rows[0]["before"] is None and rows[0]["after"] == {"name": "1", "ids": [1, 2**60]}
                assert rows[3]["after"] is None and rows[3]["who"] == ANNA and rows[3]["person"] is None
                proven(await home.db.fetchrow(LOG, customer), rows)
            assert await home.db.fetchval("select count(*) from change_inbox") == 0
            assert {customer for customer, topics in home.told if topics == NUMBERED} == set(customers)
            # the next changes are appended
            await write(home, customers[1], "car.deleted", "9", {"name": "x"}, None)
            assert await home.numbering().sequence(VisibilityWatermark(home.db)) == 1
            proven(await home.db.fetchrow(LOG, customers[1]), await home.db.fetch(CHANGES, customers[1]))
            assert (await home.db.fetchrow(LOG, customers[2]))["last_id"] == 4

    asyncio.run(main())


def test_personal_members_are_stored_separately(own: str) -> None:
    """They can be erased alone, and the records still prove the rest."""

    async def main() -> None:
        async with house(own) as home:
            customer = next(IDS)
            data = {"emailAddress": "a@example.org", "firstName": "A", "lastName": "\u0130"}
            await write(home, customer, "user.created", "5", None, {**data, "type": "Normal"})
            await write(home, customer, "user.updated", "5", {"type": "Normal"}, {"type": "Anonymous"})
            before, after = {"emailAddress": "a@example.org"}, {"emailAddress": "b@example.org"}
            await write(home, customer, "user.updated", "5", before, after)
            await write(home, customer, "user.let go", "5", None, None)
            await write(home, customer, "car.created", "5", None, {"emailAddress": "of no person"})
            await home.numbering().sequence(VisibilityWatermark(home.db))
            rows = await home.db.fetch(CHANGES, customer)
            assert [(row["before"], row["after"], row["person"]) for row in rows] == [
                (None, {"type": "Normal"}, {"after": data}),
                ({"type": "Normal"}, {"type": "Anonymous"}, None),
                ({}, {}, {"before": before, "after": after}),
                (None, None, None),
                (None, {"emailAddress": "of no person"}, None),
            ]
            proven(await home.db.fetchrow(LOG, customer), rows)
            salts = [row[name] for row in rows for name in ("who_salt", "content_salt", "person_salt") if row[name]]
            assert len(set(salts)) == len(salts) == 11 and {len(salt) for salt in salts} == {32}

    asyncio.run(main())


def test_numbers_keep_all_their_digits(own: str) -> None:
    """JSON numbers beyond a double are proven with all their digits."""

    async def main() -> None:
        async with house(own) as home, home.writer() as raw:
            customer = next(IDS)
            exact = '{"much": 12345678901234567890.12345678901234567890, "little": 1e-30, "one": 1.0}'
            for resource in ("car", "user"):
                await raw.execute(
                    "insert into change_inbox (customer_id, kind, resource, resource_id, who, after)"
                    " values ($1, 'x', $2, '1', '{}', $3::jsonb || '{\"emailAddress\": \"a@example.org\"}')",
                    customer, resource, exact,
                )  # fmt: skip
            await home.numbering().sequence(VisibilityWatermark(home.db))
            rows = await home.db.fetch(CHANGES, customer)
            proven(await home.db.fetchrow(LOG, customer), rows)
            assert await home.db.fetchval(
                "select bool_and(after - 'emailAddress' = $2::text::jsonb) from change where customer_id = $1",
                customer, exact,
            )  # fmt: skip

    asyncio.run(main())


def test_the_recorded_time_never_runs_backwards(own: str) -> None:
    """Even if the database's clock does; a missing month is made."""

    async def main() -> None:
        async with house(own) as home:
            customer = next(IDS)
            await write(home, customer, "car.created", "1", None, {}, at=datetime(2001, 2, 3, tzinfo=UTC))
            await home.numbering().sequence(VisibilityWatermark(home.db))
            ahead = datetime.now(UTC).replace(microsecond=0) + timedelta(days=200)
            await home.db.execute("update change_log set last_recorded_at = $2 where customer_id = $1", customer, ahead)
            await write(home, customer, "car.updated", "1", {}, {"name": "x"})
            await home.numbering().sequence(VisibilityWatermark(home.db))
            rows = await home.db.fetch(CHANGES, customer)
            assert rows[0]["at"].year == 2001 and rows[0]["recorded_at"] > datetime.now(UTC) - timedelta(hours=1)
            assert rows[1]["recorded_at"] == ahead
            proven(await home.db.fetchrow(LOG, customer), rows)

    asyncio.run(main())


def test_killed_workers_lose_and_repeat_no_change(own: str) -> None:
    """Workers lose their connections again and again: each change is numbered once."""

    async def main() -> None:
        async with house(own, sequencer_batch_rows=10) as home, home.writer() as raw:
            customer, count = next(IDS), 400
            async with home.workers(3):
                for number in range(1, count + 1):
                    await raw.execute(WRITE, customer, "car", number)
                    if number % 100 == 0:
                        await raw.execute(
                            "select pg_terminate_backend(pid) from pg_stat_activity"
                            " where application_name = 'keyrack worker' and datname = current_database()"
                        )
            rows = await home.db.fetch(CHANGES, customer)
            assert [row["after"]["version"] for row in rows] == list(range(1, count + 1))
            proven(await home.db.fetchrow(LOG, customer), rows)

    asyncio.run(main())


def test_a_running_server_numbers_by_itself(alice: Person, sql: Sql) -> None:
    """The worker of a server finds changes without a notification."""
    id = f"test {next(IDS)}"
    sql.execute(WRITE.replace("'thing'", "'test'"), int(alice.customer), id, 1)
    row = eventually(lambda: sql.rows("select * from change where customer_id = $1 and resource_id = $2",
                                      int(alice.customer), id), "a number")[0]  # fmt: skip
    assert row["change_id"] >= 1 and json.loads(row["after"]) == {"version": 1}
