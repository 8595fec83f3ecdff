"""Medians with intervals, and their text."""

from __future__ import annotations

import itertools
import math
import statistics

import pytest
from benchmarks.estimates import CONFIDENCE, Estimate, Interval, estimates, median, ratio
from hypothesis import given
from hypothesis import strategies as st

FIGURES = st.floats(min_value=0, max_value=1e9)


@given(st.lists(FIGURES, min_size=6))
def test_an_interval_is_around_the_median(values: list[float]) -> None:
    estimate = median(values)
    assert estimate.interval is not None
    assert estimate.value == statistics.median(values)
    assert estimate.interval.low <= estimate.value <= estimate.interval.high
    assert {estimate.interval.low, estimate.interval.high} <= set(values)
    assert median(sorted(values)) == estimate


@pytest.mark.parametrize("count", range(1, 13))
def test_an_interval_is_the_shortest_that_has_the_confidence(count: int) -> None:
    """A value is above the true median in half of the cases."""
    interval = median(range(count)).interval
    below = [sum(sides) for sides in itertools.product((0, 1), repeat=count)]

    def share(margin: int) -> float:
        """The share of cases with the median within this margin."""
        return sum(margin < number < count - margin for number in below) / len(below)

    if interval is None:
        assert share(0) < CONFIDENCE
    else:
        assert interval == Interval(interval.low, count - 1 - interval.low)
        assert share(int(interval.low)) >= CONFIDENCE
        assert share(int(interval.low) + 1) < CONFIDENCE


@given(st.lists(st.floats(min_value=0.1, max_value=1e6), min_size=6), st.floats(min_value=0.1, max_value=10))
def test_a_ratio_does_not_depend_on_the_speed_of_the_machine(speeds: list[float], factor: float) -> None:
    """Both of a pair are measured at the same speed."""
    estimate = ratio([speed * factor for speed in speeds], speeds)
    assert estimate.interval is not None
    for figure in (estimate.value, estimate.interval.low, estimate.interval.high):
        assert math.isclose(figure, factor)


@given(FIGURES, FIGURES, FIGURES)
def test_a_cell_is_read_as_it_was_written(value: float, low: float, high: float) -> None:
    rounded = Estimate(round(value, 2), Interval(round(low, 2), round(high, 2)))
    assert estimates(rounded.cell()) == [rounded]
    assert estimates(Estimate(rounded.value).cell()) == [Estimate(rounded.value)]


@pytest.mark.parametrize(
    ("cell", "values"), [("**1,234.5**", [1234.5]), ("p50 6.1 ms, p99 17 ms", [50, 6.1, 99, 17]), ("none", [])]
)
def test_cells_without_intervals(cell: str, values: list[float]) -> None:
    assert estimates(cell) == [Estimate(value) for value in values]


def test_digits_of_a_cell() -> None:
    assert median([10.0, 12.5, 11.25, 14.0, 13.0, 12.0]).cell(1) == "**12.2** (10.0-14.0)"
