"""Types of message fields: conversion between CBOR items and Python values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from keyrack.offline_keys.cbor import GREATEST, CborError, Key, Value
from keyrack.offline_keys.public_key import PublicKey


@dataclass(frozen=True, slots=True)
class CborType:
    """A converter between items and values."""

    read: Callable[[Value], Any]  # raises `CborError`
    write: Callable[[Any], Value] = lambda value: value


def number(least: int, greatest: int = GREATEST) -> CborType:
    def read(value: Value) -> int:
        if not isinstance(value, int) or not least <= value <= greatest:
            raise CborError(f"this is no number from {least} to {greatest}")
        return value

    return CborType(read)


def text(longest: int, *, shortest: int = 1) -> CborType:
    def read(value: Value) -> str:
        if not isinstance(value, str) or not shortest <= len(value) <= longest:
            raise CborError(f"this is no text of {shortest} to {longest} characters")
        return value

    return CborType(read)


def octets(*lengths: int) -> CborType:
    """Bytes of one of these lengths. Without lengths, any length is valid."""

    def read(value: Value) -> bytes:
        if not isinstance(value, bytes) or (lengths and len(value) not in lengths):
            raise CborError(f"these are no bytes of the length {lengths}")
        return value

    return CborType(read)


def array(*forms: CborType) -> CborType:
    """A tuple with elements of these types, in this order."""

    def read(value: Value) -> tuple[Any, ...]:
        if not isinstance(value, list) or len(value) != len(forms):
            raise CborError(f"this is no array of {len(forms)}")
        return tuple(form.read(each) for form, each in zip(forms, value, strict=True))

    return CborType(read, lambda values: [form.write(each) for form, each in zip(forms, values, strict=True)])


def alone(form: CborType) -> CborType:
    """The element of an array with exactly one."""
    array_type = array(form)
    return CborType(lambda value: array_type.read(value)[0], lambda value: [form.write(value)])


def several(form: CborType, most: int, *, least: int = 1) -> CborType:
    """A list of `least` to `most` elements."""

    def read(value: Value) -> list[Any]:
        if not isinstance(value, list) or not least <= len(value) <= most:
            raise CborError(f"this is no array of {least} to {most}")
        return [form.read(each) for each in value]

    return CborType(read, lambda values: [form.write(each) for each in values])


def ascending(form: CborType) -> CborType:
    """The same list, in strictly ascending order."""

    def read(value: Value) -> list[Any]:
        values = form.read(value)
        if values != sorted(set(values)):
            raise CborError("these do not ascend")
        return values

    return CborType(read, form.write)


def wrapped(key: Key, form: CborType, **others: int) -> CborType:
    """The value under one key of a map.

    All other keys have constant values.
    """

    def read(value: Value) -> Any:
        if not isinstance(value, dict) or {name: each for name, each in value.items() if name != key} != others:
            raise CborError(f"this is no map of {[key, *others]}")
        return form.read(value.get(key, {}))

    return CborType(read, lambda value: {key: form.write(value), **others})


def record(make: Callable[..., tuple[Any, ...]], forms: Mapping[Key, CborType]) -> CborType:
    """A named tuple, from a map with exactly these keys."""

    def read(value: Value) -> tuple[Any, ...]:
        if not isinstance(value, dict) or set(value) != set(forms):
            raise CborError(f"this is no map of {list(forms)}")
        return make(*(form.read(value[key]) for key, form in forms.items()))

    def write(values: tuple[Any, ...]) -> Value:
        return {key: form.write(each) for (key, form), each in zip(forms.items(), values, strict=True)}

    return CborType(read, write)


PUBLIC_KEY = CborType(PublicKey.from_map, lambda key: cast("PublicKey", key).map)
