"""One delivery attempt: sign, dial only allowed addresses, read little, report the result.

Only workers load this module: its HTTP client is heavy, and the API does not need it.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from keyrack import __version__
from keyrack.core.settings import Settings
from keyrack.core.ssrf_guard import AddressForbidden, Guard
from keyrack.core.tracing.spans import TRACES
from keyrack.webhooks.answer_heads import ANSWER_HEAD, AnswerHead, ObservedConnector
from keyrack.webhooks.delivery_errors import (
    ANSWERED,
    CERTIFICATE,
    CLOSED,
    NO_HTTP,
    NOT_REACHED,
    NOT_TAKEN,
    TIMED_OUT,
    TLS,
)
from keyrack.webhooks.dialects import Dialect, WebhookMessage

ANSWER = 1_000  # characters of an endpoint's answer that are stored
# Parallel name lookups for each place of concurrency. A silent name server blocks a thread for longer than an attempt
# takes, and must not delay other lookups
LOOKUPS = 2
MOST_LOOKUPS = 1_000
REMEMBERED = 10_000  # names with known addresses; above this, the cache is cleared


@dataclass(frozen=True, slots=True)
class DeliveryRequest:
    """A message to send to a webhook."""

    url: str
    dialect: Dialect
    message: WebhookMessage
    signing_secrets: Sequence[str]
    static_secret: str | None = None
    traceparent: str | None = None  # trace context of the request that the message is an outcome of

    def body_and_headers(self, now: datetime) -> tuple[str, dict[str, str]]:
        """The body and the headers, signed at this time."""
        body = self.dialect.body(self.message)
        headers = self.dialect.headers(self.message, body, self.signing_secrets, self.static_secret, now)
        return body, {"Content-Type": self.dialect.content_type} | headers


@dataclass(frozen=True, slots=True)
class DeliveryAttempt:
    """The result of one attempt. `status` is None without an answer."""

    started: datetime
    duration: int  # milliseconds
    status: int | None = None
    answer: str | None = None
    error: str | None = None
    hidden: str | None = None  # the cause of a failure, for the operator only
    retry_after: float | None = None  # seconds that the endpoint requested

    @property
    def succeeded(self) -> bool:
        return self.status is not None and 200 <= self.status < 300


class _Names(AbstractResolver):
    """A resolver with its own threads: a slow name server delays nothing else."""

    def __init__(self, guard: Guard, at_once: int) -> None:
        self._guard = guard
        self._public: dict[str, bool] = {}
        self._threads = ThreadPoolExecutor(at_once, thread_name_prefix="names")

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        def look_up() -> list[Any]:
            return socket.getaddrinfo(host, port, family, socket.SOCK_STREAM)

        addresses = await asyncio.get_running_loop().run_in_executor(self._threads, look_up)
        if len(self._public) >= REMEMBERED:
            self._public.clear()
        self._public[host] = all(self._guard.is_public(where[0]) for *_, where in addresses)
        return [
            ResolveResult(
                hostname=host, host=where[0], port=where[1], family=kind, proto=proto, flags=socket.AI_NUMERICHOST
            )
            for kind, _, proto, _, where in addresses
        ]

    def is_public(self, host: str) -> bool:
        """Whether all addresses of a host were public at its last lookup; False if none is known."""
        with suppress(ValueError):  # aiohttp does not look up IP addresses
            return self._guard.is_public(host)
        return self._public.get(host, False)

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


class Sender:
    """The HTTP client of one worker."""

    def __init__(self, settings: Settings) -> None:
        self._guard = Guard(settings)
        self._names = _Names(self._guard, min(MOST_LOOKUPS, LOOKUPS * settings.webhook_concurrency))
        connector = ObservedConnector(
            limit=0,  # the worker limits the number of attempts
            ttl_dns_cache=30,
            keepalive_timeout=30,
            resolver=self._names,
            socket_factory=self._socket,
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            timeout=aiohttp.ClientTimeout(total=settings.webhook_timeout),
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            auto_decompress=False,
            headers={"User-Agent": f"Keyrack/{__version__}"},
        )

    async def close(self) -> None:
        await self._session.close()

    async def send(self, delivery: DeliveryRequest) -> DeliveryAttempt:
        """POST a message once. Never raises for a failure of an endpoint or the network.

        If tracing is on, the attempt joins the trace of the request that the message is an outcome of.
        """
        place = TRACES.delivery(delivery.traceparent, delivery.message.id) if TRACES.on else None
        if place is None:
            return await self._send(delivery, {})
        begun, parts = time.time_ns(), urlsplit(delivery.url)
        attempt = await self._send(delivery, {"traceparent": place.traceparent})
        failed = "" if attempt.succeeded else "no-answer" if attempt.status is None else str(attempt.status)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        TRACES.delivered(place, parts.hostname or "", port, attempt.status, begun, failed)
        return attempt

    async def _send(self, delivery: DeliveryRequest, carried: dict[str, str]) -> DeliveryAttempt:
        body, headers = delivery.body_and_headers(datetime.now(UTC))
        return await self.post(delivery.url, body.encode(), headers | carried)

    async def post(self, url: str, content: bytes, headers: dict[str, str]) -> DeliveryAttempt:
        """POST content once. Never raises for a failure of an endpoint or the network."""
        started, clock = datetime.now(UTC), time.monotonic()

        def attempt(**what: Any) -> DeliveryAttempt:
            return DeliveryAttempt(started, round((time.monotonic() - clock) * 1000), **what)

        head, body = AnswerHead(), bytearray()
        ANSWER_HEAD.set(head)
        fault = await self._exchange(url, content, headers, body)
        if head.status is None:
            return attempt(**self._without_answer(url, fault))
        return attempt(
            status=head.status,
            answer=body.decode(errors="replace").replace("\0", "\ufffd")[:ANSWER] or None,
            retry_after=_retry_after(head.retry_after, started),
            error=None if 200 <= head.status < 300 else ANSWERED.format(head.status),
        )

    async def _exchange(self, url: str, sent: bytes, headers: dict[str, str], body: bytearray) -> Exception | None:
        """Send content and read the start of the answer into `body`; return the error, if any.

        The error may occur before or after the head of the answer.
        """
        try:
            async with self._session.post(url, data=sent, headers=headers, allow_redirects=False) as reply:
                while len(body) <= ANSWER * 4 and (piece := await reply.content.read(ANSWER * 4)):
                    body += piece
                if not reply.content.at_eof():
                    reply.close()  # discards the rest
        except (aiohttp.ClientError, OSError, ValueError) as error:  # a timeout is an OSError
            return error
        return None

    def _without_answer(self, url: str, fault: Exception | None) -> dict[str, str]:
        """The fields of an attempt without an answer: the cause for the webhook's owner, or only for the operator."""
        if self._names.is_public(urlsplit(url).hostname or "") and (reason := _reason(fault)) is not None:
            return {"error": reason}
        cause = fault.os_error if isinstance(fault, aiohttp.ClientConnectorError) else fault
        return {"error": NOT_REACHED.text, "hidden": f"{type(cause).__name__}: {cause}"[:ANSWER]}

    def _socket(self, info: Any) -> socket.socket:
        """The socket for the address that is dialled now.

        Its name may have resolved to another address before. Raises `AddressForbidden`.
        """
        family, kind, proto, _, where = info
        if not self._guard.may_dial(where[0]):
            raise AddressForbidden(f"{where[0]} is not public and not in KEYRACK_WEBHOOK_ALLOWED_NETWORKS")
        return socket.socket(family, kind, proto)


