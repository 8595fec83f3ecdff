"""In charge of the forms of members: which items are a value of one, and which value of Python it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from keyrack.offline_keys.cbor import GREATEST, Key, Malformed, Value
from keyrack.offline_keys.public_key import PublicKey


@dataclass(frozen=True, slots=True)
class Form:
    """How a value is read from an item, and put into one."""

    read: Callable[[Value], Any]  # raises `Malformed`
    write: Callable[[Any], Value] = lambda value: value


def number(least: int, greatest: int = GREATEST) -> Form:
    def read(value: Value) -> int:
        if not isinstance(value, int) or not least <= value <= greatest:
            raise Malformed(f"this is no number from {least} to {greatest}")
        return value

    return Form(read)


def text(longest: int, *, shortest: int = 1) -> Form:
    def read(value: Value) -> str:
        if not isinstance(value, str) or not shortest <= len(value) <= longest:
            raise Malformed(f"this is no text of {shortest} to {longest} characters")
        return value

    return Form(read)


def octets(*lengths: int) -> Form:
    """Bytes of one of these lengths, or of any."""

    def read(value: Value) -> bytes:
        if not isinstance(value, bytes) or (lengths and len(value) not in lengths):
            raise Malformed(f"these are no bytes of the length {lengths}")
        return value

    return Form(read)


def array(*forms: Form) -> Form:
    """A tuple, of these in their order."""

    def read(value: Value) -> tuple[Any, ...]:
        if not isinstance(value, list) or len(value) != len(forms):
            raise Malformed(f"this is no array of {len(forms)}")
        return tuple(form.read(each) for form, each in zip(forms, value, strict=True))

    return Form(read, lambda values: [form.write(each) for form, each in zip(forms, values, strict=True)])


def alone(form: Form) -> Form:
    """What an array of one has in it."""
    one = array(form)
    return Form(lambda value: one.read(value)[0], lambda value: [form.write(value)])


def several(form: Form, most: int, *, least: int = 1) -> Form:
    """A list of `least` to `most`."""

    def read(value: Value) -> list[Any]:
        if not isinstance(value, list) or not least <= len(value) <= most:
            raise Malformed(f"this is no array of {least} to {most}")
        return [form.read(each) for each in value]

    return Form(read, lambda values: [form.write(each) for each in values])


def ascending(form: Form) -> Form:
    """The same, where each is greater than the one before."""

    def read(value: Value) -> list[Any]:
        values = form.read(value)
        if values != sorted(set(values)):
            raise Malformed("these do not ascend")
        return values

    return Form(read, form.write)


def wrapped(key: Key, form: Form, **others: int) -> Form:
    """What stands in a map under this key, beside others that are always the same."""

    def read(value: Value) -> Any:
        if not isinstance(value, dict) or {name: each for name, each in value.items() if name != key} != others:
            raise Malformed(f"this is no map of {[key, *others]}")
        return form.read(value.get(key, {}))

    return Form(read, lambda value: {key: form.write(value), **others})


def record(make: Callable[..., tuple[Any, ...]], forms: Mapping[Key, Form]) -> Form:
    """A named tuple, of a map with these keys."""

    def read(value: Value) -> tuple[Any, ...]:
        if not isinstance(value, dict) or set(value) != set(forms):
            raise Malformed(f"this is no map of {list(forms)}")
        return make(*(form.read(value[key]) for key, form in forms.items()))

    def write(values: tuple[Any, ...]) -> Value:
        return {key: form.write(each) for (key, form), each in zip(forms.items(), values, strict=True)}

    return Form(read, write)


PUBLIC_KEY = Form(PublicKey.from_map, lambda key: cast("PublicKey", key).map)
