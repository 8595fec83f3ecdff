"""In charge of holds: who has a customer's row applies its operations, or changes what they stand on; nobody else does.

What changes that ground (a box, a service, a user, a car) comes after everything that was accepted before it, and
before everything that is accepted later: it applies what is pending, in committed pieces; then, in its own transaction,
it takes the hold, applies what came since, and acts. One order of locks everywhere: holds first, ascending.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import LiteralString
from uuid import UUID

import structlog

from keyrack.assignments import apply
from keyrack.core.error_codes import NO_CUSTOMER, ErrorCode
from keyrack.core.errors import NotFound, Unavailable
from keyrack.core.metrics.catalog import LIMITS
from keyrack.core.settings import Settings
from keyrack.db.connection import Connection, Database, Row, is_interruption

log = structlog.get_logger("keyrack.customer_lock")

PIECE = 500  # operations that one transaction of a drain applies, at most
PATIENCE = 5.0  # seconds that a command gives the workers to get over an operation that fails
BUSY = ErrorCode(
    "customer-busy",
    "The customer has too many operations in progress. Please try again.",
    "Retry the request after the seconds in `Retry-After`.",
)
STUCK = ErrorCode(
    "operation-retried",
    "An operation of the customer has failed and is being retried. Please try again.",
    "Retry the request after the seconds in `Retry-After`.",
)

ANY_PENDING: LiteralString = "select exists (select from operation where customer_id = $1 and state = 'Pending')"
HOLD: LiteralString = "select true from customer_hold where customer_id = $1 for update"


async def lock(connection: Connection, customer: int) -> None:
    """Hold the customer until the transaction ends. Raises `NotFound` when there is no such customer."""
    if await connection.fetchval(HOLD, customer) is None:
        raise NotFound(NO_CUSTOMER)


async def lock_and_flush(connection: Connection, customer: int) -> None:
    """Hold the customer and apply what is pending. Raises `Unavailable` if more than a piece has been asked for.

    Ends that a change of the ground has brought about do not count: in a batch they may be this transaction's own, so
    that nobody else could ever apply them. They go piece by piece, however many, in the time that the caller has.
    """
    await lock(connection, customer)
    # Lock first, read in the next statement: what was committed before the lock was ours is seen
    while len(rows := await apply.pending(connection, customer, PIECE + 1)) > PIECE:
        ends = [row for row in rows if row["cause"] != "Request"]  # these come first
        if not ends:
            raise Unavailable(BUSY)
        await _apply(connection, ends)
    await _apply(connection, rows)


async def apply_at_once(connection: Connection, customer: int, *operations: UUID) -> None:
    """Apply operations that the caller has written after `lock_and_flush`, in the same transaction.

    Whoever asked meanwhile comes after them: their requests and this one overlap, so either order is true, and this one
    leaves nothing between what the caller has seen and what the operation changes. Raises `Unavailable`.
    """
    await _apply(connection, await apply.named(connection, customer, operations))


async def flush_pending(db: Database, customer: int, settings: Settings) -> None:
    """Apply what is pending in committed pieces, as far as the settings allow. Raises `Unavailable` beyond that; what
    was applied stays so."""
    end = time.monotonic() + settings.flush_timeout_seconds
    piece = min(PIECE, settings.flush_max_operations)
    done = 0
    while await db.fetchval(ANY_PENDING, customer):
        async with db.transaction() as connection:
            await lock(connection, customer)
            rows = await apply.pending(connection, customer, piece)
            await _apply(connection, rows)
        if len(rows) < piece:
            return
        done += len(rows)
        if done >= settings.flush_max_operations or time.monotonic() > end:
            raise Unavailable(BUSY)


async def simulate_pending(connection: Connection, customer: int, operations: Sequence[UUID]) -> dict[UUID, str | None]:
    """Apply these pending operations of a customer that the caller holds, and tell why each came to nothing, or None.
    The caller undoes it all. Raises `Unavailable` if they cannot be applied."""
    await _apply(connection, await apply.named(connection, customer, operations), is_counted=False)
    return await apply.failures(connection, customer, operations)


async def _apply(connection: Connection, rows: list[Row], *, is_counted: bool = True) -> None:
    if not rows:
        return
    try:
        done = await apply.apply(connection, rows)
    except Exception as error:
        if is_interruption(error):
            raise
        # A worker finds out which one it is, and has the tries; a request only says that it is not done
        log.warning("pending operations not applied, request rejected", error=error)
        raise Unavailable(STUCK) from error
    if is_counted:
        apply.count(rows, done)


class CustomerTurns:
    """The requests of one process that change the ground of a customer: one at a time, few wait, the others hear 503.

    They wait here, without a connection, and not in the database.
    """

    def __init__(self, max_waiting: int) -> None:
        self._max_waiting = max_waiting
        self._locks: dict[int, asyncio.Lock] = {}
        self._waiting_counts: Counter[int] = Counter()

    @asynccontextmanager
    async def of(self, customer: int) -> AsyncGenerator[None]:
        """The customer's turn. Raises `Unavailable` where too many wait for it already."""
        if self._waiting_counts[customer] > self._max_waiting:
            LIMITS.add("holds")
            raise Unavailable(BUSY)
        self._waiting_counts[customer] += 1
        try:
            async with self._locks.setdefault(customer, asyncio.Lock()):
                yield
        finally:
            self._waiting_counts[customer] -= 1
            if not self._waiting_counts[customer]:
                del self._waiting_counts[customer], self._locks[customer]


async def flush_all(db: Database, connection: Connection, customers: Iterable[int], settings: Settings) -> None:
    """The same for a command that changes the ground of several customers in its own transaction, `connection`."""
    ordered = sorted(set(customers))
    for customer in ordered:
        await _drain_whole(db, customer, settings)
    for customer in ordered:
        await lock_and_flush(connection, customer)


async def _drain_whole(db: Database, customer: int, settings: Settings) -> None:
    """A command has time: as long as the pieces get on, it goes on. Raises `Unavailable` where they do not."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            await flush_pending(db, customer, settings)
            return
        except Unavailable as busy:
            if busy.reason != BUSY and time.monotonic() > end:
                raise
            await asyncio.sleep(0.1)
