"""Origins as browsers write them: scheme, host and port (RFC 6454, section 6)."""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import urlsplit

ANY = "*"
NAME = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*")
PORTS = {"http": 80, "https": 443}


def origins(text: str) -> frozenset[str]:
    """The origins of a comma-separated list, in lower case.

    An origin on the default port of its scheme appears with and without that port. `*` alone means all origins. Raises
    `ValueError` if an origin is malformed.
    """
    given = [part.strip() for part in text.split(",") if part.strip()]
    if ANY in given:
        if len(given) > 1:
            raise ValueError("'*' allows every origin. Remove the other origins, or remove '*'")
        return frozenset((ANY,))
    return frozenset(form for origin in given for form in _forms(origin))


def _forms(origin: str) -> tuple[str, ...]:
    form = "Write, for example, https://console.example.com or https://console.example.com:8443"
    if not re.fullmatch(r"[a-z][a-z0-9+.-]*://[^/?#@%\\\s]*[^/?#@%\\\s:]", origin.lower()):
        raise ValueError(f"{origin!r} is not an origin. {form}, without path, user name or blanks")
    try:
        parts = urlsplit(origin.lower())
        host, port = parts.hostname or "", parts.port
        address = ipaddress.IPv6Address(host) if "[" in parts.netloc else None
    except ValueError as error:
        raise ValueError(f"{origin!r} is not an origin: {error}. {form}") from None
    if address is not None:
        shown = f"[{address.compressed}]"
    elif NAME.fullmatch(host):
        shown = host
    else:
        raise ValueError(f"{origin!r} is not an origin: the host is not valid. Write non-ASCII names as xn--...")
    usual = PORTS.get(parts.scheme)
    bare = f"{parts.scheme}://{shown}"
    if port not in (None, usual):
        return (f"{bare}:{port}",)
    return (bare,) if usual is None else (bare, f"{bare}:{usual}")
