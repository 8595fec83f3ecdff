"""The HTTP client for providers: guarded addresses, a timeout, short answers.

The client library is heavy, so it is loaded at the first request.
"""

from __future__ import annotations

import json
import socket
from base64 import b64encode
from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import quote_plus

import aiohttp

from keyrack import __version__
from keyrack.auth.sso.errors import ProviderTrouble
from keyrack.auth.sso.provider_urls import allows
from keyrack.core.settings import Settings
from keyrack.core.ssrf_guard import AddressForbidden, Guard

MOST = 256 << 10  # bytes of an answer
LOOPBACK = "127.0.0.0/8, ::1"
AT_ONCE = 20  # connections


class Fetcher:
    """The HTTP client of one process."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        networks = settings.provider_networks
        self._guard = Guard(settings, f"{networks}, {LOOPBACK}" if settings.provider_loopback else networks)
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=AT_ONCE, socket_factory=self._socket),
            timeout=aiohttp.ClientTimeout(total=settings.provider_timeout),
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            headers={"User-Agent": f"Keyrack/{__version__}", "Accept": "application/json"},
        )

    async def close(self) -> None:
        await self._session.close()

    async def document(self, address: str) -> dict[str, Any]:
        """The JSON object at an address. Raises `ProviderTrouble`."""
        return await self._request("GET", address, {}, None)

    async def token(
        self, address: str, form: Mapping[str, str], client: tuple[str, str], *, in_body: bool
    ) -> dict[str, Any]:
        """The answer of a token endpoint to a client with its secret.

        The secret is in the header, or with `in_body` in the body (RFC 6749, section 2.3.1). Raises `ProviderTrouble`.
        """
        if in_body:
            return await self._request(
                "POST", address, {}, {**form, "client_id": client[0], "client_secret": client[1]}
            )
        basic = b64encode(f"{quote_plus(client[0])}:{quote_plus(client[1])}".encode()).decode()
        return await self._request("POST", address, {"Authorization": f"Basic {basic}"}, dict(form))

    async def _request(
        self, method: str, address: str, headers: dict[str, str], form: dict[str, str] | None
    ) -> dict[str, Any]:
        if not allows(address, self._settings):
            raise ProviderTrouble(f"{address} is not an https address")
        try:
            async with self._session.request(
                method, address, headers=headers, data=form, allow_redirects=False
            ) as reply:
                return _object(address, reply.status, await _read(address, reply))
        except (aiohttp.ClientError, OSError, ValueError) as error:  # a timeout is an OSError
            cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
            raise ProviderTrouble(f"{address} was not reached: {type(cause).__name__}: {cause}"[:500]) from None

    def _socket(self, info: Any) -> socket.socket:
        family, kind, proto, _, where = info
        if not self._guard.may_dial(where[0]):
            raise AddressForbidden(f"{where[0]} is not public and not in KEYRACK_PROVIDER_NETWORKS")
        return socket.socket(family, kind, proto)


async def _read(address: str, reply: aiohttp.ClientResponse) -> bytes:
    got = b""
    async for piece in reply.content.iter_chunked(16 << 10):
        got += piece
        if len(got) > MOST:
            raise ProviderTrouble(f"{address} answered more than {MOST} bytes")
    return got


def _object(address: str, status: int, body: bytes) -> dict[str, Any]:
    """The object in a successful answer.

    Another answer raises `ProviderTrouble` with its error (RFC 6749, section 5.2).
    """
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        document = None
    if status != 200:
        error = str(cast("dict[str, Any]", document).get("error", ""))[:100] if isinstance(document, dict) else ""
        raise ProviderTrouble(f"{address} answered {status} {error}".rstrip())
    if not isinstance(document, dict):
        raise ProviderTrouble(f"{address} did not answer with a JSON object")
    return cast("dict[str, Any]", document)
