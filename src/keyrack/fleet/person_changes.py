"""Delivery of changes and erasures of persons to other cells.

Triggers write the outbox in the transaction of the change. A row stays until its cell has answered. A delivery sends
the present state of the person, so it can be repeated, and the order of deliveries does not matter: the state with the
greatest version wins. Each delivery also names the cells that have the person.
"""

from __future__ import annotations

import asyncio
import time
from typing import LiteralString

import asyncpg
import structlog

from keyrack.assignments.customer_lock import flush_all
from keyrack.core.errors import Unavailable
from keyrack.core.metrics.catalog import PERSON_CHANGES
from keyrack.core.settings import Settings
from keyrack.db import worker_wakeup
from keyrack.db.change_notifier import APPLIED, NOTIFY, Topics, encode_notifications
from keyrack.db.connection import UNREACHABLE, Database, Row, is_interruption
from keyrack.db.other_cells import OtherCells
from keyrack.db.throttled_log import ThrottledLogger
from keyrack.fleet import global_erasure
from keyrack.fleet.person_copies import ADD_CELLS, APPLY, OWN_NUMBER

log = structlog.get_logger("keyrack.person_changes")
seldom = ThrottledLogger("keyrack.person_changes")

LEASE = 60.0  # seconds until another worker repeats a delivery whose worker has died
FIRST, LONGEST = 1.0, 60.0  # seconds until a failed delivery is retried, at first and at most
COPYING = 600  # seconds, far more than a request needs from finding a person to its copy
TOPICS_CHANGED: Topics = frozenset(("users", "groups"))
ADDRESS_TAKEN = "another user of that cell has the address"

CLAIM: LiteralString = """
update person_change_outbox set attempts = attempts + 1, due_at = now() + make_interval(secs => $2)
where (user_id, cell) in (
  select user_id, cell from person_change_outbox where due_at <= now() and cell <> all($1::integer[])
  order by due_at limit 1 for update skip locked)
returning user_id, cell, is_erasure, changes, attempts,
  created_at < now() - make_interval(secs => $3) as is_older_than_copies
"""
# A change since the claim has made the row due again
DONE: LiteralString = "delete from person_change_outbox where user_id = $1 and cell = $2 and changes = $3"
RETRY: LiteralString = """
update person_change_outbox set last_error = $4, due_at = now() + make_interval(secs => $5)
where user_id = $1 and cell = $2 and changes = $3
"""
PERSON: LiteralString = """
select email_address, address_form, first_name, last_name, type, version,
  array(select c.cell from person_cell c where c.user_id = p.user_id) as cells
from person p where user_id = $1
"""
FORGET_CELL: LiteralString = "delete from person_cell where user_id = $1 and cell = $2"
LOCK: LiteralString = "select true from person where user_id = $1 for no key update"


class PersonChangeDispatcher:
    """Delivers the changes of this cell's persons. Each worker runs one."""

    def __init__(self, db: Database, settings: Settings, other_cells: OtherCells) -> None:
        self._db = db
        self._settings = settings
        self._other_cells = other_cells
        self._paused: dict[int, float] = {}  # cells that are away, and the time on the monotonic clock to ask again

    async def run(self) -> None:
        """Deliver until cancelled."""
        while True:
            try:
                while await self.deliver_next():
                    pass
            except (*UNREACHABLE, asyncpg.PostgresError, TimeoutError) as error:
                seldom.warning("person change outbox interrupted, retrying", error=error)
            await asyncio.sleep(self._settings.worker_poll)

    async def deliver_next(self) -> bool:
        """Deliver the change that is due first. Returns whether there was one for a cell that is not away."""
        away = [cell for cell, until in self._paused.items() if until > time.monotonic()]
        row = await self._db.fetchrow(CLAIM, away, LEASE, COPYING)
        if row is None:
            return False
        try:
            is_done = await (self._erase(row) if row["is_erasure"] else self._send(row))
        except asyncpg.UniqueViolationError:
            await self._retry(row, ADDRESS_TAKEN)
        except Exception as error:  # other changes are still delivered
            if isinstance(error, Unavailable):
                self._paused[row["cell"]] = time.monotonic() + retry_delay(row["attempts"])
            elif not is_interruption(error):
                log.exception("person change failed, retrying", cell=row["cell"], user=row["user_id"])
            await self._retry(row, type(error).__name__)  # its text may contain personal data
        else:
            if is_done:
                await self._db.execute(DONE, row["user_id"], row["cell"], row["changes"])
                PERSON_CHANGES.add("erased" if row["is_erasure"] else "delivered")
            else:
                await self._retry(row, "the cell may still get the person or a customer of it")
        return True

    async def _retry(self, row: Row, error: str) -> None:
        PERSON_CHANGES.add("failed")
        delay = retry_delay(row["attempts"])
        seldom.warning("person change not delivered, retrying", cell=row["cell"], reason=error, seconds=delay)
        await self._db.execute(RETRY, row["user_id"], row["cell"], row["changes"], error, delay)

    async def _send(self, row: Row) -> bool:
        """Send the state of the person. Returns that this is done, also if one of the two cells has no such person."""
        user, cell = row["user_id"], row["cell"]
        person = await self._db.fetchrow(PERSON, user)
        if person is None:
            return True
        *state, cells = person.values()
        own_number: int = await self._db.fetchval(OWN_NUMBER)
        async with self._other_cells.database(cell) as database:
            async with database.transaction() as connection:
                has_person = await connection.fetchval(LOCK, user)
                if has_person:
                    await connection.execute(APPLY, user, *state)
                    await connection.execute(ADD_CELLS, user, [n for n in (*cells, own_number) if n != cell])
            if has_person:
                customers = await global_erasure.memberships(database, user)
                await _notify(database, customers, TOPICS_CHANGED)
        if not has_person:  # a copy that is being made reports itself, and is then a cell of the person again
            await self._db.execute(FORGET_CELL, user, cell)
        return True

    async def _erase(self, row: Row) -> bool:
        """Erase the person in the other cell. Returns False if it must be tried again."""
        user, own_number = row["user_id"], await self._db.fetchval(OWN_NUMBER)
        async with self._other_cells.database(row["cell"], None) as database:
            customers = await global_erasure.memberships(database, user)
            async with database.transaction() as connection:
                await flush_all(database, connection, customers, self._settings)
                if not await connection.fetchval(global_erasure.LOCK, user):
                    return row["is_older_than_copies"]  # until then, the cell may be making a copy
                if await global_erasure.memberships(connection, user) != customers:
                    return False  # another customer has just got the user, and is not locked
                await connection.execute(FORGET_CELL, user, own_number)
                await global_erasure.erase(connection, user)
            await _notify(database, customers, TOPICS_CHANGED | APPLIED)
            for notice in (worker_wakeup.WORK, worker_wakeup.DELIVER):
                await database.execute(notice)
        return True


async def _notify(database: Database, customers: list[int], topics: Topics) -> None:
    """Notify the open pages of these customers in the other cell."""
    await database.execute(NOTIFY, list(encode_notifications(dict.fromkeys(customers, topics))))


def retry_delay(attempts: int) -> float:
    """Seconds until the next attempt.

    >>> retry_delay(1), retry_delay(3), retry_delay(1_000)
    (1.0, 4.0, 60.0)
    """
    return min(FIRST * 2 ** min(attempts - 1, 20), LONGEST)
