"""In charge of a request's way: API key -> token -> caller -> customer -> content type -> body -> endpoint.

What of the process an endpoint works with is opened here, and given to those that name it.
"""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import asyncpg
import falcon.asgi

from keyrack.api import idempotency, prefer_return
from keyrack.api.auth_schemes import AppAuth, ClientSecretAuth, DeviceAuth, PublicAuth
from keyrack.api.batch_items import BatchItems
from keyrack.api.endpoint import Endpoint, FormBody, JsonBody, Precheck, RawBody
from keyrack.api.event_stream import EVENTS
from keyrack.api.exchange import DryRunRollback, Request, Response
from keyrack.api.grants import Grant
from keyrack.api.prefer_return import minimal, representation
from keyrack.api.principals import Caller
from keyrack.api.schema.request_body import read_body
from keyrack.api.subscriptions import Subscription
from keyrack.assignments.customer_lock import CustomerTurns, flush_pending
from keyrack.auth import sessions
from keyrack.auth.api_keys import KeyRefused
from keyrack.auth.sessions import BrowserSession
from keyrack.core.error_codes import NOT_NOW, SIGNED_OUT
from keyrack.core.errors import Refusal, Unauthorized, Unavailable
from keyrack.core.settings import Settings
from keyrack.core.text import without_byte_order_mark
from keyrack.db import worker_wakeup
from keyrack.db.audit_context import acting
from keyrack.db.change_notifier import APPLIED
from keyrack.db.connection import Database
from keyrack.fleet import group_scope_checks
from keyrack.http import read_position, request_parsing
from keyrack.http.access_log import IDENTITY, SUBSCRIPTION
from keyrack.http.compression import Compression
from keyrack.http.endpoints.health import Readiness
from keyrack.http.ignored_members import record_ignored_members
from keyrack.http.ingest_memory import IngestMemoryBudget, MemoryReservation
from keyrack.http.prefer_header import NONE, preferences
from keyrack.http.problem_details import prefers_media_type
from keyrack.http.request_actor import RequestIdentity, actor
from keyrack.http.request_ids import REQUEST_ID
from keyrack.http.service_startup import open_services
from keyrack.http.services import ServeServices
from keyrack.http.session_cookie import CONSOLE_CALL, SessionCookies

DEVICE_KEY = "Device-Key"
DEADLOCKS = 4  # in which the database may choose the same request to give way, before the caller is told to


@dataclass(slots=True)
class BoundEndpoint:
    """An endpoint with the services of the process."""

    endpoint: Endpoint[ServeServices]
    services: ServeServices = field(init=False)  # once the process is ready

    def check(self, request: Request) -> None:
        """Check what the request says about its answer. Raises `Refusal`."""
        self.endpoint.check_query(request)
        if request.returns == "representation":
            prefer_return.check(request, self.endpoint, self.services.query_limits)

    async def before(self, request: Request, value: Any) -> Any:
        """What `run` gets for the checked body."""
        if self.endpoint.prepare is None:
            return value
        return await self.endpoint.prepare(request, value, self.services)

    async def run(self, request: Request, value: Any) -> Response:
        if request.returns == "representation":
            return await representation(request, partial(self._run, value), self.endpoint, self.services)
        if request.returns:
            return await minimal(request, partial(self._run, value))
        return await self._run(value, request)

    async def _run(self, value: Any, request: Request) -> Response:
        return await self.endpoint.handler(request, value, self.services)


