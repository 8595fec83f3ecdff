"""Codes of a box's refusals, as numbers and as texts."""

from __future__ import annotations

from enum import IntEnum


class BoxRefusalCode(IntEnum):
    """The codes, numbered as in docs/key-protocol.md. A number is never reused."""

    GOOD = 0
    REFUSED = 1  # the only refusal on the wire until possession of a valid key is proven
    TOO_LONG = 2
    ENCODING = 3
    STRUCTURE = 4
    HEADER = 5
    ALGORITHM = 6
    TYP = 7
    CLAIMS = 8
    ISSUING_KEY = 9
    ISSUER = 10
    AUDIENCE = 11
    FUTURE = 12
    NOT_YET = 13
    EXPIRED = 14
    UNCERTAIN = 15
    LIST = 16
    INDEX = 17
    REVOKED = 18
    STALE = 19
    RIGHT = 20
    NONCE = 21
    OTHER_KEY = 22
    CHALLENGE = 23
    COUNTER = 24
    KEY_SIGNATURE = 25
    ANSWER_SIGNATURE = 26
    BUSY = 27
    OLDER = 28
    INFLATE = 29
    RECEIPT = 30
    SIGNATURE = 31
    NOT_NOW = 32
    BOX = 33
    UNKNOWN = 34
    GENERATION = 35
    OTHER_PART = 36

    @property
    def text(self) -> str:
        """The code as text, such as `key-signature`."""
        return self.name.lower().replace("_", "-")
