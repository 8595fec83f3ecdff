"""Addresses of providers: with TLS, or loopback if a setting allows it."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from keyrack.core.settings import Settings


def allows(address: str, settings: Settings) -> bool:
    """Whether requests and browsers may be sent to an address."""
    try:
        parts = urlsplit(address)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return False
    plain = address.isascii() and address.isprintable() and " " not in address
    if not host or not plain or parts.username is not None or parts.fragment:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and settings.provider_loopback and _is_here(host))


def _is_here(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
