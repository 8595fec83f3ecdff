"""In charge of what an origin is (RFC 6454, section 6): scheme, host and port, as browsers write it."""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import urlsplit

ANY = "*"
NAME = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*")
PORTS = {"http": 80, "https": 443}


def origins(text: str) -> frozenset[str]:
    """The origins of a list with commas, in lower case, each with and without the port that its scheme has anyway;
    `*` alone for all of them. Raises `ValueError` for what is none."""
    given = [part.strip() for part in text.split(",") if part.strip()]
    if ANY in given:
        if len(given) > 1:
            raise ValueError("'*' stands for every origin: name no others beside it")
        return frozenset((ANY,))
    return frozenset(form for origin in given for form in _forms(origin))


def _forms(origin: str) -> tuple[str, ...]:
    form = "write it as https://console.example.com, or with a port behind it"
    if not re.fullmatch(r"[a-z][a-z0-9+.-]*://[^/?#@%\\\s]*[^/?#@%\\\s:]", origin.lower()):
        raise ValueError(f"{origin!r} is no origin: {form}, without a path, a user or blanks")
    try:
        parts = urlsplit(origin.lower())
        host, port = parts.hostname or "", parts.port
        address = ipaddress.IPv6Address(host) if "[" in parts.netloc else None
    except ValueError as error:
        raise ValueError(f"{origin!r} is no origin ({error}): {form}") from None
    if address is not None:
        shown = f"[{address.compressed}]"
    elif NAME.fullmatch(host):
        shown = host
    else:
        raise ValueError(f"{origin!r} is no origin, for browsers know no such host (others than ASCII as xn--...)")
    usual = PORTS.get(parts.scheme)
    bare = f"{parts.scheme}://{shown}"
    if port not in (None, usual):
        return (f"{bare}:{port}",)
    return (bare,) if usual is None else (bare, f"{bare}:{usual}")
