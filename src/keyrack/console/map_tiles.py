"""Streets on maps: the tiles of a page, and ranges of the operator's tile file.

A PMTiles file (version 3) has all tiles and their directory in one file. Browsers request the bytes of the tiles that
they show (RFC 9110, section 14).
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import struct
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from keyrack.api.conditional_requests import parse_if_none_match
from keyrack.api.exchange import Response
from keyrack.console.rendering import root
from keyrack.core.error_codes import ErrorCode
from keyrack.core.errors import BadRequest, NotFound, RangeNotSatisfiable
from keyrack.core.log_config import RateLimitedLogger
from keyrack.core.settings import Settings
from keyrack.http.page_router import ConsolePages, Visit

pages = ConsolePages()
seldom = RateLimitedLogger("keyrack.map_tiles")

MEDIA_TYPE = "application/vnd.pmtiles"
FOR_EVER = {"Cache-Control": "private, max-age=31536000, immutable", "Accept-Ranges": "bytes"}

# The header of a PMTiles file (specification, chapter 3): its first bytes, and positions of its fields
MAGIC = b"PMTiles"
HEADER = 127
VERSION, INNER_PACKING, PACKING, TYPE = 7, 97, 98, 99
SECTIONS = (8, 24, 40, 56)  # root directory, metadata, leaf directories, tiles: offset and length of each
UNPACKED = {1, 2}  # none, gzip: compressions that browsers unpack
VECTOR = 1
TYPES = {2: "PNG pictures", 3: "JPEG pictures", 4: "WebP pictures", 5: "AVIF pictures", 6: "MapLibre tiles"}
SAMPLE = 16_384  # bytes at both ends from which the tag is made; the first ones have the header and the root directory

_RANGE = re.compile(r"bytes=(?:([0-9]{1,18})-([0-9]{0,18})|-([0-9]{1,18}))", re.IGNORECASE)

NO_TILES = ErrorCode(
    "tiles-not-found", "The map tiles have changed or are missing.", "Load the page with the map again."
)
NO_RANGE = ErrorCode(
    "range-missing",
    "This file is only available in ranges.",
    "Send a Range header with one range, such as bytes=0-16383.",
)
WRONG_RANGE = ErrorCode(
    "range-not-satisfiable",
    "The requested range is outside of the file, which has {size} bytes.",
    "Send one range that begins within the file, such as bytes=0-16383.",
)
LONG_RANGE = ErrorCode(
    "range-too-long",
    "A request can read at most {most} bytes.",
    "Request shorter ranges, or increase KEYRACK_MAP_RANGE_BYTES.",
)


class BadTiles(Exception):
    """The file of KEYRACK_MAP_TILES cannot be used. The message is the reason."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"KEYRACK_MAP_TILES: {path} {reason}.")


@dataclass(frozen=True, slots=True)
class Archive:
    """A tile file in its current state. The tag depends only on its contents, so it is the same on every node."""

    size: int  # bytes
    tag: str


@dataclass(frozen=True, slots=True)
class Streets:
    """The data with which scripts of a map draw streets. `kind` is "pmtiles", "vector" or "raster"."""

    kind: str
    address: str
    attribution: str


def check(settings: Settings) -> None:
    """Check the tile file of the settings. Raises `BadTiles`."""
    if settings.tiles and settings.tiles.kind == "file":
        archive(settings.tiles.address)


def archive(path: str) -> Archive:
    """The tile file, read again only if it was replaced. Raises `BadTiles`."""
    try:
        state = Path(path).stat()
        return _archive(path, (state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns))
    except OSError as error:
        raise BadTiles(path, f"cannot be read: {error.strerror}") from None


@lru_cache(4)
def _archive(path: str, state: tuple[int, ...]) -> Archive:
    if not Path(path).is_file():
        raise BadTiles(path, "is no file")
    with Path(path).open("rb") as file:
        size = file.seek(0, 2)
        file.seek(0)
        head = file.read(SAMPLE)
        file.seek(max(0, size - SAMPLE))
        tail = file.read(SAMPLE)
    if reason := _unfit(head, size):
        raise BadTiles(path, reason)
    return Archive(size, hashlib.sha256(b"%d\n" % size + head + tail).hexdigest()[:32])


