"""One request, with its result. The result appears by itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from keyrack.api.exchange import Response
from keyrack.api.permissions import Permission
from keyrack.console.choices import labels_of_users
from keyrack.console.failure_hints import failure_hint, failure_reason
from keyrack.console.operation_things import OperationThings, operation_things, requester, things_expand
from keyrack.console.rendering import base, clock, gettext, live_id, page
from keyrack.core.text import N_
from keyrack.http.page_router import ConsolePages, Visit

pages = ConsolePages()

TITLES = {
    "CreateAssignment": N_("New booking"),
    "UpdateAssignment": N_("Change booking"),
    "DeleteAssignment": N_("End booking"),
}


@pages.get("/{customer}/operations/{operation}", permission=Permission.OPERATIONS_READ, shows_own_rows=True)
async def operation(visit: Visit) -> Response:
    at = await live_id(visit)
    query = {"$expand": things_expand(visit)}
    reply = await visit.call("GET", "/operations/{operationId}", visit.ids["operation"], query=query)
    row: dict[str, Any] = reply.json
    things = operation_things(visit, row)
    code, title = row["errorCode"], TITLES[row["kind"]]
    conflicts: list[dict[str, Any]] = row.get("conflicts") or []
    users = await labels_of_users(visit, (conflict.get("userId") for conflict in conflicts))
    nobody = gettext(visit, "a removed person")
    return await page(
        visit, "operation.html", section="operations", since=at, operation=row, things=things,
        requester=requester(visit, row),
        title=gettext(visit, title), reason=failure_reason(visit, code, row["errorMessage"]),
        mend=failure_hint(visit, code, things.car_after, row if row["kind"] == "CreateAssignment" else None),
        again=_again(visit, row, things),
        conflicts=[{**conflict, "user": users.get(conflict.get("userId"), nobody)} for conflict in conflicts],
        address=f"{base(visit)}/operations/{row['id']}",
        back=f"{base(visit)}/{'assignments' if visit.may(Permission.ASSIGNMENTS_READ) else 'operations'}",
    )  # fmt: skip


def _again(visit: Visit, operation: Mapping[str, Any], things: OperationThings) -> str:
    """The form with the same values, to change and send again; "" if there is nothing to repeat."""
    if operation["state"] != "Failed" or operation["kind"] == "DeleteAssignment":
        return ""
    if not visit.may(Permission.ASSIGNMENTS_WRITE):
        return ""
    form_fields = _times(visit, operation) if operation["start"] else {}
    if things.car_after:
        form_fields["car"] = str(things.car_after.value)
    if things.user_after:
        form_fields["user"] = str(things.user_after.value)
    where = "new" if operation["kind"] == "CreateAssignment" else f"{operation['assignmentId']}/change"
    return f"{base(visit)}/assignments/{where}?{urlencode(form_fields)}"


def _times(visit: Visit, operation: Mapping[str, Any]) -> dict[str, str]:
    """The times of an operation as values of form fields."""
    time = clock(visit)
    fields = {
        "start": time.field(operation["start"]), "start_exact": operation["start"],
        "end": time.field(operation["end"]), "end_exact": operation["end"] or "",
    }  # fmt: skip
    return fields if operation["end"] else {**fields, "no_end": "true"}
