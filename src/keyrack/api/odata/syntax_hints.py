"""Hints for malformed text: what is missing at the error, or the OData 4 form."""

from __future__ import annotations

import re
from collections.abc import Callable

from keyrack.api.odata import tokens
from keyrack.core.suggestions import did_you_mean

FORMS_OF_TIME = "Write a time as 2026-01-31T08:00:00Z, without quotes, and a date as 2026-01-31."

_WORDS = (*tokens.OPERATORS.split("|"), "not", "asc", "desc")
# Operators of other languages -> OData operators
_SYMBOLS = {
    "==": "eq", "=": "eq", "!=": "ne", "<>": "ne", ">=": "ge", ">": "gt", "<=": "le", "<": "lt", "&&": "and",
    "||": "or", "!": "not", "+": "add", "*": "mul", "/": "div", "%": "mod",
}  # fmt: skip
# Prefix of a quoted literal of OData 2 and 3 -> its OData 4 form
_OLD_PREFIXES = {
    "datetime": "2026-01-31T08:00:00Z with an offset",
    "datetimeoffset": "2026-01-31T08:00:00Z",
    "time": "08:00:00",
    "guid": "01234567-89ab-cdef-0123-456789abcdef",
    "x": "binary'AQID'",
}
OLD_TYPE_NAME = "Write the type without quotes; OData 4 does not use them."

_OPERATOR = re.compile(rf"([ \t]*)({tokens.OPERATORS})(?![\w.])(.?)", re.IGNORECASE | re.DOTALL).match
_SYMBOL = re.compile(r"[ \t]*([=!<>]=|<>|&&|\|\||[=<>!+*/%])").match
_WORD = re.compile(r"[ \t]+([^\W\d]\w*)").match
_SUFFIX = re.compile(r"[mdfl](?!\w)", re.IGNORECASE).match
_CLOCK = re.compile(r"[ \t]+\d\d?:\d\d").match
_DATE_BEFORE = re.compile(r"\d{4}-\d\d-\d\d\Z").search
_DATE_LIKE = re.compile(r"\d{1,4}([-./])\d{1,2}\1\d{1,4}(?:[T ]\d\d?:\d\d)?").finditer


def hint(text: str, position: int) -> str:
    """A sentence about the error at the position of the text; empty if none applies."""
    for look in _LOOKS:
        if sentence := look(text, position):
            return sentence
    return ""


def _number_suffix(text: str, position: int) -> str:
    match = _SUFFIX(text, position)
    if match is None or not text[position - 1 : position].isdigit():
        return ""
    return f"Write the number without the suffix '{match[0]}', which OData 4 does not use."


def _missing_blank(text: str, position: int) -> str:
    match = _OPERATOR(text, position)
    if match is None or position == 0:
        return ""
    gap, operator, following = match.groups()
    if not gap and text[position - 1] != ")":
        return f"A blank is missing before '{operator}'."
    return f"A blank is missing after '{operator}'." if following and following not in " \t(" else ""


def _time(text: str, position: int) -> str:
    if _CLOCK(text, position) and _DATE_BEFORE(text, 0, position):
        return FORMS_OF_TIME
    start = max(0, position - 20)
    likeness = _DATE_LIKE(text, start, position + 20)
    return FORMS_OF_TIME if any(match.start() <= position <= match.end() for match in likeness) else ""


def _quotes(text: str, position: int) -> str:
    if text.startswith('"', position):
        return "Write text in single quotes."
    return "Close the quotes of the text, and double each quote inside it." if text.startswith("'", position) else ""


def _symbol(text: str, position: int) -> str:
    match = _SYMBOL(text, position)
    return f"Write '{_SYMBOLS[match[1]]}' instead of '{match[1]}'." if match else ""


def _word(text: str, position: int) -> str:
    match = _WORD(text, position)
    if match is None or match[1].lower() in _WORDS:
        return ""
    return f"There is no operator '{match[1][:50]}'.{did_you_mean(match[1], _WORDS)}"


_LOOKS: tuple[Callable[[str, int], str], ...] = (_number_suffix, _missing_blank, _time, _quotes, _symbol, _word)


def of_prefix(prefix: str) -> str:
    """A sentence about a quoted literal with this prefix; empty if OData 2 and 3 do not have it."""
    form = _OLD_PREFIXES.get(prefix.lower())
    return "" if form is None else f"Write {form} instead of {prefix}'...', which OData 4 does not use."
