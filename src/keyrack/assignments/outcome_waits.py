"""Requests that wait for the outcomes of operations (`Prefer: wait`).

A waiting request holds no connection. One task per customer looks up the pending operations of all its requests. It
does so at once, and at each notification of applied operations, which any process may have applied. It also does so at
an interval, because a notification may be lost.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from contextvars import Context
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import LiteralString
from uuid import UUID

from keyrack.api.principals import CallerKey
from keyrack.api.subscriptions import RecheckAccess, Subscription
from keyrack.core.background_tasks import supervise
from keyrack.core.errors import Refusal
from keyrack.core.log_config import MINUTE, RateLimitedLogger
from keyrack.core.metrics.catalog import LIMITS
from keyrack.core.settings import Settings
from keyrack.db.change_notifier import APPLIED, EVERYBODY, parse_notification
from keyrack.db.connection import Database, is_interruption

log = RateLimitedLogger("keyrack.outcome_waits", MINUTE)

LONGEST_WAIT = 30  # maximum seconds that a request may wait
INTERVAL = 1.0  # seconds between two searches without a notification
PIECE = 50  # operations of one request that a search includes, at most

PENDING: LiteralString = """
select operation_id from operation where customer_id = $1 and operation_id = any($2::uuid[]) and state = 'Pending'
"""


class OutcomeWait(Subscription):
    """A request that waits for operations of its customer."""

    def __init__(
        self, customer: int, caller: CallerKey, recheck_access: RecheckAccess, operations: Iterable[UUID]
    ) -> None:
        super().__init__(customer, caller, 0.0, recheck_access)
        self.pending = dict.fromkeys(operations)  # in the order of their acceptance

    def finish(self, operations: Iterable[UUID]) -> None:
        """Record that these operations have outcomes."""
        for operation in operations:
            self.pending.pop(operation, None)
        if not self.pending:
            self._wake.set()

    async def wait_until(self, end: float) -> None:
        """Wait until all operations have outcomes, or until it is ended.

        It waits until `end` at most, by the loop's clock.
        """
        begun = time.monotonic()
        with suppress(TimeoutError):
            async with asyncio.timeout_at(end):
                while self.pending and not self._ended:
                    await self._wake.wait()
                    self._wake.clear()
        self.wait_seconds += time.monotonic() - begun


@dataclass(slots=True)
class CustomerWaits:
    """The waiting requests of one customer, and their task."""

    waits: dict[OutcomeWait, None] = field(default_factory=dict[OutcomeWait, None])
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None


class OutcomeWaits:
    """The waiting requests of one process, at most `max_waits`."""

    def __init__(
        self, db: Database, settings: Settings, max_waits: int, is_stopping: Callable[[], bool] = lambda: False
    ) -> None:
        self._db = db
        self._max_waits = min(settings.outcome_waits, max_waits)
        self._of_customer = settings.outcome_waits_per_customer
        self._is_stopping = is_stopping
        self._customers: dict[int, CustomerWaits] = {}
        self._count = 0

    def hear(self, payload: str) -> None:
        """Handle a notification."""
        if not self._customers:
            return
        for customer, topics in parse_notification(payload):
            if not topics >= APPLIED:
                continue
            if customer == EVERYBODY:
                self.lost()
            elif (waiting := self._customers.get(customer)) is not None:
                waiting.wake.set()

    def lost(self) -> None:
        """Search for all outcomes, because notifications may have been missed."""
        for waiting in self._customers.values():
            waiting.wake.set()

    def has_room(self, customer: int) -> bool:
        """Whether another request of the customer may wait. None may once shutdown has begun."""
        if self._is_stopping():
            return False
        waiting = self._customers.get(customer)
        if self._count < self._max_waits and (waiting is None or len(waiting.waits) < self._of_customer):
            return True
        LIMITS.add("outcome-waits")
        log.warning("limit of waiting requests reached", customer=customer)
        return False

    @contextmanager
    def entered(self, wait: OutcomeWait) -> Generator[None]:
        """Search for the outcomes of `wait` within the block."""
        waiting = self._customers.setdefault(wait.customer, CustomerWaits())
        waiting.waits[wait] = None
        waiting.wake.set()
        self._count += 1
        if waiting.task is None:
            search = partial(self._search, wait.customer, waiting)
            waiting.task = asyncio.create_task(supervise("outcome search", search), context=Context())
        try:
            yield
        finally:
            self._count -= 1
            del waiting.waits[wait]
            if not waiting.waits:
                del self._customers[wait.customer]
                waiting.task.cancel()

    async def close(self) -> None:
        """Cancel all searches."""
        tasks = [waiting.task for waiting in self._customers.values() if waiting.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _search(self, customer: int, waiting: CustomerWaits) -> None:
        """Search until cancelled: on request, and at an interval."""
        db = self._db.of(customer, reads=True)
        while True:
            waiting.wake.clear()
            try:
                while await self._search_once(db, customer, [*waiting.waits]):
                    pass
            except Exception as error:
                if not (isinstance(error, Refusal) or is_interruption(error)):
                    raise
                log.warning("outcome search interrupted, retrying", error=error)
            with suppress(TimeoutError):
                async with asyncio.timeout(INTERVAL):
                    await waiting.wake.wait()

    @staticmethod
    async def _search_once(db: Database, customer: int, waits: Sequence[OutcomeWait]) -> bool:
        """Search for the first operations of each request.

        Returns whether further ones can be searched for.
        """
        named = {wait: [*islice(wait.pending, PIECE)] for wait in waits}
        listed = [operation for operations in named.values() for operation in operations]
        if not listed:
            return False
        pending = {row["operation_id"] for row in await db.fetch(PENDING, customer, listed)}
        for wait, operations in named.items():
            wait.finish(operation for operation in operations if operation not in pending)
        return any(wait.pending and pending.isdisjoint(operations) for wait, operations in named.items())
