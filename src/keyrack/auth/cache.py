"""Single-flight cache of authentication results.

A value is used only while the process would be notified of a change. Concurrent callers for one key share a lookup.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from keyrack.core.metrics.catalog import LOOKUPS

K = TypeVar("K")
V = TypeVar("V")

REMEMBERED = 10_000  # entries; a full cache is cleared


@dataclass(frozen=True, slots=True, eq=False)
class _PendingLookup(Generic[V]):
    """A running lookup."""

    task: asyncio.Task[V | None]
    started_at: float


class SingleFlightCache(Generic[K, V]):
    """A cache by key, with one lookup per key at a time.

    `is_fresh` returns whether changes would have been notified. A lookup that has run for more than `seconds` is not
    shared any more. `name` is the cache's label in metrics.
    """

    def __init__(self, is_fresh: Callable[[], bool], seconds: float, name: str) -> None:
        self._is_fresh = is_fresh
        self._seconds = seconds
        self._values: dict[K, V] = {}
        self._pending: dict[K, _PendingLookup[V]] = {}
        self._hits, self._misses = LOOKUPS.of(name, "hit"), LOOKUPS.of(name, "miss")

    def forget(self) -> None:
        """Clear the cache.

        Running lookups may give outdated answers. So they are neither stored nor shared with later callers.
        """
        self._values = {}
        self._pending = {}

    async def get(self, key: K, load: Callable[[], Coroutine[Any, Any, V | None]]) -> V | None:
        """The cached value, or else the answer of `load`. None is not cached.

        Concurrent callers for one key wait for the same lookup, so that a slow database is not asked by every request.
        A change of a value is missed for at most `seconds`, whether the value was cached or shared. Raises what `load`
        raises.
        """
        if self._is_fresh() and (value := self._values.get(key)) is not None:
            self._hits.value += 1
            return value
        self._misses.value += 1
        lookup = self._pending.get(key)
        if lookup is None or lookup.started_at + self._seconds < time.monotonic():
            lookup = _PendingLookup(asyncio.create_task(load()), time.monotonic())
            self._pending[key] = lookup
            lookup.task.add_done_callback(lambda task: self._keep_answer(key, lookup, task))
        return await asyncio.shield(lookup.task)  # a cancelled caller does not cancel the lookup for others

    def _keep_answer(self, key: K, lookup: _PendingLookup[V], task: asyncio.Task[V | None]) -> None:
        failed = task.cancelled() or task.exception() is not None
        if self._pending.get(key) is not lookup:
            return
        del self._pending[key]
        if not failed and (answer := task.result()) is not None:
            if len(self._values) >= REMEMBERED:
                self._values = {}
            self._values[key] = answer
