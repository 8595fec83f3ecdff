"""Names of the objects of changes.

An existing object has its present name and a link to its page. A deleted one has the last name of the log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from keyrack.api.permissions import Permission
from keyrack.console.changes.labels import RESOURCES
from keyrack.console.choices import of_car, of_user
from keyrack.console.paged_fetch import parts_of, rows_of, rows_with
from keyrack.console.product_names import named
from keyrack.console.rendering import base, gettext
from keyrack.core.errors import NotFound
from keyrack.core.text import N_
from keyrack.http.page_router import Visit

Change = Mapping[str, Any]
Members = Mapping[str, Any]
Thing = tuple[str, str]  # a resource and an id
Rows = dict[str, dict[str, Any]]

# Field -> the resource whose id it has
OF_MEMBER = {
    "carId": "car", "userId": "user", "productId": "product", "serviceId": "service", "managerId": "manager",
    "clientId": "client",
}  # fmt: skip
GROUPS = "groups"  # the field with ids of groups
# Resource that shares the ids of another one -> the other one
SAME_ID = {"contract": "service", "role": "manager", "scopes": "client"}
# Resource -> the endpoint, and the fields to read
ROWS = {
    "assignment": ("/assignments", "id,carId,userId"),
    "car": ("/cars", "id,name,licensePlate"),
    "user": ("/users", "id,emailAddress,userData"),
    "product": ("/products", "id,type,serialNumber"),
    "service": ("/services", "id,name"),
    "group": ("/groups", "id,name"),
    "webhook": ("/webhooks", "id,url,name"),
    "manager": ("/managers", "id,username"),
    "client": ("/clients", "id,name"),
}
DIGITS = 9  # of an id
OFTEN = 4  # changes that are read per deleted object, because it may have been added and deleted more than once
TOLD_BY = {"assignment": {"carId", "userId"}, "key": {"carId"}}  # fields that identify nameless resources
MOVES = 1_000  # later changes of assignments that are read, to find the car and the user before them
WHOLE = ("created", "granted", "issued", "deleted", "withdrawn")  # kinds whose changes have all fields
NAMELESS = ("assignment", "assignmentRequest", "customer", "boxReport", "issuingKey", "keyAuthority", "serviceKey")
NUMBERED = N_("number %(id)s")
# Names of objects without a known name, by number; and without a number
BY_NUMBER = {
    "car": N_("car %(id)s"), "user": N_("person %(id)s"), "product": N_("key box or tracker %(id)s"),
    "manager": N_("account %(id)s"), "permission": "%(id)s",
}  # fmt: skip
UNKNOWN = {"car": N_("an unknown car"), "user": N_("an unknown person"), "product": N_("an unknown key box or tracker")}


@dataclass(frozen=True, slots=True)
class ResourceLabel:
    """The label of an object. `href` is its page, "" if there is none."""

    text: str
    href: str = ""


@dataclass(frozen=True)
class ResourceLabels:
    """The known labels of the objects of some changes.

    `current_members` has the present car and user of each assignment, and the car of each key. `moves` has the changes
    that gave an assignment another car or user, the oldest first.
    """

    visit: Visit
    labels: dict[Thing, ResourceLabel] = field(default_factory=dict[Thing, ResourceLabel])
    current_members: dict[str, Members] = field(default_factory=dict[str, Members])
    moves: dict[str, list[Change]] = field(default_factory=dict[str, list[Change]])

    def of(self, resource: str, id: object) -> ResourceLabel:
        """The label of an object, by its number if nothing else is known. `id` is None if the number is unknown too."""
        if id is None:
            return ResourceLabel(gettext(self.visit, UNKNOWN[resource]))
        resource = SAME_ID.get(resource, resource)
        if name := self.labels.get((resource, str(id))):
            return name
        return ResourceLabel(gettext(self.visit, BY_NUMBER.get(resource, NUMBERED), id=id))

    def members(self, change: Change) -> Members:
        """The fields of a change; for an assignment also the unchanged ones.

        A later change may have given the assignment another car or user. Its `before` then has the values of this time.
        """
        before, after = sides(change)
        current = self.current_members.get(change["resourceId"]) if change["resource"] in TOLD_BY else None
        members = dict(current or before)
        if change["resource"] == "assignment":
            for move in reversed(self.moves.get(change["resourceId"], [])):
                if move["id"] > change["id"]:
                    members |= sides(move)[0]
        return {**members, **before, **after}


def sides(change: Change) -> tuple[Members, Members]:
    """The fields before and after, empty if that side does not exist."""
    return change["before"] or {}, change["after"] or {}


async def names_of(visit: Visit, changes: Sequence[Change], beside: Iterable[Thing] = ()) -> ResourceLabels:
    """The labels of the objects of these changes, and of the objects `beside`.

    There is one read for each resource, and another one for each resource with missing objects.
    """
    names = ResourceLabels(visit)
    for resource in TOLD_BY:
        some = {row["resourceId"] for row in changes if row["resource"] == resource and not _is_whole(row)}
        there = await _there(visit, resource, some)
        names.current_members.update(there | await _gone(visit, resource, some - there.keys()))
    names.moves.update(await _moves(visit, changes))
    wanted = _wanted([*(thing for change in changes for thing in _things(change, names)), *beside])
    await asyncio.gather(*(_learn(names, resource, ids) for resource, ids in wanted.items()))
    return names


async def _moves(visit: Visit, changes: Sequence[Change]) -> dict[str, list[Change]]:
    """The later changes of car or user, by the id of the assignment.

    They are in order, the oldest first. The result is empty for a caller without permission for the log.
    """
    partial = [row for row in changes if row["resource"] == "assignment" and not _is_whole(row)]
    if not partial or not visit.may(Permission.CHANGES_READ):
        return {}
    since = min(row["id"] for row in partial)
    query = {
        "$filter": f"id gt {since} and kind eq 'assignment.updated'", "$select": "id,resourceId,before",
        "$orderby": "id desc",
    }  # fmt: skip
    moves: dict[str, list[Change]] = {}
    for some in parts_of(visit, [f"'{id}'" for id in sorted({row["resourceId"] for row in partial})]):
        narrowed = {**query, "$filter": f"{query['$filter']} and resourceId in {some}"}
        for row in reversed((await rows_of(visit, "/changes", narrowed, MOVES))[0]):
            before: Members = row["before"] or {}
            moved = {name: before[name] for name in TOLD_BY["assignment"] & before.keys()}
            if moved:
                moves.setdefault(row["resourceId"], []).append({**row, "before": moved, "after": None})
    return moves


async def _learn(names: ResourceLabels, resource: str, ids: set[str]) -> None:
    """Read the labels of the objects of a resource."""
    visit = names.visit
    there = await _there(visit, resource, ids)
    names.labels.update({(resource, id): _named(visit, resource, row) for id, row in there.items()})
    if resource in NAMELESS:
        return
    for id, members in (await _gone(visit, resource, ids - there.keys())).items():
        if text := _called(visit, resource, members):
            names.labels[resource, id] = ResourceLabel(text)


def _is_whole(change: Change) -> bool:
    """Whether a change of an assignment or a key itself has the car and the user."""
    before, after = sides(change)
    return TOLD_BY[change["resource"]] <= before.keys() | after.keys()


def _wanted(things: Iterable[Thing]) -> dict[str, set[str]]:
    wanted: dict[str, set[str]] = {}
    for resource, id in things:
        if id.isascii() and id.isdigit() and len(id) <= DIGITS:
            wanted.setdefault(resource, set()).add(id)
    return wanted


def _things(change: Change, names: ResourceLabels) -> Iterator[Thing]:
    resource: str = change["resource"]
    yield SAME_ID.get(resource, resource), change["resourceId"]
    for side in (*sides(change), names.members(change)):
        for member, other in OF_MEMBER.items():
            if side.get(member) is not None:
                yield other, str(side[member])
        yield from (("group", str(id)) for id in side.get(GROUPS) or ())


async def _there(visit: Visit, resource: str, ids: set[str]) -> Rows:
    """The existing and visible objects, by their ids."""
    if not ids or resource not in ROWS:
        return {}
    path, select = ROWS[resource]
    if not visit.may(f"{path[1:]}:read"):
        return {}
    try:
        rows = await rows_with(visit, path, sorted(ids, key=int), {"$select": select})
    except NotFound:  # no such row
        return {}
    return {str(row["id"]): row for row in rows}


async def _gone(visit: Visit, resource: str, ids: set[str]) -> Rows:
    """The last change in the log of each deleted object, by its id: its deletion, or else its creation.

    Empty for a caller without permission for the log.
    """
    if not ids or resource not in RESOURCES or not visit.may(Permission.CHANGES_READ):
        return {}
    kinds = ",".join(f"'{resource}.{word}'" for word in WHOLE)
    query = {
        "$filter": f"resource eq '{resource}' and kind in ({kinds})", "$select": "id,resourceId,before,after",
        "$orderby": "id desc",
    }  # fmt: skip
    rows: Rows = {}
    for some in parts_of(visit, [f"'{id}'" for id in sorted(ids)]):
        narrowed = {**query, "$filter": f"{query['$filter']} and resourceId in {some}"}
        for row in (await rows_of(visit, "/changes", narrowed, OFTEN * len(ids)))[0]:
            rows.setdefault(row["resourceId"], row["before"] or row["after"] or {})
    return rows


def _named(visit: Visit, resource: str, row: Members) -> ResourceLabel:
    """The label of an existing object."""
    id, root = row["id"], base(visit)
    if resource == "car":
        return ResourceLabel(of_car(row).label, f"{root}/cars/{id}")
    if resource == "user":
        return ResourceLabel(of_user(row).label, f"{root}/users/{id}")
    if resource == "product":
        return ResourceLabel(named(visit, row), f"{root}/boxes?filter=id%20eq%20{id}")
    if resource == "service":
        return ResourceLabel(row["name"] or gettext(visit, NUMBERED, id=id), f"{root}/services?filter=id%20eq%20{id}")
    if resource == "assignment":
        return ResourceLabel(gettext(visit, NUMBERED, id=id), f"{root}/assignments/{id}")
    if resource == "webhook":
        return ResourceLabel(row["url"] or row["name"] or gettext(visit, NUMBERED, id=id), f"{root}/webhooks/{id}")
    if resource == "manager":
        return ResourceLabel(row["username"], f"{root}/settings/managers#row-{id}")
    if resource == "client":
        return ResourceLabel(row["name"], f"{root}/settings/clients/{id}")
    return ResourceLabel(row["name"], f"{root}/groups/{id}")


def _called(visit: Visit, resource: str, members: Members) -> str:
    """The label of a deleted object, or of one without a page; "" if nothing is known."""
    if resource == "car" and "name" in members:
        return of_car({"id": 0, **members}).label
    if resource == "user" and "emailAddress" in members:
        return of_user({"id": 0, "emailAddress": members["emailAddress"], "userData": members}).label
    if resource == "product" and "serialNumber" in members:
        return named(visit, {**members, "type": f" {members.get('type', '')}"})
    named_by = (members.get(member) for member in ("name", "url", "username", "emailAddress"))
    return str(next(filter(None, named_by), ""))
