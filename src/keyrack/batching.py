"""In charge of doing many callers' writes at once: what arrives while a batch is being committed goes into the next.

A commit waits for the disk, and some rows (a customer's event counter, a car's newest state) can be written by one
transaction at a time. Alone, every caller would wait for the commits of all before it; together they share one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import asyncpg

from keyrack.db import UNREACHABLE, Database
from keyrack.errors import Refusal

Item = TypeVar("Item")
Result = TypeVar("Result")

Waiting = tuple[Sequence[Any], asyncio.Future[Any]]
# Writes what callers hand in, for one customer in one transaction; returns for each, in order, its result or refusal
Work = Callable[[Database, int, list[Sequence[Item]]], Awaitable[Sequence[Result | Refusal]]]

MOST = 2_000  # items of one batch, at most, unless one caller hands in more


class Batches:
    """The batches of one process: for each kind of work and each customer one at a time, in order of arrival."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._waiting: dict[tuple[Any, int], list[Waiting]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def put(self, work: Work[Item, Result], customer: int, items: Sequence[Item]) -> Result:
        """Do `work` with `items`, after what waits already; the result once it is committed. Raises `Refusal`."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        waiting = self._waiting.get((work, customer))
        if waiting is not None:
            waiting.append((items, future))
        else:
            self._waiting[work, customer] = [(items, future)]
            task = asyncio.create_task(self._run(work, customer))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return await future

    async def _run(self, work: Work[Any, Any], customer: int) -> None:
        key = (work, customer)
        while waiting := self._waiting[key]:
            count, total = 1, len(waiting[0][0])
            while count < len(waiting) and total + len(waiting[count][0]) <= MOST:
                total += len(waiting[count][0])
                count += 1
            self._waiting[key] = waiting[count:]
            await self._batch(work, customer, waiting[:count])
        del self._waiting[key]

    async def _batch(self, work: Work[Any, Any], customer: int, batch: list[Waiting]) -> None:
        try:
            results = await work(self._db, customer, [items for items, _ in batch])
        except asyncio.CancelledError:
            for _, future in batch:
                future.cancel()
            raise
        except Exception as error:
            if len(batch) > 1 and isinstance(error, asyncpg.PostgresError) and not isinstance(error, UNREACHABLE):
                for one in batch:  # nothing was written; one caller's fault is not to be the others'
                    await self._batch(work, customer, [one])
                return
            results = [error] * len(batch)
        for (_, future), result in zip(batch, results, strict=True):
            if future.done():  # the caller has gone
                continue
            if isinstance(result, Exception):
                future.set_exception(result)
            else:
                future.set_result(result)
