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
    """What a webhook may take; a wildcard stands for others."""

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
        "The kinds that a webhook may take, and the wildcards",
        "What `kinds` of a webhook may hold: outcomes of assignments, what happens to each resource, and checkpoints. A"
        " wildcard takes all kinds of a resource, those of later releases too.",
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
