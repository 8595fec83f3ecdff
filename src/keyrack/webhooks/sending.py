"""In charge of one attempt to reach a webhook: sign, dial only what may be dialled, read little, say what came of it.

Only workers load this module: its HTTP client is heavy, and the API has no use for it.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from standardwebhooks import Webhook

from keyrack import __version__
from keyrack.settings import Settings

ANSWER = 1_000  # characters of an endpoint's answer that the log keeps
RESOLVING = 64  # names looked up at once: a name server that is silent holds a thread for each
NAT64 = ipaddress.ip_network("64:ff9b::/96")

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class Forbidden(OSError):
    """The address is not public, and the operator has not allowed its network."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """What came of one attempt. `status` is None where no answer came."""

    started: datetime
    duration: int  # milliseconds
    status: int | None = None
    answer: str | None = None
    error: str | None = None
    retry_after: float | None = None  # seconds, as the endpoint asked for

    @property
    def succeeded(self) -> bool:
        return self.status is not None and 200 <= self.status < 300


def networks(text: str) -> tuple[Network, ...]:
    """The networks of a comma-separated text. Raises `ValueError`."""
    return tuple(ipaddress.ip_network(part.strip(), strict=False) for part in text.split(",") if part.strip())


def may_dial(text: str, allowed: Sequence[Network]) -> bool:
    """Whether this address is public or in an allowed network; one that wraps another is judged by what it wraps."""
    address: Address = ipaddress.ip_address(text.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address):
        address = _wrapped(address)
    if any(address in network for network in allowed):
        return True
    if isinstance(address, ipaddress.IPv6Address) and address.is_site_local:  # private before fc00::/7 was
        return False
    return address.is_global and not (address.is_multicast or address.is_reserved or address.is_unspecified)


def _wrapped(address: ipaddress.IPv6Address) -> Address:
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address in NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    if address.sixtofour is not None:
        return address.sixtofour
    if address.teredo is not None:
        return address.teredo[1]
    return address


class _Names(AbstractResolver):
    """Names looked up in threads of their own, so that a slow name server keeps nobody else waiting."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(RESOLVING, thread_name_prefix="names")

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        def look_up() -> list[Any]:
            return socket.getaddrinfo(host, port, family, socket.SOCK_STREAM)

        found = await asyncio.get_running_loop().run_in_executor(self._threads, look_up)
        return [
            ResolveResult(
                hostname=host, host=where[0], port=where[1], family=kind, proto=proto, flags=socket.AI_NUMERICHOST
            )
            for kind, _, proto, _, where in found
        ]

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


class Sender:
    """The HTTP client of one worker."""

    def __init__(self, settings: Settings) -> None:
        self._allowed = networks(settings.webhook_networks)
        connector = aiohttp.TCPConnector(
            limit=0,  # the worker itself bounds how much is sent at once
            ttl_dns_cache=30,
            keepalive_timeout=30,
            resolver=_Names(),
            socket_factory=self._socket,
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            timeout=aiohttp.ClientTimeout(total=settings.webhook_timeout),
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            auto_decompress=False,
            headers={"User-Agent": f"Keyrack/{__version__}", "Content-Type": "application/json"},
        )

    async def close(self) -> None:
        await self._session.close()

    async def send(
        self, url: str, payload: str, message_id: str, signing_secrets: Sequence[str], secret: str | None
    ) -> Attempt:
        """POST the payload once. Never raises for what an endpoint or the network does."""
        started, clock = datetime.now(UTC), time.monotonic()

        def attempt(**what: Any) -> Attempt:
            return Attempt(started, round((time.monotonic() - clock) * 1000), **what)

        headers = signed(payload, message_id, signing_secrets, started)
        if secret is not None:
            headers["secret"] = secret
        try:
            async with self._session.post(url, data=payload.encode(), headers=headers, allow_redirects=False) as reply:
                answer = await _beginning(reply)
                return attempt(
                    status=reply.status,
                    answer=answer,
                    retry_after=_retry_after(reply.headers.get("Retry-After"), started),
                    error=None if 200 <= reply.status < 300 else f"The endpoint answered {reply.status}.",
                )
        except TimeoutError:
            return attempt(error="The endpoint did not answer in time.")
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return attempt(error=_reason(error))

    def _socket(self, info: Any) -> socket.socket:
        family, kind, proto, _, where = info
        if not may_dial(where[0], self._allowed):
            raise Forbidden("The host's address is not public and not in KEYRACK_WEBHOOK_NETWORKS.")
        return socket.socket(family, kind, proto)


def signed(payload: str, message_id: str, signing_secrets: Sequence[str], now: datetime) -> dict[str, str]:
    """The Standard Webhooks headers, with a signature by each secret."""
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": " ".join(_signer(secret).sign(message_id, now, payload) for secret in signing_secrets),
    }


@lru_cache(maxsize=2_000)
def _signer(secret: str) -> Webhook:
    return Webhook(secret)


async def _beginning(reply: aiohttp.ClientResponse) -> str | None:
    """The start of the answer. The rest is not read: the connection is closed instead."""
    got = b""
    while len(got) <= ANSWER * 4 and (piece := await reply.content.read(ANSWER * 4)):
        got += piece
    if not reply.content.at_eof():
        reply.close()
    return got.decode(errors="replace").replace("\0", "\ufffd")[:ANSWER] or None


def _retry_after(text: str | None, now: datetime) -> float | None:
    """Seconds of a `Retry-After` header, in either of its forms (RFC 9110, section 10.2.3)."""
    if text is None:
        return None
    try:
        if text.strip().isdigit():
            return float(text)
        date = parsedate_to_datetime(text)
        return max(0.0, ((date if date.tzinfo else date.replace(tzinfo=UTC)) - now).total_seconds())
    except (ValueError, OverflowError):
        return None


def _reason(error: Exception) -> str:
    if isinstance(error, aiohttp.ClientConnectorError) and isinstance(error.os_error, Forbidden):
        return str(error.os_error)
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "The endpoint closed the connection without an answer."
    text = str(error) or type(error).__name__
    return text[:ANSWER].replace("\0", "\ufffd")
