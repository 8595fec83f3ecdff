"""Several cells at one address. Each request goes to its cell.

Each cell has an application of its own, with its own connections, caches and background tasks. `cell_credentials` has
the order in which the cell of a request is found. A request that belongs to no cell goes to cell 0.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext, suppress
from typing import Any

import structlog

from keyrack.api.auth_schemes import PublicAuth
from keyrack.api.rate_limits import network
from keyrack.core.errors import Refusal, Unavailable
from keyrack.core.settings import Cell, Settings
from keyrack.http.base_path import Asgi, BasePathMiddleware, Scope, below_base, refuse
from keyrack.http.cors import Cors
from keyrack.http.drive_app import DRIVE, DRIVE_API
from keyrack.http.package_index import PACKAGES
from keyrack.http.page_router import BELOW, Site
from keyrack.http.routes import ALL
from keyrack.server.cell_credentials import CHALLENGES, CREDENTIALS, RoutedRequest, credentials_of, kinds_of
from keyrack.server.cell_lookup import AWAY, CellDirectory, CellFinder
from keyrack.server.cell_startup import NOT_USABLE, UNFIT, keep_trying, require_usable

log = structlog.get_logger("keyrack.cells")

LONGEST_BODY = 65_536  # bytes of a body that is read to find its cell; the cell rejects longer ones
JWKS, READY, HEALTH = "/.well-known/jwks.json", "/health/ready", "/health"
INNER: Scope = {  # of a request by the router itself
    "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET", "scheme": "http",
    "query_string": b"", "root_path": "", "headers": [], "client": ("127.0.0.1", 0), "server": ("127.0.0.1", 0),
}  # fmt: skip

Headers = list[tuple[bytes, bytes]]


class ServedCell:
    """A cell with its application, which may have started or not.

    An application that has not started answers 503 by itself.
    """

    def __init__(self, cell: Cell, dsn: str, app: BasePathMiddleware, on_change: Callable[[], None]) -> None:
        self.cell = cell
        self.app = app
        self.directory = CellDirectory(cell, dsn, on_change)
        self.is_started = False
        self._dsn = dsn
        self._end = asyncio.Event()
        self._life: asyncio.Task[None] | None = None
        self._last_keys: list[Any] = []

    async def start(self) -> None:
        """Check the database and start the application. Raises the cause if that fails."""
        await require_usable(self.cell, self._dsn)
        self.directory.is_checked = True
        started: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        first = True

        async def receive() -> dict[str, str]:
            nonlocal first
            if first:
                first = False
                return {"type": "lifespan.startup"}
            await self._end.wait()
            return {"type": "lifespan.shutdown"}

        async def send(message: dict[str, Any]) -> None:
            if not started.done():
                started.set_result(message["type"] == "lifespan.startup.complete")

        self._life = asyncio.create_task(self.app({"type": "lifespan"}, receive, send))
        self.is_started = await started
        if not self.is_started:
            raise self.app.failure or Unavailable()
        await self.keys()
        log.info("cell started", cell=self.cell.name)

    async def keys(self) -> list[Any]:
        """The keys that verify the cell's tokens.

        While the cell is away, they are the last known ones.
        """
        status, _, body = await self.ask(JWKS)
        if status == 200:
            self._last_keys = json.loads(body)["keys"]
        return self._last_keys

    async def ask(self, path: str) -> tuple[int, Headers, bytes]:
        """The application's answer for a path: status, headers and body."""
        answer: dict[str, Any] = {"status": 503, "headers": [], "body": b""}

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.start":
                answer.update(status=message["status"], headers=list(message["headers"]))
            else:
                answer["body"] += message.get("body", b"")

        await self.app({**INNER, "path": path, "raw_path": path.encode()}, receive, send)
        return answer["status"], answer["headers"], answer["body"]

    async def stop(self) -> None:
        """Stop the application, and wait for its end."""
        self._end.set()
        if self._life is not None:
            await self._life


