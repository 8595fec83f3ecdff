"""The page of one change: author, origin, and values before and after."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from keyrack.api.exchange import Response
from keyrack.api.permissions import Permission
from keyrack.console.changes.descriptions import describe_changes, is_erased
from keyrack.console.rendering import base, live_id, page
from keyrack.core.error_codes import NOTHING_HERE
from keyrack.core.errors import NotFound
from keyrack.http.page_router import ConsolePages, Visit

pages = ConsolePages()

SECTION = "changes"
DIGITS = 18  # of a number


@pages.get("/{customer}/changes/{change}", permission=Permission.CHANGES_READ)
async def change(visit: Visit) -> Response:
    """Raises `NotFound`."""
    at, number = await live_id(visit), visit.ids["change"]
    if not (number.isascii() and number.isdigit() and len(number) <= DIGITS):
        raise NotFound(NOTHING_HERE)
    rows: list[dict[str, Any]] = (
        await visit.call("GET", "/changes", query={"$filter": f"id in ({int(number) - 1},{number},{int(number) + 1})"})
    ).json
    entry = next((row for row in rows if row["id"] == int(number)), None)
    if entry is None:
        raise NotFound(NOTHING_HERE)
    telling = await describe_changes(visit, [entry], [("group", str(id)) for id in entry["groups"]])
    there = {row["id"] for row in rows}
    return await page(
        visit, "change.html", section=SECTION, since=at, change=entry, kind=telling.kind(entry),
        who=telling.who_in_full(entry), sentence=telling.sentence(entry), thing=telling.thing(entry),
        differences=telling.differences(entry), actor=telling.actor(entry),
        groups=[telling.named("group", id) for id in entry["groups"]],
        erased=is_erased(entry), others=of_thing(visit, entry["resource"], entry["resourceId"]),
        earlier=_page(visit, int(number) - 1) if int(number) - 1 in there else "",
        later=_page(visit, int(number) + 1) if int(number) + 1 in there else "",
    )  # fmt: skip


def of_thing(visit: Visit, resource: str, id: object) -> str:
    """The address of the changes of one object."""
    return f"{base(visit)}/changes?{urlencode({'resource': resource, 'thing': id})}"


def _page(visit: Visit, number: int) -> str:
    return f"{base(visit)}/changes/{number}"
