"""Scheduling of a worker's operations: find customers with pending ones, lock them, apply.

A customer with many pending operations gets its own transaction; the others share one.

If a transaction fails because of an operation, the operations are applied one by one. The failing one is retried while
later operations of its customer wait, and is then marked as failed. An interruption from outside, such as a lost
connection, counts as no attempt.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import LiteralString

import structlog

from keyrack.assignments import apply
from keyrack.assignments.apply import AppliedBatch
from keyrack.core.tracing.spans import TRACES
from keyrack.db.connection import Connection, Database, Row, is_interruption

log = structlog.get_logger("keyrack.scheduler")

MANY = 20  # pending operations above which a customer gets its own transaction
CUSTOMERS = 100  # customers that one search finds, at most
SHORTEST, LONGEST = 20, 1_000  # bounds of the operations in one transaction
TARGET = 0.05  # target duration of a transaction in seconds: others wait that long for the customer locks
# Seconds until the second and the third attempt of a failing operation
TRIES: tuple[float, ...] = (0.4, 1.2)

# Steps through the index of pending operations from customer to customer, starting after the last one served
WAITING: LiteralString = """
with recursive pending as (
  (select customer_id from operation where state = 'Pending' and customer_id > $1 order by customer_id limit 1)
  union all
  select n.customer_id from pending p cross join lateral (
    select customer_id from operation where state = 'Pending' and customer_id > p.customer_id
    order by customer_id limit 1) n
)
select p.customer_id, (
  select count(*) from (
    select from operation o where o.customer_id = p.customer_id and o.state = 'Pending' limit $2) o) as operations
from pending p
where (select h.due_at is null or h.due_at <= now() from customer_hold h where h.customer_id = p.customer_id)
limit $3
"""
TRY_LATER: LiteralString = """
with o as (update operation set attempts = attempts + 1 where customer_id = $1 and operation_id = $2)
update customer_hold set due_at = now() + make_interval(secs => $3) where customer_id = $1
"""


@dataclass(frozen=True, slots=True)
class CustomerBatch:
    """Customers whose operations one transaction applies."""

    customers: list[int]
    operations: int


class OperationScheduler:
    """The scheduling state of one worker. Its tasks share it, so that each starts where the last one ended."""

    def __init__(self, db: Database, call_another: Callable[[], None], call_later: Callable[[float], None]) -> None:
        self._db = db
        self._call_another = call_another  # more work is due than this task takes
        self._call_later = call_later  # a task must search again after this many seconds
        self._last_customer = 0  # the customer served last
        # customers whose last transaction was interrupted from outside; each gets its own
        self._isolated: set[int] = set()
        self._max_operations = 100  # operations of one transaction; adapts to their duration

    async def run(self) -> AppliedBatch | None:
        """Apply what one transaction can. Returns None if it finds no customer that is due and unlocked.

        Raises the error of an interruption, after which the customers are isolated.
        """
        groups, whole = await self._next_batches()
        if len(groups) > 1:
            self._call_another()
        for group in groups:
            after = 0 if whole and group is groups[-1] else group.customers[-1]
            try:
                done = await self._serve(group, after)
            # rolled back, so the operations come again: after other customers, in a transaction that none of them
            # shares
            except Exception:
                self._last_customer = after
                self._isolated.update(group.customers)
                raise
            if done is not None:
                self._isolated.difference_update(group.customers)
                return done
        return None

    async def _next_batches(self) -> tuple[list[CustomerBatch], bool]:
        """The next customers with work, in groups, and whether they reach the last customer."""
        rows = await self._db.fetch(WAITING, self._last_customer, MANY + 1, CUSTOMERS)
        if not rows and self._last_customer:
            self._last_customer = 0
            rows = await self._db.fetch(WAITING, 0, MANY + 1, CUSTOMERS)
        groups: list[CustomerBatch] = []
        shared = False  # whether the last group can take another customer
        for row in rows:
            customer, operations = row["customer_id"], row["operations"]
            if operations > MANY or customer in self._isolated:
                groups.append(CustomerBatch([customer], operations))
                shared = False
            elif shared and groups[-1].operations + operations <= self._max_operations:
                last = groups.pop()
                groups.append(CustomerBatch([*last.customers, customer], last.operations + operations))
            else:
                groups.append(CustomerBatch([customer], operations))
                shared = True
        return groups, len(rows) < CUSTOMERS

    async def _serve(self, group: CustomerBatch, after: int) -> AppliedBatch | None:
        """Apply the group's operations. Returns None if nothing could be claimed.

        Then each customer is locked by another transaction, is not due, or has nothing pending any more. Once an
        operation is claimed here, other tasks start their search after `after`.
        """
        max_operations = self._max_operations if len(group.customers) == 1 else MANY
        begin = time.monotonic()
        try:
            with TRACES.working():
                async with self._db.transaction() as connection:
                    rows = await apply.claim(connection, group.customers, max_operations)
                    if not rows:
                        return None
                    self._last_customer = after
                    done = await apply.apply(connection, rows)
                apply.count(rows, done)
        except Exception as error:
            if is_interruption(error):
                raise
            log.warning("operation batch rolled back, applying one by one", error=error)
            return await self._serve_singly(group.customers)
        self._learn(done.operations, time.monotonic() - begin)
        return done

    def _learn(self, operations: int, seconds: float) -> None:
        if seconds > TARGET:
            self._max_operations = max(SHORTEST, min(self._max_operations, int(operations * TARGET / seconds)))
        elif operations >= self._max_operations and seconds < TARGET / 2:
            self._max_operations = min(LONGEST, self._max_operations * 2)

    async def _serve_singly(self, customers: Sequence[int]) -> AppliedBatch:
        """Apply the first `MANY` operations of each customer, each in its own savepoint."""
        total = AppliedBatch()
        for customer in customers:
            async with self._db.transaction() as connection:
                for row in await apply.claim(connection, [customer], MANY):
                    done = await self._apply_alone(connection, row)
                    if done is None:
                        break  # later operations of the customer wait
                    apply.count([row], done)
                    total += done
        return total

    async def _apply_alone(self, connection: Connection, row: Row) -> AppliedBatch | None:
        """Apply one operation, or give it up after its last attempt. Returns None if it is to be retried later."""
        try:
            with TRACES.working():
                async with connection.transaction():
                    return await apply.apply(connection, [row])
        except Exception as error:
            if is_interruption(error):
                raise
            fields = {"operation": str(row["operation_id"]), "customer": row["customer_id"], "error": error}
        tries: int = row["attempts"] + 1
        if tries <= len(TRIES):
            log.warning("operation failed, retrying", attempts=tries, **fields)
            await connection.execute(TRY_LATER, row["customer_id"], row["operation_id"], TRIES[tries - 1])
            self._call_later(TRIES[tries - 1])
            return None
        if row["kind"] == "DeleteAssignment":
            log.critical("assignment end failed", alert=True, **fields)
        else:
            log.error("operation failed permanently", **fields)
        return await apply.give_up(connection, row)
