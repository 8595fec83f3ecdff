"""In charge of the codes: why a box refuses, as numbers on the wire and in its log, and as texts."""

from __future__ import annotations

from enum import IntEnum


class BoxRefusalCode(IntEnum):
    """Numbered as docs/key-protocol.md does; a number is never given to something else."""

    GOOD = 0
    REFUSED = 1  # all that the wire says until possession of a good key is proven
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
        """`key-signature`"""
        return self.name.lower().replace("_", "-")
