"""Bulk actions of lists: by a batch, or row by row."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from babel.numbers import format_decimal

from keyrack.api.permissions import Permission
from keyrack.console.hidden_assignments import CURRENT, PAST
from keyrack.console.lists.definition import Action, BatchPlan
from keyrack.console.lists.filters import Thing
from keyrack.console.local_times import utc
from keyrack.console.paged_fetch import count_of, parts_of, rows_with
from keyrack.console.pages.assignments import state
from keyrack.console.rendering import clock, gettext
from keyrack.core.error_codes import ErrorCode
from keyrack.core.errors import NotFound
from keyrack.core.text import N_
from keyrack.http.page_router import Visit

Says = Callable[[Visit, Sequence[int]], Awaitable[Sequence[str]]]
HIDDEN_END = N_("Bookings with cars and people outside your groups end as well, and are not counted here.")
GROUP = Thing("group", N_("Group"), "", "/groups/{groupId}", lambda row: row["name"], "/groups")
FORGOTTEN = ErrorCode(
    "delivery-forgotten", N_("This delivery is no longer stored."), "Replay the messages of that time instead."
)


async def plan_ends(visit: Visit, ids: Sequence[int]) -> BatchPlan:
    """Plan the end of assignments by their times.

    One in force ends now and stays in the history, like *End now* of its page. One that has not begun is deleted. One
    that has ended is rejected, so that a bulk action deletes no history.
    """
    now = utc(datetime.now(UTC))
    items: dict[int, Mapping[str, Any]] = {}
    refused: dict[int, str] = {}
    ends_now = [{"op": "replace", "path": "/end", "value": now}]
    begins = {row["id"]: row for row in await rows_with(visit, "/assignments", ids, {"$select": "id,start,end"})}
    for id in ids:
        row = begins.get(id)
        standing = state(row["start"], row["end"]) if row else "gone"
        if standing == "past":
            refused[id] = gettext(visit, "The booking has already ended. It stays in the history.")
        else:
            is_in_force = standing == "in-force"
            items[id] = {"op": "change", "id": id, "patch": ends_now} if is_in_force else {"op": "end", "id": id}
    return BatchPlan(items, refused)


async def say_ends(visit: Visit, ids: Sequence[int]) -> list[str]:
    """Count the assignments that end now, are deleted, and have ended already."""
    plan = await plan_ends(visit, ids)
    begun = sum(item["op"] == "change" for item in plan.items.values())
    numbers = {
        N_("Current bookings, which end now and stay among the past ones: %(num)s"): begun,
        N_("Upcoming bookings, which are cancelled: %(num)s"): len(plan.items) - begun,
        N_("Past bookings, which do not change: %(num)s"): len(plan.refusals),
    }
    return [_counted(visit, text, number) for text, number in numbers.items() if number]


def end_assignments() -> Action:
    """The action that ends assignments."""
    return Action(
        "end",
        N_("End now"),
        "delete",
        N_("End %(num)s booking now"),
        N_("End %(num)s bookings now"),
        N_(
            "Their keys are revoked. A key box without a network may accept a revoked key until it gets the"
            " news. Requests shows each result."
        ),
        Permission.ASSIGNMENTS_WRITE,
        batch="assignments",
        plan=plan_ends,
        says=say_ends,
        named=("car", "user", "start", "end"),
        danger=True,
        asks=True,
    )


def _counted(visit: Visit, text: str, number: int) -> str:
    return gettext(visit, text, num=format_decimal(number, locale=clock(visit).locale))


def ends_with(member: str) -> Says:
    """The number of assignments that end together with rows, whose ids they have as `member`."""

    async def says(visit: Visit, ids: Sequence[int]) -> Sequence[str]:
        if not visit.may(Permission.ASSIGNMENTS_READ):
            return []
        ending = past = 0
        for some in parts_of(visit, ids):
            ending += await count_of(visit, "/assignments", f"{member} in {some} and {CURRENT}")
            past += await count_of(visit, "/assignments", f"{member} in {some} and {PAST}")
        texts = [_counted(visit, N_("Current and upcoming bookings that end: %(num)s"), ending)]
        if past:
            texts.append(_counted(visit, N_("Past bookings that are deleted as well: %(num)s"), past))
        return [*texts, gettext(visit, HIDDEN_END)] if visit.is_limited else texts

    return says


def delete(
    kind: str, singular: str, many: str, warning: str, says: Says | None = None, named: tuple[str, ...] = ()
) -> Action:
    """The action that deletes rows of this kind of batch."""
    permission, text = Permission(f"{kind}:write"), N_("Delete")
    return Action(
        "delete", text, "delete", singular, many, warning, permission, batch=kind, says=says, named=named, danger=True
    )


def add_to_group(row: str, member: str, singular: str, many: str) -> Action:
    """The action that adds rows to a group, by this endpoint with the id as `member`."""

    async def add(visit: Visit, id: int, group: str) -> Any:
        return await visit.call("PUT", row, group, body={member: id})

    return Action(
        "group", N_("Add to group"), "groups", singular, many, "", Permission.GROUPS_WRITE, each=add, choice=GROUP
    )


def replay() -> Action:
    """The action that sends deliveries again, each by its webhook."""

    async def again(visit: Visit, id: int, _choice: str) -> Any:
        query = {"$filter": f"id eq {id}", "$select": "webhookId"}
        rows = (await visit.call("GET", "/deliveries", query=query)).json
        if not rows:
            raise NotFound(FORGOTTEN)
        webhook = rows[0]["webhookId"]
        return await visit.call("POST", "/webhooks/{webhookId}/deliveries/{deliveryId}/replay", webhook, id)

    return Action(
        "replay",
        N_("Send again"),
        "replay",
        N_("Send %(num)s delivery again"),
        N_("Send %(num)s deliveries again"),
        N_("The webhooks receive the same message again. Its number shows them that it is a repeat."),
        Permission.WEBHOOKS_WRITE,
        each=again,
    )
