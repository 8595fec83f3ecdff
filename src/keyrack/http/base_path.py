"""The middleware before the router: base path, request ids, and early rejections."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any
from urllib.parse import unquote

from keyrack.core import log_config
from keyrack.core.error_codes import QUERY_NOT_ASCII, QUERY_TOO_LONG
from keyrack.core.errors import BadRequest, ConnectionAborted, Refusal, UriTooLong
from keyrack.core.settings import Settings
from keyrack.http.access_log import OTHER, RequestObserver, always_logged
from keyrack.http.cors import Cors
from keyrack.http.drive_app import DRIVE, DRIVE_API
from keyrack.http.page_router import BELOW
from keyrack.http.problem_details import accepted, problem_body
from keyrack.http.request_ids import HEADER, request_id
from keyrack.http.request_mode import mode_of_headers
from keyrack.http.request_state import request_state
from keyrack.http.session_cookie import API_OF_PAGES

BASE = "/v3"
METHODS = frozenset(("GET", "PUT", "PATCH", "DELETE", "POST", "HEAD", "OPTIONS", "TRACE"))
# Browsers then refuse a response for another media type, and pages of other origins cannot embed it (OWASP ASVS 14.4)
SECURITY_HEADERS = ((b"x-content-type-options", b"nosniff"), (b"cross-origin-resource-policy", b"same-origin"))
UNKNOWN = "TRACE"  # replaces every unsupported method: Falcon would answer these itself, before the checks

Scope = dict[str, Any]
Asgi = Callable[[Scope, Any, Any], Awaitable[None]]


class BasePathMiddleware:
    """The middleware before the router: base path, request ids, and early rejections."""

    def __init__(
        self, inner: Asgi, settings: Settings, cors: Cors | None, lifespan: Callable[[], Any], stop: Callable[[], None]
    ) -> None:
        self.stop = stop  # called when shutdown begins, so that readiness reports it
        self._inner = inner
        self._cors = cors
        self._max_query = settings.max_query_bytes
        self._public_url = settings.public_url
        self._lifespan = lifespan
        self._logged = settings.access_log
        if self._logged:
            always_logged()
        self.failure: Exception | None = None  # why the startup failed

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        if self._cors is not None:
            send = self._cors.wrap_send(scope, send)
        id = request_state(scope).id = request_id(scope["headers"])
        log_config.request_id.set(id)
        method: str = scope["method"] if scope["method"] in METHODS else OTHER
        path: str = scope["path"]
        observed = RequestObserver(scope, send, ((HEADER, id.encode()), *SECURITY_HEADERS))
        try:
            await self._answer(scope, receive, observed)
        except Exception:
            observed.failed()
            raise
        finally:
            observed.end(method, path, logged=self._logged)

    async def _answer(self, scope: Scope, receive: Any, send: Any) -> None:
        path, raw = _path(scope), scope["raw_path"]
        if path.startswith(API_OF_PAGES + "/") and raw.startswith(BELOW.encode()):
            path = _in_base(path[len(API_OF_PAGES) :])
            request_state(scope).is_console_call = True
        scope["path"] = _without_base(path, raw)
        if scope["method"] not in METHODS:
            scope["method"] = UNKNOWN
        query: bytes = scope["query_string"]
        if len(query) > self._max_query:
            await refuse(scope, send, UriTooLong(QUERY_TOO_LONG.format(most=self._max_query)), self._public_url)
        elif not query.isascii():
            await refuse(scope, send, BadRequest(QUERY_NOT_ASCII), self._public_url)
        else:
            await self._serve(scope, _at_once(receive), send)

    async def _serve(self, scope: Scope, receive: Any, send: Any) -> None:
        """Run the application. If no complete response was sent, uvicorn closes the connection."""
        try:
            await self._inner(scope, receive, send)
        except asyncio.CancelledError:
            if not request_state(scope).is_client_gone:
                raise
        except ConnectionAborted:
            return

    async def _live(self, receive: Any, send: Any) -> None:
        async with AsyncExitStack() as stack:
            await receive()
            try:
                await stack.enter_async_context(self._lifespan())
            except Exception as error:
                self.failure = error
                await send({"type": "lifespan.startup.failed"})
                return
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})


async def refuse(scope: Scope, send: Any, refusal: Refusal, public_url: str) -> None:
    """Send an error before the router of the application."""
    sent, id = scope["headers"], request_state(scope).id
    body, media_type = problem_body(refusal, accepted(sent), id, public_url, mode_of_headers(sent))
    headers = [
        (b"content-type", media_type.encode()), (b"content-length", b"%d" % len(body)), (b"vary", b"Accept"),
        *((name.lower().encode(), value.encode()) for name, value in refusal.headers.items()),
    ]  # fmt: skip
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def below_base(scope: Scope) -> str:
    """The path of a request as the router sees it: without the base path, with one leading slash."""
    return "/" + _without_base(_path(scope), scope["raw_path"]).lstrip("/")


def _at_once(receive: Any) -> Any:
    """Deliver an empty first part of the body at once: Falcon routes a request only after the first part."""
    is_delivered = False

    async def first() -> Any:
        nonlocal is_delivered
        if is_delivered:
            return await receive()
        is_delivered = True
        return {"type": "http.request", "body": b"", "more_body": True}

    return first


def _in_base(path: str) -> str:
    """The path with the base, which console pages may omit."""
    return path if path.startswith(BASE + "/") else BASE + path


def _without_base(path: str, raw: bytes) -> str:
    """The path for the router, which treats several leading slashes as one.

    A console page has exactly one address, and its bytes must be sent literally. So a proxy's rule for `/console`
    covers all pages. Any other spelling is mapped below the base, where there is no page. The same holds for the
    drivers' app at `/drive`, except its endpoints.
    """
    is_in_base = path == BASE or path.startswith(BASE + "/")
    below = (path[len(BASE) :] or "/") if is_in_base else path
    page = "/" + below.lstrip("/")
    root = next((root for root in (BELOW, DRIVE) if _is_at(root, page)), None)
    if root is None or _is_at(DRIVE_API, page):
        return below
    return BASE + page if is_in_base or not raw.startswith(root.encode()) else below


def _is_at(root: str, path: str) -> bool:
    return path == root or path.startswith(root + "/")


def _path(scope: Scope) -> str:
    """The decoded path, except `%2F`: an encoded slash belongs to a segment and does not end it."""
    raw: bytes = scope["raw_path"]
    if b"%2f" not in raw.lower():
        return scope["path"]
    return unquote(raw.decode("ascii").replace("%2f", "%2F").replace("%2F", "%252F"))
