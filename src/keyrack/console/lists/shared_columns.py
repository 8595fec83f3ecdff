"""Columns and filters that several lists share."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any

from keyrack.api.permissions import Permission
from keyrack.api.schema.declaration import ResourceTable
from keyrack.api.schema.fields import Type
from keyrack.console.hidden_assignments import SOMEBODY
from keyrack.console.lists.definition import CellLink, Kind, ListColumn, Row
from keyrack.console.lists.filters import FilterOption, OneOf, Thing
from keyrack.console.local_times import instant
from keyrack.core.text import N_

PERSON = "$select=id,emailAddress,userData"
UNTIL = N_("until %(time)s")
ENDLESS = N_("without end")
SINCE = N_("from %(time)s")
AT_ONCE = 5  # current bookings of a row that are shown
IN_GROUPS = 10  # groups of a row that are shown
AND_MORE = N_("and more")
# The current assignments and the next one; one more than is shown reveals that there are more
_COMING = f"($filter=end eq null or end gt now();$orderby=start;$top={AT_ONCE + 1}"
COMING = f"assignments{_COMING};$expand={{}})"
HIDDEN = f",hiddenAssignments{_COMING})"  # of a car, for group-limited visits
GROUPS = f"groups($select=id,name;$orderby=name;$top={IN_GROUPS + 1})"
IN_GROUP = Thing(
    "group", N_("Group"), "groups/any(g:g/id eq {id})", "/groups/{groupId}", lambda row: row["name"], "/groups"
)
RECENT: dict[str, int] = {"day": 1, "week": 7, "month": 30}
SAID = {"day": N_("Within a day"), "week": N_("Within a week"), "month": N_("Within 30 days")}


def within(label: str, field: str) -> OneOf:
    """The filter for times within a duration before now."""
    return OneOf(
        "within",
        label,
        tuple(FilterOption(name, SAID[name], f"{field} ge {{ago}}", days) for name, days in RECENT.items()),
    )


def person(user: Row) -> str:
    """The name of a user, else the address."""
    data: Mapping[str, Any] = user["userData"]
    return " ".join(part for part in (data["firstName"], data["lastName"]) if part) or user["emailAddress"]


def user_link(user: Row | None) -> CellLink | None:
    return CellLink(person(user), f"/users/{user['id']}") if user else None


def car_link(car: Row | None) -> CellLink | None:
    return CellLink(car["name"], f"/cars/{car['id']}") if car else None


def changes_of(resource: str) -> ListColumn:
    """The column with a link to the changes of a row without a page of its own."""

    def link(row: Row) -> CellLink:
        return CellLink(N_("History of changes"), f"/changes?resource={resource}&thing={row['id']}", said=True)

    wanted = Permission.CHANGES_READ
    return ListColumn(
        "changes", N_("History of changes"), link, "links", priority=3, is_default=False, permission=wanted
    )


def holding(label: str, other: str, select: str, priority: int, hidden: str = "") -> tuple[ListColumn, ListColumn]:
    """The two columns of current assignments, with this label, and of the next one.

    They show the user of a car, or the car of a user. `other` is the relation, and `select` its fields. `hidden` reads
    hidden assignments as well.
    """

    def column(key: str, text: str, cell: Callable[[Row, str], Any], priority: int) -> ListColumn:
        expand, wanted = COMING.format(f"{other}({select})") + hidden, Permission.ASSIGNMENTS_READ
        return ListColumn(
            key, text, lambda row: cell(row, other), "links", expand=expand, permission=wanted, priority=priority
        )

    return column("now", label, in_force, priority), column("next", N_("Next booking"), next_one, 3)


# A group-limited visit cannot distinguish a box without a service from one with a service outside its groups
NOT_SHOWN: Mapping[str, tuple[str, str]] = {"none": ("idle", N_("No service in your groups"))}


def service_state(service: Row | None) -> str:
    """The state of a box's service: `none`, `ended` or `works`."""
    if service is None:
        return "none"
    return "ended" if service["isTerminated"] else "works"


def in_force(row: Row, other: str) -> list[CellLink]:
    """The users or cars of the row's current assignments, up to the shown number.

    `other` is the relation to them.
    """
    now = datetime.now(UTC)
    cells = [
        replace(link, note=UNTIL if assignment["end"] else ENDLESS, at=assignment["end"] or "")
        for link, assignment in _coming(row, other)
        if instant(assignment["start"]) <= now
    ]
    return _cut(cells, AT_ONCE, _page(row))


def next_one(row: Row, other: str) -> CellLink | None:
    """The user or car of the next assignment.

    If the row has too many current assignments to know it, it is a link to the row's page.
    """
    now = datetime.now(UTC)
    coming = _coming(row, other)
    for link, assignment in coming:
        if instant(assignment["start"]) > now:
            return replace(link, note=SINCE, at=assignment["start"])
    return CellLink(AND_MORE, _page(row), said=True) if len(coming) > AT_ONCE else None


def _coming(row: Row, other: str) -> list[tuple[CellLink, Row]]:
    """The row's assignments that have not ended, by start, each with a link to its user or car."""
    hidden = [(CellLink(SOMEBODY, said=True), assignment) for assignment in row.get("hiddenAssignments", ())]
    named = [(_of(assignment[other], other), assignment) for assignment in row["assignments"]]
    coming = [(link, assignment) for link, assignment in (*named, *hidden) if link]
    return sorted(coming, key=lambda pair: instant(pair[1]["start"]))


def _page(row: Row) -> str:
    return f"/cars/{row['carId']}" if "carId" in row else f"/users/{row['id']}"


def _cut(links: list[CellLink], most: int, all: str) -> list[CellLink]:
    """The first `most` links, followed by a link to `all` if there are more."""
    return links if len(links) <= most else [*links[:most], CellLink(AND_MORE, all, said=True)]


def _of(row: Row | None, relation: str) -> CellLink | None:
    return user_link(row) if relation == "user" else car_link(row)


def groups(row: Row) -> list[CellLink]:
    return _cut([CellLink(group["name"], f"/groups/{group['id']}") for group in row["groups"]], IN_GROUPS, "/groups")


_KINDS: Mapping[Type, Kind] = {Type.INT32: "number", Type.DOUBLE: "number", Type.DATE_TIME: "minute"}


def member_columns(table: ResourceTable, but: Collection[str]) -> tuple[ListColumn, ...]:
    """The optional columns of declared fields, except `but`, which have their own columns."""
    return tuple(
        ListColumn(
            member.name,
            member.info.label,
            itemgetter(member.name),
            "code" if member.info.is_code else _KINDS.get(member.type, "text"),
            sort=member.name,
            priority=3,
            is_default=False,
        )
        for member in table.in_forms
        if member.name not in but
    )
