"""Medians of repeated measurements, with intervals: their computation, and their text in a cell of a table."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

CONFIDENCE = 0.95
_NUMBER = r"\d[\d,]*(?:\.\d+)?"
_ESTIMATE = re.compile(rf"({_NUMBER})(?:\** \(({_NUMBER})-({_NUMBER})\))?")


@dataclass(frozen=True, slots=True)
class Interval:
    """An interval that contains the true median in 95 % of runs."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure. It has an interval if it is the median of enough measurements."""

    value: float
    interval: Interval | None = None

    def cell(self, digits: int = 2) -> str:
        """The text of a cell, with the figure in bold.

        >>> Estimate(1.62, Interval(1.55, 1.7)).cell()
        '**1.62** (1.55-1.70)'
        """
        text = f"**{self.value:.{digits}f}**"
        if self.interval is None:
            return text
        return f"{text} ({self.interval.low:.{digits}f}-{self.interval.high:.{digits}f})"


def estimates(cell: str) -> list[Estimate]:
    """The figures in a cell.

    >>> [estimate.value for estimate in estimates("**6,713**/s, p99 17.0 ms")]
    [6713.0, 99.0, 17.0]
    >>> estimates("**1.62** (1.55-1.70)")
    [Estimate(value=1.62, interval=Interval(low=1.55, high=1.7))]
    """
    return [
        Estimate(_number(value), Interval(_number(low), _number(high)) if low else None)
        for value, low, high in _ESTIMATE.findall(cell)
    ]


def _number(text: str) -> float:
    return float(text.replace(",", ""))


def median(values: Sequence[float]) -> Estimate:
    """The median, with an interval that assumes no distribution.

    The interval's ends are two of the sorted values, at the same distance from both ends of the list. Below six values,
    no interval has this confidence.

    >>> median([5, 1, 4, 2, 3, 6])
    Estimate(value=3.5, interval=Interval(low=1, high=6))
    >>> median([1, 2, 3])
    Estimate(value=2, interval=None)
    """
    ordered, count = sorted(values), len(values)
    rank = below = 0
    # The true median is below the value at `rank` only if at most that many of the others are below the median
    while 2 * (below := below + math.comb(count, rank)) <= (1 - CONFIDENCE) * 2**count:
        rank += 1
    interval = Interval(ordered[rank - 1], ordered[count - rank]) if rank else None
    return Estimate(statistics.median(ordered), interval)


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> Estimate:
    """The median of the ratios of pairs. A pair was measured at nearly the same time."""
    return median([our / their for our, their in zip(ours, theirs, strict=True)])
