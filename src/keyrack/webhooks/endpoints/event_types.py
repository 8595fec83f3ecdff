"""Kinds of webhooks: what a webhook may be told. Ours, beside the spec."""

from __future__ import annotations

from pydantic import ConfigDict

from keyrack.api import conditional_requests
from keyrack.api.endpoint import TAGGED, Endpoints
from keyrack.api.exchange import Request, Response, answer
from keyrack.api.schema.event_types import TAKEN
from keyrack.api.schema.request_body import Body

endpoints = Endpoints("Webhooks", "webhooks")


class EventTypeBody(Body):
    """What a webhook may take; a wildcard stands for others."""

    model_config = ConfigDict(title="KindListed")

    kind: str
    resource: str
    meaning: str
    is_wildcard: bool
    takes: list[str]


@endpoints.write(
    "GET",
    "/webhooks/kinds",
    "The kinds that a webhook may take, and the wildcards",
    status=200,
    answers=list[EventTypeBody],
    headers=TAGGED,
    ours=True,
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
