"""In charge of doing many callers' writes at once: what arrives while a batch is being committed goes into the next.

A commit waits for the disk, and some rows (a customer's event counter, a car's newest state) can be written by one
transaction at a time. Alone, every caller would wait for the commits of all before it; together they share one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextvars import Context
from dataclasses import dataclass, field
from typing import Any, TypeVar

import asyncpg

from keyrack.core.errors import Refusal
from keyrack.core.tracing.context import TraceContext, here
from keyrack.db.connection import Database, is_interruption

Item = TypeVar("Item")
Result = TypeVar("Result")

Waiting = tuple[Sequence[Any], asyncio.Future[Any], TraceContext | None]
# Writes what callers hand in, for one customer in one transaction; returns for each, in order, its result or refusal
Work = Callable[[Database, int, list[Sequence[Item]]], Awaitable[Sequence[Result | Refusal]]]

MOST = 2_000  # items of one batch, at most, unless one caller hands in more


@dataclass(slots=True)
class CommitQueue:
    """Who waits for one kind of work of one customer, and how many batches of it are under way."""

    pending: list[Waiting] = field(default_factory=list[Waiting])
    running: int = 0


class GroupCommitter:
    """The batches of one process, for each kind of work and each customer in the order of arrival."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._queues: dict[tuple[Any, int], CommitQueue] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def put(self, work: Work[Item, Result], customer: int, items: Sequence[Item], *, at_once: int = 1) -> Result:
        """Do `work` with `items`, after what waits already; the result once it is committed. Raises `Refusal`.

        `at_once` batches may be under way together: while one waits for the database, Python prepares the other.
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
                for waiter in batch:  # nothing was written; one caller's fault is not to be the others'
                    await self._batch(work, customer, [waiter])
                return
            results = [error] * len(batch)
        for (_, future, _), result in zip(batch, results, strict=True):
            if future.done():  # the caller has gone
                continue
            if isinstance(result, Exception):
                future.set_exception(result)
            else:
                future.set_result(result)


def _trace(callers: Sequence[TraceContext]) -> None:
    """What is done together belongs to the trace of the first caller; those of the others point to it."""
    here.set(callers[0] if callers else None)
    for other in callers[1:]:
        other.links += (callers[0],)
