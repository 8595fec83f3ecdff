"""Checkpoints: what is signed of a log, what is never signed, how long they are kept, and their copies."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from keyrack.changes import checkpoints, keys, publishing
from keyrack.changes.checkpoints import Made
from keyrack.changes.notes import Checkpoint, Key, Note
from keyrack.database import schema
from keyrack.database.acting import acting, system
from keyrack.settings import Settings
from tests.changes.inbox import IDS, house
from tests.servers import Sql, fresh_database

WRITE = """
insert into change_inbox (customer_id, kind, resource, resource_id, who, after)
select $1, 'car.created', 'car', n::text, '{"type": "system", "name": "worker"}', '{"name": "A car"}'
from generate_series(1, $2::integer) n
"""


@pytest.fixture(scope="module")
def own(database_server: str) -> Iterator[str]:
    """A database that nobody else numbers or signs in."""
    with fresh_database(database_server) as dsn:
        asyncio.run(schema.migrate(dsn))
        yield dsn


@pytest.fixture(scope="module")
def sql(own: str) -> Iterator[Sql]:
    statements = Sql(own)
    yield statements
    statements.close()


class Signing:
    """Who signs, with a key of the test's own, as often as is asked."""

    def __init__(self, dsn: str, folder: Path, sql: Sql, **settings: Any) -> None:
        self.dsn, self.sql = dsn, sql
        self.given = {
            "checkpoint_key_file": folder / "key", "checkpoint_seconds": 1, "database_url": dsn,
            "public_url": "https://keyrack.example.com", "checkpoint_directory": None, **settings,
        }  # fmt: skip
        keys.make(self.settings)

    @property
    def settings(self) -> Settings:
        return Settings(**self.given)

    def write(self, customer: int, count: int = 1) -> None:
        """So many changes, numbered."""
        self.sql.execute(WRITE, customer, count)

        async def number() -> None:
            async with house(self.dsn) as home, home.workers(1):
                pass

        asyncio.run(number())

    def sign(self) -> None:
        """A round, for which what was signed before is old enough."""
        self.sql.execute("update change_checkpoint set at = at - interval '1 s'")
        self._run(checkpoints.tend)

    def publish(self) -> None:
        self._run(publishing.tend)

    def thin(self) -> None:
        self._run(checkpoints.thin)

    def _run(self, step: Any) -> None:
        async def run() -> None:
            acting.set(system("housekeeping"))
            async with house(self.dsn, **self.given) as home:
                await step(home.db, home.settings)

        asyncio.run(run())

    def made(self, customer: int) -> list[Made]:
        rows = self.sql.rows("select * from change_checkpoint where customer_id = $1 order by size", customer)
        return [Made.of(row) for row in rows]

    def keys(self, customer: int) -> list[Key]:
        origin = Checkpoint.read(Note.read(self.made(customer)[-1].note.encode()).text).origin
        return [one.key for one in keys.signers(keys.read(self.settings), origin, "keyrack.example.com")]


@pytest.fixture
def signing(own: str, sql: Sql, tmp_path: Path) -> Iterator[Signing]:
    yield Signing(own, tmp_path, sql)
    sql.execute("delete from change_tree")
    sql.execute("delete from change_checkpoint")
    sql.execute("delete from change_tile")
    sql.execute("delete from change")
    sql.execute("delete from change_log")


def test_a_log_is_signed_when_something_was_added(signing: Signing) -> None:
    first, second = next(IDS), next(IDS)
    signing.write(first, 5)
    signing.write(second, 300)
    signing.sign()
    (one,), (other,) = signing.made(first), signing.made(second)
    assert (one.size, other.size) == (5, 300)
    signing.write(first, 2)
    signing.sign()
    assert [made.size for made in signing.made(first)] == [5, 7]
    assert [made.note for made in signing.made(second)] == [other.note]
    note = Note.read(signing.made(first)[-1].note.encode())
    said = Checkpoint.read(note.text)
    assert said.origin == f"keyrack.example.com/changes/{first}/{one.epoch}"
    found = note.verify(signing.keys(first))
    assert [time is None for time in found.values()] == [True, False]


def test_a_log_is_signed_once_in_its_time(signing: Signing) -> None:
    customer = next(IDS)
    signing.given["checkpoint_seconds"] = 3600
    signing.write(customer)
    signing.sign()
    signing.write(customer)
    signing.sign()
    assert [made.size for made in signing.made(customer)] == [1]
