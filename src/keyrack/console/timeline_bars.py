"""Bars of the plan: the car and the time of each, and its place in the row.

Places are days and hours of the person's clock: a day of 23 or 25 hours is as wide as any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta
from typing import Any

from keyrack.api.permissions import Permission
from keyrack.console.choices import of_user
from keyrack.console.hidden_assignments import SOMEBODY
from keyrack.console.pages.assignments import state
from keyrack.console.rendering import base, clock, gettext
from keyrack.http.page_router import Visit

LANES = 6  # bars of a car that are stacked
HOUR = timedelta(hours=1)


@dataclass(frozen=True)
class Bar:
    """A booking, or a requested one. Times are texts of the person's clock."""

    id: str
    href: str  # "" for a hidden assignment
    change: str  # address of the form that changes it, "" if it cannot be changed
    car: int
    user: str
    state: str  # past, in-force, coming, pending, failed
    start: datetime  # on the person's clock
    end: datetime | None
    assignment: Mapping[str, Any]
    column: int = 0
    last: int = 0  # column
    hour: int = 0  # in its first column
    hours: int = 1
    lane: int = 0
    is_cut_before: bool = False
    is_cut_after: bool = False

    @property
    def is_exclusive(self) -> bool:
        return bool(self.assignment.get("exclusive"))

    @property
    def fields(self) -> tuple[str, str]:
        """The start and the end as values of form fields."""
        end = self.end.isoformat(timespec="minutes") if self.end else ""
        return self.start.isoformat(timespec="minutes"), end


def bar(visit: Visit, row: Mapping[str, Any], *, pending: bool = False) -> Bar:
    """The bar of an assignment or an operation, with its user."""
    is_asked = "kind" in row
    shown = clock(visit)
    if row.get("isHidden"):
        return _hidden_bar(visit, row)
    user = of_user(row["user"]).label if row.get("user") else gettext(visit, "a removed person")
    standing = row["state"].lower() if is_asked else "pending" if pending else state(row["start"], row["end"])
    where = f"{base(visit)}/{'operations' if is_asked else 'assignments'}/{row['id']}"
    can_change = standing in ("in-force", "coming") and visit.may(Permission.ASSIGNMENTS_WRITE)
    return Bar(
        f"bar-{row['id']}", where, f"{where}/change" if can_change else "", row["carId"], user, standing,
        shown.local(row["start"]).replace(tzinfo=None),
        shown.local(row["end"]).replace(tzinfo=None) if row["end"] else None, row,
    )  # fmt: skip


def _hidden_bar(visit: Visit, row: Mapping[str, Any]) -> Bar:
    """The bar of a hidden assignment. Its car and start identify it."""
    shown = clock(visit)
    start, end = (shown.local(row[name]).replace(tzinfo=None) if row[name] else None for name in ("start", "end"))
    assert start is not None  # noqa: S101 - every assignment has one
    id = f"bar-hidden-{row['carId']}-{start:%Y%m%dT%H%M%S}"
    return Bar(
        id, "", "", row["carId"], gettext(visit, SOMEBODY), state(row["start"], row["end"]), start, end, row
    )  # fmt: skip


def laid(bars: Iterable[Bar], first: date, days: int) -> tuple[list[Bar], int, int]:
    """The bars of a row with their places, the number of lanes, and the number of bars without a place."""
    begin, end = datetime.combine(first, time()), datetime.combine(first + timedelta(days=days), time())
    lanes: list[datetime] = []  # the time from which each lane is free
    placed: list[Bar] = []
    hidden = 0
    for unplaced_bar in sorted(bars, key=lambda unplaced_bar: (unplaced_bar.start, unplaced_bar.id)):
        start, stop = max(unplaced_bar.start, begin), min(unplaced_bar.end or end, end)
        lane = next((number for number, free in enumerate(lanes) if free <= start), len(lanes))
        if lane == LANES:
            hidden += 1
            continue
        lanes[lane : lane + 1] = [max(stop, start + HOUR)]
        placed.append(
            _placed(
                unplaced_bar, lane, begin, start, stop, is_cut_after=unplaced_bar.end is None or unplaced_bar.end > end
            )
        )
    return placed, len(lanes), hidden


def _placed(
    unplaced_bar: Bar, lane: int, begin: datetime, start: datetime, stop: datetime, *, is_cut_after: bool
) -> Bar:
    column = (start - begin).days
    hours = max(round((stop - start) / HOUR), 1)
    last = max(column, ((stop - begin) - timedelta(microseconds=1)).days)
    return replace(
        unplaced_bar, column=column, last=last, hour=start.hour, hours=hours, lane=lane,
        is_cut_before=unplaced_bar.start < begin, is_cut_after=is_cut_after,
    )  # fmt: skip
