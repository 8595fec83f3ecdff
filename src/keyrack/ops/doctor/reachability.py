"""In charge of what has to be reached beside the database: the public address, and the broker of units."""

from __future__ import annotations

import asyncio
import http.client
import ssl
import urllib.request
from collections.abc import Iterator
from urllib.parse import urlsplit

from keyrack.core.settings import Settings
from keyrack.ops.doctor.result import ok, warning
from keyrack.ops.monitoring.findings import Finding

SECONDS = 5.0


async def examined(settings: Settings) -> list[Finding]:
    """What answers, and what does not."""
    lines = list(await asyncio.to_thread(lambda: list(_public_url(settings))))
    if "mqtt_url" in settings.model_fields_set:
        lines += [await _broker(settings.mqtt_url)]
    return lines


def _public_url(settings: Settings) -> Iterator[Finding]:
    url = f"{settings.public_url}/health/live"
    try:
        with urllib.request.urlopen(url, timeout=SECONDS) as answer:  # noqa: S310 - http or https, by its setting
            answer.read(1000)
        yield ok("public-url", f"{settings.public_url} answers")
    except (OSError, ValueError, http.client.HTTPException) as error:  # urllib.error.URLError is an OSError
        reason = getattr(error, "reason", None) or error
        yield warning(
            "public-url", f"{settings.public_url} cannot be reached from here: {reason}",
            "Look whether it is served, at the proxy in front of it, and at its certificate.",
        )  # fmt: skip


async def _broker(url: str) -> Finding:
    parts = urlsplit(url)
    secure = parts.scheme == "mqtts"
    host, port = parts.hostname or "", parts.port or (8883 if secure else 1883)
    try:
        async with asyncio.timeout(SECONDS):
            _, writer = await asyncio.open_connection(host, port, ssl=ssl.create_default_context() if secure else None)
            writer.close()
    except OSError as error:
        return warning(
            "mqtt", f"The broker {host}:{port} cannot be reached: {error or 'it says nothing'}",
            "`keyrack ingest-mqtt` tries on; look whether the broker runs, and at its certificate.",
        )  # fmt: skip
    return ok("mqtt", f"the broker {host}:{port} answers")
