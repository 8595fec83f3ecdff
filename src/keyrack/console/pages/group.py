"""The page of a group: its name, its members, and its deletion."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from keyrack.api.exchange import Response
from keyrack.api.permissions import Permission
from keyrack.console.form_errors import RIGHT, SHOWN, FormErrors, invalid, refused, went
from keyrack.console.paged_fetch import rows_of
from keyrack.console.pages.group_members import KINDS, MemberKind, members, titles
from keyrack.console.rendering import base, gettext, live_id, page, redirect
from keyrack.core.errors import NotFound, PreconditionFailed, Refusal
from keyrack.http.page_router import ConsolePages, Visit

pages = ConsolePages()

SECTION = "groups"
ROWS = 50  # members of a kind on a page
EMPTIED = 100  # members of a kind that one request removes
DIGITS = 6  # of the number of a page
TAKEN, NOT_VALID, TOO_LONG = "group-name-taken", "invalid-members", "group-name-too-long"


@pages.get("/{customer}/groups/{group}", permission=Permission.GROUPS_READ)
async def group(visit: Visit) -> Response:
    return await _group(visit)


@pages.post("/{customer}/groups/{group}", permission=Permission.GROUPS_WRITE)
async def rename(visit: Visit) -> Response:
    """Rename the group, unless another person was faster."""
    name = visit.form_value("name")
    wrong = invalid([("name", "" if name else gettext(visit, "Enter a name."))])
    if wrong.texts:
        return await _group(visit, wrong)
    patch = [{"op": "replace", "path": "/name", "value": name}]
    more = {"if_match": visit.form_value("tag") or None}
    try:
        await visit.call("PATCH", "/groups/{groupId}", visit.ids["group"], body=patch, **more)
    except SHOWN as refusal:
        if isinstance(refusal, NotFound):
            raise
        return await _group(visit, refused(visit, refusal, _words(visit)), refusal)
    return await _group(visit) if visit.headers("HX-Request") else redirect(_page(visit))


def _words(visit: Visit) -> dict[str, tuple[str, str]]:
    return {
        TAKEN: ("name", gettext(visit, "Another group has this name already. Choose another one.")),
        TOO_LONG: ("name", gettext(visit, "A name has at most 250 characters.")),
        NOT_VALID: ("name", gettext(visit, "Enter a name.")),
        "precondition-failed": (
            "name", gettext(visit, "Another person renamed the group in the meantime. Save again to use your name."),
        ),
    }  # fmt: skip


async def _group(visit: Visit, wrong: FormErrors = RIGHT, refusal: Refusal | None = None) -> Response:
    since = await live_id(visit)
    reply = await visit.call("GET", "/groups/{groupId}", visit.ids["group"])
    lists = await asyncio.gather(*(_members(visit, reply.json, kind) for kind in KINDS if visit.may(kind.permission)))
    edited = bool(wrong.texts) or ("rename" in visit.query and visit.may(Permission.GROUPS_WRITE))
    return await page(
        visit, "group.html", status=wrong.status, section=SECTION, group=reply.json, tag=reply.tag, since=since,
        lists=lists, wrong=wrong, edited=edited, typed=visit.form_value("name") if wrong.texts else reply.json["name"],
        now=reply.json["name"] if isinstance(refusal, PreconditionFailed) else "",
        swapped=bool(visit.headers("HX-Request")), added="added" in visit.query,
    )  # fmt: skip


async def _members(visit: Visit, group: Mapping[str, Any], kind: MemberKind) -> dict[str, Any]:
    """A page of the members of a kind. Its number is in the address, under the kind's name."""
    page_text = visit.query_value(kind.name)[:DIGITS]
    number = int(page_text) if page_text.isascii() and page_text.isdigit() and int(page_text) else 1
    query = {"$select": kind.select, "$orderby": kind.order, "$count": "true"}
    before = (number - 1) * ROWS
    rows, total = await rows_of(visit, kind.row, query, ROWS, before, (group["id"],))
    there = members(visit, kind, rows)
    address = f"{_page(visit)}?{kind.name}="
    return {
        "kind": kind.name,
        "words": titles(visit)[kind.name],
        "members": there,
        "total": total,
        "first": before + 1,
        "last": before + len(there),
        "previous": f"{address}{number - 1}#{kind.name}" if number > 1 else "",
        "next": f"{address}{number + 1}#{kind.name}" if before + len(there) < total and there else "",
    }


@pages.get("/{customer}/groups/{group}/delete", permission=Permission.GROUPS_WRITE)
async def delete_form(visit: Visit) -> Response:
    return await _delete_form(visit)


@pages.post("/{customer}/groups/{group}/delete", permission=Permission.GROUPS_WRITE)
async def delete(visit: Visit) -> Response:
    try:
        await visit.call("DELETE", "/groups/{groupId}", visit.ids["group"])
    except SHOWN as refusal:
        return await _delete_form(visit, refused(visit, refusal))
    return went(visit, f"{base(visit)}/groups")


@pages.post("/{customer}/groups/{group}/empty", permission=Permission.GROUPS_WRITE)
async def empty(visit: Visit) -> Response:
    """Remove the members, as many as one request may. The next page shows the remaining ones."""
    for kind in KINDS:
        query = {"$select": "id", "$orderby": "id", "$top": str(EMPTIED)}
        for row in (await visit.call("GET", kind.row, visit.ids["group"], query=query)).json:
            try:
                await visit.call("DELETE", kind.item, visit.ids["group"], row["id"])
            except NotFound:  # another person has removed it
                continue
    return await _delete_form(visit, emptied=True)


async def _delete_form(visit: Visit, wrong: FormErrors = RIGHT, *, emptied: bool = False) -> Response:
    """Raises `NotFound`."""
    expand = ",".join(f"{kind.name}/$count" for kind in KINDS)
    group = (await visit.call("GET", "/groups/{groupId}", visit.ids["group"], query={"$expand": expand})).json
    counts = {kind.name: group[f"{kind.name}@odata.count"] for kind in KINDS}
    return await page(
        visit, "group_delete.html", status=wrong.status, section=SECTION, back=_page(visit), group=group, wrong=wrong,
        counts=[(titles(visit)[name]["many"], count) for name, count in counts.items() if count], emptied=emptied,
    )  # fmt: skip


def _page(visit: Visit) -> str:
    return f"{base(visit)}/groups/{visit.ids['group']}"
