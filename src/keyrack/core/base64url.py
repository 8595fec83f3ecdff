"""Bytes in JSON and URLs: base64url (RFC 4648) without padding."""

from __future__ import annotations

import base64
import re
from typing import Annotated

from pydantic import BeforeValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

LONGEST = 2_000  # characters: no message is longer
INVALID = "The value must be base64url (RFC 4648, section 5) without padding."
_FORM = re.compile(r"[A-Za-z0-9_-]*").fullmatch


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
    if not _FORM(text) or len(text) > LONGEST or len(text) % 4 == 1:
        raise ValueError(INVALID)
    data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if base64url(data) != text:
        raise ValueError(INVALID)
    return data


def _octets(value: object) -> bytes:
    try:
        return octets(value if isinstance(value, str) else "?")
    except ValueError:
        raise PydanticCustomError("base64url", INVALID) from None


Octets = Annotated[
    bytes,
    BeforeValidator(_octets),
    WithJsonSchema({"type": "string", "format": "base64url", "pattern": "^[A-Za-z0-9_-]*$", "maxLength": LONGEST}),
]
