"""In charge of what is told of an assignment before it is asked for: with whom it overlaps, and why it would fail."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from keyrack.console.choices import USER, of_user
from keyrack.console.failure_hints import FailureHint, failure_hint, reason
from keyrack.console.pages.assignment_forms import ParsedAssignmentForm, twice
from keyrack.console.rendering import gettext, why
from keyrack.core.errors import Refusal, TooManyRequests, Unavailable
from keyrack.http.page_router import Visit


@dataclass(frozen=True, slots=True)
class OverlapView:
    """Somebody who has the car within the same time."""

    assignment: int
    user: str
    start: str
    end: str | None
    same: bool  # the same user for the same time: what is sent twice overlaps with itself


@dataclass
class Check:
    """What is told: overlaps, why it would fail with a way to mend that, and remarks on the times."""

    overlaps: list[OverlapView] = field(default_factory=list[OverlapView])
    more: bool = False
    failure: str = ""
    mend: FailureHint | None = None
    notes: list[str] = field(default_factory=list[str])

    @property
    def seen(self) -> str:
        """What somebody agrees to who goes on all the same: these overlaps and no others."""
        known = sorted(f"{one.assignment}-{one.start}" for one in self.overlaps if not one.same)
        return " ".join(known) + (" more" if self.more else "")

    def agreed(self, sent: str) -> bool:
        """Whether nothing is in the way that the person has not agreed to."""
        return not self.seen or self.seen == sent


async def check(visit: Visit, told: ParsedAssignmentForm, item: Mapping[str, Any] | None) -> Check:
    """Look what would come of an item of a batch, by a dry run; None: there is nothing to look at yet.

    Raises the batch's `Refusal`.
    """
    found = Check(notes=twice(visit, told.filled))
    if item is None or told.errors:
        return found
    body = {"kind": "assignments", "dryRun": True, "conflicts": "report", "items": [item]}
    (result,) = (await visit.call("POST", "/batch", body=body)).json["results"]
    found.overlaps = await _named(visit, told, result.get("conflicts", []))
    found.more = result.get("moreConflicts", False)
    if failure := result.get("wouldFail"):
        found.failure = reason(visit, failure)
        found.mend = failure_hint(visit, failure, told.car)
    return found


async def preview(visit: Visit, told: ParsedAssignmentForm, item: Mapping[str, Any] | None) -> Check:
    """The same while a form is filled in: what cannot be looked at now is said to be so."""
    try:
        found = await check(visit, told, item)
    except (TooManyRequests, Unavailable):
        found = Check(notes=[gettext(visit, "Overlaps are looked for once you send it: the server is busy.")])
    except Refusal as refusal:
        found = Check(notes=[why(visit, refusal.reason)])
    for name in ("start", "end"):
        if getattr(told.filled, name) and name in told.errors:
            found.notes.append(told.errors[name])
    return found


async def _named(visit: Visit, told: ParsedAssignmentForm, conflicts: Sequence[Mapping[str, Any]]) -> list[OverlapView]:
    if not conflicts:
        return []
    ids = sorted({conflict["userId"] for conflict in conflicts if conflict["userId"] is not None})
    query = {"$filter": f"id in ({','.join(map(str, ids))})", "$select": USER}
    users = {user["id"]: of_user(user).label for user in (await visit.call("GET", "/users", query=query)).json}
    nobody = gettext(visit, "a user who has been removed")
    asked = tuple(told.members[name] for name in ("userId", "start", "end"))
    return [
        OverlapView(
            one["assignmentId"], users.get(one["userId"], nobody), one["start"], one["end"],
            asked == (one["userId"], one["start"], one["end"]),
        )
        for one in conflicts
    ]  # fmt: skip
