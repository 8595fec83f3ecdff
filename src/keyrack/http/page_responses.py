"""Serving of console pages: from address to visit to response, and error pages."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from urllib.parse import parse_qs

import falcon.asgi

from keyrack.api.exchange import Response
from keyrack.api.grants import NotPermitted
from keyrack.core.error_codes import NOTHING_HERE
from keyrack.core.errors import MethodNotAllowed, NotFound, Refusal
from keyrack.core.metrics.catalog import ERROR_RESPONSES
from keyrack.db.audit_context import acting
from keyrack.http import request_parsing
from keyrack.http.exception_mapping import map_exception
from keyrack.http.falcon_responses import put
from keyrack.http.in_process_client import InternalClient
from keyrack.http.page_router import FRESH, POLICY, ConsolePage, Person, Site, Visit, customer_of
from keyrack.http.request_actor import actor
from keyrack.http.request_state import request_state
from keyrack.http.server_process import ServerProcess


class PageRoute:
    """All pages of one path. Without pages, it responds with 404."""

    def __init__(
        self, server: ServerProcess, calls: InternalClient, site: Site, path: str, pages: Iterable[ConsolePage] = ()
    ) -> None:
        self._server = server
        self._calls = calls
        self._site = site
        self._path = path
        self._by_method = {page.method: page for page in pages}

    async def serve(self, http: falcon.asgi.Request, reply: falcon.asgi.Response, **ids: str) -> None:
        page = self._by_method.get("GET" if http.method == "HEAD" else http.method)
        visit = self._visit(http, ids)
        state = request_state(http.scope)
        state.route = self._path
        try:
            try:
                answer = await self._answer(http, page, visit)
            except Refusal as refusal:
                answer = await self._error_page(visit, refusal)
        except Exception as error:
            answer = await self._error_page(visit, map_exception(error, http.method, http.path, http.query_string))
        state.customer, state.caller = visit.customer, visit.visitor.manager.id if visit.visitor else 0
        answer = replace(answer, headers=_headers(answer, visit))
        put(reply, answer if page and page.has_secret else await self._server.compression.packed(http, answer))

    async def _error_page(self, visit: Visit, refusal: Refusal) -> Response:
        ERROR_RESPONSES.add(refusal.reason.code, str(refusal.status))
        if isinstance(refusal, NotPermitted):
            self._server.services.refusals.count(refusal)
        return await self._site.error_page(visit, refusal)

    async def _answer(self, http: falcon.asgi.Request, page: ConsolePage | None, visit: Visit) -> Response:
        if page is None or not page.is_public:
            visit.visitor = await self._visitor(http)
        self._acts(http, visit)
        if page is None and self._by_method:
            raise MethodNotAllowed(sorted(self._by_method))
        if page is None:
            raise NotFound(NOTHING_HERE)
        if page.method == "POST":
            self._server.sessions.check_origin(http)
            visit.form = await request_parsing.form(http, self._server.settings, anybodys=page.is_public)
        if "customer" in visit.ids:
            visit.customer = customer_of(visit.person, visit.ids["customer"])
            self._acts(http, visit)
        if page.permission is not None and not page.shows_own_rows:
            visit.require(page.permission)
        return await page.run(visit)

    def _acts(self, http: falcon.asgi.Request, visit: Visit) -> None:
        acting.set(actor(http, request_state(http.scope).id, visit.customer, visit.visitor and visit.visitor.manager))

    async def _visitor(self, http: falcon.asgi.Request) -> Person:
        """The signed-in person. Raises `Unauthorized`."""
        authentication = self._server.services.authentication
        session = await authentication.signed_in(http)
        return Person(session, await authentication.manager(session))

    def _visit(self, http: falcon.asgi.Request, ids: dict[str, str]) -> Visit:
        query = parse_qs(http.query_string, keep_blank_values=True)
        return Visit(
            http.method, http.path, ids, http.query_string, query, {}, http.get_header, http.remote_addr,
            request_state(http.scope).id, self._server.settings, self._calls, self._server,
            secret=self._server.sessions.secret(http), step=self._server.sessions.step(http),
            challenged=self._server.sessions.challenge(http),
        )  # fmt: skip


for _method in ("get", "head", "post", "put", "patch", "delete", "options", "trace"):
    setattr(PageRoute, f"on_{_method}", PageRoute.serve)


def _headers(answer: Response, visit: Visit) -> dict[str, str]:
    """The headers of a page: its content security policy, and `no-store` unless the page sets `Cache-Control`."""
    return {
        **POLICY,
        **({} if "Cache-Control" in answer.headers else FRESH),
        **answer.headers,
        **visit.response_headers,
    }