class RequestPipeline:
    """The checks that every endpoint has in common, and what the process has to do its work with."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.handlers: list[BoundEndpoint] = []
        self._key_header = f"{settings.brand}-API-Key"
        self._turns = CustomerTurns(settings.customer_lock_max_waiting)
        self._underway = IngestMemoryBudget(settings)
        self.compression = Compression(settings)
        self.sessions = SessionCookies(settings)
        self.readiness = Readiness(settings)
        self._process: ServeServices | None = None

    @asynccontextmanager
    async def lifespan(self, dsn: str) -> AsyncGenerator[None]:
        """Open what the process needs, and close it."""
        async with open_services(self.settings, dsn, self.readiness) as process:
            for handler in self.handlers:
                handler.services = process
            self._process = process
            try:
                yield
            finally:
                self.compression.close()

    @property
    def process(self) -> ServeServices:
        """Raises `Unavailable` until the process is ready."""
        if self._process is None:
            raise Unavailable
        return self._process

    async def serve(self, http: falcon.asgi.Request, handler: BoundEndpoint, params: Mapping[str, str]) -> Response:
        """Answer one request. Raises `Refusal`."""
        if not isinstance(handler.endpoint.body, RawBody):
            return await self._serve(http, handler, params, None)
        with self._underway.room(http.get_header(DEVICE_KEY) or "") as room:
            return await self._serve(http, handler, params, room)

    async def _serve(
        self,
        http: falcon.asgi.Request,
        handler: BoundEndpoint,
        params: Mapping[str, str],
        room: MemoryReservation | None,
    ) -> Response:
        process, endpoint = self.process, handler.endpoint
        responses, auth = endpoint.responses, endpoint.auth
        proven = process.access.check() if _asks_who(endpoint) else None
        known = await self._who(http, endpoint)
        expected = request_parsing.expected(http, endpoint)
        body, value, preferred = b"", None, NONE
        has_document = isinstance(endpoint.body, JsonBody | FormBody)
        if has_document or responses.representation is not None:
            preferred = preferences(http.get_header("Prefer"))
        if endpoint.body is not None:
            body = await request_parsing.body(http, endpoint, self.settings, room)
            known = await self._who(http, endpoint)  # what they may have lost while it came
        if isinstance(endpoint.body, FormBody):
            value = endpoint.body.parse(without_byte_order_mark(body))
        elif isinstance(endpoint.body, JsonBody):
            strict = preferred.strict and not endpoint.body.has_item_checks
            value, document = read_body(endpoint.body.adapter, body, endpoint.body.action, strict=strict)
            if not preferred.strict:
                record_ignored_members(http, endpoint.body.adapter, document)
        caller, customer = known.caller, known.customer
        request = Request(
            self.database(endpoint, caller, customer), process.batches, process.announce, http.scope[REQUEST_ID],
            http.method, http.path, http.remote_addr, caller, customer, request_parsing.ids(endpoint, params),
            http.scope["query_string"], body, http.scope["http_version"] != "1.0", known.device,
            preferred.returns if responses.representation else "", expected, http.get_header("If-None-Match"),
            app=known.app, parameters=endpoint.known_parameters(caller), strict=preferred.strict,
        )  # fmt: skip
        if responses.alternative:
            request.also = prefers_media_type(
                http.get_header("Accept") or "", responses.alternative.split(";")[0], responses.media_type
            )
        if caller is not None and (responses.media_type == EVENTS or endpoint.has_long_poll):
            request.last_event, request.stays = (
                http.get_header("Last-Event-ID"),
                partial(self._stays, http, endpoint, customer, caller.grants[customer]),
            )
            request.holds = partial(http.scope.__setitem__, SUBSCRIPTION)
            request.events = prefers_media_type(http.get_header("Accept") or "", EVENTS, responses.media_type)
        if isinstance(auth, ClientSecretAuth):
            request.authorization = http.get_header("Authorization")
            request.without_key = http.get_header(self._key_header) is None
        process.access.hold(proven)  # the body may have taken long
        perform = partial(self._asked, handler, value, http.get_header("Idempotency-Key"))
        answer = await read_position.respond_with_position(http, endpoint, request, perform, process.replicas)
        if isinstance(answer.parts, Subscription):
            http.scope[SUBSCRIPTION] = answer.parts
        return answer

    async def _who(self, http: falcon.asgi.Request, endpoint: Endpoint[Any]) -> RequestIdentity:
        """Who calls; that it may. Raises `Unauthorized`, `Forbidden`, `NotFound`, `BadRequest`."""
        access, authorization = self.process.access, http.get_header("Authorization")
        auth, device, app = endpoint.auth, None, None
        asks_itself = isinstance(auth, ClientSecretAuth) and self.settings.clients_without_key
        wants_key = auth.has_api_key and not (asks_itself and http.get_header(self._key_header) is None)
        caller = await self.caller(http, key=wants_key, token=auth.has_token)
        customer = request_parsing.customer(http, caller) if auth.has_customer and caller else 0
        if isinstance(auth, DeviceAuth):
            device = await access.device(http.get_header(DEVICE_KEY), auth.scope)
        elif isinstance(auth, AppAuth):
            app = await access.app(authorization, looks_itself=auth.has_own_user_check)
        named = device or app
        known = RequestIdentity(caller, device, app, named.customer if named else customer)
        http.scope[IDENTITY] = (known.customer, caller.id if caller else 0)
        acting.set(actor(http, known))
        endpoint.permit(caller, known.customer)
        return known

    async def _asked(self, handler: BoundEndpoint, value: Any, key: str | None, request: Request) -> Response:
        return await self.perform(handler, request, value, key)

    async def perform(self, handler: BoundEndpoint, request: Request, value: Any, key: str | None) -> Response:
        """Do what a request asks for that has been checked as far as it can be seen, and tell those who watch what has
        changed: `value` is its checked body, `key` its Idempotency-Key. Raises `Refusal`."""
        endpoint, access = handler.endpoint, self.process.access
        proven = access.check() if _asks_who(endpoint) else None
        handler.check(request)
        original = request
        request, value = await group_scope_checks.restrict_to_scope(request, endpoint, value)
        # A thing that has left the caller's scope is answered as one that does not exist, not with a stored answer
        key = key if endpoint.has_idempotency_key and request is original else None
        value = await handler.before(request, value)
        precheck = endpoint.concurrency.precheck_of(request, value)
        for _ in range(DEADLOCKS):
            try:
                if precheck is None:
                    answer = await self._once(handler, request, value, key)
                else:
                    answer = await self._on_settled_ground(precheck, handler, request, value, key)
                if endpoint.method == "GET":
                    access.hold(proven)  # what was read is not told if another leader may know better by now
                elif request.customer:
                    self.process.tell(
                        request.customer, value.topics if isinstance(value, BatchItems) else endpoint.topics
                    )
                return answer
            except asyncpg.DeadlockDetectedError:
                continue  # it did nothing; whoever it stood against goes on now
            except DryRunRollback as undone:
                if isinstance(undone.outcome, Refusal):
                    raise undone.outcome from None
                return undone.outcome
            finally:
                if endpoint.method != "GET" and request.customer and self.process.replicas is not None:
                    self.process.replicas.wrote(request.customer)
        raise Unavailable(NOT_NOW)

    def database(self, endpoint: Endpoint[Any], caller: Caller | None, customer: int) -> Database:
        """The database on behalf of whoever asks; who is not known yet is served by the process's own connections."""
        if caller is None and not customer:
            return self.process.own
        return self.process.db.of(customer, caller.id if caller else 0, reads=endpoint.method == "GET")

    async def caller(self, http: falcon.asgi.Request, *, key: bool, token: bool) -> Caller | None:
        """Who calls, as far as these are asked for. Raises `Unauthorized`, `NotFound`.

        A page of the console calls in its session: it stands for both.
        """
        access = self.process.access
        if CONSOLE_CALL in http.scope and (key or token):
            self.sessions.check_origin(http)
            session = await self.signed_in(http)
            return await access.acting(session.subject, session.sign_outs, session.amr, session.began)
        given, authorization = http.get_header(self._key_header), http.get_header("Authorization")
        if key and token and given is None and self.settings.clients_without_key and authorization:
            with suppress(Refusal):  # what the token lacks is said after the key
                caller = await access.caller(authorization)
                if access.goes_without_key(caller, given):
                    return caller
        if key:
            try:
                await access.check_key(given)
            except KeyRefused as refused:
                refused.logged(http.remote_addr)
                raise
        return await access.caller(authorization) if token else None

    async def signed_in(self, http: falcon.asgi.Request, *, used: bool = True) -> BrowserSession:
        """The session of a browser. Raises `Unauthorized` where there is none."""
        self.process.access.check()
        secret = self.sessions.secret(http)
        session = await sessions.find(self.process.own, secret, self.settings, used=used) if secret else None
        if session is None:
            raise Unauthorized(SIGNED_OUT)
        return session

    async def _once(self, handler: BoundEndpoint, request: Request, value: Any, key: str | None) -> Response:
        if key is None:
            return await handler.run(request, value)
        hours = self.settings.idempotency_hours
        return await idempotency.run_once(request, key, hours, lambda request: handler.run(request, value))

    async def _on_settled_ground(
        self, check: Precheck, handler: BoundEndpoint, request: Request, value: Any, key: str | None
    ) -> Response:
        """The same after everything that was asked for before is applied.

        Who would be refused anyway is refused at once; but a request with a key may have had its answer already.
        """
        if key is None:
            await check(request.db, request, value)
        try:
            async with self._turns.of(request.customer):
                await flush_pending(request.db, request.customer, self.settings)
                return await self._once(handler, request, value, key)
        finally:
            request.announce(worker_wakeup.WORK)
            request.announce(worker_wakeup.DELIVER)
            self.process.tell(request.customer, APPLIED)

    async def _stays(self, http: falcon.asgi.Request, endpoint: Endpoint[Any], customer: int, grant: Grant) -> float:
        """Until when whoever calls may go on for the customer, in seconds since 1970: looked up anew, which is no use
        of a session. Raises `Refusal`."""
        access, key, authorization = self.process.access, self._key_header, http.get_header("Authorization")
        if CONSOLE_CALL in http.scope:
            session = await self.signed_in(http, used=False)
            caller, until = (
                await access.acting(session.subject, session.sign_outs, session.amr, session.began),
                math.inf,
            )
        else:
            until = await access.until(http.get_header(key), authorization)
            caller = await access.caller(authorization)
        caller.check(customer)
        endpoint.permit(caller, customer)
        return until if caller.grants[customer] == grant else 0.0  # whoever begins anew sees what it may now


def _asks_who(endpoint: Endpoint[Any]) -> bool:
    """Whether its answer depends on who calls: then it is no answer of a server that may lead no more."""
    return not isinstance(endpoint.auth, PublicAuth)
