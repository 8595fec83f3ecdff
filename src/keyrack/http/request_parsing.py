"""The parts of a request: customer, path ids, and body.

Format, size and time of a body are limited.
"""

from __future__ import annotations

import asyncio
import re
import zlib
from collections.abc import AsyncIterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import parse_qs

from keyrack.api.endpoint import Endpoint, FormBody, RawBody
from keyrack.api.principals import Caller, Driver
from keyrack.core.error_codes import (
    BODY_TOO_LARGE,
    BODY_TOO_PACKED,
    BODY_TOO_SLOW,
    INVALID_CUSTOMER_ID,
    NO_CUSTOMER_ID,
    NO_FORM,
    NO_GZIP,
    FieldError,
)
from keyrack.core.errors import (
    JSON,
    LONGEST_VALUE,
    BadRequest,
    ContentTooLarge,
    Refusal,
    RequestTimeout,
    UnsupportedMediaType,
)
from keyrack.core.settings import Settings
from keyrack.core.text import nfc, without_byte_order_mark
from keyrack.http.compression import content_coding
from keyrack.http.ingest_memory import MemoryReservation
from keyrack.telemetry.json_lines import too_many

LINES = ("application/json", "application/x-ndjson", "application/jsonl")  # media types of deliveries
FORM = "application/x-www-form-urlencoded"
FIELDS = 5_000  # maximum fields of a page's form: a selection of a thousand rows has as many
OPEN_FORM = 32_768  # maximum bytes of a form on a public page: a thousand characters per field, percent-encoded
_STRAY = re.compile(rb"%(?![0-9A-Fa-f]{2})")  # browsers never send one, and parsing a million takes seconds
CUSTOMER_ID = "Customer-ID"
UNPACKED_AT_ONCE = 65_536  # bytes
PACKED_AT_ONCE = 4_096  # bytes, a small number because the rest of them is copied after each member


class IncomingRequest(Protocol):
    """The used part of the framework's request."""

    @property
    def content_length(self) -> int | None: ...
    @property
    def content_type(self) -> str | None: ...
    @property
    def stream(self) -> AsyncIterable[bytes]: ...
    def get_header(self, name: str) -> str | None: ...


@dataclass(frozen=True, slots=True)
class BodyFormat:
    """The formats of an endpoint's body."""

    media_types: tuple[str, ...]
    has_charset: bool = False  # a charset other than UTF-8 is rejected
    has_gzip: bool = False


JSON_BODY = BodyFormat((JSON,), has_charset=True)
PATCH_BODY = BodyFormat((JSON, "application/json-patch+json"), has_charset=True)
FORM_BODY = BodyFormat((FORM,))
LINES_BODY = BodyFormat(LINES, has_gzip=True)


def body_format(endpoint: Endpoint[Any]) -> BodyFormat:
    """The format of the endpoint's body."""
    if isinstance(endpoint.body, RawBody):
        return LINES_BODY
    if isinstance(endpoint.body, FormBody):
        return FORM_BODY
    return PATCH_BODY if endpoint.method == "PATCH" else JSON_BODY


async def body(
    http: IncomingRequest,
    body_format: BodyFormat,
    limit: int,
    seconds: float,
    room: MemoryReservation | None = None,
) -> bytes:
    """The whole body, of fewer than `limit` bytes, within so many seconds.

    Raises `UnsupportedMediaType`, `ContentTooLarge`, `RequestTimeout`, and `Unavailable` beyond the memory of `room`.
    """
    if (http.content_length or 0) >= limit:
        raise _too_large(limit)
    sent = bool(http.content_length) or http.get_header("Transfer-Encoding") is not None
    if sent:
        _check_type(http, body_format)
    return await _arrived(http, limit, seconds, room)


async def optional_body(http: IncomingRequest, limit: int, seconds: float) -> bytes:
    """The body of any media type; empty if too long or too slow."""
    if not http.content_length and http.get_header("Transfer-Encoding") is None:
        return b""
    try:
        return await _arrived(http, limit, seconds, None)
    except (ContentTooLarge, RequestTimeout):
        return b""


async def lines(http: IncomingRequest, settings: Settings, room: MemoryReservation) -> bytes:
    """The whole body of a delivery, decompressed. Raises as `body` does, and `BadRequest` for malformed gzip."""
    whole = await body(http, LINES_BODY, settings.max_ingest, settings.request_read_timeout_seconds, room)
    return _unpacked(whole, settings, room) if _codings(http) == ["gzip"] else whole


async def form(http: IncomingRequest, settings: Settings, *, anybodys: bool) -> dict[str, list[str]]:
    """The fields of a page's form with their values. `anybodys` marks a public page.

    Raises as `body` does, and `BadRequest` if the form is malformed, is not UTF-8, or has too many fields.
    """
    if not http.content_length and http.get_header("Transfer-Encoding") is None:
        return {}
    if (http.content_type or "").partition(";")[0].strip().lower() != FORM:
        raise UnsupportedMediaType("Content-Type", http.content_type, (FORM,))
    limit = min(settings.max_body_bytes, OPEN_FORM) if anybodys else settings.max_body_bytes
    sent = without_byte_order_mark(await _arrived(http, limit, settings.request_read_timeout_seconds, None))
    if _STRAY.search(sent):
        raise BadRequest(NO_FORM)
    try:
        return parse_qs(sent.decode(), keep_blank_values=True, errors="strict", max_num_fields=FIELDS)
    except ValueError:
        raise BadRequest(NO_FORM) from None


