"""A client's session at a server: token renewal, retries and responses."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Self, cast

import aiohttp

from keyrack.core.api_client.credentials import Login, ServerAddress, StoredToken
from keyrack.core.api_client.pages import PAGE, pages
from keyrack.core.api_client.responses import ApiError, ApiResponse, read
from keyrack.core.api_client.retries import PASSING, RequestThrottle, RetryPolicy, retry_after, undone

ACCEPT = "application/json, application/problem+json"  # errors with their codes, if the server has them
KEY = "Idempotency-Key"
STREAM = "text/event-stream"
SILENCE = 120.0  # seconds until a silent stream counts as broken: a working one sends keep-alives
READS = frozenset(("GET", "HEAD", "OPTIONS"))


def _forget(token: StoredToken) -> None:
    """Discard a token."""


class Client:
    """One session at a server, for as long as its `async with` lasts.

    Without a `token` it signs in with `login`. It renews the token before its expiry, by the refresh token or else by
    `login`. `on_token` is called with each new token.
    """

    def __init__(
        self,
        server: ServerAddress,
        login: Login | None = None,
        token: StoredToken | None = None,
        *,
        on_token: Callable[[StoredToken], None] = _forget,
        patience: RetryPolicy | None = None,
    ) -> None:
        self._server = server
        self._login = login
        self._token = token
        self._on_token = on_token
        self._patience = patience or RetryPolicy()
        self._pace = RequestThrottle(self._patience.per_second)
        self._renewing = asyncio.Lock()

    async def __aenter__(self) -> Self:
        timeout = aiohttp.ClientTimeout(total=self._patience.timeout)
        self._http = aiohttp.ClientSession(timeout=timeout, headers={"Accept": ACCEPT})
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.close()

    async def get(self, path: str, missing: Any = None) -> Any:
        """The answer to a read; `missing` for 404, if it is given. Raises `ApiError`."""
        answer = await self.call("GET", path)
        if answer.status == 404 and missing is not None:
            return missing
        return answer.checked()

    def pages(
        self, path: str, key: str = "id", query: Mapping[str, str] | None = None, size: int = PAGE
    ) -> AsyncGenerator[list[Any]]:
        """A list in pages of at most `size` rows, in the order of `key`; see `pages.pages`. Raises `ApiError`."""
        return pages(self.get, path, key, query or {}, size)

    async def rows(self, path: str, key: str = "id") -> list[Any]:
        """All rows of a list that is known to be short. Raises `ApiError`."""
        return [row async for page in self.pages(path, key) for row in page]

    async def write(self, method: str, path: str, value: Any = None, key: str | None = None) -> Any:
        """Change something, and return the server's answer. Raises `ApiError`.

        `key` is the `Idempotency-Key`. A server that supports it makes the change once, even if the request is
        repeated.
        """
        headers = {KEY: key or str(uuid.uuid4())}
        body = None if value is None else json.dumps(value).encode()
        if body is not None:
            headers["Content-Type"] = "application/json"
        return (await self.call(method, path, body, headers)).checked()

    async def call(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        signed_in: bool = True,
        repeatable: bool = False,
    ) -> ApiResponse:
        """Send a request until its response is final.

        The response may be an error. A request that is not `signed_in` has `headers` alone. Reads, requests with an
        `Idempotency-Key` and `repeatable` ones are also repeated if the outcome is unknown. Other requests are repeated
        only if the server has done nothing: after a failed connection, 429, and 503 with `Retry-After`. Raises
        `ApiError`.
        """
        repeatable = repeatable or method in READS or KEY in (headers or {})
        renewed = False
        while True:
            used = await self._valid_token() if signed_in else None
            own = self._server.headers() | {"Authorization": f"Bearer {used.access}"} if used else {}
            answer = await self._send(method, path, own | dict(headers or {}), repeatable, data=body)
            if answer.status == 401 and used is not None and not renewed and self._can_renew(used):
                renewed = True
                if self._token is used:  # else another call has renewed it
                    self._token = StoredToken("", 0, used.refresh)
                continue
            return answer

    @asynccontextmanager
    async def stream(self, path: str) -> AsyncGenerator[AsyncIterator[bytes]]:
        """The lines of a streamed response, as they arrive. Raises `ApiError`."""
        used = await self._valid_token()
        headers = self._server.headers() | {"Authorization": f"Bearer {used.access}", "Accept": STREAM}
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=self._patience.timeout, sock_read=SILENCE)
        try:
            async with self._http.get(self._server.base + path, headers=headers, timeout=timeout) as reply:
                if reply.status != 200:
                    raise (await read("GET", path, reply)).error()
                yield aiter(reply.content)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise ApiError(f"GET {path}: {error or 'timeout'}") from None

    async def _send(self, method: str, path: str, headers: dict[str, str], repeatable: bool, data: Any) -> ApiResponse:
        """The first final response. Raises `ApiError` with the last error if none comes."""
        patience, url = self._patience, self._server.base + path
        for attempt in range(1, patience.attempts + 1):
            named: float | None = None
            await self._pace.wait_turn()
            try:
                async with self._http.request(method, url, data=data, headers=headers, allow_redirects=False) as reply:
                    answer = await read(method, path, reply)
                named = retry_after(answer.headers)
                in_flight = answer.status == 409 and KEY in headers and named is not None
                if not in_flight and not (answer.status in PASSING if repeatable else undone(answer.status, named)):
                    return answer
                problem = answer.error()
            except (aiohttp.ClientError, TimeoutError) as error:
                reason = str(error) or ("timeout" if isinstance(error, TimeoutError) else type(error).__name__)
                problem = ApiError(f"{method} {path}: {reason}")
                if not repeatable and not isinstance(error, aiohttp.ClientConnectorError):
                    raise problem from None
            if attempt == patience.attempts or (named or 0) > patience.max_retry_after:
                raise problem
            await asyncio.sleep(patience.pause(attempt, named))
        raise AssertionError("at least one attempt is made")

    def _can_renew(self, token: StoredToken) -> bool:
        return self._login is not None or token.refresh is not None

    async def _valid_token(self) -> StoredToken:
        async with self._renewing:
            token = self._token
            if token is None or token.is_over:
                token = self._token = await self._signed_in(token)
                self._on_token(token)
            return token

    async def _signed_in(self, token: StoredToken | None) -> StoredToken:
        """A new token, by the refresh token or else by `login`. Raises `ApiError`."""
        if token is not None and token.refresh:
            answer = await self._ask_for_token({"grant_type": "refresh_token", "refresh_token": token.refresh})
            if answer.status == 200:
                return _token(answer, token.refresh)
        if self._login is None:
            raise ApiError("The token has expired, and there is no password to get a new one. Log in again.", 401)
        return _token(await self._ask_for_token(self._login.form()), None)

    async def _ask_for_token(self, form: dict[str, str]) -> ApiResponse:
        headers = {name: value for name, value in self._server.headers().items() if name != "Customer-ID"}
        return await self._send("POST", "/oauth2/token", headers, repeatable=True, data=form)


def _token(answer: ApiResponse, refresh: str | None) -> StoredToken:
    """The token in a response (RFC 6749, section 5.1).

    The refresh token stays valid if there is no new one.
    """
    body = answer.checked()
    members = cast("dict[str, Any]", body) if isinstance(body, dict) else {}
    access, renewed = members.get("access_token"), members.get("refresh_token")
    if not isinstance(access, str):
        raise ApiError(
            f"{answer.method} {answer.path}: {answer.status}, but the response has no access_token.", answer.status
        )
    seconds = str(members.get("expires_in", ""))  # a text in the spec
    ends = time.time() + int(seconds) if seconds.isdecimal() else None
    return StoredToken(access, ends, renewed if isinstance(renewed, str) else refresh)
