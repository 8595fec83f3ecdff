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
    asked: float


class SingleFlightCache(Generic[K, V]):
    """Answers by key. `fresh`: whether changes would have been heard of; an answer that has been on its way for more
    than `seconds` is not shared any more. `name` is what metrics call it."""

    def __init__(self, fresh: Callable[[], bool], seconds: float, name: str) -> None:
        self._fresh = fresh
        self._seconds = seconds
        self._known: dict[K, V] = {}
        self._asked: dict[K, _PendingLookup[V]] = {}
        self._hits, self._misses = LOOKUPS.of(name, "hit"), LOOKUPS.of(name, "miss")

    def forget(self) -> None:
        """Start anew. What was asked before is not remembered: its answer may be what has changed."""
        self._known = {}
        self._asked = {}

    async def get(self, key: K, ask: Callable[[], Coroutine[Any, Any, V | None]]) -> V | None:
        """What is remembered, or else what `ask` answers; a None is not remembered. Raises what `ask` raises.

        Whoever comes while the same is being asked waits for that answer: a slow database is not asked for it by every
        request. So what is used is at most `seconds` old, whether it was remembered or shared.
        """
        if self._fresh() and (known := self._known.get(key)) is not None:
            self._hits.value += 1
            return known
        self._misses.value += 1
        question = self._asked.get(key)
        if question is None or question.asked + self._seconds < time.monotonic():
            question = _PendingLookup(asyncio.create_task(ask()), time.monotonic())
            self._asked[key] = question
            question.task.add_done_callback(lambda task: self._learn(key, question, task))
        return await asyncio.shield(question.task)  # one who goes away takes the answer from nobody

    def _learn(self, key: K, question: _PendingLookup[V], task: asyncio.Task[V | None]) -> None:
        failed = task.cancelled() or task.exception() is not None
        if self._asked.get(key) is not question:
            return
        del self._asked[key]
        if not failed and (answer := task.result()) is not None:
            if len(self._known) >= REMEMBERED:
                self._known = {}
            self._known[key] = answer
