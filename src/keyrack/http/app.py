"""In charge of the HTTP edge: the only module that knows Falcon.

match -> API key -> token -> manager -> customer -> content type -> body -> endpoint -> answer, or a refusal's body.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import cache
from typing import Any

import asyncpg
import falcon
import falcon.asgi
import structlog

from keyrack.access.auth import Access, Manager, ensure_signing_key
from keyrack.access.limits import Shares
from keyrack.api import idempotency
from keyrack.api.endpoint import Answer, Endpoint, Request, Service
from keyrack.assignments.operations import Announcer
from keyrack.database.batching import Batches
from keyrack.database.connection import UNREACHABLE, Database
from keyrack.database.listener import Listener
from keyrack.documents import openapi, reference
from keyrack.endpoints import ALL
from keyrack.endpoints.oauth2 import grant
from keyrack.errors import (
    NO_CUSTOMER,
    PLAIN_TEXT,
    BadRequest,
    InternalError,
    MethodNotAllowed,
    NotFound,
    Refusal,
    Unavailable,
)
from keyrack.http import intake
from keyrack.http.edge import METHODS, Edge
from keyrack.model.bodies import checked
from keyrack.odata import Limits
from keyrack.settings import Settings
from keyrack.telemetry.ingest import Telemetry

log = structlog.get_logger("keyrack.app")

NOTHING_HERE = "There is nothing at this path."
DEVICE_KEY = "Device-Key"
OF_CUSTOMER = "_customer_id_fkey"  # how the name of every foreign key to a customer ends
DEADLOCKS = 4  # in which the database may choose the same request to give way, before the caller is told to
TOO_SLOW = "The statement took too long in the database. Ask for less at once."


class Route:
    """All endpoints of one path. Every method comes here, so that what the path does not know is a 405 after the
    checks of key and token."""

    def __init__(self, server: Server, endpoints: Iterable[Endpoint]) -> None:
        self._server = server
        self._by_method = {endpoint.method: endpoint for endpoint in endpoints}
        first = next(iter(self._by_method.values()))
        # For a method that the path does not know, its least guarded endpoint says who may be told so
        self._needs_key = all(endpoint.key for endpoint in self._by_method.values())
        self._needs_token = all(endpoint.token for endpoint in self._by_method.values())
        self._names = first.parameters

    async def serve(self, http: falcon.asgi.Request, reply: falcon.asgi.Response, **params: str) -> None:
        endpoint = self._by_method.get("GET" if http.method == "HEAD" else http.method)
        try:
            answer = await self._server.serve(http, endpoint, self._needs_key, self._needs_token, params, self)
            reply.status = answer.status
            reply.data = answer.body
            reply.content_type = answer.media_type
            for name, value in answer.headers.items():
                reply.set_header(name, value)
        except Refusal as refusal:
            _put(reply, refusal)
        except Exception as error:
            _put(reply, _refusal_of(error, http))

    @property
    def allowed(self) -> list[str]:
        return sorted(self._by_method)


for _method in METHODS:
    setattr(Route, f"on_{_method.lower()}", Route.serve)


def _put(reply: falcon.asgi.Response, refusal: Refusal) -> None:
    reply.status = refusal.status
    reply.data = refusal.body()
    reply.content_type = refusal.media_type
    for name, value in refusal.headers.items():
        reply.set_header(name, value)


def _refusal_of(error: Exception, http: falcon.asgi.Request) -> Refusal:
    """What the caller is told of an exception that no endpoint foresaw."""
    if isinstance(error, asyncpg.DataError):  # SQLSTATE class 22: a value that an expression cannot take
        return BadRequest(
            "The query specified in the URI is not valid. A value is outside of what its type or a function can hold."
        )
    if isinstance(error, asyncpg.QueryCanceledError):
        return BadRequest(TOO_SLOW) if http.query_string else Unavailable(TOO_SLOW)
    if isinstance(error, UNREACHABLE):
        return Unavailable()
    if isinstance(error, asyncpg.ForeignKeyViolationError) and (error.constraint_name or "").endswith(OF_CUSTOMER):
        return NotFound(NO_CUSTOMER)  # it was removed after the check
    log.exception("internal error", method=http.method, path=http.path)
    return InternalError()


class Server:
    """The checks that every endpoint has in common, and the process's own service."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.service: Service | None = None
        self._key_header = f"{settings.brand}-API-Key"

    @asynccontextmanager
    async def lifespan(self, dsn: str) -> AsyncGenerator[None]:
        """Open what the process needs, and close it."""
        db = await Database.connect(dsn, self.settings)
        await ensure_signing_key(db)
        access = Access(db, self.settings)
        access.listener = Listener(dsn, {"keyrack_access": access.forget}, access.forget)
        announcer = Announcer(db)
        batches = Batches(db)
        tasks = [asyncio.create_task(access.listener.run()), asyncio.create_task(announcer.run())]
        self.service = Service(
            db,
            self.settings,
            access,
            announcer,
            _limits(self.settings),
            Shares(max(1, self.settings.pool_size // 2)),
            batches,
            Telemetry(batches, self.settings),
            self._document,
        )
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
            await db.close()

    @cache  # noqa: B019 - a process has one server
    def _document(self, name: str) -> bytes:
        document = openapi.document(ALL, self.settings)
        return json.dumps(document).encode() if name == "openapi" else reference.page(document).encode()

    async def serve(
        self,
        http: falcon.asgi.Request,
        endpoint: Endpoint | None,
        needs_key: bool,
        needs_token: bool,
        params: Mapping[str, str],
        route: Route,
    ) -> Answer:
        """Answer one request. Raises `Refusal`."""
        service = self.service
        if service is None:
            raise Unavailable
        manager: Manager | None = None
        if endpoint.key if endpoint else needs_key:
            await service.access.check_key(http.get_header(self._key_header))
        if endpoint.token if endpoint else needs_token:
            manager = await service.access.manager(http.get_header("Authorization"))
        if endpoint is None:
            raise MethodNotAllowed(route.allowed)
        customer = intake.customer(http, manager) if endpoint.customer and manager else 0
        if endpoint.device:
            customer = await service.access.device(http.get_header(DEVICE_KEY))
        body = await intake.body(http, endpoint, self.settings) if endpoint.body is not None or endpoint.raw else b""
        value: Any = None
        if endpoint.form:
            value = grant(body)
        elif endpoint.body is not None:
            value = checked(endpoint.body, body, endpoint.what)
        request = Request(
            service, http.method, http.path, http.remote_addr, manager, customer, intake.ids(endpoint, params),
            http.scope["query_string"], body,
        )  # fmt: skip
        key = http.get_header("Idempotency-Key") if endpoint.repeatable else None
        for _ in range(DEADLOCKS):
            try:
                if key is None:
                    return await endpoint.run(request, value)
                return await idempotency.once(request, key, lambda request: endpoint.run(request, value))
            except asyncpg.DeadlockDetectedError:
                continue  # it did nothing; whoever it stood against goes on now
        raise Unavailable

    async def unknown(self, http: falcon.asgi.Request, reply: falcon.asgi.Response, **_: str) -> None:
        """What no route knows: 404, but only to callers that may ask."""
        try:
            if self.service is None:
                raise Unavailable
            await self.service.access.check_key(http.get_header(self._key_header))
            await self.service.access.manager(http.get_header("Authorization"))
            raise NotFound(NOTHING_HERE)
        except Refusal as refusal:
            _put(reply, refusal)
        except Exception as error:
            _put(reply, _refusal_of(error, http))


def _limits(settings: Settings) -> Limits:
    return Limits(
        nesting=settings.odata_nesting,
        nodes=settings.odata_nodes,
        items=settings.odata_items,
        orderby=settings.odata_orderby,
        select=settings.odata_select,
        top=settings.odata_top,
        digits=settings.odata_digits,
    )


def create_app(settings: Settings, dsn: str) -> Edge:
    """The ASGI application over the database `dsn`, whose schema must be current."""
    server = Server(settings)
    app: Any = falcon.asgi.App()
    app.req_options.strip_url_path_trailing_slash = True
    app.add_error_handler(falcon.HTTPError, _http_error)
    by_path: dict[str, list[Endpoint]] = {}
    for endpoint in ALL:
        by_path.setdefault(endpoint.path, []).append(endpoint)
    for path, endpoints in by_path.items():
        app.add_route(path, Route(server, endpoints))
    app.add_sink(server.unknown, "/")
    return Edge(app, settings, lambda: server.lifespan(dsn))


async def _http_error(http: Any, reply: Any, error: falcon.HTTPError, params: Any) -> None:
    """What Falcon itself refuses, as plain text like everything else."""
    reply.status = error.status
    reply.text = error.title or error.status
    reply.content_type = PLAIN_TEXT
