"""Checkpoints for tests: of a customer's log, or by a signer on the test's own database."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from typing import Any

from keyrack.changelog.transparency import checkpoint_keys, checkpoint_publisher, checkpoints
from keyrack.changelog.transparency.checkpoints import CreatedCheckpoint
from keyrack.changelog.transparency.signed_notes import Checkpoint, Note, VerificationKey
from keyrack.core.settings import Settings
from keyrack.db.audit_context import acting, system
from keyrack.db.connection import Connection
from tests.changelog.outbox import house
from tests.support.people import Person
from tests.support.servers import Sql, eventually

# The sequencer makes the rest of a record
WRITE = """
insert into change_inbox (customer_id, kind, resource, resource_id, who, after)
select $1, 'car.created', 'car', n::text, '{"type": "system", "name": "worker"}', '{"name": "A car"}'
from generate_series(1, $2::integer) n
"""
NEWEST = """
select last_id from change_log l where customer_id = $1
  and not exists (select from change_inbox i where i.customer_id = l.customer_id)
"""


def settled(person: Person) -> int:
    """The number of the customer's newest change, after all changes have their numbers."""
    return eventually(lambda: person.sql.value(NEWEST, person.customer), "the numbers of the changes")


def signed(person: Person, **settings: Any) -> int:
    """The same, after a checkpoint of it is signed."""
    newest = settled(person)

    async def sign(raw: Any) -> CreatedCheckpoint | None:
        async with raw.transaction():
            return await checkpoints.make(Connection(raw), Settings(**settings), person.customer)

    made = person.sql.run(sign(person.sql.raw))
    assert made is not None and made.size >= newest
    return newest


class Signing:
    """A signer with the test's own key, which signs on request."""

    def __init__(self, dsn: str, folder: Path, sql: Sql, **settings: Any) -> None:
        self.dsn, self.sql = dsn, sql
        self.given: dict[str, Any] = {
            "checkpoint_key_file": folder / "key", "checkpoint_seconds": 1, "database_url": dsn,
            "public_url": "https://keyrack.example.com", **settings,
        }  # fmt: skip
        checkpoint_keys.make(self.settings)

    @property
    def settings(self) -> Settings:
        return Settings(**self.given)

    def write(self, customer: int, count: int = 1) -> None:
        """Write and number `count` changes."""
        self.sql.execute(WRITE, customer, count)

        async def number() -> None:
            async with house(self.dsn) as home, home.workers(1):
                pass

        asyncio.run(number())

    def sign(self) -> None:
        """Sign what is due, as if the previous checkpoints were old enough."""
        self.sql.execute("update change_checkpoint set at = at - interval '1 s'")
        self.run(checkpoints.create_due_checkpoints)

    def run(self, step: Any) -> None:
        """Run a housekeeping step."""

        async def run() -> None:
            acting.set(system("housekeeping"))
            async with house(self.dsn, **self.given) as home:
                await step(home.db, home.settings)

        asyncio.run(run())

    def publish(self) -> None:
        self.run(checkpoint_publisher.publish_checkpoints)

    def made(self, customer: int) -> list[CreatedCheckpoint]:
        """The stored checkpoints of a log."""
        rows = self.sql.rows("select * from change_checkpoint where customer_id = $1 order by size", customer)
        return [CreatedCheckpoint.of(row) for row in rows]

    def keys(self, customer: int) -> list[VerificationKey]:
        """The keys that verify the checkpoints."""
        origin = Checkpoint.read(Note.read(self.made(customer)[-1].note.encode()).text).origin
        return [
            one.key
            for one in checkpoint_keys.signers(checkpoint_keys.read(self.settings), origin, "keyrack.example.com")
        ]


def secret(letter: str) -> str:
    """A checkpoint key as in a file."""
    return base64.b64encode(letter.encode() * checkpoint_keys.LENGTH).decode()
