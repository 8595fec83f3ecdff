"""A proxy of a real server that fails regularly.

It can hide the extensions of the spec.
"""

from __future__ import annotations

import asyncio
import threading
from types import TracebackType
from typing import Any, Self

import aiohttp
from aiohttp import web

from tests.support.servers import DEADLINE, free_port

OURS = ("/v3/events", "/v3/assignments")  # lists that the spec does not have
EVERY = 7  # the first of so many requests fails


class Faulty:
    """Forwards requests to `url`. One in `EVERY` fails, each time in another way.

    `bare` removes the extensions of the spec.
    """

    def __init__(self, url: str, *, bare: bool = False) -> None:
        self._target = url
        self._bare = bare
        self.requests = 0
        self.failed = 0
        self.writes = 0  # requests other than reads and token requests
        self._mark: tuple[int, threading.Event] = (0, threading.Event())
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._loop = asyncio.new_event_loop()
        self._ready, self._end = threading.Event(), asyncio.Event()
        self._thread = threading.Thread(target=lambda: self._loop.run_until_complete(self._run()), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(DEADLINE)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(DEADLINE)

    def after(self, requests: int) -> threading.Event:
        """Return an event that is set after that many more requests."""
        self._mark = (self.requests + requests, threading.Event())
        return self._mark[1]

    async def _run(self) -> None:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", self.port).start()
        async with aiohttp.ClientSession(auto_decompress=False) as self._session:
            self._ready.set()
            await self._end.wait()
        await runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.requests += 1
        self.writes += request.method != "GET" and not request.path.endswith("/oauth2/token")
        if self.requests >= self._mark[0]:
            self._mark[1].set()
        if self.requests % EVERY == 1:
            self.failed += 1
            if self.failed % 3 == 0 and request.transport is not None:
                request.transport.abort()
            return web.Response(status=429 if self.failed % 3 == 1 else 503, headers={"Retry-After": "0"})
        if self._bare and request.path in OURS:
            return web.Response(status=404)
        headers: dict[str, Any] = {name: value for name, value in request.headers.items() if name != "Host"}
        headers["Accept-Encoding"] = "identity"
        url = self._target + str(request.rel_url)
        body = await request.read()
        async with self._session.request(
            request.method, aiohttp.client.URL(url, encoded=True), headers=headers, data=body
        ) as answer:
            return web.Response(
                status=answer.status, body=await answer.read(), headers={"Content-Type": answer.headers["Content-Type"]}
            )
