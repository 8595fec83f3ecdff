"""Forwarding of a message to a receiver, unchanged and without redirects."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

import aiohttp

from keyrack import __version__

TIMEOUT = 15.0  # seconds for an answer of the receiver, as for a message that the server sends


@dataclass(frozen=True, slots=True)
class ForwardResult:
    """The answer of the receiver. `error` is set if there is none."""

    status: int | None
    error: str | None = None
    milliseconds: int = 0

    @property
    def succeeded(self) -> bool:
        return self.status is not None and 200 <= self.status < 300


class Forwarder:
    """Sends messages to one receiver."""

    def __init__(self, http: aiohttp.ClientSession, receiver: str) -> None:
        self._http = http
        self._receiver = receiver

    @classmethod
    @asynccontextmanager
    async def open(cls, receiver: str) -> AsyncGenerator[Forwarder]:
        timeout = aiohttp.ClientTimeout(total=TIMEOUT)
        headers = {"User-Agent": f"Keyrack/{__version__}"}
        cookies = aiohttp.DummyCookieJar()
        async with aiohttp.ClientSession(timeout=timeout, headers=headers, cookie_jar=cookies) as http:
            yield cls(http, receiver)

    async def forward(self, body: str, headers: Mapping[str, str]) -> ForwardResult:
        """Send a message once. Never raises for a failure of the receiver."""
        begun = time.monotonic()
        try:
            async with self._http.post(
                self._receiver, data=body.encode(), headers=headers, allow_redirects=False
            ) as answer:
                return ForwardResult(answer.status, None, round((time.monotonic() - begun) * 1000))
        except TimeoutError:
            return ForwardResult(None, f"no answer within {TIMEOUT:g} s")
        except (aiohttp.ClientError, OSError, ValueError) as error:
            cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
            reason = cause.strerror if isinstance(cause, OSError) and cause.strerror else str(cause)
            return ForwardResult(None, f"no answer: {reason or type(cause).__name__}")
