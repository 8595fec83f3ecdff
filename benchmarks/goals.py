"""The goals of performance: cells of tables, with their limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.estimates import Estimate, estimates
from benchmarks.measurements import Measurement


@dataclass(frozen=True)
class Goal:
    """A figure with a limit. It is the one at `place` in the cell of `row` and `column` of a table."""

    title: str
    table: str
    row: str
    column: str
    limit: float
    unit: str = "times"
    is_minimum: bool = False  # the figure must be at least the limit, not at most
    place: int = 0  # of the figure within the cell

    def estimate(self, measurement: Measurement) -> Estimate | None:
        """The figure of a measurement. None if it has another table, or not this row."""
        if measurement.table != self.table:
            return None
        cell = measurement.cell(self.row, self.column)
        found = estimates(cell) if cell else []
        return found[self.place] if len(found) > self.place else None

    def is_met(self, estimate: Estimate) -> bool:
        """Whether a figure meets the goal. Its interval does not count."""
        return estimate.value >= self.limit if self.is_minimum else estimate.value <= self.limit


_FLOOR = "foundation reads-and-writes"
_RATES = "outcomes rates"
_LIMITED = "limited lists"


def _ratios(title: str, table: str, column: str, limit: float, rows: Sequence[str]) -> tuple[Goal, ...]:
    """A goal for each of these rows. `title` contains `{}` for the name of the row."""
    return tuple(Goal(title.format(row), table, row, column, limit) for row in rows)


GOALS = (
    *_ratios(
        "{}: CPU, compared with the floor",
        _FLOOR,
        "CPU ratio",
        1.5,
        (
            "GET /cars/{carId}",
            "GET /cars, 100 rows",
            "GET /cars, 1,000 rows",
            "GET /cars/{carId}/assignments",
            "PUT /cars",
            "PUT /assignments",
        ),
    ),
    Goal("Filter texts never seen: CPU, compared with the floor", "query floor", "each text new", "CPU ratio", 1.6),
    Goal("Read of 1,000,000 cars, compared with 1,000: p50", "foundation growth", "ratio", "p50 ms", 1.2),
    Goal("304 of a car, compared with its 200: CPU", "conditional reads", "GET /cars/{carId}", "ratio", 0.5),
    Goal("Batch of 1,000 assignments", "batch calls", "1,000 creations of assignments", "ms", 500, "ms"),
    Goal("Operations of ten customers", _RATES, "operations of ten customers applied", "Result", 8_000, "/s", True),
    Goal("Webhooks to one endpoint", _RATES, "webhooks delivered to one endpoint", "Result", 1_500, "/s", True),
    Goal(
        "From the 204 to the webhook: p50", _RATES, "from the 204 to the webhook, at 100/s", "Result", 5, "ms", place=1
    ),
    Goal(
        "From the 204 to the webhook: p99", _RATES, "from the 204 to the webhook, at 100/s", "Result", 25, "ms", place=3
    ),
    Goal("10,000 customers, compared with ten: read of a car", "scale times", "GET /cars/{carId}", "ratio", 1.2),
    Goal(
        "10,000 customers, compared with ten: an outcome",
        "scale times",
        "an operation applied and delivered, 10 receivers",
        "ratio",
        1.5,
    ),
    Goal("Free cars: p50 of a page", "availability cars", "a page of the default size, 1,000 cars", "p50 ms", 30, "ms"),
    Goal("Slowest of 50 exclusive requests", "exclusive slots", "exclusive: one succeeds", "slowest ms", 2_000, "ms"),
    Goal("Console: p50 of the list of cars", "console pages", "cars", "p50, ms", 40, "ms"),
    Goal("Console: p99 of the list of cars", "console pages", "cars", "p99, ms", 150, "ms"),
    *_ratios(
        "Manager limited to groups, {}: CPU",
        _LIMITED,
        "ratio",
        2,
        (
            "`GET /cars`, all 1,000",
            "`$filter=products/any()`",
            "`GET /assignments`, `$top=100`",
            "`GET /events`, the newest 100",
        ),
    ),
    Goal("First keys of phones, one per request", "keys issued", "one per request", "keys/s", 2_000, "/s", True),
    Goal(
        "Unchanged keys of a phone with 20: CPU of a read",
        "keys fetched",
        "unchanged, a phone with 20 keys",
        "times",
        2,
    ),
    *_ratios(
        "{} with recording: CPU",
        "recording writes",
        "CPU",
        1.3,
        ("`PUT /cars`", "`PATCH /cars/{carId}`", "`POST /batch`, 100 cars"),
    ),
    Goal(
        "Access to a car over a week: p99",
        "custody questions",
        "a car, over a week: about 130 access periods",
        "p99 ms",
        10,
        "ms",
    ),
    Goal(
        "Cars of a user: p99",
        "custody questions",
        "the cars of a user, at a time: ten cars at once",
        "p99 ms",
        10,
        "ms",
    ),
    Goal(
        "Delay of the change feed: p50",
        "feed listeners",
        "delay to one listener, 100 changes per second",
        "",
        30,
        "ms",
        place=1,
    ),
    Goal(
        "Conversation over Bluetooth, ATT_MTU 247",
        "bluetooth conversation",
        "247",
        "conversation with response, s",
        0.5,
        "s",
    ),
    Goal(
        "From the tap to the event: p50",
        "driving tap-to-event",
        "from the tap to the event in the console",
        "p50",
        3_000,
        "ms",
    ),
    Goal(
        "Traces of 1 % of requests: CPU", "traces ratios", "GET /cars/{carId}", "traces, 1 % (goal: below 1.05)", 1.05
    ),
)
