"""Event types and wildcards that a webhook can subscribe to. An extension of the spec."""

from __future__ import annotations

from pydantic import ConfigDict

from keyrack.api import conditional_requests
from keyrack.api.endpoint import TAGGED, Doc, Responses
from keyrack.api.endpoint_registry import Endpoints
from keyrack.api.exchange import Request, Response, answer
from keyrack.api.schema.event_types import TAKEN
from keyrack.api.schema.request_body import Body
from keyrack.api.services import ReadServices
from keyrack.webhooks.endpoints.webhooks import TAG

endpoints = Endpoints[ReadServices](TAG, "webhooks", is_extension=True)


class EventTypeBody(Body):
    """An event type, or a wildcard that includes several."""

    model_config = ConfigDict(title="KindListed")

    kind: str
    resource: str
    meaning: str
    is_wildcard: bool
    takes: list[str]


@endpoints.get(
    "/webhooks/kinds",
    Doc(
        "listWebhookKinds",
        "List event types and wildcards",
        "Returns the valid values for `kinds` of a webhook: outcomes of assignments, changes of each resource, and"
        " checkpoints. A wildcard includes all event types of a resource, also those of later releases.",
    ),
    responses=Responses(200, list[EventTypeBody], headers=TAGGED),
)
async def kinds(request: Request) -> Response:
    rows = [
        {
            "kind": kind.name,
            "resource": kind.resource,
            "meaning": kind.meaning,
            "isWildcard": bool(kind.takes),
            "takes": list(kind.takes),
        }
        for kind in TAKEN.values()
    ]
    return conditional_requests.document(request, answer(rows))
