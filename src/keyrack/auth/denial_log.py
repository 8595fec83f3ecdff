"""Denied permissions in the change log, counted against floods.

Each process writes what it has denied since the last time: one change for each manager, customer and permission, with
the count.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import LiteralString, NamedTuple

import asyncpg

from keyrack.api.grants import NotPermitted
from keyrack.db.audit_context import Actor, acting
from keyrack.db.connection import UNREACHABLE, Database
from keyrack.db.throttled_log import ThrottledLogger

log = ThrottledLogger("keyrack.denial_log")

NOBODY = Actor("client")
MOST = 10_000  # of one interval; beyond, only the metric counts them
# `who` is the actor in base64
WRITE: LiteralString = """
insert into change_inbox (customer_id, kind, resource, resource_id, who, after)
select customer, 'permission.refused', 'permission', permission, convert_from(decode(who, 'base64'), 'UTF8')::jsonb,
  jsonb_build_object('count', count)
from unnest($1::integer[], $2::text[], $3::text[], $4::integer[]) r (customer, permission, who, count)
"""


class Denial(NamedTuple):
    """A denied permission. Customer 0 is none, and goes to the installation's log."""

    customer: int
    permission: str
    actor: str


class DenialLog:
    """The denials of one process, written every `seconds`."""

    def __init__(self, db: Database, seconds: float) -> None:
        self._db = db
        self._seconds = seconds
        self._counts: Counter[Denial] = Counter()

    def count(self, refusal: NotPermitted) -> None:
        """Count a denial for the present actor."""
        actor = acting.get() or NOBODY
        denial = Denial(refusal.customer, refusal.permission, Actor(actor.type, actor.name, actor.id).encoded)
        if denial in self._counts or len(self._counts) < MOST:
            self._counts[denial] += 1

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await asyncio.sleep(self._seconds)
            await self.write()

    async def write(self) -> None:
        """Write the counts. If that fails, they are written the next time."""
        counts = self._counts.copy()
        if not counts:
            return
        customers, permissions, actors = (list(column) for column in zip(*counts, strict=True))
        try:
            await self._db.execute(WRITE, customers, permissions, actors, list(counts.values()))
        except (*UNREACHABLE, asyncpg.PostgresError) as error:
            log.warning("denials not recorded, retrying", error=error)
        else:
            self._counts -= counts
