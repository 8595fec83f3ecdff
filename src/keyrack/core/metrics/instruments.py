"""In charge of instruments: what counts and measures in one process, cheaply enough to do so always.

An instrument is a dictionary of its series, each a cell that adds up. One event loop writes them: there are no locks.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

Kind = Literal["counter", "gauge", "histogram"]
Snapshot = list[dict[str, Any]]  # instruments with their series, fit for JSON

MOST = 5_000  # series of one instrument: label values come from tables, so only a fault of ours could make more
# Seconds: from a read of one row to what a client hardly waits for
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
LONG = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 3_600.0, 86_400.0)  # of what may wait


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
    """One series of a histogram: how many fell into each bucket, and their sum."""

    __slots__ = ("_bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self._bounds, value)] += 1
        self.sum += value


class Counter:
    """What only grows. `labels` are the names of its labels; of one label the `initial_labels` exist from the start,
    so that the first time that one counts is seen as a change."""

    kind: ClassVar[Kind] = "counter"

    def __init__(self, name: str, help: str, *labels: str, initial_labels: Sequence[str] = ()) -> None:
        self.name = name
        self.help = help
        self.labels = labels
        self._cells: dict[tuple[str, ...], Cell] = {(value,): Cell() for value in initial_labels}
        if not labels:
            self._cells[()] = Cell()

    def of(self, *values: str) -> Cell:
        """The series with these values of the labels."""
        cell = self._cells.get(values)
        return self._new(values) if cell is None else cell

    def add(self, *values: str, by: float = 1.0) -> None:
        """Count, in the series with these values of the labels."""
        self.of(*values).value += by

    def series(self) -> list[tuple[list[str], Any]]:
        """Each series' values of the labels, and what it has come to."""
        return [(list(values), cell.value) for values, cell in list(self._cells.items())]

    def _new(self, values: tuple[str, ...]) -> Cell:
        cell = Cell()
        if len(self._cells) < MOST:
            self._cells[values] = cell
        else:
            DROPPED.add()
        return cell


class Gauge(Counter):
    """What goes up and down."""

    kind: ClassVar[Kind] = "gauge"

    def replace(self, values: Mapping[tuple[str, ...], float]) -> None:
        """Have these series and no others: what is not known has none."""
        fresh: dict[tuple[str, ...], Cell] = {}
        for labels, value in values.items():
            fresh[labels] = Cell()
            fresh[labels].value = value
        self._cells = fresh


class Histogram:
    """How long something takes, in classic buckets."""

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
        """The series with these values of the labels."""
        cell = self._cells.get(values)
        if cell is None:
            cell = Spread(self.bounds)
            if len(self._cells) < MOST:
                self._cells[values] = cell
            else:
                DROPPED.add()
        return cell

    def observe(self, value: float, *values: str) -> None:
        """Take note of one, in seconds, in the series with these values of the labels."""
        self.of(*values).observe(value)

    def series(self) -> list[tuple[list[str], Any]]:
        """Each series' values of the labels, and its buckets' counts with the sum."""
        return [(list(values), [list(cell.counts), cell.sum]) for values, cell in list(self._cells.items())]


Instrument = Counter | Histogram

DROPPED = Counter(
    "keyrack_metrics_dropped_total", "Counts that were not kept, because there were as many series as there may be."
)


class Customers:
    """Which customers have series of their own: none, unless somebody has asked for them; and how many in all."""

    def __init__(self) -> None:
        self.any = False  # whether there are such
        self._is_all = False
        self._ids = frozenset[str]()
        self._series_left = 0

    def choose(self, selection: str, max_series: int) -> None:
        """`selection` is `true` for everybody, or ids with commas between them; `max_series` bounds all series."""
        self._is_all = selection == "true"
        self._ids = frozenset(part.strip() for part in selection.split(",") if part.strip().isdigit())
        self._series_left = max_series
        self.any = self._is_all or bool(self._ids)

    def has(self, customer: str) -> bool:
        return self._is_all or customer in self._ids

    def take(self) -> bool:
        """Whether one more series may be kept."""
        self._series_left -= 1
        return self._series_left >= 0


class OfCustomers(Counter):
    """What is counted for each customer that was asked for; its first label is the customer."""

    def __init__(self, customers: Customers, name: str, help: str, *labels: str) -> None:
        super().__init__(name, help, "customer", *labels)
        self._customers = customers

    def count(self, customer: int, *values: str, by: float = 1.0) -> None:
        """Count, if somebody wants to know it of this customer."""
        if self._customers.any and self._customers.has(str(customer)):
            self.of(str(customer), *values).value += by

    def _new(self, values: tuple[str, ...]) -> Cell:
        if self._customers.take():
            return super()._new(values)
        DROPPED.add()
        return Cell()


def snapshot(instruments: Sequence[Instrument]) -> Snapshot:
    """What these instruments have come to."""
    return [
        {
            "name": metric.name, "help": metric.help, "kind": metric.kind, "labels": list(metric.labels),
            "bounds": list(metric.bounds) if isinstance(metric, Histogram) else [], "series": metric.series(),
        }
        for metric in instruments
    ]  # fmt: skip
