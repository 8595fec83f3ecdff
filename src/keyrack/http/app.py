"""The ASGI application: routes paths, and writes responses and errors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import falcon
import falcon.asgi
import structlog

from keyrack.api.endpoint import Endpoint
from keyrack.api.grants import NotPermitted
from keyrack.api.request_mode import RequestMode
from keyrack.core.error_codes import INVALID_HEADER, NOTHING_HERE, ErrorCode
from keyrack.core.errors import BadRequest, MethodNotAllowed, NotFound, Refusal
from keyrack.core.log_config import RateLimitedLogger
from keyrack.core.settings import Settings
from keyrack.http import read_position, request_mode
from keyrack.http.access_log import UNKNOWN
from keyrack.http.base_path import METHODS, BasePathMiddleware
from keyrack.http.cors import Cors
from keyrack.http.drive_app import DRIVE, DriveApp
from keyrack.http.exception_mapping import map_exception
from keyrack.http.falcon_responses import put, put_refusal
from keyrack.http.ignored_members import set_ignored_members_header
from keyrack.http.in_process_client import InternalClient
from keyrack.http.package_index import PACKAGES, PackageIndex
from keyrack.http.page_responses import PageRoute
from keyrack.http.page_router import BELOW, ConsolePage, Site
from keyrack.http.pipeline import RequestPipeline
from keyrack.http.request_state import request_state
from keyrack.http.routes import ALL
from keyrack.http.server_process import ServerProcess
from keyrack.http.services import ServeServices

log = structlog.get_logger("keyrack.app")
seldom = RateLimitedLogger("keyrack.app")

# Errors of Falcon itself: headers that it cannot parse, and a target that is not a path, such as `*`
OF_FRAMEWORK: dict[int, tuple[type[Refusal], ErrorCode]] = {
    400: (BadRequest, INVALID_HEADER),
    404: (NotFound, NOTHING_HERE),
}


class Route:
    """All endpoints of one path.

    It receives every method, so that an unsupported one gets 405 only after the checks of key and token.
    """

    def __init__(
        self,
        server: ServerProcess,
        pipeline: RequestPipeline,
        cors: Cors | None,
        path: str,
        endpoints: Iterable[Endpoint[ServeServices]],
    ) -> None:
        self._server = server
        self._pipeline = pipeline
        self._path = path
        self._cors = cors
        self._by_method = {endpoint.method: pipeline.add(endpoint) for endpoint in endpoints}
        # An unsupported method gets 405 after the checks of the path's least protected endpoint
        self._needs_key = all(route.endpoint.auth.has_api_key for route in self._by_method.values())
        self._needs_token = all(route.endpoint.auth.has_token for route in self._by_method.values())
        self._has_mode = any(request_mode.has_mode(route.endpoint) for route in self._by_method.values())

    async def serve(self, http: falcon.asgi.Request, reply: falcon.asgi.Response, **params: str) -> None:
        route = self._by_method.get("GET" if http.method == "HEAD" else http.method)
        state = request_state(http.scope)
        state.route = self._path
        try:
            if route is None:
                if self._cors is not None and self._cors.asks(http):
                    put(reply, self._cors.preflight(self._by_method))
                    return
                authentication = self._server.services.authentication
                caller = await authentication.caller(http, key=self._needs_key, token=self._needs_token)
                if self._needs_token:
                    request_mode.set_mode(http, state, caller)
                raise MethodNotAllowed(sorted(self._by_method))
            answer = await self._pipeline.serve(http, state, route, params)
            put(
                reply,
                answer if route.endpoint.responses.has_secret else await self._server.compression.packed(http, answer),
            )
        except Refusal as refusal:
            if isinstance(refusal, NotPermitted):
                self._server.services.refusals.count(refusal)
            await self._put_refusal(http, reply, refusal)
        except Exception as error:
            refusal = map_exception(error, http.method, http.path, http.query_string)
            await self._put_refusal(http, reply, refusal)
        read_position.set_position_header(state, reply)
        set_ignored_members_header(state, reply)
        request_mode.set_mode_header(state, reply)

    async def _put_refusal(self, http: falcon.asgi.Request, reply: falcon.asgi.Response, refusal: Refusal) -> None:
        mode = RequestMode.SPEC
        if self._has_mode:
            state = request_state(http.scope)
            mode = await request_mode.mode_of_error(http, state, refusal, lambda: self._server.services.authenticator)
        put_refusal(http, reply, refusal, self._server.settings, mode)


for _method in METHODS:
    setattr(Route, f"on_{_method.lower()}", Route.serve)


class UnknownRoute:
    """The handler of all paths without a route."""

    def __init__(self, server: ServerProcess) -> None:
        self._server = server

    async def serve(self, http: falcon.asgi.Request, reply: falcon.asgi.Response, **_: str) -> None:
        """404, after the checks of key and token."""
        state = request_state(http.scope)
        state.route = UNKNOWN
        try:
            authentication = self._server.services.authentication
            request_mode.set_mode(http, state, await authentication.caller(http, key=True, token=True))
            error: Refusal = NotFound(NOTHING_HERE)
        except Refusal as refusal:
            error = refusal
        except Exception as unexpected:
            error = map_exception(unexpected, http.method, http.path, http.query_string)
        mode = await request_mode.mode_of_error(http, state, error, lambda: self._server.services.authenticator)
        put_refusal(http, reply, error, self._server.settings, mode)
        request_mode.set_mode_header(state, reply)


def create_app(settings: Settings, dsn: str, site: Site) -> BasePathMiddleware:
    """The ASGI application with the pages of `site`.

    The schema of the database `dsn` must be current.
    """
    server = ServerProcess(settings)
    pipeline = RequestPipeline(server)
    app: Any = falcon.asgi.App()
    app.req_options.strip_url_path_trailing_slash = True
    cors = Cors(settings) if settings.origins else None
    app.add_error_handler(falcon.HTTPError, _framework_refused(settings))
    by_path: dict[str, list[Endpoint[ServeServices]]] = {}
    for endpoint in ALL:
        by_path.setdefault(endpoint.path, []).append(endpoint)
    for path, endpoints in by_path.items():
        app.add_route(path, Route(server, pipeline, cors, path, endpoints))
    app.add_sink(UnknownRoute(server).serve, "/")
    _add_pages(app, server, pipeline, site)
    app.add_sink(DriveApp(server).serve, rf"{DRIVE}(?:/|\Z)")
    app.add_sink(PackageIndex(server).serve, rf"{PACKAGES}(?:/|\Z)")
    return BasePathMiddleware(app, settings, cors, lambda: server.lifespan(dsn), server.readiness.stop)


def _add_pages(app: Any, server: ServerProcess, pipeline: RequestPipeline, site: Site) -> None:
    calls = InternalClient(server, pipeline)
    by_path: dict[str, list[ConsolePage]] = {}
    for page in site.pages:
        by_path.setdefault(page.path, []).append(page)
    for path, pages in by_path.items():
        app.add_route(BELOW + path, PageRoute(server, calls, site, BELOW + path, pages))
    app.add_sink(PageRoute(server, calls, site, UNKNOWN).serve, rf"{BELOW}(?:/|\Z)")


def _framework_refused(settings: Settings) -> Any:
    """The handler that gives errors of Falcon the form of all other errors."""

    async def handle(http: Any, reply: Any, error: falcon.HTTPError, params: Any) -> None:
        if error.status_code in OF_FRAMEWORK:
            refusal, reason = OF_FRAMEWORK[error.status_code]
            put_refusal(http, reply, refusal(reason.with_text(error.title or reason.text)), settings)
        else:
            put_refusal(http, reply, map_exception(error, http.method, http.path, http.query_string), settings)

    return handle
