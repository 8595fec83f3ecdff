"""gzip compression of responses.

Small responses are compressed at once, large ones in threads, and long ones chunk by chunk.
"""

from __future__ import annotations

import asyncio
import re
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from enum import IntEnum
from functools import lru_cache, partial
from typing import Any

import falcon.asgi

from keyrack.api.conditional_requests import packed_tag
from keyrack.api.event_stream import EVENTS
from keyrack.api.exchange import Response, with_vary
from keyrack.core.settings import Settings

KINDS = ("text/", "application/json", "application/problem+json", "image/svg+xml")  # compressible media types
LONGEST = 500  # maximum characters of Accept-Encoding; real clients send less than a tenth
AT_ONCE = 262_144  # bytes to compress in one call, so that output is sent before the next call
FLUSHED = 65_536  # bytes that may wait in the compressor
GZIP = 31  # zlib's largest window, with gzip's header and trailer
BEST = 9  # level for cached documents

_CODING = re.compile(
    r"[ \t]*+(?P<coding>[!#$%&'*+\-.^_`|~0-9A-Za-z]++)[ \t]*+"
    r"(?:;[ \t]*+[qQ]=(?P<weight>0(?:\.[0-9]{0,3})?+|1(?:\.0{0,3})?+)[ \t]*+)?+"
)


class AcceptedEncodings(IntEnum):
    """The content codings that a client accepts."""

    IDENTITY = 0
    GZIP = 1
    ONLY_GZIP = 2  # it rejects uncompressed responses of any size


class GzipStream(AsyncIterator[bytes]):
    """A long compressed response. Closing it closes the plain one, which may have a file."""

    def __init__(self, plain: Any, packed: AsyncGenerator[bytes]) -> None:
        self._plain = plain
        self._packed = packed

    def __anext__(self) -> Awaitable[bytes]:
        return self._packed.__anext__()

    async def close(self) -> None:
        try:
            await self._packed.aclose()
        finally:
            await (self._plain.close() if hasattr(self._plain, "close") else self._plain.aclose())


class Compression:
    """gzip compression for the responses of one process."""

    def __init__(self, settings: Settings) -> None:
        self._min_bytes = settings.gzip_min_bytes
        self._level = settings.gzip_level
        self._large = settings.gzip_offload_min_bytes
        self._threads = ThreadPoolExecutor(settings.gzip_threads, "gzip")
        self._cache: dict[bytes, bytes] = {}  # constant documents, compressed

    def close(self) -> None:
        """Stop the threads and cancel waiting work, which no client waits for."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def packed(self, http: falcon.asgi.Request, answer: Response) -> Response:
        """The response for this client: compressed if the client accepts gzip and the size is worth it."""
        if not self._min_bytes or "Content-Encoding" in answer.headers or answer.media_type == EVENTS:
            return answer  # a compressor would delay events
        if answer.status == 304:
            return replace(answer, headers=with_vary(answer.headers, "Accept-Encoding"))
        size = self._min_bytes if answer.body is None else len(answer.body)
        if (answer.body is None and answer.parts is None) or not size or not answer.media_type.startswith(KINDS):
            return answer
        accepted = accepts(http.get_header("Accept-Encoding"))
        if size < self._min_bytes and accepted is not AcceptedEncodings.ONLY_GZIP:
            return answer
        headers = with_vary(answer.headers, "Accept-Encoding")
        if accepted is AcceptedEncodings.IDENTITY:
            return replace(answer, headers=headers)
        if answer.body is not None:
            return replace(answer, body=await self._whole(answer.body, answer.is_constant), headers=_encoded(headers))
        if http.scope["http_version"] == "1.0":  # the length is unknown, and HTTP/1.0 has no chunks
            return replace(answer, headers=headers)
        assert answer.parts is not None  # noqa: S101 - or there was nothing to send
        if http.method == "HEAD":
            return replace(answer, headers=_encoded(headers))
        return replace(answer, parts=GzipStream(answer.parts, self._stream(answer.parts)), headers=_encoded(headers))

    async def _whole(self, body: bytes, fixed: bool) -> bytes:
        if (kept := self._cache.get(body) if fixed else None) is not None:
            return kept
        whole = partial(zlib.compress, body, BEST if fixed else self._level, GZIP)
        packed = await self._done(whole, len(body))
        if fixed:
            self._cache[body] = packed
        return packed

    async def _stream(self, parts: AsyncIterator[bytes]) -> AsyncGenerator[bytes]:
        """Compress the parts as one gzip stream. If the parts break off, so does the stream, without its trailer.

        The first part is flushed at once, later ones when enough bytes have accumulated. The compressor's window limits
        the other buffered bytes.
        """
        compressor = zlib.compressobj(self._level, zlib.DEFLATED, GZIP)
        since = FLUSHED  # bytes since the last flush
        async for part in parts:
            since += len(part)
            for start in range(0, len(part), AT_ONCE):
                piece = memoryview(part)[start : start + AT_ONCE]
                flush = since >= FLUSHED and start + AT_ONCE >= len(part)
                if packed := await self._done(partial(_compressed, compressor, piece, flush), len(piece)):
                    yield packed
            since = 0 if since >= FLUSHED else since
        yield compressor.flush()

    async def _done(self, work: Callable[[], bytes], size: int) -> bytes:
        """Compress so many bytes: in a thread if it would delay other requests."""
        if size < self._large:
            return work()
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)


def _compressed(compressor: Any, piece: memoryview, flush: bool) -> bytes:
    packed: bytes = compressor.compress(piece)
    return packed + compressor.flush(zlib.Z_SYNC_FLUSH) if flush else packed


def _encoded(headers: dict[str, str]) -> dict[str, str]:
    """The headers of the gzip representation, which has an unknown length and another ETag."""
    headers.pop("Content-Length", None)
    if (tag := headers.get("ETag", "")).startswith('"'):
        headers["ETag"] = packed_tag(tag)
    headers["Content-Encoding"] = "gzip"
    return headers


def content_coding(name: str) -> str:
    """The normal form of a coding's name: lower case, and `gzip` for `x-gzip` (RFC 9110, section 8.4.1)."""
    name = name.lower()
    return "gzip" if name == "x-gzip" else name


def accepts(header: str | None) -> AcceptedEncodings:
    """The codings in Accept-Encoding (RFC 9110, section 12.5.3).

    A missing, malformed or too long header disables compression.
    """
    return AcceptedEncodings.IDENTITY if header is None or len(header) > LONGEST else _accepts(header)


@lru_cache(maxsize=256)
def _accepts(header: str) -> AcceptedEncodings:
    given: dict[str, float] = {}
    for part in header.split(","):
        if match := _CODING.fullmatch(part):
            coding = content_coding(match["coding"])
            given[coding] = max(given.get(coding, 0.0), float(match["weight"] or 1))
    others = given.get("*")
    gzip = given.get("gzip", others or 0.0)
    if not gzip or gzip < given.get("identity", 0.0):
        return AcceptedEncodings.IDENTITY
    return (
        AcceptedEncodings.ONLY_GZIP
        if given.get("identity", 1.0 if others is None else others) == 0
        else AcceptedEncodings.GZIP
    )