class CellRouter:
    """The application in front of those of all cells. Cell 0 is the first."""

    def __init__(self, cells: Sequence[tuple[Cell, str, BasePathMiddleware]], settings: Settings, site: Site) -> None:
        self.failure: Exception | None = None  # why the startup failed
        self._settings = settings
        self._cors = Cors(settings) if settings.origins else None
        self._finder = CellFinder(settings.cell_miss_rate_per_address)
        self._cells = [ServedCell(*each, self._finder.forget) for each in cells]
        self._finder.directories = tuple(served.directory for served in self._cells)
        self._api_key_header = f"{settings.brand}-API-Key".lower()
        self._public = _public_paths(site)
        self._of_all = {JWKS: self._own(self._jwks), READY: self._own(self._ready), HEALTH: self._own(self._health)}

    def stop(self) -> None:
        """Shutdown begins, which readiness reports."""
        for served in self._cells:
            served.app.stop()

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        path = below_base(scope).rstrip("/") or "/"
        if scope["method"] in ("GET", "HEAD"):
            if path in self._of_all:
                await self._of_all[path](scope, receive, send)
                return
            if path in self._public or _is_file(path):
                await self._first_started().app(scope, receive, send)
                return
        body = b""
        if scope["method"] == "POST" and any(kind.has_body for kind in kinds_of(path)):
            body, receive = await _read(receive, self._settings.request_read_timeout_seconds)
        request = RoutedRequest(
            scope["method"], path, scope["query_string"], scope["headers"], self._api_key_header, body
        )
        try:
            served = await self._cell_of(request, scope)
        except Refusal as refusal:
            await self._own(_refusing(refusal, self._settings.public_url))(scope, receive, send)
            return
        await served.app(scope, receive, send)

    async def _cell_of(self, request: RoutedRequest, scope: Scope) -> ServedCell:
        """The cell of a request.

        A secret that no other cell has may be of one that did not answer. That one answers the request: with 503 if
        it is away. Raises `TooManyRequests`.
        """
        address = network((scope.get("client") or ("",))[0])
        silent = None
        for credential in credentials_of(request):
            found = await self._finder.find(credential, address)
            if found.place is not None:
                if request.path in CHALLENGES:
                    await self._move_challenges(request, scope, found.place)
                return self._cells[found.place]
            if credential.kind.is_secret and silent is None:
                silent = found.silent
        return self._first_started() if silent is None else self._cells[silent]

    def _first_started(self) -> ServedCell:
        return next((served for served in self._cells if served.is_started), self._cells[0])

    async def _move_challenges(self, request: RoutedRequest, scope: Scope, place: int) -> None:
        """Seal the challenges of a passkey for its cell.

        They were given before the cell was known.
        """
        owners, name = CHALLENGES[request.path]
        cookie = request.cookie(name)
        if cookie is None:
            return
        with suppress(*AWAY):  # without a challenge, the sign-in fails
            for directory in self._finder.directories:
                challenges = await directory.challenges(owners, cookie) if directory.is_reachable else ()
                if challenges:
                    sealed = await self._finder.directories[place].seal(owners, challenges)
                    scope["headers"] = [
                        (known, value.replace(cookie.encode(), sealed.encode()) if known == b"cookie" else value)
                        for known, value in scope["headers"]
                    ]
                    return

    def _own(self, answer: Asgi) -> BasePathMiddleware:
        """An answer of the router, with the headers of every other answer."""
        return BasePathMiddleware(answer, self._settings, self._cors, nullcontext, lambda: None)

    async def _jwks(self, scope: Scope, receive: Any, send: Any) -> None:
        """The keys of all cells. The last keys of a cell that is away stay."""
        keys = [key for of_cell in await asyncio.gather(*(served.keys() for served in self._cells)) for key in of_cell]
        body = json.dumps({"keys": keys}).encode()
        tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'.encode()
        sent = [value for name, value in scope["headers"] if name == b"if-none-match"]
        is_known = any(tag in value or value.strip() == b"*" for value in sent)
        headers = [(b"etag", tag), (b"cache-control", b"no-cache")]
        await _send(scope, send, 304 if is_known else 200, b"" if is_known else body, headers)

    async def _ready(self, scope: Scope, receive: Any, send: Any) -> None:
        """Whether at least one cell serves, with the state of each."""
        answers = await asyncio.gather(*(served.ask(READY) for served in self._cells))
        cells: list[dict[str, Any]] = []
        for served, (_, _, body) in zip(self._cells, answers, strict=True):
            cells.append({"name": served.cell.name, "number": served.cell.number, **_state(body)})
        is_ready = any(status == 200 for status, _, _ in answers)
        first: dict[str, Any] = next((each for each in cells if (each["status"] == "ok") is is_ready), cells[0])
        state = {name: value for name, value in first.items() if name not in ("name", "number")}
        body = json.dumps({**state, "cells": cells}).encode()
        headers = [(b"cache-control", b"no-store"), *([] if is_ready else [(b"retry-after", b"1")])]
        await _send(scope, send, 200 if is_ready else 503, body, headers)

    async def _health(self, scope: Scope, receive: Any, send: Any) -> None:
        """The answer of the first serving cell, else of cell 0."""
        answers = await asyncio.gather(*(served.ask(HEALTH) for served in self._cells))
        status, headers, body = next((answer for answer in answers if answer[0] == 200), answers[0])
        kept = [(name, value) for name, value in headers if name in (b"cache-control", b"content-type", b"retry-after")]
        await _send(scope, send, status, body, kept)

    async def _live(self, receive: Any, send: Any) -> None:
        await receive()
        stop = asyncio.Event()
        starts = await asyncio.gather(*(served.start() for served in self._cells), return_exceptions=True)
        errors = [error for error in starts if isinstance(error, Exception)]
        main = starts[0]
        is_away = isinstance(main, NOT_USABLE) and not isinstance(main, UNFIT)
        if isinstance(main, Exception) and (not is_away or len(errors) == len(starts)):
            self.failure = main
            for served in self._cells:
                await served.stop()
            await send({"type": "lifespan.startup.failed"})
            return
        await asyncio.gather(*(directory.poll() for directory in self._finder.directories))
        tasks = self._finder.start()
        for served in self._cells:
            if not served.is_started:
                tasks.append(asyncio.create_task(keep_trying(served.cell, served.start, stop)))
        await send({"type": "lifespan.startup.complete"})
        await receive()
        stop.set()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for served in self._cells:
            await served.stop()
        await send({"type": "lifespan.shutdown.complete"})


