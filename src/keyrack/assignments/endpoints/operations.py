"""Operations: the state of asynchronous changes of assignments. An extension of the spec."""

from __future__ import annotations

from uuid import UUID

from keyrack.api.endpoint import Doc, Tag
from keyrack.api.endpoint_registry import Endpoints
from keyrack.api.services import ReadServices
from keyrack.core.error_codes import ErrorCode
from keyrack.webhooks.outcome_payload import OPERATION, OWN_OPERATIONS

endpoints = Endpoints[ReadServices](
    Tag("Operations", "What became of asynchronous requests."), "operations", is_extension=True
)

NO_OPERATION = ErrorCode(
    "operation-not-found",
    "Unable to find an operation for the given operationId which is assigned to the given customerId.",
    "Use the Operation-Id that the change was answered with.",
)
NO_UUID = UUID(int=0)


def path_uuid(text: str) -> UUID:
    """The UUID of a path. An invalid one becomes `NO_UUID`, which no row has."""
    try:
        return UUID(text) if len(text) == 36 else NO_UUID
    except ValueError:
        return NO_UUID


endpoints.read(
    "/operations",
    OPERATION,
    Doc(
        "listOperations",
        "What became of asynchronous requests",
        "Creations, changes and ends of assignments that were asked for, with their state. Finished ones are kept for"
        " a time that `GET /retention` tells.",
    ),
    is_paged=True,
    is_primary_only=True,
)
ONE_OPERATION = endpoints.read(
    "/operations/{operationId}",
    OPERATION,
    Doc(
        "getOperation",
        "What became of one asynchronous request",
        "`Pending` until it was applied, then `Succeeded`, or `Failed` with the reason in `errorCode` and"
        " `errorMessage`. A caller that has another permission in the customer needs none for the operations that it"
        " asked for.",
    ),
    is_single=True,
    missing_error=NO_OPERATION,
    own_rows=OWN_OPERATIONS,
    converters={"operationId": path_uuid},
    is_primary_only=True,
)
