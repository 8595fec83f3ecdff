"""Checks of an assignment before it is sent: double bookings, and expected failures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from keyrack.api.grants import NOT_PERMITTED
from keyrack.assignments.failure_codes import CONFLICT, code_of
from keyrack.console.choices import labels_of_users
from keyrack.console.failure_hints import FailureHint, failure_hint, failure_reason
from keyrack.console.hidden_assignments import SOMEBODY, hidden_assignments
from keyrack.console.local_times import utc
from keyrack.console.paged_fetch import rows_with
from keyrack.console.pages.assignment_forms import ParsedAssignmentForm, twice
from keyrack.console.rendering import gettext, translate_error
from keyrack.core.errors import Refusal, TooManyRequests, Unavailable
from keyrack.http.page_router import Visit

MOST_HIDDEN = 10  # hidden overlaps that are shown


@dataclass(frozen=True, slots=True)
class OverlapView:
    """Another assignment of the car within the same time."""

    assignment: int | None  # None for a hidden one
    user: str
    start: str
    end: str | None
    same: bool  # the same user and time: a repeated request overlaps with itself
    is_exclusive: bool = False
    is_own: bool = False  # of the user of this form


@dataclass
class Check:
    """The result: overlaps, the expected failure with a remedy, and notes on the times."""

    overlaps: list[OverlapView] = field(default_factory=list[OverlapView])
    more: bool = False
    failure: str = ""
    mend: FailureHint | None = None
    is_conflict: bool = False  # another exclusive booking overlaps: no confirmation can allow that
    notes: list[str] = field(default_factory=list[str])

    @property
    def is_taken(self) -> bool:
        """Whether the car has another assignment within the same time."""
        return bool(self.overlaps) or self.more

    @property
    def is_own(self) -> bool:
        """Whether all overlaps are of the user of this form."""
        return not self.more and all(overlap.is_own for overlap in self.overlaps)

    @property
    def seen(self) -> str:
        """The overlaps to which a person agrees with "Book anyway"."""
        references = sorted(
            f"{overlap.assignment or 'hidden'}-{overlap.start}" for overlap in self.overlaps if not overlap.same
        )
        return " ".join(references) + (" more" if self.more else "")

    def agreed(self, sent: str) -> bool:
        """Whether there is no overlap to which the person has not agreed."""
        return not self.is_conflict and (not self.seen or self.seen == sent)


async def check(visit: Visit, draft: ParsedAssignmentForm, item: Mapping[str, Any] | None) -> Check:
    """Check an item of a batch by a dry run. None means that there is no item yet.

    Raises the `Refusal` of the batch.
    """
    form_check = Check(notes=twice(visit, draft.filled))
    if item is None or draft.errors:
        return form_check
    if draft.members["end"] and draft.members["end"] <= utc(datetime.now(UTC)):
        form_check.notes.append(gettext(visit, "These times are in the past, so the booking opens no car."))
    is_exclusive = draft.members["exclusive"]
    if is_exclusive and draft.members["end"] is None:
        form_check.notes.append(
            gettext(visit, "An exclusive booking without end blocks the car for all later exclusive bookings.")
        )
    body = {"kind": "assignments", "dryRun": True, "conflicts": "report", "items": [item]}
    result: Mapping[str, Any]
    (result,) = (await visit.call("POST", "/batch", body=body)).json["results"]
    form_check.is_conflict = result.get("code") == CONFLICT
    if result.get("code") == NOT_PERMITTED.code:
        draft.errors["exclusive"] = gettext(visit, "Your role cannot book this car as shared.")
    form_check.overlaps = await _named(visit, draft, result.get("conflicts", []))
    form_check.more = result.get("moreConflicts", False)
    if is_exclusive and not form_check.is_conflict:  # it may overlap shared ones
        form_check.overlaps = [overlap for overlap in form_check.overlaps if overlap.is_exclusive]
        form_check.more = False
    if form_check.more and (hidden := await _hidden(visit, draft)):
        form_check.overlaps += hidden
        form_check.more = False
    message = result.get("wouldFail")
    code = CONFLICT if form_check.is_conflict else code_of(message or "")
    if code is not None or message:
        form_check.failure = failure_reason(visit, code, message)
        form_check.mend = failure_hint(visit, code, draft.car, draft.members if item["op"] == "create" else None)
        form_check.is_conflict = code == CONFLICT
    return form_check


async def preview(visit: Visit, draft: ParsedAssignmentForm, item: Mapping[str, Any] | None) -> Check:
    """The check while a form is filled in. If it is not possible now, a note says so."""
    try:
        form_check = await check(visit, draft, item)
    except (TooManyRequests, Unavailable):
        form_check = Check(
            notes=[gettext(visit, "The server is busy. It checks for double bookings when you send the form.")]
        )
    except Refusal as refusal:
        form_check = Check(notes=[translate_error(visit, refusal.reason)])
    for name in ("start", "end"):
        if getattr(draft.filled, name) and name in draft.errors:
            form_check.notes.append(draft.errors[name])
    return form_check


async def _hidden(visit: Visit, draft: ParsedAssignmentForm) -> list[OverlapView]:
    """The overlaps with users outside the visit's groups."""
    car, start, end = (draft.members[name] for name in ("carId", "start", "end"))
    within = f"(end eq null or end gt {start})" + (f" and start lt {end}" if end else "")
    rows = await hidden_assignments(visit, [car], within, MOST_HIDDEN)
    return [OverlapView(None, gettext(visit, SOMEBODY), row["start"], row["end"], same=False) for row in rows]


async def _exclusive(visit: Visit, ids: Sequence[int]) -> set[int]:
    """The exclusive ones among these assignments."""
    rows = await rows_with(visit, "/assignments", ids, {"$select": "id,exclusive"})
    return {row["id"] for row in rows if row["exclusive"]}


async def _named(
    visit: Visit, draft: ParsedAssignmentForm, conflicts: Sequence[Mapping[str, Any]]
) -> list[OverlapView]:
    if not conflicts:
        return []
    users = await labels_of_users(visit, (conflict.get("userId") for conflict in conflicts))
    nobody = gettext(visit, "a removed person")
    exclusive = await _exclusive(
        visit, [conflict["assignmentId"] for conflict in conflicts if "assignmentId" in conflict]
    )
    form_values = tuple(draft.members[name] for name in ("userId", "start", "end"))
    return [
        OverlapView(
            overlap.get("assignmentId"), users.get(overlap.get("userId"), nobody), overlap["start"], overlap["end"],
            form_values == (overlap.get("userId"), overlap["start"], overlap["end"]),
            is_exclusive=overlap.get("assignmentId") in exclusive,
            is_own=overlap.get("userId") == draft.members["userId"],
        )
        for overlap in conflicts
    ]  # fmt: skip