def _retry_after(text: str | None, now: datetime) -> float | None:
    """Seconds of a `Retry-After` header, in either form (RFC 9110, section 10.2.3)."""
    if text is None:
        return None
    try:
        if text.strip().isdigit():
            return float(text)
        date = parsedate_to_datetime(text)
        return max(0.0, ((date if date.tzinfo else date.replace(tzinfo=UTC)) - now).total_seconds())
    except (ValueError, OverflowError):
        return None


def _reason(fault: Exception | None) -> str | None:
    """The error text for the owner of a public endpoint; None for a cause that only the operator sees."""
    match fault:
        case TimeoutError():
            return TIMED_OUT.text
        case aiohttp.ClientConnectorCertificateError(certificate_error=ssl.SSLCertVerificationError() as wrong):
            return CERTIFICATE.format(wrong.verify_message)
        case aiohttp.ClientConnectorSSLError(os_error=ssl.SSLError() as wrong):
            return TLS.format(wrong.reason)
        case aiohttp.ClientConnectorError(os_error=ConnectionRefusedError()):
            return NOT_TAKEN.text
        case aiohttp.ClientConnectorError():
            return None
        case aiohttp.ServerDisconnectedError() | aiohttp.ClientOSError():
            return CLOSED.text
        case aiohttp.ClientResponseError() | None:
            return NO_HTTP.text
        case _:
            return None
