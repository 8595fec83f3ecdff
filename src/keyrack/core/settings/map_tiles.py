"""In charge of what may be named as the tiles of maps: a file of the server, or an address that browsers ask."""

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
NAMED = re.compile(r"[!-~]+")  # what an address is written with (RFC 3986): others are percent-encoded


@dataclass(frozen=True, slots=True)
class Tiles:
    """Where streets come from. `origin` is whom browsers ask for them: "" for Keyrack itself."""

    kind: Kind
    address: str  # as it was given
    origin: str = ""


def tiles(text: str) -> Tiles:
    """What is named by a path or an address. Raises `ValueError` for what is neither, in words."""
    if text.startswith("/"):
        if not text.endswith(ENDING):
            raise ValueError(f"{text!r} does not end in {ENDING}: a file of tiles must be of that format")
        return Tiles("file", text)
    if "://" not in text:
        raise ValueError(
            f"{text!r} is neither the whole path of a {ENDING} file, from / on, nor an address that begins with https://"
        )
    return _address(text)


def _address(text: str) -> Tiles:
    """An address may hold somebody's key, so it is not repeated in what is wrong with it."""
    if not NAMED.fullmatch(text) or "\\" in text:
        raise ValueError("in an address, blanks and characters other than ASCII are written with %")
    try:
        parts = urlsplit(text)
        user = parts.username
    except ValueError as error:
        raise ValueError(f"that is no address: {error}") from None
    if user is not None or parts.fragment:
        raise ValueError("an address of tiles has no user, no password and no #: browsers would not send them")
    origin = min(origins(f"{parts.scheme}://{parts.netloc}"), key=len)
    if parts.scheme != "https" and not (parts.scheme == "http" and _is_loopback(parts.hostname or "")):
        raise ValueError(
            "an address of tiles begins with https://; http:// is for the own machine alone, as http://127.0.0.1"
        )
    return Tiles(_kind(text, parts.path), text, origin)


def _kind(text: str, path: str) -> Kind:
    places = sorted(re.findall(r"\{[^{}]*\}", text))
    if not places and path.endswith(ENDING):
        return "pmtiles"
    if tuple(places) != PLACES or text.count("{") != 3 or text.count("}") != 3:
        raise ValueError(
            f"an address of tiles ends in {ENDING}, or has {{z}}, {{x}} and {{y}} in it, each of them once, "
            "and no other {}"
        )
    if path.endswith(VECTOR):
        return "vector"
    if path.endswith(RASTER):
        return "raster"
    raise ValueError(
        f"the path of an address of tiles ends in what they are: {' or '.join(VECTOR)} for vectors, "
        f"{', '.join(RASTER)} for pictures"
    )


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
