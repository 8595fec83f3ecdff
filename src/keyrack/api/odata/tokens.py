"""The tokens of the language: one pattern for operands, one for operators.

The parser always knows which of the two can follow, so it never backs up, and a property may be called `eq`. Text is
already percent-decoded. Source: OData ABNF 4.01, sections 4 (white space), 6 and 7.
"""

from __future__ import annotations

import re

from keyrack.api.odata.ast import LiteralKind

# As the ABNF notes, letters are not limited to ASCII
IDENTIFIER = r"[^\W\d]\w*+"
QUALIFIED = rf"{IDENTIFIER}(?:\.{IDENTIFIER})*+"
LONGEST = 128  # characters of an identifier

_DATE = r"-?(?:0[0-9]{3}|[1-9][0-9]{3,})-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])"
_HOUR_MINUTE = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]"
_TIME = rf"{_HOUR_MINUTE}(?::(?:[0-5][0-9]|60)(?:\.[0-9]{{1,12}})?)?"
# RFC 3339 does not limit the fraction, and an event's `dateTime` is returned as it was sent
_LONG_TIME = rf"{_HOUR_MINUTE}(?::(?:[0-5][0-9]|60)(?:\.[0-9]+)?)?"
# An unencoded `+` has become a blank, and is meant as the sign of the offset
_OFFSET = rf"[Zz]|[-+ ]{_HOUR_MINUTE}"
# One of the forms of a date-time, which programs use
UTC = rf"[0-9]{{4}}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])[Tt]{_LONG_TIME}[Zz]"
_NUMBER = r"[-+]?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?|-INF(?!\w)"
GUID = r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}(?!\w)"

OPERAND = re.compile(
    rf"(?P<guid>{GUID})"
    rf"|(?P<name>{QUALIFIED}(?:/{QUALIFIED})*+)(?P<gap>[ \t]+(?=\())?"
    rf"|(?P<string>'[^']*(?:''[^']*)*')"
    rf"|(?P<date_time>{_DATE}[Tt]{_LONG_TIME}(?P<offset>{_OFFSET})?)"
    rf"|(?P<date>{_DATE})"
    rf"|(?P<time>{_TIME})"
    rf"|(?P<number>{_NUMBER})"
    rf"|(?P<open>\()"
    rf"|(?P<minus>-)"
    rf"|(?P<dollar>\$(?:it|this|these|root)(?!\w))"
    rf"|(?P<at>@{QUALIFIED}(?:\#{IDENTIFIER})?)"
    rf"|(?P<array>\[)"
    rf"|(?P<object>\{{)"
).match

OPERATORS = "and|or|eq|ne|gt|ge|lt|le|in|has|add|sub|mul|divby|div|mod"
# The grammar requires blanks around a word (RWS). Beside a parenthesis they are optional: clients such as Power Query
# omit them there, and the text is unambiguous
BEFORE_WORD = r"(?:[ \t]+|(?<=\)))"
_BEHIND_WORD = r"(?=[ \t(])[ \t]*+"
# A word at an operator position; the parser knows which words are operators
OPERATOR = re.compile(rf"{BEFORE_WORD}([A-Za-z]{{2,5}}){_BEHIND_WORD}").match

# `not eq 1` and `(not )` have a property called `not`; `not a`, `not(a)` and `not eq eq 1` negate
NOT = re.compile(
    rf"{_BEHIND_WORD}(?![ \t),:\]}}]|\Z)(?!(?:{OPERATORS}){_BEHIND_WORD}(?!(?:{OPERATORS})[ \t(]))", re.IGNORECASE
).match
# Blanks before a parenthesis: without an operator between them, the parenthesis belongs to the preceding name
OPENS = re.compile(r"[ \t]*(?=\()").match
OPEN = re.compile(r"[ \t]*\([ \t]*").match
CLOSE = re.compile(r"[ \t]*\)").match

PARTS = re.compile(r"[^./#@]+").findall
NAMED_ARGUMENT = re.compile(rf"{IDENTIFIER}[ \t]*=[ \t]*").match
LAMBDA = re.compile(rf"\([ \t]*({IDENTIFIER})[ \t]*:[ \t]*").match
TYPE_NAME = re.compile(rf"(?:Collection[ \t]*\([ \t]*{QUALIFIED}[ \t]*\)|{QUALIFIED})(?=[ \t]*\))").match
SEGMENTS = re.compile(rf"{QUALIFIED}(?:/{QUALIFIED})*").match
ANNOTATION = re.compile(rf"@{QUALIFIED}(?:#{IDENTIFIER})?").match
QUOTED = re.compile(r"'[^']*(?:''[^']*)*'").match
JSON_STRING = re.compile(r'"(?:[^"\\]|\\(?:["\\/bfnrt]|u[0-9A-Fa-f]{4}))*"').match
COLON = re.compile(r"[ \t]*:[ \t]*").match
COMMA = re.compile(r"[ \t]*,[ \t]*").match
SEMICOLON = re.compile(r"[ \t]*;[ \t]*").match

_ENUM_MEMBERS = re.compile(rf"(?:{IDENTIFIER}|[-+]?[0-9]{{1,19}})(?:,(?:{IDENTIFIER}|[-+]?[0-9]{{1,19}}))*").fullmatch
_DURATION = re.compile(
    r"-?P(?:[0-9]+D)?(?:T(?:[0-9]+H)?(?:[0-9]+M)?(?:[0-9]+(?:\.[0-9]+)?S)?)?", re.IGNORECASE
).fullmatch
_BINARY = re.compile(r"(?:[-\w]{4})*(?:[-\w]{2}[AEIMQUYcgkosw048]=?|[-\w][AQgw](?:==)?)?", re.ASCII).fullmatch
_GEO = re.compile(r"SRID=[0-9]{1,5};[A-Za-z]+\([-+0-9.eE (),A-Za-z]*\)", re.IGNORECASE).fullmatch


def prefixed(prefix: str, content: str) -> LiteralKind | None:
    """The kind of a literal such as `Sales.Pattern'Yellow'`; `content` has no quotes. None if it is malformed.

    Source: OData ABNF, section 7. Geographic values are checked in outline only; they are rejected with 501.
    """
    lower = prefix.lower()
    if lower == "duration":
        return LiteralKind.OTHER if _DURATION(content) else None
    if lower == "binary":
        return LiteralKind.OTHER if _BINARY(content) else None
    if lower in ("geography", "geometry"):
        return LiteralKind.OTHER if _GEO(content) else None
    if "." in prefix and "/" not in prefix and _ENUM_MEMBERS(content):
        return LiteralKind.ENUM
    return None
