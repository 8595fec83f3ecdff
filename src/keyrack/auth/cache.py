"""In charge of what a process remembers about who may call: for as long as it would hear of a change, and asking the
database once for what many want to know at the same time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from keyrack.core.metrics.catalog import LOOKUPS

K = TypeVar("K")
V = TypeVar("V")

REMEMBERED = 10_000  # entries; beyond, it starts anew


@dataclass(frozen=True, slots=True, eq=False)
class _PendingLookup(Generic[V]):
    """What is being asked just now."""

    task: asyncio.Task[V | None]
    started_at: float


class SingleFlightCache(Generic[K, V]):
    """Answers by key. `is_fresh`: whether changes would have been heard of; an answer that has been on its way for more
    than `seconds` is not shared any more. `name` is what metrics call it."""

    def __init__(self, is_fresh: Callable[[], bool], seconds: float, name: str) -> None:
        self._is_fresh = is_fresh
        self._seconds = seconds
        self._values: dict[K, V] = {}
        self._pending: dict[K, _PendingLookup[V]] = {}
        self._hits, self._misses = LOOKUPS.of(name, "hit"), LOOKUPS.of(name, "miss")

    def forget(self) -> None:
        """Start anew. What was asked before is not remembered: its answer may be what has changed."""
        self._values = {}
        self._pending = {}

    async def get(self, key: K, load: Callable[[], Coroutine[Any, Any, V | None]]) -> V | None:
        """What is remembered, or else what `load` answers; a None is not remembered. Raises what `load` raises.

        Whoever comes while the same is being asked waits for that answer: a slow database is not asked for it by every
        request. So what is used is at most `seconds` old, whether it was remembered or shared.
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
        return await asyncio.shield(lookup.task)  # one who goes away takes the answer from nobody

    def _keep_answer(self, key: K, lookup: _PendingLookup[V], task: asyncio.Task[V | None]) -> None:
        failed = task.cancelled() or task.exception() is not None
        if self._pending.get(key) is not lookup:
            return
        del self._pending[key]
        if not failed and (answer := task.result()) is not None:
            if len(self._values) >= REMEMBERED:
                self._values = {}
            self._values[key] = answer
