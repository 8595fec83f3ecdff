"""Holds the writes of a customer, and numbers its waiting changes.

Requests that write get 503 with `Retry-After` until the switch. Reads work. Workers leave the customer's work alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import LiteralString
from uuid import UUID

import asyncpg

from keyrack.changelog.sequencer import Sequencer
from keyrack.changelog.visibility_watermark import VisibilityWatermark
from keyrack.db.change_notifier import discard
from keyrack.db.connection import Database
from keyrack.ops.cells.side import APPLICATION, MoveRefused, Side

ATTEMPTS = 5
PAUSE_SECONDS = 0.01  # until the next look for changes that a worker is numbering
# The customer's lock comes before all other locks, as in every transaction
PATIENCE: LiteralString = "set local lock_timeout = '3s'"
PAUSED, DUE = "infinity", None  # times at which the scheduler may look for operations
PAUSE: LiteralString = "update customer_hold set due_at = $2::text::timestamptz where customer_id = $1"
ALONE: LiteralString = "select pg_advisory_xact_lock(7260927, $1)"
HOLD: LiteralString = """
update cell_move set state = 'held', held_at = clock_timestamp() where move_id = $1 and state = 'copying'
"""
RELEASE: LiteralString = "update cell_move set state = 'copying', held_at = null where move_id = $1 and state = 'held'"
WAITS: LiteralString = "select exists (select from change_inbox where customer_id = $1)"
LOCKED = (
    "A transaction that writes for customer {customer} has been open for too long. The customer is not held; run the "
    "command again."
)


async def hold(source: Side, move: UUID, customer: int) -> None:
    """Hold the customer's writes.

    Every transaction that has written for it has ended afterwards. Raises `MoveRefused` if such a transaction stays
    open.
    """
    await _set_state(source, HOLD, move, customer, PAUSED)


async def release(source: Side, move: UUID, customer: int) -> None:
    """Let the customer write in the source again. Raises like `hold`."""
    await _set_state(source, RELEASE, move, customer, DUE)


async def _set_state(source: Side, change: LiteralString, move: UUID, customer: int, due: str | None) -> None:
    for _ in range(ATTEMPTS):
        try:
            async with source.transaction(has_triggers=False):
                await source.execute(PATIENCE)
                await source.execute(PAUSE, customer, due)
                await source.execute(ALONE, customer)
                await source.execute(change, move)
            return
        except (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError):
            continue
    raise MoveRefused(LOCKED.format(customer=customer))


@asynccontextmanager
async def numbering(source: Side, customer: int) -> AsyncGenerator[Callable[[], Awaitable[None]]]:
    """A function that gives every waiting change of the customer its number. Workers may do it at the same time."""
    database = await Database.connect(
        source.address,
        source.cell.settings,
        application=APPLICATION,
        parameters={"keyrack.moved_customer": str(customer)},
        size=3,
    )
    sequencer, watermark = Sequencer(database, source.cell.settings, discard), VisibilityWatermark(database)

    async def number_all() -> None:
        while await source.fetchval(WAITS, customer):
            if not await sequencer.sequence(watermark):
                await asyncio.sleep(PAUSE_SECONDS)

    try:
        yield number_all
    finally:
        await database.close()
