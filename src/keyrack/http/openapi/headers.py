"""In charge of what OpenAPI says of the headers of requests."""

from __future__ import annotations

from typing import Any

from keyrack.api.endpoint import Endpoint, JsonBody
from keyrack.api.event_stream import EVENTS
from keyrack.api.idempotency import LONGEST
from keyrack.http.openapi.member_schemas import Json

# Of a stream of live updates
_LAST_EVENT_ID: Json = {
    "name": "Last-Event-ID",
    "in": "header",
    "description": "The `id` that was heard last: the stream begins with what was missed since, or with an event that "
    "says that this is not known any more (`gap`, of changes `gone`).",
    "schema": {"type": "string"},
}
# Of what a replica may answer
_POSITION: Json = {
    "name": "Keyrack-Position",
    "in": "header",
    "description": "That of an earlier answer: no older story is told than it told. `latest` is what there is now.",
    "schema": {"type": "string", "examples": ["7300000000000000001-2-1A/B00C4D8"]},
}


def parameters(endpoint: Endpoint[Any]) -> list[Json]:
    """The headers that a request to the endpoint may have, but for those that say who calls."""
    headers: list[Json] = []
    if endpoint.auth.has_customer:
        headers.append(
            {
                "name": "Customer-ID",
                "in": "header",
                "required": True,
                "description": "One of the customers that `GET /customers` returns: its `id`, which is text there, as a"
                " number.",
                "schema": {"type": "integer", "format": "int32"},
            }
        )
    if endpoint.can_use_replica:
        headers.append(_POSITION)
    preferences: list[str] = []
    if isinstance(endpoint.body, JsonBody):
        preferences.append("`handling=strict` refuses members of the body that are not known.")
    representation = endpoint.responses.representation
    if representation is not None:
        preferences.append(
            f"`return=representation` asks for what `GET {representation.path}` shows right afterwards, with status"
            f" {endpoint.representation_status}; `$select` and `$expand` shape it."
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
                "description": "ETags of earlier answers: 304 without a body if nothing has changed since one of them.",
                "schema": {"type": "string"},
            }
        )
    if endpoint.concurrency.if_match is not None or endpoint.has_etag:
        headers.append(
            {
                "name": "If-Match",
                "in": "header",
                "description": "ETags of the read of this path: 412, and nothing is done, if it has changed since.",
                "schema": {"type": "string"},
            }
        )
    if endpoint.responses.media_type == EVENTS or endpoint.has_long_poll:
        headers.append(_LAST_EVENT_ID)
    if endpoint.has_idempotency_key:
        headers.append(
            {
                "name": "Idempotency-Key",
                "in": "header",
                "description": "Makes it safe to send the request again: the same key gets the first answer again.",
                "schema": {"type": "string", "minLength": 1, "maxLength": LONGEST},
            }
        )
    return headers
