"""Reachability checks: the public address and the MQTT broker."""

from __future__ import annotations

import asyncio
import http.client
import ssl
import urllib.request
from collections.abc import Iterator
from urllib.parse import urlsplit

from keyrack.core.os_errors import connection_failure
from keyrack.core.settings import Settings
from keyrack.ops.doctor.result import ok, warning
from keyrack.ops.monitoring.findings import Finding

SECONDS = 5.0


async def examined(settings: Settings) -> list[Finding]:
    """Check the public address, and the broker if one is set."""
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
            "public-url", f"{settings.public_url} cannot be reached from this machine: {connection_failure(reason)}",
            "Check that the server runs, the proxy in front of it, and its certificate.",
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
            "mqtt", f"The broker {host}:{port} cannot be reached: {connection_failure(error)}",
            "Check that the broker runs, and its certificate. `keyrack ingest-mqtt` keeps retrying.",
        )  # fmt: skip
    return ok("mqtt", f"the broker {host}:{port} answers")
