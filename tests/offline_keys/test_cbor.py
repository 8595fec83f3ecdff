"""The codec: each value has one encoding, and no other is decoded."""

from __future__ import annotations

import math
from typing import Any

import cbor2
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from keyrack.offline_keys.cbor import DEEPEST, GREATEST, LEAST, CborError, TaggedItem, decode, encode

NUMBERS = st.integers(LEAST, GREATEST)
TEXTS = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), max_size=30)
LEAVES = NUMBERS | st.binary(max_size=30) | TEXTS


def within(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(inner, max_size=5) | st.dictionaries(NUMBERS | TEXTS, inner, max_size=5)


def nested(levels: int) -> st.SearchStrategy[Any]:
    strategy = LEAVES
    for _ in range(levels):
        strategy = LEAVES | within(strategy)
    return strategy


VALUES = nested(DEEPEST - 1)


def deterministic(value: Any) -> bytes:
    """RFC 8949, 4.2.1, implemented again: maps in the bytewise order of their keys."""
    if isinstance(value, list):
        return _head(cbor2.dumps(len(value)), 4) + b"".join(map(deterministic, value))
    if isinstance(value, dict):
        pairs = sorted((cbor2.dumps(key), deterministic(each)) for key, each in value.items())
        return _head(cbor2.dumps(len(pairs)), 5) + b"".join(key + each for key, each in pairs)
    return cbor2.dumps(value)


def _head(number: bytes, major: int) -> bytes:
    return bytes([number[0] | major << 5]) + number[1:]


@given(VALUES)
def test_an_encoded_value_is_decoded(value: Any) -> None:
    assert decode(encode(value)) == value
    assert encode(value) == deterministic(value)


@given(VALUES)
def test_another_library_decodes_the_encoding(value: Any) -> None:
    assert cbor2.loads(encode(value)) == value


@given(nested(DEEPEST - 2))
def test_only_the_outermost_value_may_be_tagged(value: Any) -> None:
    data = encode(TaggedItem(value))
    assert decode(data, tagged=True) == TaggedItem(value)
    assert data == cbor2.dumps(cbor2.CBORTag(18, 0))[:1] + encode(value)
    with pytest.raises(CborError):
        decode(data)
    with pytest.raises(CborError):
        encode([TaggedItem(1)])


@given(st.binary(max_size=40) | VALUES.map(cbor2.dumps) | VALUES.map(lambda value: cbor2.dumps(value, canonical=True)))
@example(b"\xfa\x7f\x80\x00\x00")
def test_a_decoded_value_has_no_other_encoding(data: bytes) -> None:
    try:
        value = decode(data)
    except CborError:
        return
    assert encode(value) == data
    assert cbor2.loads(data) == value


@given(VALUES, st.data())
def test_a_byte_more_or_less_is_refused(value: Any, data: st.DataObject) -> None:
    encoded = encode(value)
    for other in (encoded[:-1], encoded + data.draw(st.binary(min_size=1, max_size=3))):
        with pytest.raises(CborError):
            decode(other)


@given(VALUES, st.data())
def test_a_head_longer_than_necessary_is_refused(value: Any, data: st.DataObject) -> None:
    """The first head is in the next larger size, whatever follows it."""
    encoded = encode(value)
    major, info = encoded[0] >> 5, encoded[0] & 31
    size = 0 if info < 24 else 1 << info - 24
    argument = int.from_bytes(encoded[1 : 1 + size], "big") if size else info
    for longer in (each for each in (1, 2, 4, 8) if each > size):
        head = bytes([major << 5 | 24 + int(math.log2(longer))]) + argument.to_bytes(longer, "big")
        with pytest.raises(CborError):
            decode(head + encoded[1 + size :])


def deep(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels - 1):
        value = [value]
    return value


def test_nesting_is_limited() -> None:
    assert decode(encode(deep(DEEPEST))) == deep(DEEPEST)
    assert decode(encode(TaggedItem(deep(DEEPEST - 1))), tagged=True) == TaggedItem(deep(DEEPEST - 1))
    for value in (deep(DEEPEST + 1), TaggedItem(deep(DEEPEST))):
        with pytest.raises(CborError):
            encode(value)
    for data in (b"\x81" * DEEPEST + b"\x80", b"\xd2" + b"\x81" * (DEEPEST - 1) + b"\xa0"):
        with pytest.raises(CborError):
            decode(data, tagged=True)


@pytest.mark.parametrize(
    "value",
    [True, None, 1.0, GREATEST + 1, LEAST - 1, "\x1f", "\x7f", "é", "\ud800", {b"": 1}, {True: 1}, {(): 1}, (1,), {1}],
    ids=repr,
)
def test_a_value_without_an_encoding_is_refused(value: Any) -> None:
    for each in (value, [value], {1: value}):
        with pytest.raises(CborError):
            encode(each)


def test_an_impossible_length_is_refused() -> None:
    for head in (b"\x9b", b"\xbb", b"\x5b", b"\x7b"):
        with pytest.raises(CborError):
            decode(head + b"\x7f" + b"\xff" * 7)
