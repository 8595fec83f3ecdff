"""Static files of the pages: Keyrack's styles and scripts, and third-party files.

Their addresses contain one digest of all files. So an address always has the same bytes, browsers may cache it forever,
and a module finds its siblings beside it.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from keyrack.api.conditional_requests import packed_tag, parse_if_none_match
from keyrack.api.exchange import Response
from keyrack.core.error_codes import ErrorCode
from keyrack.core.errors import NotFound
from keyrack.http.compression import BEST, GZIP, AcceptedEncodings, accepts
from keyrack.http.page_router import ConsolePages, Visit

pages = ConsolePages()

OURS = Path(__file__).parent / "web"
OTHERS = Path(__file__).parent / "assets"
BUILT_FROM = "built-from.txt"  # the sources of the third-party files; the build writes this note last
MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".mjs": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml; charset=utf-8",
    ".txt": "text/plain; charset=utf-8",
}
FOR_EVER = {"Cache-Control": "public, max-age=31536000, immutable"}

NO_FILE = ErrorCode("file-not-found", "There is no such file.", "Go back to the page that led here, and load it again.")
OTHER_VERSION = ErrorCode(
    "file-of-another-version",
    "This file belongs to another version of Keyrack.",
    "Load the page again. If several nodes serve, all of them must run the same version.",
)


class MissingFiles(Exception):
    """The third-party files are missing in this installation."""

    def __init__(self) -> None:
        super().__init__(
            "The console's third-party files are missing in this installation. `make install` makes them in a clone; "
            "Keyrack's wheel and sdist contain them."
        )


@dataclass(frozen=True, slots=True)
class StaticFile:
    """A stored file, compressed because nearly all browsers accept that."""

    media_type: str
    size: int  # bytes, uncompressed
    tag: str
    packed: bytes

    @property
    def plain(self) -> bytes:
        return zlib.decompress(self.packed, GZIP)


@dataclass(frozen=True, slots=True)
class StaticFiles:
    """All files by their names, and their common digest."""

    digest: str
    files: Mapping[str, StaticFile]


@cache
def load_static_files() -> StaticFiles:
    """All files, read once. A server keeps its own version after its files are replaced.

    Raises `MissingFiles`.
    """
    if not (OTHERS / BUILT_FROM).is_file():
        raise MissingFiles
    others = {path.name: _file(path, path.with_name(f"{path.name}.gz").read_bytes()) for path in _served(OTHERS)}
    files = others | {path.name: _file(path) for path in _served(OURS)}
    whole = "".join(f"{name} {files[name].tag}\n" for name in sorted(files))
    return StaticFiles(hashlib.sha256(whole.encode()).hexdigest()[:16], files)


def address(root: str, name: str) -> str:
    """The address of a file, below the console's `root`. Raises `LookupError` for an unknown name."""
    whole = load_static_files()
    if name not in whole.files:
        raise LookupError(f"the console has no file {name}")
    return f"{root}/assets/{whole.digest}/{name}"


@pages.get("/assets/{digest}/{name}", is_public=True)
async def file(visit: Visit) -> Response:
    """A file, compressed for browsers that accept gzip. Raises `NotFound`."""
    whole = load_static_files()
    static_file = whole.files.get(visit.ids["name"])
    if static_file is None:
        raise NotFound(NO_FILE)
    if visit.ids["digest"] != whole.digest:
        raise NotFound(OTHER_VERSION)
    headers = {**FOR_EVER, "ETag": static_file.tag}
    tags = parse_if_none_match(visit.headers("If-None-Match") or "")
    if matched_tag := tags.get(static_file.tag, tags.get("*")):
        return Response(304, headers={**headers, "ETag": static_file.tag if matched_tag == "*" else matched_tag})
    least = visit.settings.gzip_min_bytes  # 0 disables compression
    if (
        least
        and static_file.size >= least
        and accepts(visit.headers("Accept-Encoding")) is not AcceptedEncodings.IDENTITY
    ):
        packed = {"ETag": packed_tag(static_file.tag), "Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
        return Response(200, static_file.packed, {**headers, **packed}, static_file.media_type)
    return Response(200, static_file.plain, headers, static_file.media_type)


def _served(directory: Path) -> list[Path]:
    """The files with an address: all files of known types, except the build's note."""
    return [path for path in directory.iterdir() if path.suffix in MEDIA_TYPES and path.name != BUILT_FROM]


def _file(path: Path, packed: bytes | None = None) -> StaticFile:
    content = path.read_bytes()
    return StaticFile(
        MEDIA_TYPES[path.suffix],
        len(content),
        f'"{hashlib.sha256(content).hexdigest()[:32]}"',
        packed or zlib.compress(content, BEST, GZIP),
    )
