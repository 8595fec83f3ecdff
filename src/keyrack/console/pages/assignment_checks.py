"""In charge of what is told of an assignment before it is asked for: with whom it overlaps, and why it would fail."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from keyrack.console.choices import USER, of_user
from keyrack.console.failure_hints import FailureHint, failure_hint, reason
from keyrack.console.hidden_assignments import SOMEBODY, hidden_assignments
from keyrack.console.local_times import utc
from keyrack.console.pages.assignment_forms import ParsedAssignmentForm, twice
from keyrack.console.rendering import gettext, why
from keyrack.core.errors import Refusal, TooManyRequests, Unavailable
from keyrack.http.page_router import Visit

MOST_HIDDEN = 10  # overlaps with users outside of the visit's groups that are shown


@dataclass(frozen=True, slots=True)
class OverlapView:
    """Somebody who has the car within the same time."""

    assignment: int | None  # None of a hidden one
    user: str
    start: str
    end: str | None
    same: bool  # the same user for the same time: what is sent twice overlaps with itself
    is_own: bool = False  # of the user who gets the car


@dataclass
class Check:
    """What is told: overlaps, why it would fail with a way to mend that, and remarks on the times."""

    overlaps: list[OverlapView] = field(default_factory=list[OverlapView])
    more: bool = False
    failure: str = ""
    mend: FailureHint | None = None
    notes: list[str] = field(default_factory=list[str])

    @property
    def is_taken(self) -> bool:
        """Whether the car is taken within the same time."""
        return bool(self.overlaps) or self.more

    @property
    def is_own(self) -> bool:
        """Whether only the user who gets the car has it already."""
        return not self.more and all(overlap.is_own for overlap in self.overlaps)

    @property
    def seen(self) -> str:
        """What somebody agrees to who goes on all the same: these overlaps and no others."""
        known = sorted(
            f"{overlap.assignment or 'hidden'}-{overlap.start}" for overlap in self.overlaps if not overlap.same
        )
        return " ".join(known) + (" more" if self.more else "")

    def agreed(self, sent: str) -> bool:
        """Whether nothing is in the way that the person has not agreed to."""
        return not self.seen or self.seen == sent


async def check(visit: Visit, draft: ParsedAssignmentForm, item: Mapping[str, Any] | None) -> Check:
    """Look what would come of an item of a batch, by a dry run; None: there is nothing to look at yet.

    Raises the batch's `Refusal`.
    """
    form_check = Check(notes=twice(visit, draft.filled))
    if item is None or draft.errors:
        return form_check
    if draft.members["end"] and draft.members["end"] <= utc(datetime.now(UTC)):
        form_check.notes.append(gettext(visit, "These times are in the past, so the booking opens no car."))
    body = {"kind": "assignments", "dryRun": True, "conflicts": "report", "items": [item]}
    (result,) = (await visit.call("POST", "/batch", body=body)).json["results"]
    form_check.overlaps = await _named(visit, draft, result.get("conflicts", []))
    form_check.more = result.get("moreConflicts", False)
    if form_check.more and (hidden := await _hidden(visit, draft)):
        form_check.overlaps += hidden
        form_check.more = False
    if failure := result.get("wouldFail"):
        form_check.failure = reason(visit, failure)
        form_check.mend = failure_hint(visit, failure, draft.car)
    return form_check


async def preview(visit: Visit, draft: ParsedAssignmentForm, item: Mapping[str, Any] | None) -> Check:
    """The same while a form is filled in: what cannot be looked at now is said to be so."""
    try:
        form_check = await check(visit, draft, item)
    except (TooManyRequests, Unavailable):
        form_check = Check(
            notes=[gettext(visit, "The server is busy. It checks for double bookings when you send the form.")]
        )
    except Refusal as refusal:
        form_check = Check(notes=[why(visit, refusal.reason)])
    for name in ("start", "end"):
        if getattr(draft.filled, name) and name in draft.errors:
            form_check.notes.append(draft.errors[name])
    return form_check


async def _hidden(visit: Visit, draft: ParsedAssignmentForm) -> list[OverlapView]:
    """The overlaps with users outside of the visit's groups."""
    car, start, end = (draft.members[name] for name in ("carId", "start", "end"))
    within = f"(end eq null or end gt {start})" + (f" and start lt {end}" if end else "")
    rows = await hidden_assignments(visit, [car], within, MOST_HIDDEN)
    return [OverlapView(None, gettext(visit, SOMEBODY), row["start"], row["end"], same=False) for row in rows]


async def _named(
    visit: Visit, draft: ParsedAssignmentForm, conflicts: Sequence[Mapping[str, Any]]
) -> list[OverlapView]:
    if not conflicts:
        return []
    ids = sorted({conflict["userId"] for conflict in conflicts if conflict["userId"] is not None})
    query = {"$filter": f"id in ({','.join(map(str, ids))})", "$select": USER}
    users = {user["id"]: of_user(user).label for user in (await visit.call("GET", "/users", query=query)).json}
    nobody = gettext(visit, "a removed person")
    form_values = tuple(draft.members[name] for name in ("userId", "start", "end"))
    return [
        OverlapView(
            overlap["assignmentId"], users.get(overlap["userId"], nobody), overlap["start"], overlap["end"],
            form_values == (overlap["userId"], overlap["start"], overlap["end"]),
            is_own=overlap["userId"] == draft.members["userId"],
        )
        for overlap in conflicts
    ]  # fmt: skip
