"""Results of operations that were sent together, one line each, updated live."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from keyrack.api.exchange import Response
from keyrack.api.permissions import Permission
from keyrack.console.failure_hints import FailureHint, failure_hint, failure_reason
from keyrack.console.operation_things import OperationThings, operation_things, things_expand
from keyrack.console.paged_fetch import rows_with
from keyrack.console.rendering import base, gettext, live_id, page, part, redirect
from keyrack.core.error_codes import NOTHING_HERE
from keyrack.core.errors import NotFound
from keyrack.core.text import N_
from keyrack.http.page_router import ConsolePages, Visit

pages = ConsolePages()

MOST = 100  # operations of one address, limited by its length
ALL = N_("All %(num)s are done.")
SOME = N_("%(done)s of %(num)s are done, %(failed)s failed.")


@dataclass(frozen=True, slots=True)
class OperationResult:
    """The result of one operation. `state` is the API's state, `reason` the cause of a failure."""

    href: str
    things: OperationThings
    state: str
    reason: str
    mend: FailureHint | None


@dataclass(frozen=True, slots=True)
class Outcomes:
    """The results of several operations. `address` shows them again; `said` sums them up once none is pending."""

    id: str
    address: str
    rows: list[OperationResult]
    pending: bool
    failed: bool
    said: str


@pages.get("/{customer}/operations/outcomes", permission=Permission.OPERATIONS_READ, shows_own_rows=True)
async def outcomes(visit: Visit) -> Response:
    """The results of the operations in the address; without any, a redirect to all operations. Raises `NotFound`."""
    texts = list(filter(None, visit.query_value("ids").split(",")))
    if not texts:
        visit.require(Permission.OPERATIONS_READ)
        return redirect(f"{base(visit)}/operations")
    try:
        ids = [str(UUID(text)) for text in texts[: MOST + 1]]
    except ValueError:
        raise NotFound(NOTHING_HERE) from None
    at = await live_id(visit)
    if len(ids) > MOST or not (batch_outcomes := await of(visit, ids)).rows:
        raise NotFound(NOTHING_HERE)
    if visit.is_partial:
        return await part(visit, "outcomes.html", "outcomes", asked=batch_outcomes)
    return await page(visit, "outcomes.html", section="operations", asked=batch_outcomes, since=at)


async def of(visit: Visit, ids: Sequence[str]) -> Outcomes:
    """The results of these operations, in their order, without missing ones."""
    there: dict[str, dict[str, Any]] = {row["id"]: row for row in await _operations(visit, ids)}
    rows = [_outcome(visit, there[id]) for id in ids if id in there]
    pending = any(row.state == "Pending" for row in rows)
    failed = sum(row.state == "Failed" for row in rows)
    numbers = {"num": len(rows), "done": len(rows) - failed, "failed": failed}
    said = "" if pending else gettext(visit, SOME if failed else ALL, **numbers)
    address = f"{base(visit)}/operations/outcomes?ids={','.join(ids)}"
    return Outcomes(f"outcomes-{ids[0]}", address, rows, pending, failed > 0, said)


async def _operations(visit: Visit, ids: Sequence[str]) -> list[dict[str, Any]]:
    """These operations, without missing ones.

    Without the permission for all operations, each is read on its own: a caller may always read its own.
    """
    query = {"$expand": things_expand(visit)}
    if visit.may(Permission.OPERATIONS_READ):
        return await rows_with(visit, "/operations", ids, query)
    rows: list[dict[str, Any]] = []
    for id in ids:
        with suppress(NotFound):
            rows.append((await visit.call("GET", "/operations/{operationId}", id, query=query)).json)
    return rows


def _outcome(visit: Visit, operation: Mapping[str, Any]) -> OperationResult:
    code, things = operation["errorCode"], operation_things(visit, operation)
    return OperationResult(
        f"{base(visit)}/operations/{operation['id']}",
        things,
        operation["state"],
        failure_reason(visit, code, operation["errorMessage"]),
        failure_hint(visit, code, things.car_after),
    )
