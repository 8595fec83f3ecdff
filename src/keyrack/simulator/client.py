"""In charge of the simulator's calls: a token, reads, events and deliveries, as any client of the API makes them."""

from __future__ import annotations

import asyncio
import gzip
import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import aiohttp

ATTEMPTS = 6  # of a call that fails for a reason that passes
PASSING = {408, 429, 500, 502, 503, 504}
PAGE = 500  # rows of one read


@dataclass(frozen=True, slots=True)
class Access:
    """Where the server is, and who calls."""

    url: str
    api_key: str
    username: str
    password: str
    customer: int
    device_key: str
    brand: str = "vendor"


class ApiError(Exception):
    """What the server answered, or that it did not."""


class Client:
    """One session at the server."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._token = ""
        self._logging_in = asyncio.Lock()

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=60))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()

    async def rows(self, path: str, key: str = "id") -> list[Any]:
        """All rows of a list, page by page."""
        found: list[Any] = []
        while True:
            page = await self.get(f"{path}?$orderby={key}&$top={PAGE}&$skip={len(found)}")
            found += page
            if len(page) < PAGE:
                return found

    async def get(self, path: str, missing: Any = None) -> Any:
        """What a read answers; `missing` for 404, where it is given."""
        status, body = await self._call("GET", path)
        if status == 404 and missing is not None:
            return missing
        return _checked("GET", path, status, body)

    async def put_event(self, event: dict[str, Any]) -> int:
        """Record an event, once even if it has to be sent again; its number."""
        headers = {"Idempotency-Key": str(uuid.uuid4()), "Content-Type": "application/json"}
        status, body = await self._call("PUT", "/events", json.dumps(event).encode(), headers)
        return _checked("PUT", "/events", status, body)["id"]

    async def deliver(self, path: str, values: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Deliver samples or events as JSON lines; the report. A delivery that is repeated is harmless."""
        body = gzip.compress("\n".join(json.dumps(value) for value in values).encode(), compresslevel=1)
        headers = {
            "Device-Key": self._access.device_key,
            "Content-Type": "application/x-ndjson",
            "Content-Encoding": "gzip",
        }
        status, answer = await self._call("POST", path, body, headers, token=False)
        return _checked("POST", path, status, answer)

    async def _call(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
        token: bool = True,
    ) -> tuple[int, bytes]:
        problem = ""
        for attempt in range(ATTEMPTS):
            if attempt:
                await asyncio.sleep(min(0.2 * 2**attempt, 5))
            try:
                if token and not self._token:
                    await self._log_in()
                used = self._token
                sent = (self._headers() if token else {}) | (headers or {})
                async with self._session.request(method, self._access.url + path, data=body, headers=sent) as answer:
                    read = await answer.read()
                if token and answer.status == 401 and attempt < 2:  # the token has expired
                    if self._token == used:
                        self._token = ""
                    continue
                if answer.status not in PASSING:
                    return answer.status, read
                problem = f"{answer.status} {read[:200].decode(errors='replace')}"
            except (aiohttp.ClientError, TimeoutError) as error:
                problem = str(error) or type(error).__name__
        raise ApiError(f"{method} {path}: {problem}")

    def _headers(self) -> dict[str, str]:
        return {
            f"{self._access.brand}-API-Key": self._access.api_key,
            "Authorization": f"Bearer {self._token}",
            "Customer-ID": str(self._access.customer),
        }

    async def _log_in(self) -> None:
        async with self._logging_in:
            if self._token:
                return
            form = {"grant_type": "password", "username": self._access.username, "password": self._access.password}
            headers = {f"{self._access.brand}-API-Key": self._access.api_key}
            async with self._session.post(f"{self._access.url}/oauth2/token", data=form, headers=headers) as answer:
                read = await answer.read()
                self._token = _checked("POST", "/oauth2/token", answer.status, read)["access_token"]


def _checked(method: str, path: str, status: int, body: bytes) -> Any:
    if status >= 400:
        raise ApiError(f"{method} {path}: {status} {body[:300].decode(errors='replace')}")
    return json.loads(body)
