"""In charge of the application: which path is whose, and what goes back, an answer or a refusal's body."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import asyncpg
import falcon
import falcon.asgi
import structlog

from keyrack.api.endpoint import Endpoint
from keyrack.api.exchange import Answer
from keyrack.assignments.holds import BUSY
from keyrack.database.connection import UNREACHABLE, is_interruption
from keyrack.endpoints import ALL
from keyrack.errors import BadRequest, InternalError, MethodNotAllowed, NotFound, Refusal, Unavailable
from keyrack.http.cors import Cors
from keyrack.http.edge import METHODS, Edge
from keyrack.http.problems import shown
from keyrack.http.server import Handler, Server
from keyrack.http.trace import ID
from keyrack.logs import Seldom
from keyrack.odata import TOO_MANY, TOO_MANY_EXPANDED
from keyrack.reasons import (
    DATABASE_TOO_SLOW,
    INVALID_HEADER,
    NO_CUSTOMER,
    NOT_NOW,
    NOTHING_HERE,
    QUERY_OUT_OF_RANGE,
    QUERY_TOO_SLOW,
    Reason,
)
from keyrack.settings import Settings

log = structlog.get_logger("keyrack.app")
seldom = Seldom("keyrack.app")

# What Falcon refuses itself: headers that it cannot read, and a target that is no path, as `*`
OF_FRAMEWORK: dict[int, tuple[type[Refusal], Reason]] = {
    400: (BadRequest, INVALID_HEADER),
    404: (NotFound, NOTHING_HERE),
}
OF_CUSTOMER = "_customer_id_fkey"  # how the name of every foreign key to a customer ends
FAULTS = ("25P02", "XX")  # interruptions that may be faults of ours all the same: nobody is told to try again


class Route:
    """All endpoints of one path. Every method comes here, so that what the path does not know is a 405 after the
    checks of key and token."""

    def __init__(self, server: Server, cors: Cors | None, endpoints: Iterable[Endpoint]) -> None:
        self._server = server
        self._cors = cors
        self._by_method = {endpoint.method: Handler(endpoint) for endpoint in endpoints}
        server.handlers += self._by_method.values()
        # For a method that the path does not know, its least guarded endpoint says who may be told so
        self._needs_key = all(handler.endpoint.key for handler in self._by_method.values())
        self._needs_token = all(handler.endpoint.token for handler in self._by_method.values())

    async def serve(self, http: falcon.asgi.Request, reply: falcon.asgi.Response, **params: str) -> None:
        handler = self._by_method.get("GET" if http.method == "HEAD" else http.method)
        try:
            if handler is None:
                if self._cors is not None and self._cors.asks(http):
                    _put_answer(reply, self._cors.preflight(self._by_method))
                    return
                await self._server.caller(http, key=self._needs_key, token=self._needs_token)
                raise MethodNotAllowed(sorted(self._by_method))
            answer = await self._server.serve(http, handler, params)
            _put_answer(
                reply, answer if handler.endpoint.secret else await self._server.compression.packed(http, answer)
            )
        except Refusal as refusal:
            _put(http, reply, refusal, self._server.settings)
        except Exception as error:
            _put(http, reply, _refusal_of(error, http), self._server.settings)


for _method in METHODS:
    setattr(Route, f"on_{_method.lower()}", Route.serve)


def _put_answer(reply: falcon.asgi.Response, answer: Answer) -> None:
    reply.status = answer.status
    if answer.body is not None:
        reply.data = answer.body
        reply.content_type = answer.media_type
    elif answer.parts is not None:
        reply.stream = answer.parts
        reply.content_type = answer.media_type
    for name, value in answer.headers.items():
        reply.set_header(name, value)


def _put(http: falcon.asgi.Request, reply: falcon.asgi.Response, refusal: Refusal, settings: Settings) -> None:
    reply.status = refusal.status
    id: str = http.scope[ID]
    reply.data, reply.content_type = shown(refusal, http.get_header("Accept"), id, settings.public_url)
    for name, value in refusal.headers.items():
        reply.set_header(name, value)
    reply.append_header("Vary", "Accept")


def _refusal_of(error: Exception, http: falcon.asgi.Request) -> Refusal:
    """What the caller is told of an exception that no endpoint foresaw."""
    if isinstance(error, asyncpg.DataError):  # SQLSTATE class 22: a value that an expression cannot take
        return BadRequest(QUERY_OUT_OF_RANGE)
    if isinstance(error, asyncpg.PostgresError) and error.sqlstate == TOO_MANY:
        return BadRequest(TOO_MANY_EXPANDED.saying(str(error)))
    if isinstance(error, asyncpg.QueryCanceledError):
        return BadRequest(QUERY_TOO_SLOW) if http.query_string else Unavailable(DATABASE_TOO_SLOW)
    if isinstance(error, asyncpg.LockNotAvailableError):
        return Unavailable(BUSY)
    if is_interruption(error) and not str(getattr(error, "sqlstate", "")).startswith(FAULTS):
        seldom.warning("request not done: the database is away, or cannot write", error=error)
        return Unavailable() if isinstance(error, UNREACHABLE) else Unavailable(NOT_NOW)
    if isinstance(error, asyncpg.ForeignKeyViolationError) and (error.constraint_name or "").endswith(OF_CUSTOMER):
        return NotFound(NO_CUSTOMER)  # it was removed after the check
    log.exception("internal error", method=http.method, path=http.path)
    return InternalError()


class Unknown:
    """What no route knows."""

    def __init__(self, server: Server) -> None:
        self._server = server

    async def serve(self, http: falcon.asgi.Request, reply: falcon.asgi.Response, **_: str) -> None:
        """404, but only to callers that may ask."""
        try:
            await self._server.caller(http, key=True, token=True)
            raise NotFound(NOTHING_HERE)
        except Refusal as refusal:
            _put(http, reply, refusal, self._server.settings)
        except Exception as error:
            _put(http, reply, _refusal_of(error, http), self._server.settings)


def create_app(settings: Settings, dsn: str) -> Edge:
    """The ASGI application over the database `dsn`, whose schema must be current."""
    server = Server(settings)
    app: Any = falcon.asgi.App()
    app.req_options.strip_url_path_trailing_slash = True
    cors = Cors(settings) if settings.origins else None
    app.add_error_handler(falcon.HTTPError, _framework_refused(settings))
    by_path: dict[str, list[Endpoint]] = {}
    for endpoint in ALL:
        by_path.setdefault(endpoint.path, []).append(endpoint)
    for path, endpoints in by_path.items():
        app.add_route(path, Route(server, cors, endpoints))
    app.add_sink(Unknown(server).serve, "/")
    return Edge(app, settings, cors, lambda: server.lifespan(dsn))


def _framework_refused(settings: Settings) -> Any:
    """What Falcon itself refuses, in the form of everything else."""

    async def handle(http: Any, reply: Any, error: falcon.HTTPError, params: Any) -> None:
        if error.status_code in OF_FRAMEWORK:
            refusal, reason = OF_FRAMEWORK[error.status_code]
            _put(http, reply, refusal(reason.saying(error.title or reason.text)), settings)
        else:
            _put(http, reply, _refusal_of(error, http), settings)

    return handle
