"""Writes a response or an error to the framework's reply."""

from __future__ import annotations

import falcon.asgi

from keyrack.api.exchange import Response
from keyrack.api.request_mode import RequestMode
from keyrack.core.errors import Refusal
from keyrack.core.settings import Settings
from keyrack.http.problem_details import problem_body
from keyrack.http.request_state import request_state


def put(reply: falcon.asgi.Response, answer: Response) -> None:
    """Write `answer` to the reply."""
    reply.status = answer.status
    if answer.body is not None:
        reply.data = answer.body
        reply.content_type = answer.media_type
    elif answer.parts is not None:
        reply.stream = answer.parts
        reply.content_type = answer.media_type
    for name, value in answer.headers.items():
        if name == "Set-Cookie":  # the framework's `set_header` rejects it, and its `set_cookie` has only one form
            reply.append_header(name, value)
        else:
            reply.set_header(name, value)


def put_refusal(
    http: falcon.asgi.Request,
    reply: falcon.asgi.Response,
    refusal: Refusal,
    settings: Settings,
    mode: RequestMode = RequestMode.SPEC,
) -> None:
    """Write an error as problem details, or as the spec's error."""
    reply.status = refusal.status
    id = request_state(http.scope).id
    reply.data, reply.content_type = problem_body(refusal, http.get_header("Accept"), id, settings.public_url, mode)
    for name, value in refusal.headers.items():
        reply.set_header(name, value)
    reply.append_header("Vary", "Accept")
