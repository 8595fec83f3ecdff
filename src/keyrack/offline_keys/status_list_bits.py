"""In charge of the bits of status lists (draft-ietf-oauth-status-list-21): one for each key, 1 if revoked."""

from __future__ import annotations

import zlib

ENTRIES = 2048  # of every list of this version
BYTES = ENTRIES // 8
ZLIB = 0x78  # how a stream (RFC 1950) begins that is compressed by deflate with a window of 32 KiB


class NotAList(ValueError):
    """These bytes inflate to no list."""


def pack(bits: bytes) -> bytes:
    """The `lst` of a list, of its 256 bytes."""
    if len(bits) != BYTES:
        raise ValueError(f"a list has {BYTES} bytes, not {len(bits)}")
    return zlib.compress(bits, 9)


def unpack(lst: bytes) -> bytes:
    """The 256 bytes of a list. Raises `NotAList`."""
    if lst[:1] != bytes([ZLIB]):
        raise NotAList("it does not begin as a zlib stream of deflate does")
    inflating = zlib.decompressobj()
    try:
        bits = inflating.decompress(lst, BYTES + 1)  # one more than may come, so that no stream makes us hold more
    except zlib.error as error:
        raise NotAList(str(error)) from None
    if len(bits) != BYTES or not inflating.eof or inflating.unused_data:
        raise NotAList(f"it does not inflate to {BYTES} bytes with nothing behind them")
    return bits


def is_set(bits: bytes, index: int) -> bool:
    """The bit with this number: bit 0 is the lowest of the first byte."""
    return bool(bits[index // 8] >> index % 8 & 1)
