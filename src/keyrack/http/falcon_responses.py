"""Writes a response to the framework's reply."""

from __future__ import annotations

import falcon.asgi

from keyrack.api.exchange import Response


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
