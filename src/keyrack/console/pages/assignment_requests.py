"""Drivers' requests: cards, and the dialog that decides one."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from keyrack.api.exchange import Response
from keyrack.api.permissions import Permission
from keyrack.console.choices import of_car, of_user
from keyrack.console.form_errors import RIGHT, SHOWN, FormErrors, refused, went
from keyrack.console.hidden_assignments import SOMEBODY, hidden_assignments
from keyrack.console.paged_fetch import rows_with
from keyrack.console.rendering import base, gettext, page
from keyrack.core.errors import NotFound
from keyrack.http.page_router import ConsolePages, Visit

pages = ConsolePages()

SECTION = "assignments"
ROWS, ROW = "/assignment-requests", "/assignment-requests/{requestId}"
IS_OPEN = "state eq 'open'"
MOST_OPEN = 10  # cards on Today
MOST_OF_BOOKING = 5
DECIDED = ("request-grant", "request-reject")  # results of the previous action, from the address


@dataclass(frozen=True, slots=True)
class NextBooking:
    """The next booking of the car after the current end. `is_overlap`: it begins before the requested end."""

    user: str
    start: str
    is_overlap: bool


async def open_requests(visit: Visit) -> tuple[list[dict[str, Any]], int]:
    """The oldest open requests, and the number of all open ones.

    Each has the next booking of its car.
    """
    if not visit.may(Permission.ASSIGNMENTS_READ):
        return [], 0
    query = {"$filter": IS_OPEN, "$orderby": "id", "$top": str(MOST_OPEN), "$count": "true"}
    reply = await visit.call("GET", ROWS, query=query)
    return [row for row in await _shown(visit, reply.json) if row["booking"]], reply.total


async def requests_of_booking(visit: Visit, assignment: object) -> list[dict[str, Any]]:
    """The last requests about a booking, the newest first."""
    query = {"$filter": f"assignmentId eq {assignment}", "$orderby": "id desc", "$top": str(MOST_OF_BOOKING)}
    return (await visit.call("GET", ROWS, query=query)).json


@pages.get("/{customer}/requests/{request}", permission=Permission.ASSIGNMENTS_READ)
async def one(visit: Visit) -> Response:
    """One request, with its decision."""
    return await _page(visit)


@pages.post("/{customer}/requests/{request}", permission=Permission.ASSIGNMENTS_WRITE)
async def decide(visit: Visit) -> Response:
    decision = visit.form_value("decision")
    body = {"decision": decision, "comment": visit.form_value("comment") or None}
    try:
        await visit.call("PUT", f"{ROW}/decision", visit.ids["request"], body=body)
    except SHOWN as refusal:
        return await _page(visit, refused(visit, refusal))
    return went(visit, f"{base(visit)}?request-{decision}")


async def _page(visit: Visit, wrong: FormErrors = RIGHT) -> Response:
    """Raises `NotFound`."""
    row = (await visit.call("GET", ROW, visit.ids["request"])).json
    (request,) = await _shown(visit, [row])
    return await page(
        visit, "assignment_request.html", status=wrong.status, section=SECTION, back=base(visit), request=request,
        wrong=wrong, comment=visit.form_value("comment"),
    )  # fmt: skip


async def _shown(visit: Visit, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Requests with the labels of car and person, and the current end.

    An open one also has the next booking of its car.
    """
    ids = sorted({row["assignmentId"] for row in rows})
    try:
        found = await rows_with(visit, "/assignments", ids, {"$expand": "car,user"}) if ids else []
    except NotFound:  # no such row
        found = []
    bookings = {row["id"]: row for row in found}
    return list(await asyncio.gather(*(_with_booking(visit, row, bookings.get(row["assignmentId"])) for row in rows)))


async def _with_booking(
    visit: Visit, request: Mapping[str, Any], booking: Mapping[str, Any] | None
) -> dict[str, Any]:  # fmt: skip
    car, user = (booking.get("car"), booking.get("user")) if booking else (None, None)
    is_open = request["state"] == "open" and booking is not None
    return {
        **request,
        "car": of_car(car).label if car else "",
        "user": of_user(user).label if user else "",
        "booking": booking,
        "next": await _next_booking(visit, request, booking["end"]) if is_open and booking else None,
    }


async def _next_booking(visit: Visit, request: Mapping[str, Any], end: str) -> NextBooking | None:
    """The first other booking of the car that lasts beyond `end`."""
    after = f"(end eq null or end gt {end})"
    query = {
        "$filter": f"carId eq {request['carId']} and id ne {request['assignmentId']} and {after}",
        "$expand": "user",
        "$orderby": "start",
        "$top": "1",
    }
    reply, hidden = await asyncio.gather(
        visit.call("GET", "/assignments", query=query), hidden_assignments(visit, [request["carId"]], after, 1)
    )
    first = min([*reply.json, *hidden], key=lambda row: row["start"], default=None)
    if first is None:
        return None
    user = gettext(visit, SOMEBODY) if first["user"] is None else of_user(first["user"]).label
    return NextBooking(user, first["start"], first["start"] < request["end"])
