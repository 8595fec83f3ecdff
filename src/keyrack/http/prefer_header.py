"""Preferences of a client: the header `Prefer` (RFC 7240).

Unknown or malformed preferences are ignored.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from keyrack.api.exchange import Returns
from keyrack.assignments.outcome_waits import LONGEST_WAIT

LONGEST_KEPT = 200  # maximum characters of a cached header

_WORD = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]++"
# Parts between commas; an unclosed quotation takes the rest. The expression never backtracks, so it takes one pass
_PARTS = re.compile(r'(?:[^,"]++|"(?:[^"\\]|\\.)*+(?:"|\\?+\Z))++', re.DOTALL)
_PREFERENCE = re.compile(
    rf'[ \t]*+(?P<name>{_WORD})[ \t]*+(?:=[ \t]*+(?:"(?P<quoted>(?:[^"\\]|\\.)*+)"|(?P<token>{_WORD})?+)[ \t]*+)?+'
    r"(?:;.*+)?+",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Prefer:
    """The supported preferences of a client."""

    strict: bool = False  # reject unknown properties of a body
    returns: Returns = ""  # the response of a write; "" for no preference
    wait: int = 0  # seconds that the response may wait for outcomes; 0 for none


NONE = Prefer()


def preferences(header: str | None) -> Prefer:
    """The preferences of a header, or of several that were joined by commas."""
    if header is None:
        return NONE
    return _kept(header) if len(header) <= LONGEST_KEPT else _read(header)


@lru_cache(maxsize=256)
def _kept(header: str) -> Prefer:
    return _read(header)


def _read(header: str) -> Prefer:
    given: dict[str, str] = {}
    for part in _PARTS.findall(header):
        if (match := _PREFERENCE.fullmatch(part)) is None:
            continue
        quoted: str | None = match["quoted"]
        value: str = (match["token"] or "") if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
        given.setdefault(match["name"].lower(), value.lower())  # the first of repeated preferences counts
    returns = given.get("return")
    return Prefer(
        strict=given.get("handling") == "strict",
        returns=returns if returns == "representation" or returns == "minimal" else "",
        wait=_seconds(given.get("wait", "")),
    )


def _seconds(text: str) -> int:
    """The seconds of `wait`; 0 for an invalid value.

    They are an upper bound (RFC 7240, section 4.3), so a shorter wait honours a longer one.
    """
    if not (text.isascii() and text.isdigit()):
        return 0
    return min(LONGEST_WAIT, int(text[:LONGEST_KEPT]))
