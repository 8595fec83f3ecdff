"""Calls of endpoints from within the process: a console page gets the response of a client."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any
from urllib.parse import quote, urlencode

from keyrack.api import conditional_requests
from keyrack.api.endpoint import Endpoint, JsonBody
from keyrack.api.exchange import Request, Response
from keyrack.api.principals import Caller
from keyrack.api.schema.request_body import validate_body
from keyrack.http import request_parsing
from keyrack.http.pipeline import RequestPipeline
from keyrack.http.server_process import ServerProcess


@dataclass(frozen=True)
class Impersonation:
    """The caller of an in-process call, and the browser's request behind it."""

    caller: Caller
    customer: int  # 0 if the page belongs to no customer
    address: str
    id: str


@dataclass(frozen=True)
class InternalResponse:
    """The response of an endpoint."""

    answer: Response

    @cached_property
    def json(self) -> Any:
        """The body, None without one."""
        return json.loads(self.answer.body) if self.answer.body else None

    @property
    def headers(self) -> Mapping[str, str]:
        return self.answer.headers

    @property
    def tag(self) -> str:
        """The ETag, for a change that must fail if the resource has changed."""
        return self.answer.headers.get("ETag", "")

    @property
    def total(self) -> int:
        """The total number of rows, if `$count=true` was set."""
        return int(self.answer.headers["X-Total-Count"])

    @property
    def parts(self) -> AsyncIterator[bytes] | None:
        """The chunks of a long list instead of a body, if the caller set `pieces`."""
        return self.answer.parts


class InternalClient:
    """The endpoints of one process, by method and path as in the table."""

    def __init__(self, server: ServerProcess, pipeline: RequestPipeline) -> None:
        self._server = server
        self._pipeline = pipeline
        self._routes = {(route.endpoint.method, route.endpoint.path): route for route in server.routes}

    async def call(
        self,
        asking: Impersonation,
        method: str,
        path: str,
        *ids: object,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        if_match: str | None = None,
        key: str | None = None,
        pieces: bool = False,
    ) -> InternalResponse:
        """Call the endpoint with this method and path, whose parameters are `ids`.

        `pieces` returns a long list in chunks. Raises the endpoint's `Refusal`, and `KeyError` for an unknown row.
        """
        route = self._routes[method, path]
        endpoint = route.endpoint
        customer = asking.customer if endpoint.auth.has_customer else 0
        if endpoint.auth.has_customer:
            asking.caller.check(customer)
        endpoint.permit(asking.caller, customer)
        sent = b"" if body is None else json.dumps(body).encode()
        params = dict(zip(endpoint.parameters, map(str, ids), strict=True))
        address = path.format(**{name: quote(text, safe="") for name, text in params.items()})
        services = self._server.services
        request = Request(
            db=services.database(asking.caller, customer, reads=method == "GET"),
            batches=services.batches,
            announce=services.announce,
            id=asking.id,
            method=method,
            path=address,
            address=asking.address,
            caller=asking.caller,
            customer=customer,
            ids=request_parsing.ids(endpoint, params),
            query=urlencode(query or {}, quote_via=quote, safe="$").encode(),
            body=sent,
            chunks=True,
            if_match=conditional_requests.expected(if_match) if if_match else None,
        )
        answer = await self._pipeline.perform(route, request, _value(endpoint, sent), key)
        return InternalResponse(answer if pieces else await _whole(answer))


async def _whole(answer: Response) -> Response:
    """The response with a body, also for a list of several chunks."""
    parts: Any = answer.parts
    if parts is None:
        return answer
    try:
        return replace(answer, body=b"".join([part async for part in parts]), parts=None)
    finally:
        await (parts.close() if hasattr(parts, "close") else parts.aclose())


def _value(endpoint: Endpoint[Any], sent: bytes) -> Any:
    """The validated body. Raises `BadRequest`."""
    body = endpoint.body
    return validate_body(body.adapter, sent, body.action) if isinstance(body, JsonBody) else None
