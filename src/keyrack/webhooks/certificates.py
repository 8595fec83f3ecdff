"""Certificate checks of webhook hosts: a TLS handshake without a request.

The check connects only to addresses that the guard allows, and to exactly the address that the guard has judged.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from keyrack.core.settings import Settings
from keyrack.core.ssrf_guard import Guard
from keyrack.webhooks.delivery_errors import CERTIFICATE, TLS

AT_ONCE = 10  # handshakes at the same time
SECONDS = 3.0  # limit for each handshake


@dataclass(frozen=True, slots=True)
class Certificate:
    """The check of a host: the end of its certificate's validity, or the fault.

    Both are None if no connection was possible, or if the guard allows no address of the host.
    """

    host: str
    until: datetime | None = None
    wrong: str | None = None

    @property
    def days(self) -> float | None:
        """Days until the certificate expires."""
        return None if self.until is None else (self.until - datetime.now(UTC)).total_seconds() / 86_400


async def check_certificates(urls: Iterable[str], settings: Settings, most: int) -> list[Certificate]:
    """Check the certificates of at most `most` hosts of these URLs. URLs without TLS are skipped."""
    guard, turns, tls = Guard(settings), asyncio.Semaphore(AT_ONCE), ssl.create_default_context()
    hosts: dict[tuple[str, int], None] = {}
    for parts in map(urlsplit, urls):
        if parts.scheme == "https" and parts.hostname:
            hosts[parts.hostname, parts.port or 443] = None

    async def check(host: str, port: int) -> Certificate:
        async with turns:
            return await _handshake(host, port, guard, tls)

    return list(await asyncio.gather(*(check(*host) for host in list(hosts)[:most])))


async def _handshake(host: str, port: int, guard: Guard, tls: ssl.SSLContext) -> Certificate:
    name = host if port == 443 else f"{host}:{port}"
    try:
        async with asyncio.timeout(SECONDS):
            addresses = await _looked_up(host, port)
            allowed = [where[0] for *_, where in addresses if guard.may_dial(where[0])]
            if not allowed:
                return Certificate(name)
            _, writer = await asyncio.open_connection(allowed[0], port, ssl=tls, server_hostname=host)
            certificate = writer.get_extra_info("peercert")
            writer.transport.abort()
            return Certificate(name, datetime.fromtimestamp(ssl.cert_time_to_seconds(certificate["notAfter"]), UTC))
    except ssl.SSLCertVerificationError as error:
        return Certificate(name, wrong=CERTIFICATE.format(error.verify_message))
    except ssl.SSLError as error:
        return Certificate(name, wrong=TLS.format(error.reason))
    except (OSError, UnicodeError):  # includes timeouts, which are no fault of the certificate
        return Certificate(name)


async def _looked_up(host: str, port: int) -> list[Any]:
    """The addresses of a host; none on errors. The thread is a daemon: a silent name server does not delay shutdown."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[list[Any]] = loop.create_future()

    def tell(addresses: list[Any]) -> None:
        if not answer.done():
            answer.set_result(addresses)

    def look_up() -> None:
        addresses: list[Any] = []
        with suppress(OSError, UnicodeError):
            addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        with suppress(RuntimeError):  # the event loop has closed
            loop.call_soon_threadsafe(tell, addresses)

    threading.Thread(target=look_up, name="names", daemon=True).start()
    return await answer
