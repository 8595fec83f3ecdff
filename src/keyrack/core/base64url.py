"""Bytes in JSON and URLs: base64url (RFC 4648) without padding."""

from __future__ import annotations

import base64
import re
from typing import Annotated

from pydantic import BeforeValidator, WithJsonSchema
from pydantic_core import PydanticCustomError, PydanticKnownError

LONGEST = 2_000  # characters: no message is longer
INVALID = "The value must be base64url (RFC 4648, section 5) without padding, but {defect}."
_OTHER = re.compile(r"[^A-Za-z0-9_-]")


def base64url(data: bytes) -> str:
    """The bytes as text.

    >>> base64url(bytes([251, 255]))
    '-_8'
    """
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def octets(text: str) -> bytes:
    """The bytes of a text, which must be in its only form. Raises `ValueError`.

    >>> octets("-_8")
    b'\\xfb\\xff'
    """
    if len(text) > LONGEST:
        raise _invalid(f"has {len(text)} characters, and {LONGEST} are the maximum")
    if other := _OTHER.search(text):
        raise _invalid(f"contains {other[0]!a}")
    if len(text) % 4 == 1:
        raise _invalid(f"ends after {len(text)} characters, in the middle of a byte")
    data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if base64url(data) != text:
        raise _invalid("ends with a character whose unused bits are not zero")
    return data


def _invalid(defect: str) -> ValueError:
    return ValueError(INVALID.format(defect=defect))


def _octets(value: object) -> bytes:
    if not isinstance(value, str):
        raise PydanticKnownError("string_type")
    try:
        return octets(value)
    except ValueError as error:
        raise PydanticCustomError("base64url", "{sentence}", {"sentence": str(error)}) from None


Octets = Annotated[
    bytes,
    BeforeValidator(_octets),
    WithJsonSchema({"type": "string", "format": "base64url", "pattern": "^[A-Za-z0-9_-]*$", "maxLength": LONGEST}),
]
