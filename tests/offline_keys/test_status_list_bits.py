"""The bits of status lists: round trips and refused input.

The draft's own lists are read as well.
"""

from __future__ import annotations

import contextlib
import json
import zlib
from pathlib import Path
from typing import Any

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyrack.offline_keys import status_list_bits
from keyrack.offline_keys.status_list_bits import BYTES, ENTRIES, NotAList

DRAFT = json.loads((Path(__file__).parent / "draft-status-lists.json").read_text())
BITS = st.binary(min_size=BYTES, max_size=BYTES) | st.sets(st.integers(0, ENTRIES - 1), max_size=40).map(
    lambda revoked: sum(1 << index for index in revoked).to_bytes(BYTES, "little")
)


@given(BITS)
def test_a_packed_list_is_unpacked(bits: bytes) -> None:
    packed = status_list_bits.pack(bits)
    assert status_list_bits.unpack(packed) == bits
    assert len(packed) < 300
    whole = int.from_bytes(bits, "little")
    assert [status_list_bits.is_set(bits, index) for index in range(ENTRIES)] == [
        bool(whole >> index & 1) for index in range(ENTRIES)
    ]


@given(BITS, st.data())
def test_a_changed_byte_is_refused_or_keeps_the_size(bits: bytes, data: st.DataObject) -> None:
    packed = bytearray(status_list_bits.pack(bits))
    packed[data.draw(st.integers(0, len(packed) - 1))] ^= data.draw(st.integers(1, 255))
    with contextlib.suppress(NotAList):
        assert len(status_list_bits.unpack(bytes(packed))) == BYTES


@pytest.mark.parametrize("level", range(10))
@pytest.mark.parametrize("size", [0, 1, BYTES - 1, BYTES + 1, 1 << 20])
def test_another_size_is_refused(level: int, size: int) -> None:
    assert status_list_bits.unpack(zlib.compress(bytes(BYTES), level)) == bytes(BYTES)
    with pytest.raises(NotAList):
        status_list_bits.unpack(zlib.compress(bytes(size), level))
    with pytest.raises(ValueError, match="256 bytes"):
        status_list_bits.pack(bytes(size))


@pytest.mark.parametrize("of", DRAFT["lists"], ids=lambda of: f"{of['bits']} bits")
def test_the_lists_of_the_draft(of: dict[str, Any]) -> None:
    """2^20 entries of 1, 2, 4 and 8 bits, of which the lowest of a byte are the first entry's."""
    size, read = of["bits"], cbor2.loads(bytes.fromhex(of["cbor"]))
    assert read["bits"] == size
    stored = zlib.decompress(read["lst"])
    made = bytearray(DRAFT["entries"] * size // 8)
    for index, status in of["statuses"].items():
        made[int(index) * size // 8] |= status << int(index) * size % 8
    assert stored == made
    assert zlib.compress(bytes(made), 9) == read["lst"]
    if size == 1:
        revoked = {int(index) for index, status in of["statuses"].items() if status}
        near = {index + by for index in revoked for by in (-1, 0, 1)} - {-1}
        assert {index for index in near if status_list_bits.is_set(stored, index)} == revoked
