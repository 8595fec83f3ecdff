"""The bits of status lists (draft-ietf-oauth-status-list-21): 1 for a revoked key."""

from __future__ import annotations

import zlib

ENTRIES = 2048  # in every list of this version
BYTES = ENTRIES // 8
ZLIB = 0x78  # first byte of a zlib stream (RFC 1950) of deflate with a window of 32 KiB


class NotAList(ValueError):
    """The bytes do not inflate to a list."""


def pack(bits: bytes) -> bytes:
    """Compress the 256 bytes of a list to its `lst`."""
    if len(bits) != BYTES:
        raise ValueError(f"a list has {BYTES} bytes, not {len(bits)}")
    return zlib.compress(bits, 9)


def unpack(lst: bytes) -> bytes:
    """Inflate the 256 bytes of a list. Raises `NotAList`."""
    if lst[:1] != bytes([ZLIB]):
        raise NotAList("it does not begin as a zlib stream of deflate does")
    inflating = zlib.decompressobj()
    try:
        bits = inflating.decompress(lst, BYTES + 1)  # one more than a list has, so that no stream fills the memory
    except zlib.error as error:
        raise NotAList(str(error)) from None
    if len(bits) != BYTES or not inflating.eof or inflating.unused_data:
        raise NotAList(f"it does not inflate to {BYTES} bytes with nothing behind them")
    return bits


def is_set(bits: bytes, index: int) -> bool:
    """The bit with this index. Bit 0 is the first byte's lowest."""
    return bool(bits[index // 8] >> index % 8 & 1)