def _public_paths(site: Site) -> frozenset[str]:
    """Paths with the same answer for every cell.

    They are those of public documents, and of pages before a sign-in.
    """
    documents = {row.path for row in ALL if isinstance(row.auth, PublicAuth)}
    pages = {BELOW + page.path for page in site.pages if page.is_public and page.method == "GET"}
    credentials = {path for kind in CREDENTIALS if not kind.has_body for path in kind.paths}
    return frozenset((documents | pages) - credentials)


def _is_file(path: str) -> bool:
    """Whether the path is of a static file."""
    if path == DRIVE_API or path.startswith(f"{DRIVE_API}/"):
        return False
    roots = (DRIVE, PACKAGES, f"{BELOW}/assets", f"{BELOW}/map", "/key-forms")
    return path in roots or path.startswith(tuple(f"{root}/" for root in roots))


async def _read(receive: Any, seconds: float) -> tuple[bytes, Callable[[], Awaitable[Any]]]:
    """The body up to `LONGEST_BODY`, and a `receive` that delivers it again.

    A body that is too long or too slow is incomplete. The cell rejects it as it rejects every such body.
    """
    messages: list[Any] = []
    body = b""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while len(body) <= LONGEST_BODY:
                message = await receive()
                messages.append(message)
                body += message.get("body", b"")
                if message["type"] != "http.request" or not message.get("more_body"):
                    break

    async def again() -> Any:
        return messages.pop(0) if messages else await receive()

    return body, again


def _state(body: bytes) -> dict[str, Any]:
    """The readiness in a cell's answer.

    An application that has not started answers with a plain text.
    """
    with suppress(ValueError):
        return json.loads(body)
    return {"status": "unavailable", "reasons": [{"code": Unavailable().reason.code, "detail": Unavailable().text}]}


async def _send(scope: Scope, send: Any, status: int, body: bytes, headers: list[tuple[bytes, bytes]]) -> None:
    kinds = [] if any(name == b"content-type" for name, _ in headers) else [(b"content-type", b"application/json")]
    length = [(b"content-length", b"%d" % len(body))] if status != 304 else []
    await send({"type": "http.response.start", "status": status, "headers": [*headers, *kinds, *length]})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})


def _refusing(refusal: Refusal, public_url: str) -> Asgi:
    async def answer(scope: Scope, receive: Any, send: Any) -> None:
        await refuse(scope, send, refusal, public_url)

    return answer
