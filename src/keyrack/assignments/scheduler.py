"""In charge of a worker's rounds: find customers with pending operations, hold them, apply, and go on from there.

A customer with much to do has a transaction of its own; the others share one. What fails for a reason of its own is
tried again by itself, while its customer waits, and then given up.
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

MANY = 20  # pending operations from which on a customer has a transaction of its own
CUSTOMERS = 100  # that one look at the pending work finds, at most
SHORTEST, LONGEST = 20, 1_000  # operations of one transaction
TARGET = 0.05  # seconds that one transaction is to take: as long as others wait for the holds
# Seconds until the second and the third try of an operation that fails for a reason of its own
TRIES: tuple[float, ...] = (0.4, 1.2)

# Steps from customer to customer through the index of what is pending, beginning behind the last one that was served
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
    """The rounds of one worker. All its loops share them, so that each begins where the last one has ended."""

    def __init__(self, db: Database, call_another: Callable[[], None], call_later: Callable[[float], None]) -> None:
        self._db = db
        self._call_another = call_another  # there is more than this loop takes
        self._call_later = call_later  # somebody has to look again after so many seconds
        self._last_customer = 0  # the customer that was served last
        self._isolated: set[int] = set()  # customers that something from outside stood in the way of
        self._max_operations = 100  # operations of one transaction; follows the time that they take

    async def run(self) -> AppliedBatch | None:
        """Apply what one transaction can. Returns None when nobody has work that is due and not under way."""
        groups, whole = await self._next_batches()
        if len(groups) > 1:
            self._call_another()
        for group in groups:
            after = 0 if whole and group is groups[-1] else group.customers[-1]
            try:
                done = await self._serve(group, after)
            except Exception:  # all is undone and comes again, but others come first, and nobody has to share it
                self._last_customer = after
                self._isolated.update(group.customers)
                raise
            if done is not None:
                self._isolated.difference_update(group.customers)
                return done
        return None

    async def _next_batches(self) -> tuple[list[CustomerBatch], bool]:
        """Who has work, from behind the last one on, and whether these are all up to the end."""
        rows = await self._db.fetch(WAITING, self._last_customer, MANY + 1, CUSTOMERS)
        if not rows and self._last_customer:
            self._last_customer = 0
            rows = await self._db.fetch(WAITING, 0, MANY + 1, CUSTOMERS)
        groups: list[CustomerBatch] = []
        shared = False  # whether the last group takes more
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
        """Apply the group's operations; None where others hold all of its customers. As soon as they are held, the
        other loops look behind `after`."""
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
        """The same for the first few of each customer, each operation undone alone if it fails."""
        total = AppliedBatch()
        for customer in customers:
            async with self._db.transaction() as connection:
                for row in await apply.claim(connection, [customer], MANY):
                    done = await self._apply_alone(connection, row)
                    if done is None:
                        break  # what comes behind it waits
                    apply.count([row], done)
                    total += done
        return total

    async def _apply_alone(self, connection: Connection, row: Row) -> AppliedBatch | None:
        """Apply one operation; None when it is to be tried again later."""
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
