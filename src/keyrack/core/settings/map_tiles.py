"""The tile source of maps: a file on this server, or an address for browsers."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

from keyrack.core.settings.origins import origins

Kind = Literal["file", "pmtiles", "vector", "raster"]

ENDING = ".pmtiles"
PLACES = ("{x}", "{y}", "{z}")
VECTOR = (".mvt", ".pbf")
RASTER = (".png", ".webp", ".jpg", ".jpeg")
NAMED = re.compile(r"[!-~]+")  # characters of an address (RFC 3986); all others are percent-encoded


@dataclass(frozen=True, slots=True)
class Tiles:
    """The source of map tiles. `origin` is the server that browsers request; "" for Keyrack itself."""

    kind: Kind
    address: str  # as the operator wrote it
    origin: str = ""


def tiles(text: str) -> Tiles:
    """Parse a path or an address. Raises `ValueError` if it is neither."""
    if text.startswith("/"):
        if not text.endswith(ENDING):
            raise ValueError(f"{text!r} does not end in {ENDING}. A tile file must have that format")
        return Tiles("file", text)
    if "://" not in text:
        raise ValueError(
            f"{text!r} is not the absolute path of a {ENDING} file or an address that begins with https://"
        )
    return _address(text)


def _address(text: str) -> Tiles:
    """Parse an address. Errors do not repeat it, because it may contain an API key."""
    if not NAMED.fullmatch(text) or "\\" in text:
        raise ValueError("the address contains blanks or non-ASCII characters. Percent-encode them")
    try:
        parts = urlsplit(text)
        user = parts.username
    except ValueError as error:
        raise ValueError(f"the value is not an address: {error}") from None
    if user is not None or parts.fragment:
        raise ValueError("the address has a user name, a password or a fragment, which browsers do not send. Remove it")
    origin = min(origins(f"{parts.scheme}://{parts.netloc}"), key=len)
    if parts.scheme != "https" and not (parts.scheme == "http" and _is_loopback(parts.hostname or "")):
        raise ValueError(
            "the address does not begin with https://. http:// is only valid for this machine, for example "
            "http://127.0.0.1"
        )
    return Tiles(_kind(text, parts.path), text, origin)


def _kind(text: str, path: str) -> Kind:
    places = sorted(re.findall(r"\{[^{}]*\}", text))
    if not places and path.endswith(ENDING):
        return "pmtiles"
    if tuple(places) != PLACES or text.count("{") != 3 or text.count("}") != 3:
        raise ValueError(
            f"the address does not end in {ENDING}, and does not contain each of {{z}}, {{x}} and {{y}} once, without "
            "other braces"
        )
    if path.endswith(VECTOR):
        return "vector"
    if path.endswith(RASTER):
        return "raster"
    raise ValueError(
        f"the path of the address does not end in {' or '.join(VECTOR)} (vector tiles), or in {', '.join(RASTER)} "
        "(raster tiles)"
    )


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
