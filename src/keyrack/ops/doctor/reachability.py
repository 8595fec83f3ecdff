"""Reachability checks of the addresses and of the MQTT broker."""

from __future__ import annotations

import asyncio
import http.client
import ssl
import urllib.request
from urllib.parse import urlsplit

from keyrack.core.os_errors import connection_failure
from keyrack.core.settings import Settings
from keyrack.ops.doctor.result import ok, warning
from keyrack.ops.monitoring.findings import Finding

SECONDS = 5.0


async def examined(settings: Settings) -> list[Finding]:
    """Check the public address, the app's address and the broker."""
    lines = [await asyncio.to_thread(_public_url, settings.public_url)]
    if settings.drive_url is not None:
        lines += [await asyncio.to_thread(_drive_url, settings.drive_url)]
    if "mqtt_url" in settings.model_fields_set:
        lines += [await _broker(settings.mqtt_url)]
    return lines


def _public_url(address: str) -> Finding:
    reason = _failure(f"{address}/health/live")
    if reason is None:
        return ok("public-url", f"{address} answers")
    return warning(
        "public-url", f"{address} cannot be reached from this machine: {connection_failure(reason)}",
        "Check that the server runs, the proxy in front of it, and its certificate.",
    )  # fmt: skip


def _drive_url(address: str) -> Finding:
    """The app's own host may pass `/drive` alone."""
    reason = _failure(f"{address}/drive/")
    if reason is None:
        return ok("drive-url", f"{address}/drive/ answers")
    if isinstance(reason, ssl.SSLCertVerificationError):
        return warning(
            "drive-url", f"The certificate of {address} is not valid: {connection_failure(reason)}",
            f"Give the proxy a certificate for {urlsplit(address).hostname}.",
        )  # fmt: skip
    return warning(
        "drive-url", f"{address}/drive/ cannot be reached from this machine: {connection_failure(reason)}",
        "Check the DNS name in KEYRACK_DRIVE_URL, and that its proxy passes /drive and /v3/sdk to this server.",
    )  # fmt: skip


def _failure(url: str) -> Exception | None:
    """Why a request of the URL fails; None if it succeeds."""
    try:
        with urllib.request.urlopen(url, timeout=SECONDS) as answer:  # noqa: S310 - http or https, by its setting
            answer.read(1000)
    except (OSError, ValueError, http.client.HTTPException) as error:  # urllib.error.URLError is an OSError
        reason = getattr(error, "reason", None)
        return reason if isinstance(reason, Exception) else error
    return None


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
