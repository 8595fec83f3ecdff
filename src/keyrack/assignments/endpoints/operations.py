"""Operations: what became of the asynchronous changes of assignments. Ours, beside the spec."""

from __future__ import annotations

from uuid import UUID

from keyrack.api.endpoint import Endpoints
from keyrack.core.error_codes import ErrorCode
from keyrack.webhooks.outcome_payload import OPERATION, OWN_OPERATIONS

endpoints = Endpoints("Operations", "operations")

NO_OPERATION = ErrorCode(
    "operation-not-found",
    "Unable to find an operation for the given operationId which is assigned to the given customerId.",
    "Use the Operation-Id that the change was answered with.",
)
NO_UUID = UUID(int=0)


def path_uuid(text: str) -> UUID:
    """A UUID of the path; what is none becomes one that no row has."""
    try:
        return UUID(text) if len(text) == 36 else NO_UUID
    except ValueError:
        return NO_UUID


endpoints.get("/operations", OPERATION, "What became of asynchronous requests", paged=True, leads=True, ours=True)
ONE_OPERATION = endpoints.get(
    "/operations/{operationId}",
    OPERATION,
    "What became of one asynchronous request",
    one=True,
    missing=NO_OPERATION,
    convert={"operationId": path_uuid},
    own=OWN_OPERATIONS,
    leads=True,
    ours=True,
)
