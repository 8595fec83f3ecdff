"""Operations: the state of asynchronous changes of assignments. An extension of the spec."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from uuid import UUID

from keyrack.api.endpoint import AwaitedOutcomes, Doc, Tag
from keyrack.api.endpoint_registry import Endpoints
from keyrack.api.exchange import Request, Response
from keyrack.api.query_parameters import QueryParameter
from keyrack.api.services import ReadServices
from keyrack.assignments.outcome_waits import LONGEST_WAIT
from keyrack.core.error_codes import ErrorCode
from keyrack.webhooks.outcome_payload import OPERATION, OWN_OPERATIONS

endpoints = Endpoints[ReadServices](
    Tag("Operations", "The state of asynchronous requests."), "operations", is_extension=True
)

NO_OPERATION = ErrorCode(
    "operation-not-found",
    "Unable to find an operation for the given operationId which is assigned to the given customerId.",
    "Use the `Operation-Id` of the response to the change.",
)
NO_UUID = UUID(int=0)


def path_uuid(text: str) -> UUID:
    """The UUID of a path. An invalid one becomes `NO_UUID`, which no row has."""
    try:
        return UUID(text) if len(text) == 36 else NO_UUID
    except ValueError:
        return NO_UUID


def _wait_seconds(text: str) -> int:
    """Parse seconds to wait. Raises `ValueError`."""
    if not (text.isascii() and text.isdigit() and len(text) <= 2 and 1 <= int(text) <= LONGEST_WAIT):
        raise ValueError(f"The value must be an integer of seconds from 1 to {LONGEST_WAIT}.")
    return int(text)


WAIT = QueryParameter(
    "wait",
    _wait_seconds,
    "The seconds for which the response waits for the outcome of a pending operation. The header `Prefer: wait=N` has"
    " the same effect.",
    {"type": "integer", "minimum": 1, "maximum": LONGEST_WAIT},
)


async def _show(request: Request, _first: Response, _pending: Collection[UUID], services: ReadServices) -> Response:
    assert ONE_OPERATION.read is not None  # noqa: S101 - it is a read
    return await ONE_OPERATION.read(request, None, services)


endpoints.read(
    "/operations",
    OPERATION,
    Doc(
        "listOperations",
        "List operations",
        "Returns requests to create, update or end assignments, with their state. `GET /retention` returns how long"
        " finished operations are kept.",
    ),
    is_paged=True,
    is_primary_only=True,
)
ONE_OPERATION = endpoints.read(
    "/operations/{operationId}",
    OPERATION,
    Doc(
        "getOperation",
        "Get an operation",
        "The state is `Pending` until the operation is applied. Then it is `Succeeded`, or `Failed` with the reason"
        " in `errorCode` and `errorMessage`. A caller with any permission in the customer may read its own"
        " operations. With `wait`, the response waits for the outcome of a pending operation. If it is still pending"
        " then, the status is 202.",
    ),
    is_single=True,
    missing_error=NO_OPERATION,
    own_rows=OWN_OPERATIONS,
    converters={"operationId": path_uuid},
    is_primary_only=True,
    query_parameters=(WAIT,),
    awaited=AwaitedOutcomes(lambda request, _: request.ids, _show, "the operation"),
)


def _submitted(_request: Request, first: Response) -> Sequence[UUID]:
    """The operation of a response to a write. The response may be stored for an `Idempotency-Key`."""
    id = first.headers.get("Operation-Id")
    return () if id is None else (UUID(id),)


async def _show_submitted(
    request: Request, first: Response, _pending: Collection[UUID], services: ReadServices
) -> Response:
    """The operation of a write, shaped by the query options."""
    assert ONE_OPERATION.read is not None  # noqa: S101 - it is a read
    read = replace(request, method="GET", ids=(*_submitted(request, first),), if_match=None, if_none_match=None)
    return await ONE_OPERATION.read(read, None, services)


AWAITED_OPERATION = AwaitedOutcomes(_submitted, _show_submitted, "the operation")
"""The outcome of a write that submits one operation."""
