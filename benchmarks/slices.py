"""Comparisons in short slices.

The speed of a machine drifts by a factor of two within minutes. So the variants are measured in turn, each for a
fraction of a second, in random order. Two slices of a round see nearly the same machine. So their ratio is valid,
although neither of their times is.
"""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Literal, Protocol, TypeVar

from benchmarks.instructions import EventCounter
from benchmarks.load import Connections, Result
from benchmarks.sizes import sized

ROUNDS = sized(20, tiny=1)  # enough for an interval that the six best and the six worst ratios do not affect
WARM_UP = sized(4, tiny=1)  # rounds before, which do not count

T = TypeVar("T")
Figure = Literal["rate", "p50", "p99", "cpu", "whole_cpu"]


class Process(Protocol):
    """A server process."""

    @property
    def pid(self) -> int: ...
    @property
    def port(self) -> int: ...


@dataclass(frozen=True)
class Variant:
    """A server and the requests that it gets, again and again."""

    server: Process
    requests: Iterable[bytes]
    status: int | None = None  # of each response; otherwise all below 400
    database: Callable[[], Iterable[int]] = tuple  # the processes of PostgreSQL whose CPU time counts
    prepare: Callable[[], None] | None = None  # called before each slice


@dataclass(frozen=True)
class Slices:
    """The slices of a variant."""

    results: Sequence[Result]
    instructions: float | None  # per request, where the machine counts them

    def each(self, figure: Figure) -> list[float]:
        """A figure of each slice."""
        return [getattr(result, figure) for result in self.results]


def schedule(variants: int, rounds: int) -> Iterator[Sequence[int]]:
    """The order of the variants in each round: random, but the same in each run."""
    order = random.Random(1)
    return (order.sample(range(variants), variants) for _ in range(rounds))


def alternate(*variants: Callable[[], T], rounds: int = ROUNDS, warm_up: int = WARM_UP) -> tuple[list[T], ...]:
    """Call each variant once per round. Returns the results of each variant, without those of the warm-up."""
    results: tuple[list[T], ...] = tuple([] for _ in variants)
    for order in schedule(len(variants), warm_up + rounds):
        for place in order:
            results[place].append(variants[place]())
    return tuple(of[warm_up:] for of in results)


async def alternate_tasks(
    *variants: Callable[[], Awaitable[T]], rounds: int = ROUNDS, warm_up: int = WARM_UP
) -> tuple[list[T], ...]:
    """The same as `alternate` for asynchronous functions."""
    results: tuple[list[T], ...] = tuple([] for _ in variants)
    for order in schedule(len(variants), warm_up + rounds):
        for place in order:
            results[place].append(await variants[place]())
    return tuple(of[warm_up:] for of in results)


def alternate_servers(
    *variants: Variant, count: int, connections: int = 8, rounds: int = ROUNDS, warm_up: int = WARM_UP
) -> tuple[Slices, ...]:
    """Send requests to servers in turn, `count` per slice, at least one.

    A slice continues in its variant's requests where the one before ended.

    Raises AssertionError if a response has another status than its variant.
    """
    with ExitStack() as stack:
        counters = [stack.enter_context(EventCounter(variant.server.pid)) for variant in variants]
        opened = [
            stack.enter_context(Connections(variant.server.pid, variant.server.port, connections))
            for variant in variants
        ]
        measures = [
            functools.partial(_slice, variant, itertools.cycle(variant.requests), connection, max(count, 1))
            for variant, connection in zip(variants, opened, strict=True)
        ]
        alternate(*measures, rounds=warm_up, warm_up=0)
        results = alternate(
            *(functools.partial(_count, *pair) for pair in zip(counters, measures, strict=True)),
            rounds=rounds,
            warm_up=0,
        )
    return tuple(
        Slices(of, None if counter.number is None else counter.number / sum(result.requests for result in of))
        for of, counter in zip(results, counters, strict=True)
    )


def _slice(variant: Variant, requests: Iterator[bytes], connections: Connections, count: int) -> Result:
    sent = list(itertools.islice(requests, count))
    if variant.prepare is not None:
        variant.prepare()
    result = connections.measure(sent, variant.database())
    wrong = {s for s in result.statuses if (s >= 400 if variant.status is None else s != variant.status)}
    assert not wrong, result.statuses
    return result


def _count(counter: EventCounter, measure: Callable[[], Result]) -> Result:
    counter.resume()
    result = measure()
    counter.pause()
    return result