async def _arrived(http: IncomingRequest, limit: int, seconds: float, room: MemoryReservation | None) -> bytes:
    """All bytes of a body, as they arrive."""
    if (http.content_length or 0) >= limit:
        raise _too_large(limit)
    chunks: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(seconds):
            async for chunk in http.stream:
                size += len(chunk)
                if size >= limit:
                    raise _too_large(limit)
                if room is not None:
                    room.take(len(chunk))
                chunks.append(chunk)
    except TimeoutError:
        raise RequestTimeout(BODY_TOO_SLOW, {"Connection": "close"}) from None
    return b"".join(chunks)


def _unpacked(packed: bytes, settings: Settings, room: MemoryReservation) -> bytes:
    """The content of a gzip file with one or more members (RFC 1952, section 2.2).

    It is decompressed in small steps, so that a bomb uses no memory beyond the limits. A file has at most as many
    members as a delivery has lines. Raises `BadRequest` for invalid data, also after the last member, and
    `ContentTooLarge`.
    """
    unpacked, at, members = bytearray(), 0, 0
    while at < len(packed):
        if members == settings.ingest_max_lines:
            raise too_many(settings)
        members += 1
        at = _member(packed, at, unpacked, settings, room)
    if not members:
        raise BadRequest(NO_GZIP)
    return bytes(unpacked)


def _member(packed: bytes, at: int, unpacked: bytearray, settings: Settings, room: MemoryReservation) -> int:
    """Decompress the member at `at`, within the limits of the file. Returns its end."""
    member = zlib.decompressobj(wbits=31)
    while not member.eof:
        window = packed[at : at + PACKED_AT_ONCE]
        try:
            piece = member.decompress(window, UNPACKED_AT_ONCE)
        except zlib.error:
            raise BadRequest(NO_GZIP) from None
        read = len(window) - len(member.unused_data if member.eof else member.unconsumed_tail)
        if not (piece or read or member.eof):  # truncated
            raise BadRequest(NO_GZIP)
        at += read
        room.take(len(piece))
        unpacked += piece
        if len(unpacked) >= settings.max_ingest:
            raise _too_large(settings.max_ingest)
        if len(unpacked) > max(settings.max_body_bytes, settings.ingest_max_compression_ratio * len(packed)):
            raise ContentTooLarge(BODY_TOO_PACKED.format(ratio=settings.ingest_max_compression_ratio))
    return at


def _codings(http: IncomingRequest) -> list[str]:
    """The codings of the body without `identity`, in the order of their application."""
    names = (name.strip(" \t") for name in (http.get_header("Content-Encoding") or "").split(","))
    return [coding for name in names if (coding := content_coding(name)) not in ("", "identity")]


def _too_large(limit: int) -> Refusal:
    return ContentTooLarge(BODY_TOO_LARGE.format(most=limit))


def _check_type(http: IncomingRequest, body_format: BodyFormat) -> None:
    """Raises `UnsupportedMediaType` for another media type, coding or charset."""
    if _codings(http) not in ([], ["gzip"] if body_format.has_gzip else []):
        valid = ("gzip", "identity") if body_format.has_gzip else ("identity",)
        raise UnsupportedMediaType("Content-Encoding", http.get_header("Content-Encoding"), valid)
    media_type, _, parameters = (http.content_type or "").lower().partition(";")
    right = media_type.strip() in body_format.media_types
    if right and body_format.has_charset:
        charset = parameters.replace(" ", "").replace('"', "")
        right = not charset.startswith("charset=") or charset.split(";")[0] in ("charset=utf-8", "charset=utf8")
    if not right:
        raise UnsupportedMediaType("Content-Type", http.content_type, body_format.media_types)


def customer(http: IncomingRequest, caller: Caller | Driver) -> int:
    """The customer. Raises `BadRequest`, and `NotFound` for an unknown one and for one the caller may not act for."""
    text = http.get_header(CUSTOMER_ID)
    if not text:
        raise BadRequest(NO_CUSTOMER_ID, errors=[FieldError("missing", NO_CUSTOMER_ID.text, header=CUSTOMER_ID)])
    digits = text[1:] if text[0] in "+-" else text
    if not (digits.isascii() and digits.isdigit()):
        detail = f"The header Customer-ID must be an integer, but is {text[:LONGEST_VALUE]!a}."
        raise BadRequest(INVALID_CUSTOMER_ID, errors=[FieldError("wrong-type", detail, header=CUSTOMER_ID)])
    tenant = int(text) if len(text) <= 12 else 0
    caller.check(tenant)
    return tenant


def ids(endpoint: Endpoint[Any], params: Mapping[str, str]) -> tuple[Any, ...]:
    """The path's parameters in NFC, converted, in their order. Raises `BadRequest`."""
    if not params:
        return ()
    named = zip(endpoint.converters, endpoint.parameters, strict=True)
    return tuple(convert(nfc(params[name])) for convert, name in named)