def _unfit(head: bytes, size: int) -> str:
    """The fault of a file with this header and size; "" if there is none."""
    if not head.startswith(MAGIC) or len(head) < HEADER:
        return 'is no PMTiles file of version 3: it does not begin with the word "PMTiles" and a header of 127 bytes'
    if head[VERSION] != 3:
        return f"is a PMTiles file of version {head[VERSION]}: version 3 is needed"
    if head[TYPE] != VECTOR:
        return f"holds {TYPES.get(head[TYPE], 'tiles of an unknown type')}: vector tiles (MVT) are needed"
    if not {head[INNER_PACKING], head[PACKING]} <= UNPACKED:
        return "is packed in a way that browsers do not unpack: gzip is needed, or none"
    whole = max(sum(struct.unpack_from("<QQ", head, section)) for section in SECTIONS)
    return f"is cut off: it should have {whole} bytes and has {size}" if whole > size else ""


async def streets(visit: Visit) -> Streets | None:
    """The streets of a page, and the policy that lets it fetch them; None if the operator configured none.

    If the file has disappeared since the start, the log and the map report it.
    """
    tiles = visit.settings.tiles
    if tiles is None:
        return None
    if tiles.kind != "file":
        visit.allow_connect(tiles.origin)
        return Streets(tiles.kind, tiles.address, visit.settings.map_attribution)
    try:
        tag = (await asyncio.to_thread(archive, tiles.address)).tag
    except BadTiles as error:
        seldom.warning("map tiles unavailable", error=error)
        tag = "none"
    return Streets("pmtiles", f"{root(visit)}/map/{tag}/tiles.pmtiles", visit.settings.map_attribution)


@pages.get("/map/{tag}/tiles.pmtiles")
async def piece(visit: Visit) -> Response:
    """A range of bytes of the file. The address contains the tag, so browsers may cache the range.

    Raises `NotFound`, `BadRequest` without a range, or `RangeNotSatisfiable` if the range is too long or outside the
    file.
    """
    tiles = visit.settings.tiles
    if tiles is None or tiles.kind != "file":
        raise NotFound(NO_TILES)
    try:
        tile_archive = await asyncio.to_thread(archive, tiles.address)
    except BadTiles as error:
        seldom.warning("map tiles unavailable", error=error)
        raise NotFound(NO_TILES) from None
    if visit.ids["tag"] != tile_archive.tag:
        raise NotFound(NO_TILES)
    headers = {**FOR_EVER, "ETag": f'"{tile_archive.tag}"'}
    if {headers["ETag"], "*"} & parse_if_none_match(visit.headers("If-None-Match") or "").keys():
        return Response(304, headers=headers)
    begin, end = _range(visit, tile_archive, headers["ETag"])
    body = await asyncio.to_thread(_read, tiles.address, begin, end - begin)
    return Response(206, body, {**headers, "Content-Range": f"bytes {begin}-{end - 1}/{tile_archive.size}"}, MEDIA_TYPE)


def _range(visit: Visit, tile_archive: Archive, tag: str) -> tuple[int, int]:
    """The start and the end (exclusive) of the requested bytes."""
    given, most = visit.headers("Range") or "", visit.settings.map_range_bytes
    if not given.lower().startswith("bytes=") or (visit.headers("If-Range") or tag) != tag:
        raise BadRequest(NO_RANGE)  # another unit, or a failed condition: treated like no range
    headers, whole = {"Content-Range": f"bytes */{tile_archive.size}"}, tile_archive.size
    wanted = _RANGE.fullmatch(given)
    if wanted is None:
        raise RangeNotSatisfiable(WRONG_RANGE.format(size=whole), headers)
    first, last, suffix = wanted.groups()
    begin = max(0, whole - int(suffix)) if suffix else int(first)
    end = min(whole, int(last) + 1) if last else whole
    if begin >= end:
        raise RangeNotSatisfiable(WRONG_RANGE.format(size=whole), headers)
    if end - begin > most:
        raise RangeNotSatisfiable(LONG_RANGE.format(most=most), headers)
    return begin, end


def _read(path: str, begin: int, length: int) -> bytes:
    with Path(path).open("rb") as file:
        file.seek(begin)
        return file.read(length)
