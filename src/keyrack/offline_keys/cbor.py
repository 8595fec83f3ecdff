"""The encoding of messages: CBOR (RFC 8949), only in core deterministic form.

Each value has one encoding, and `encode` reproduces all bytes that `decode` accepts. So a hash identifies a message.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from typing import TypeAlias

GREATEST = (1 << 53) - 1  # the largest integer that JavaScript counts exactly
LEAST = -(1 << 31)
DEEPEST = 6  # nesting of arrays, maps and the tag
TAG = 18  # COSE_Sign1

# Tables and a compiled pattern, because each signed message encodes about a hundred heads and texts
_BYTES = [bytes([value]) for value in range(256)]
_SIZES = (1 << 8, 1 << 16, 1 << 32)  # an argument below one of these needs 1, 2 or 4 bytes, and otherwise 8
_PLAIN_TEXT = re.compile(rb"[ -~]*").fullmatch

UNSIGNED, NEGATIVE, BYTES, TEXT, ARRAY, MAP, TAGGED, SIMPLE = range(8)  # the major types of RFC 8949, section 3.1


class CborError(ValueError):
    """Bytes that are not in this encoding, or an unsupported value."""


@dataclass(frozen=True, slots=True)
class TaggedItem:
    """A value with tag 18. Only the outermost value may have it."""

    value: Value


Key: TypeAlias = int | str
Value: TypeAlias = "int | bytes | str | list[Value] | dict[Key, Value] | TaggedItem"


def encode(value: Value) -> bytes:
    """The only encoding of a value. Raises `CborError` if it has none."""
    if isinstance(value, TaggedItem):
        return _head(TAGGED, TAG) + _encoded(value.value, DEEPEST - 1)
    return _encoded(value, DEEPEST)


def decode(data: bytes, *, tagged: bool = False) -> Value:
    """The value of an encoding, which must end with the data.

    With `tagged`, the outermost value may have tag 18, as a signed message has. Raises `CborError`.
    """
    reader = _Reader(data)
    value = reader.tagged() if tagged else reader.item(DEEPEST)
    if reader.place != len(data):
        raise CborError("something follows the item")
    return value


def _encoded(value: Value, depth: int) -> bytes:
    """Encode a value. `depth` is the number of levels left, this one included."""
    if isinstance(value, bool):  # `bool` is a subclass of `int`
        raise CborError("a simple value is not allowed")
    if isinstance(value, int):
        return _head(UNSIGNED, _bounded(value)) if value >= 0 else _head(NEGATIVE, -1 - _bounded(value))
    if isinstance(value, bytes):
        return _head(BYTES, len(value)) + value
    if isinstance(value, str):
        text = value.encode(errors="surrogatepass")
        return _head(TEXT, len(text)) + _plain(text)
    if isinstance(value, list):
        inner = _deeper(depth)
        return _head(ARRAY, len(value)) + b"".join(_encoded(each, inner) for each in value)
    if isinstance(value, dict):
        inner = _deeper(depth)
        pairs = sorted((_encoded(_key(key), 0), _encoded(each, inner)) for key, each in value.items())
        return _head(MAP, len(pairs)) + b"".join(key + each for key, each in pairs)
    raise CborError(f"a {type(value).__name__} is not allowed here")


def _head(major: int, argument: int) -> bytes:
    """Type and argument, in as few bytes as possible."""
    if argument < 24:
        return _BYTES[major << 5 | argument]
    size = bisect_right(_SIZES, argument)
    return _BYTES[major << 5 | 24 + size] + argument.to_bytes(1 << size, "big")


@dataclass(slots=True)
class _Reader:
    data: bytes
    place: int = 0

    def tagged(self) -> Value:
        if self.data[:1] == _head(TAGGED, TAG):
            self.place = 1
            return TaggedItem(self.item(DEEPEST - 1))
        return self.item(DEEPEST)

    def item(self, depth: int) -> Value:
        major, argument = self.head()
        if major == UNSIGNED:
            return _bounded(argument)
        if major == NEGATIVE:
            return _bounded(-1 - argument)
        if major == BYTES:
            return self.take(argument)
        if major == TEXT:
            return _plain(self.take(argument)).decode()
        if major == ARRAY:
            inner = _deeper(depth)
            return [self.item(inner) for _ in range(argument)]
        if major == MAP:
            return self.map(argument, _deeper(depth))
        raise CborError("tags, floats and simple values are not allowed here")

    def head(self) -> tuple[int, int]:
        first = self.take(1)[0]
        major, info = first >> 5, first & 31
        if info < 24:
            return major, info
        if info > 27:
            raise CborError("indefinite lengths and reserved ones are not allowed")
        size = info - 24
        argument = int.from_bytes(self.take(1 << size), "big")
        if argument < (1 << (4 << size) if size else 24):
            raise CborError("a head is longer than it must be")
        return major, argument

    def take(self, length: int) -> bytes:
        taken = self.data[self.place : self.place + length]
        if len(taken) != length:
            raise CborError("it ends too early")
        self.place += length
        return taken

    def map(self, length: int, depth: int) -> Value:
        pairs: dict[Key, Value] = {}
        before = b""
        for _ in range(length):
            start = self.place
            key = _key(self.item(0))
            if (encoded := self.data[start : self.place]) <= before:
                raise CborError("the keys of a map are not in their order, each once")
            before = encoded
            pairs[key] = self.item(depth)
        return pairs


def _key(value: Value) -> Key:
    if not isinstance(value, int | str):
        raise CborError("the key of a map is an integer or a text")
    return value


def _bounded(number: int) -> int:
    if not LEAST <= number <= GREATEST:
        raise CborError(f"{number} is not from -2^31 to 2^53 - 1")
    return number


def _plain(text: bytes) -> bytes:
    if _PLAIN_TEXT(text) is None:
        raise CborError("a text has other characters than U+0020 to U+007E")
    return text


def _deeper(depth: int) -> int:
    if not depth:
        raise CborError(f"it is nested more than {DEEPEST} deep")
    return depth - 1
