"""The time line of a car: assignments and operations within a window of days.

Assignments are the applied ones that no request ended. Pending, failed and early ended ones are operations.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

from keyrack.api.permissions import Permission
from keyrack.console.hidden_assignments import hidden_assignments
from keyrack.console.local_times import Clock, instant, midnight, utc
from keyrack.console.rendering import clock
from keyrack.http.page_router import Visit

USER = "user($select=id,emailAddress,userData)"
MOST = 50  # assignments of a window, and operations of it; the page shows how many are left out
SPANS = {"week": 7, "month": 28}  # days of a window
DEFAULT = "month"
BEFORE = {"week": 2, "month": 9}  # days between the start of today's window and today
STEPS = {"week": 1, "month": 7}  # days between two marks
FIRST, LAST = date(1900, 1, 1), date(2400, 1, 1)  # the first days of windows


@dataclass(frozen=True)
class TimelineWindow:
    """Whole days of the person's zone."""

    span: str
    first: date
    clock: Clock

    @property
    def days(self) -> int:
        return SPANS[self.span]

    @property
    def begins(self) -> datetime:
        return self._midnight(self.first)

    @property
    def ends(self) -> datetime:
        return self._midnight(self.first + timedelta(self.days))

    @property
    def last(self) -> datetime:
        """A moment of the last day."""
        return self.ends - timedelta(minutes=1)

    def _midnight(self, day: date) -> datetime:
        return midnight(day, self.clock.zone)

    def moved(self, windows: int) -> date:
        """The first day of a window before or after this one."""
        return min(max(self.first + timedelta(windows * self.days), FIRST), LAST)

    @property
    def marks(self) -> list[datetime]:
        """The beginnings of its days or weeks."""
        return [self._midnight(self.first + timedelta(day)) for day in range(0, self.days, STEPS[self.span])]

    def place(self, moment: datetime | None) -> float:
        """The place of a moment, from 0 to 100. No end is at 100."""
        if moment is None:
            return 100.0
        share = (moment - self.begins) / (self.ends - self.begins)
        return round(100 * min(max(share, 0.0), 1.0), 2)


@dataclass(frozen=True)
class TimelineEntry:
    """One assignment, or one operation.

    `state` is `past`, `in-force`, `coming`, `pending`, `failed`, `ended` (early), `over` (past, and removed since) or
    `cancelled` (before its start).
    """

    state: str
    row: dict[str, Any]
    start: str
    end: str | None
    starts: float
    ends: float


@dataclass(frozen=True)
class Timeline:
    """The entries of a window; `more` is the number of further ones."""

    window: TimelineWindow
    today: date  # the first day of today's window
    now: float | None  # the place of the current time, None outside the window
    entries: list[TimelineEntry]
    more: int


def window_of(visit: Visit) -> tuple[TimelineWindow, date]:
    """The window of the address, and the first day of today's window. An invalid address has today's window."""
    there = clock(visit)
    span = visit.query_value("span") if visit.query_value("span") in SPANS else DEFAULT
    today = datetime.now(there.zone).date() - timedelta(BEFORE[span])
    try:
        first = date.fromisoformat(visit.query_value("from")) if visit.query_value("from") else today
    except ValueError:
        first = today
    return TimelineWindow(span, min(max(first, FIRST), LAST), there), today


async def timeline(visit: Visit, car: int) -> Timeline:
    """The time line of a car. It has operations only if the visit has the permission for them."""
    window, today = window_of(visit)
    now = datetime.now(UTC)
    within = f"start lt {utc(window.ends)} and (end eq null or end gt {utc(window.begins)})"
    applied = await visit.call(
        "GET", "/assignments",
        query={"$filter": f"carId eq {car} and {within}", "$orderby": "start", "$top": str(MOST), "$count": "true",
               "$expand": USER},
    )  # fmt: skip
    operations, all_asked = list[dict[str, Any]](), 0
    if visit.may(Permission.OPERATIONS_READ):
        reply = await visit.call(
            "GET", "/operations",
            query={"$filter": f"carId eq {car} and (state ne 'Succeeded' or kind eq 'DeleteAssignment') and {within}",
                   "$orderby": "requested desc", "$top": str(MOST), "$count": "true", "$expand": USER},
        )  # fmt: skip
        operations, all_asked = reply.json, reply.total
    hidden = await hidden_assignments(visit, [car], within, MOST)
    entries = [_entry(window, _standing(row, now), row, row["end"]) for row in (*applied.json, *hidden)]
    entries += [entry for row in operations if (entry := _operation_entry(window, row))]
    entries.sort(key=lambda entry: (entry.start, entry.row["id"] if isinstance(entry.row["id"], int) else 0))
    shown = len(applied.json) + len(operations)
    place = window.place(now) if window.begins <= now < window.ends else None
    return Timeline(window, today, place, entries, applied.total + all_asked - shown)


def _operation_entry(window: TimelineWindow, row: dict[str, Any]) -> TimelineEntry | None:
    """An operation as an entry; None if it ended before the window."""
    if row["state"] != "Succeeded":
        return _entry(window, row["state"].lower(), row, row["end"])
    if row["finished"] <= row["start"]:
        return _entry(window, "cancelled", row, row["end"])
    if row["end"] and row["end"] <= row["finished"]:  # it was removed after its end
        return _entry(window, "over", row, row["end"])
    return _entry(window, "ended", row, row["finished"]) if instant(row["finished"]) > window.begins else None


def _entry(window: TimelineWindow, state: str, row: dict[str, Any], end: str | None) -> TimelineEntry:
    starts = window.place(instant(row["start"]))
    return TimelineEntry(state, row, row["start"], end, starts, window.place(instant(end) if end else None))


def _standing(row: dict[str, Any], now: datetime) -> str:
    if row["end"] and instant(row["end"]) <= now:
        return "past"
    return "in-force" if instant(row["start"]) <= now else "coming"
