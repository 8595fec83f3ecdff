"""Operations: the state of asynchronous changes of assignments. An extension of the spec."""

from __future__ import annotations

from uuid import UUID

from keyrack.api.endpoint import Doc, Tag
from keyrack.api.endpoint_registry import Endpoints
from keyrack.api.services import ReadServices
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
        " operations.",
    ),
    is_single=True,
    missing_error=NO_OPERATION,
    own_rows=OWN_OPERATIONS,
    converters={"operationId": path_uuid},
    is_primary_only=True,
)
