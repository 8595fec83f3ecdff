"""The OpenAPI descriptions of request headers."""

from __future__ import annotations

from typing import Any

from keyrack.api.endpoint import Endpoint, JsonBody
from keyrack.api.event_stream import EVENTS
from keyrack.api.idempotency import LONGEST
from keyrack.http import request_mode
from keyrack.http.openapi.member_schemas import Json

# For streams of live updates
_LAST_EVENT_ID: Json = {
    "name": "Last-Event-ID",
    "in": "header",
    "description": (
        "The `id` of the last received event. The stream begins with the missed events, or with an event that reports"
        " that they are no longer available (`gap`; for changes `gone`)."
    ),
    "schema": {"type": "string"},
}
# For every endpoint with a caller
_MODE: Json = {
    "name": request_mode.HEADER,
    "in": "header",
    "description": request_mode.REQUEST_MEANING,
    "schema": {"type": "string", "enum": list(request_mode.VALID)},
}
# For reads of replicas
_POSITION: Json = {
    "name": "Keyrack-Position",
    "in": "header",
    "description": (
        "The `Keyrack-Position` of an earlier response. The response is at least as recent. `latest` requests the"
        " current state."
    ),
    "schema": {"type": "string", "examples": ["7300000000000000001-2-1A/B00C4D8"]},
}


def parameters(endpoint: Endpoint[Any]) -> list[Json]:
    """The request headers of an endpoint, without the credentials."""
    headers: list[Json] = []
    if endpoint.auth.has_customer:
        headers.append(
            {
                "name": "Customer-ID",
                "in": "header",
                "required": True,
                "description": "The `id` of a customer from `GET /customers`, as a number.",
                "schema": {"type": "integer", "format": "int32"},
            }
        )
    if request_mode.has_mode(endpoint):
        headers.append(_MODE)
    if endpoint.can_use_replica:
        headers.append(_POSITION)
    preferences: list[str] = []
    if isinstance(endpoint.body, JsonBody):
        preferences.append("`handling=strict` rejects unknown properties of the body, and unknown query options.")
    elif endpoint.read is not None:
        preferences.append("`handling=strict` rejects unknown query options.")
    representation = endpoint.responses.representation
    if representation is not None:
        preferences.append(
            f"`return=representation` returns the response of `GET {representation.path}` after the change, with status"
            f" {endpoint.representation_status}. `$select` and `$expand` apply to it."
        )
    if endpoint.awaited is not None:
        preferences.append(
            f"`wait=N` waits up to N seconds, 30 at most, for the outcome. The response is then {endpoint.awaited.body}"
            " with status 200, or 202 if the outcome is still pending. A failed operation is 200 with the state"
            " `Failed`."
        )
    if preferences:
        headers.append(
            {
                "name": "Prefer",
                "in": "header",
                "description": " ".join(preferences) + " (RFC 7240)",
                "schema": {"type": "string"},
            }
        )
    if endpoint.has_etag:
        headers.append(
            {
                "name": "If-None-Match",
                "in": "header",
                "description": (
                    "ETags of earlier responses. The response is 304 without a body if one of them is still current."
                ),
                "schema": {"type": "string"},
            }
        )
    if endpoint.concurrency.if_match is not None or endpoint.has_etag:
        headers.append(
            {
                "name": "If-Match",
                "in": "header",
                "description": (
                    "ETags of earlier responses to `GET` of this path. The response is 412, and the request has no"
                    " effect, if none of them is still current."
                ),
                "schema": {"type": "string"},
            }
        )
    if endpoint.responses.media_type == EVENTS or endpoint.can_stream_events:
        headers.append(_LAST_EVENT_ID)
    if endpoint.has_idempotency_key:
        headers.append(
            {
                "name": "Idempotency-Key",
                "in": "header",
                "description": (
                    "Makes it safe to repeat the request: a repeat with the same key gets the first response again."
                ),
                "schema": {"type": "string", "minLength": 1, "maxLength": LONGEST},
            }
        )
    return headers
