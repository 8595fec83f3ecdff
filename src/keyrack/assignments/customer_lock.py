"""Customer locks: only their holder applies operations or changes what these depend on.

Operations depend on boxes, services, users and cars. A change of one of these comes after every operation that was
accepted before it, and before every operation that is accepted later:

- It applies the pending operations in batches, each with its own commit.
- Then, in its own transaction, it takes the lock, applies what was accepted since, and makes its change.

Every transaction takes customer locks before other locks, by ascending customer.
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

# Operations that one transaction of `flush_pending` applies, and requests that `lock_and_flush` applies, at most
PIECE = 500
PATIENCE = 5.0  # seconds that a command gives the workers to apply or give up a failing operation
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
    """Lock the customer until the transaction ends. Raises `NotFound` if there is no such customer."""
    if await connection.fetchval(HOLD, customer) is None:
        raise NotFound(NO_CUSTOMER)


async def lock_and_flush(connection: Connection, customer: int) -> None:
    """Lock the customer and apply its pending operations.

    Raises `NotFound`, and `Unavailable` if an operation cannot be applied or more than `PIECE` requests are pending.
    Ends that another change caused do not count: in a batch they may belong to this transaction, so no other
    transaction could apply them. They are applied in batches, however many there are, within the caller's time limit.
    """
    await lock(connection, customer)
    # Lock first, read in the next statement: its snapshot then includes everything that was committed before the lock
    while len(rows := await apply.pending(connection, customer, PIECE + 1)) > PIECE:
        ends = [row for row in rows if row["cause"] != "Request"]  # these come first in `rows`
        if not ends:
            raise Unavailable(BUSY)
        await _apply(connection, ends)
    await _apply(connection, rows)


async def apply_at_once(connection: Connection, customer: int, *operations: UUID) -> None:
    """Apply operations that the caller has written after `lock_and_flush`, in the same transaction.

    Requests that arrived meanwhile come after them. They overlap with this request, so either order is correct. This
    order ensures that nothing changes between the state that the client has seen and the operation.

    Raises `Unavailable` if an operation cannot be applied.
    """
    await _apply(connection, await apply.named(connection, customer, operations))


async def flush_pending(db: Database, customer: int, settings: Settings) -> None:
    """Apply pending operations in batches, each with its own commit.

    The settings limit number and time. Committed batches remain applied. The customer is not locked afterwards. Raises
    `NotFound`, and `Unavailable` beyond these limits or if an operation cannot be applied.
    """
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
    """Apply these pending operations of a locked customer; return the error text of each, or None.

    The caller rolls back. Raises `Unavailable` if the operations cannot be applied.
    """
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
        # A worker isolates the failing operation and counts its attempts; a request only reports that it was not
        # carried out
        log.warning("pending operations not applied, request rejected", error=error)
        raise Unavailable(STUCK) from error
    if is_counted:
        apply.count(rows, done)


class CustomerTurns:
    """One queue per customer, for this process's requests that take the customer lock.

    One request runs, up to `max_waiting` wait, and the others get 503. They wait here without a connection, and not in
    the database.
    """

    def __init__(self, max_waiting: int) -> None:
        self._max_waiting = max_waiting
        self._locks: dict[int, asyncio.Lock] = {}
        self._waiting_counts: Counter[int] = Counter()

    @asynccontextmanager
    async def of(self, customer: int) -> AsyncGenerator[None]:
        """Wait for the customer's turn. Raises `Unavailable` if too many requests wait already."""
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
    """Flush all customers, then lock them in ascending order.

    `connection` is the transaction of a command.
    """
    ordered = sorted(set(customers))
    for customer in ordered:
        await _drain_whole(db, customer, settings)
    for customer in ordered:
        await lock_and_flush(connection, customer)


async def _drain_whole(db: Database, customer: int, settings: Settings) -> None:
    """Flush until nothing is pending, without a limit as long as batches succeed.

    Retries a batch that cannot be applied. Raises `Unavailable` if that happens later than `PATIENCE` seconds after the
    start.
    """
    end = time.monotonic() + PATIENCE
    while True:
        try:
            await flush_pending(db, customer, settings)
            return
        except Unavailable as busy:
            if busy.reason != BUSY and time.monotonic() > end:
                raise
            await asyncio.sleep(0.1)
