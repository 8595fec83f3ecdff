"""One operation: what was asked for, and what became of it. Its outcome comes in by itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from keyrack.api.exchange import Response
from keyrack.api.permissions import Permission
from keyrack.console.choices import of_car, of_user
from keyrack.console.failure_hints import failure_hint, reason
from keyrack.console.languages import N_
from keyrack.console.rendering import base, clock, gettext, live_id, page
from keyrack.http.page_router import ConsolePages, Visit

pages = ConsolePages()

TITLES = {
    "CreateAssignment": N_("New assignment"),
    "UpdateAssignment": N_("Change assignment"),
    "DeleteAssignment": N_("End assignment"),
}


@pages.get("/{customer}/operations/{operation}", permission=Permission.OPERATIONS_READ)
async def operation(visit: Visit) -> Response:
    at = await live_id(visit)
    expand = "car,user" if visit.may(Permission.USERS_READ) else "car"
    reply = await visit.call("GET", "/operations/{operationId}", visit.ids["operation"], query={"$expand": expand})
    there: dict[str, Any] = {"user": None, **reply.json}
    car, user = there["car"] and of_car(there["car"]), there["user"] and of_user(there["user"])
    failure, title = there["errorMessage"], TITLES[there["kind"]]
    return await page(
        visit, "operation.html", section="operations", since=at, operation=there, car=car, user=user,
        title=gettext(visit, title), reason=reason(visit, failure) if failure else "",
        mend=failure_hint(visit, failure, car) if failure else None, again=_again(visit, there),
        address=f"{base(visit)}/operations/{there['id']}",
        back=f"{base(visit)}/{'assignments' if visit.may(Permission.ASSIGNMENTS_READ) else 'operations'}",
    )  # fmt: skip


def _again(visit: Visit, operation: Mapping[str, Any]) -> str:
    """The form with the same in it, to be sent once more or otherwise; "" where there is nothing to try again."""
    if operation["state"] != "Failed" or operation["kind"] == "DeleteAssignment":
        return ""
    if not visit.may(Permission.ASSIGNMENTS_WRITE):
        return ""
    time = clock(visit)
    known = {
        "start": time.field(operation["start"]), "start_exact": operation["start"],
        "end": time.field(operation["end"]), "end_exact": operation["end"] or "",
    }  # fmt: skip
    if operation["end"] is None:
        known["no_end"] = "true"
    if operation["car"]:
        known["car"] = operation["carId"]
    if operation["user"]:
        known["user"] = operation["userId"]
    where = "new" if operation["kind"] == "CreateAssignment" else f"{operation['assignmentId']}/change"
    return f"{base(visit)}/assignments/{where}?{urlencode(known)}"
