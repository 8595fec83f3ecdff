"""The preview of a change of an assignment: old and new values, and whether the user loses the car at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from keyrack.console.choices import of_car, of_user
from keyrack.console.local_times import utc
from keyrack.console.pages.assignment_forms import ParsedAssignmentForm
from keyrack.core.errors import NotFound
from keyrack.http.page_router import Visit

THINGS = {"$expand": "car,user"}
MOVED = ("carId", "userId", "start", "end")


@dataclass(frozen=True, slots=True)
class AssignmentMove:
    """The old and the new values of an assignment.

    `new_car` and `new_user` are "" if they stay. `is_loss` means that the user has the car now and loses it at once.
    `regained` is the later start for the same car and user, or "".
    """

    car: str
    new_car: str
    user: str
    new_user: str
    start: str
    end: str | None
    new_start: str
    new_end: str | None
    is_loss: bool
    regained: str

    @property
    def has_new_times(self) -> bool:
        return (self.start, self.end) != (self.new_start, self.new_end)


async def move(visit: Visit, present: Mapping[str, Any] | None, draft: ParsedAssignmentForm) -> AssignmentMove | None:
    """The preview of a form; None if nothing moves, or while a field is invalid."""
    new = draft.members
    if present is None or draft.errors or all(new[name] == present[name] for name in MOVED):
        return None
    if not (draft.car and draft.user and new["start"] and (new["end"] or draft.filled.no_end)):
        return None
    try:
        row = (await visit.call("GET", "/assignments/{assignmentId}", present["id"], query=THINGS)).json
    except NotFound:  # it has ended; sending the form reports that
        return None
    is_same = (new["carId"], new["userId"]) == (row["carId"], row["userId"])
    is_loss = _is_now(row["start"], row["end"]) and not (is_same and _is_now(new["start"], new["end"]))
    return AssignmentMove(
        car=of_car(row["car"]).label if row["car"] else "",
        new_car=draft.car.label if new["carId"] != row["carId"] else "",
        user=of_user(row["user"]).label if row["user"] else "",
        new_user=draft.user.label if new["userId"] != row["userId"] else "",
        start=row["start"],
        end=row["end"],
        new_start=new["start"],
        new_end=new["end"],
        is_loss=is_loss and bool(row["user"]),
        regained=new["start"] if is_loss and is_same and new["start"] > utc(datetime.now(UTC)) else "",
    )


def _is_now(start: str, end: str | None) -> bool:
    now = utc(datetime.now(UTC))
    return start <= now and (end is None or end > now)
