"""Group commit: combines many callers' writes. Arrivals during a commit form the next batch.

A commit waits for the disk. Some rows, such as a customer's event counter or a car's newest state, can be written by
one transaction at a time. Without batches, every caller would wait for the commits of all before it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextvars import Context
from dataclasses import dataclass, field
from typing import Any, TypeVar

import asyncpg

from keyrack.core.tracing.context import TraceContext, here
from keyrack.db.connection import Database, is_interruption

Item = TypeVar("Item")
Result = TypeVar("Result")

Waiting = tuple[Sequence[Any], asyncio.Future[Any], TraceContext | None]
# Writes the items of callers for one customer in one transaction; returns a result or error for each, in order
Work = Callable[[Database, int, list[Sequence[Item]]], Awaitable[Sequence[Result | Exception]]]

MOST = 2_000  # maximum items of a batch, unless one caller submits more


@dataclass(slots=True)
class CommitQueue:
    """The waiting callers and running batches of one customer's kind of work."""

    pending: list[Waiting] = field(default_factory=list[Waiting])
    running: int = 0


class GroupCommitter:
    """Runs the batches of one process, per customer and kind of work.

    They begin in the order of arrival.
    """

    def __init__(self, db: Database) -> None:
        self._db = db
        self._queues: dict[tuple[Any, int], CommitQueue] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def put(self, work: Work[Item, Result], customer: int, items: Sequence[Item], *, at_once: int = 1) -> Result:
        """Do `work` with `items` behind those that wait, and return the committed result.

        Up to `at_once` batches run concurrently: while one waits for the database, Python prepares the next. Then a
        batch may be committed before an earlier one. Raises the error of these items, or the error of the batch.
        """
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        queue = self._queues.setdefault((work, customer), CommitQueue())
        queue.pending.append((items, future, here.get()))
        if queue.running < at_once:
            queue.running += 1
            task = asyncio.create_task(self._run(work, customer, queue), context=Context())  # of no one caller
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return await future

    async def _run(self, work: Work[Any, Any], customer: int, queue: CommitQueue) -> None:
        try:
            while queue.pending:
                count, total = 1, len(queue.pending[0][0])
                while count < len(queue.pending) and total + len(queue.pending[count][0]) <= MOST:
                    total += len(queue.pending[count][0])
                    count += 1
                batch, queue.pending = queue.pending[:count], queue.pending[count:]
                await self._batch(work, customer, batch)
        finally:
            queue.running -= 1
            if not queue.running:
                del self._queues[work, customer]

    async def _batch(self, work: Work[Any, Any], customer: int, batch: list[Waiting]) -> None:
        _trace([place for *_, place in batch if place is not None and place.sampled])
        try:
            results = await work(self._db.of(customer), customer, [items for items, *_ in batch])
        except asyncio.CancelledError:
            for _, future, _ in batch:
                future.cancel()
            raise
        except Exception as error:
            if len(batch) > 1 and isinstance(error, asyncpg.PostgresError) and not is_interruption(error):
                for waiter in batch:  # nothing was written; one by one, so that an error hits only its caller
                    await self._batch(work, customer, [waiter])
                return
            results = [error] * len(batch)
        for (_, future, _), result in zip(batch, results, strict=True):
            if future.done():  # the caller has left
                continue
            if isinstance(result, Exception):
                future.set_exception(result)
            else:
                future.set_result(result)


def _trace(callers: Sequence[TraceContext]) -> None:
    """Assign the batch to the trace of the first caller; the other traces link to it."""
    here.set(callers[0] if callers else None)
    for other in callers[1:]:
        other.links += (callers[0],)
