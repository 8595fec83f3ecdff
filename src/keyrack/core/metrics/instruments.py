"""Instruments: counters, gauges and histograms of one process.

An instrument is a dictionary of series. Only one event loop writes them, so there are no locks.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

Kind = Literal["counter", "gauge", "histogram"]
Snapshot = list[dict[str, Any]]  # instruments with their series, as JSON values

MOST = 5_000  # series of one instrument. Label values come from tables, so only a bug exceeds it
# Buckets in seconds, from the read of one row to the patience of a client
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
LONG = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 3_600.0, 86_400.0)  # for queued work


class Cell:
    """One series of a counter or a gauge."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0.0

    def add(self, by: float = 1.0) -> None:
        self.value += by

    def set(self, value: float) -> None:
        self.value = value


class Spread:
    """One series of a histogram: the count of each bucket, and the sum."""

    __slots__ = ("_bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self._bounds, value)] += 1
        self.sum += value


class Counter:
    """A counter with labels.

    With one label, the series of `initial_labels` exist from the start, so that their first increment is visible.
    """

    kind: ClassVar[Kind] = "counter"

    def __init__(self, name: str, help: str, *labels: str, initial_labels: Sequence[str] = ()) -> None:
        self.name = name
        self.help = help
        self.labels = labels
        self._cells: dict[tuple[str, ...], Cell] = {(value,): Cell() for value in initial_labels}
        if not labels:
            self._cells[()] = Cell()

    def of(self, *values: str) -> Cell:
        """The series with these label values."""
        cell = self._cells.get(values)
        return self._new(values) if cell is None else cell

    def add(self, *values: str, by: float = 1.0) -> None:
        """Increment the series with these label values."""
        self.of(*values).value += by

    def series(self) -> list[tuple[list[str], Any]]:
        """The label values and the value of each series."""
        return [(list(values), cell.value) for values, cell in list(self._cells.items())]

    def _new(self, values: tuple[str, ...]) -> Cell:
        cell = Cell()
        if len(self._cells) < MOST:
            self._cells[values] = cell
        else:
            DROPPED.add()
        return cell


class Gauge(Counter):
    """A value that goes up and down."""

    kind: ClassVar[Kind] = "gauge"

    def replace(self, values: Mapping[tuple[str, ...], float]) -> None:
        """Replace all series. An unknown value has no series."""
        fresh: dict[tuple[str, ...], Cell] = {}
        for labels, value in values.items():
            fresh[labels] = Cell()
            fresh[labels].value = value
        self._cells = fresh


class Histogram:
    """A distribution of durations, in classic buckets."""

    kind: ClassVar[Kind] = "histogram"

    def __init__(self, name: str, help: str, *labels: str, bounds: Sequence[float] = SECONDS) -> None:
        self.name = name
        self.help = help
        self.labels = labels
        self.bounds = tuple(bounds)
        self._cells: dict[tuple[str, ...], Spread] = {}
        if not labels:
            self._cells[()] = Spread(self.bounds)

    def of(self, *values: str) -> Spread:
        """The series with these label values."""
        cell = self._cells.get(values)
        if cell is None:
            cell = Spread(self.bounds)
            if len(self._cells) < MOST:
                self._cells[values] = cell
            else:
                DROPPED.add()
        return cell

    def observe(self, value: float, *values: str) -> None:
        """Add a duration in seconds to the series with these label values."""
        self.of(*values).observe(value)

    def series(self) -> list[tuple[list[str], Any]]:
        """The label values, bucket counts and sum of each series."""
        return [(list(values), [list(cell.counts), cell.sum]) for values, cell in list(self._cells.items())]


Instrument = Counter | Histogram

DROPPED = Counter(
    "keyrack_metrics_dropped_total", "Values that were dropped because the maximum number of series was reached."
)


class Customers:
    """The customers that have series of their own, and the maximum number of series."""

    def __init__(self) -> None:
        self.any = False  # whether any customer is selected
        self._is_all = False
        self._ids = frozenset[str]()
        self._series_left = 0

    def choose(self, selection: str, max_series: int) -> None:
        """Select customers: `true` for all, or comma-separated ids. `max_series` is the maximum for all together."""
        self._is_all = selection == "true"
        self._ids = frozenset(part.strip() for part in selection.split(",") if part.strip().isdigit())
        self._series_left = max_series
        self.any = self._is_all or bool(self._ids)

    def has(self, customer: str) -> bool:
        return self._is_all or customer in self._ids

    def take(self) -> bool:
        """Reserve one more series. Returns False if none is left."""
        self._series_left -= 1
        return self._series_left >= 0


class OfCustomers(Counter):
    """A counter per selected customer, whose id is the first label."""

    def __init__(self, customers: Customers, name: str, help: str, *labels: str) -> None:
        super().__init__(name, help, "customer", *labels)
        self._customers = customers

    def count(self, customer: int, *values: str, by: float = 1.0) -> None:
        """Increment the series of the customer, if the customer is selected."""
        if self._customers.any and self._customers.has(str(customer)):
            self.of(str(customer), *values).value += by

    def _new(self, values: tuple[str, ...]) -> Cell:
        if self._customers.take():
            return super()._new(values)
        DROPPED.add()
        return Cell()


def snapshot(instruments: Sequence[Instrument]) -> Snapshot:
    """The current values of these instruments."""
    return [
        {
            "name": metric.name, "help": metric.help, "kind": metric.kind, "labels": list(metric.labels),
            "bounds": list(metric.bounds) if isinstance(metric, Histogram) else [], "series": metric.series(),
        }
        for metric in instruments
    ]  # fmt: skip
