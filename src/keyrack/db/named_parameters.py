"""Named parameters: composed SQL, numbered once when it is complete.

A part names its parameters, such as `:customer` or `:scope`, and does not depend on the parts before it. PostgreSQL
knows only numbers. `compile_statement` replaces the names when a statement is made, so that an execution only looks up
values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import LiteralString

_DIGITS: tuple[LiteralString, ...] = ("0", "1", "2", "3", "4", "5", "6", "7", "8", "9")
_HUNDRED: tuple[LiteralString, ...] = tuple([tens + ones for tens in _DIGITS for ones in _DIGITS])
# Numbers as constants: "0" to "5099"
NUMBERS: tuple[LiteralString, ...] = (
    *_DIGITS,
    *_HUNDRED[10:],
    *[hundreds + rest for hundreds in (*_DIGITS[1:], *_HUNDRED[10:51]) for rest in _HUNDRED],
)
_NAME = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_")
_OPERAND_ENDS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_)]")
# They hide colons, or number parameters themselves
_UNSUPPORTED: tuple[LiteralString, ...] = ("$", "--", "/*")


@dataclass(frozen=True, slots=True)
class NamedStatement:
    """SQL with `$1`, `$2` and so on, and the name of each, in that order."""

    sql: LiteralString
    names: tuple[str, ...]

    def arguments(self, **values: object) -> list[object]:
        """The values in the order of the numbers. Raises `TypeError` for a missing or an unused one."""
        if len(values) > len(self.names):
            unused = ", ".join([f":{name}" for name in values if name not in self.names])
            raise TypeError(f"the statement does not use {unused}")
        return self.select(values)

    def select(self, values: Mapping[str, object]) -> list[object]:
        """The same for a mapping that may contain unused values. Raises `TypeError` for a missing one."""
        try:
            return [*map(values.__getitem__, self.names)]
        except KeyError as missing:
            raise TypeError(f"the statement needs a value for :{missing.args[0]}") from None


def compile_statement(sql: LiteralString) -> NamedStatement:
    """The statement with numbers in place of names, in the order of their first use.

    - A name consists of lower-case letters, digits and `_`. It is the same parameter everywhere in the statement.
    - Quoted texts and identifiers stay unchanged, and so do `::` and `:=`.
    - In brackets, a colon directly behind an operand belongs to a slice, as in `a[i:j]`.

    Raises `ValueError` for a `$`, a comment, a backslash before a quote, and a colon or quote that does not fit.
    """
    numbering = _Numbering()
    return NamedStatement(numbering.number_sql(sql), tuple(numbering.numbers))


class _Numbering:
    """The numbered names of one statement, and the bracket depth at the current position."""

    def __init__(self) -> None:
        self.numbers: dict[str, LiteralString] = {}
        self._depth = 0
        self._unsupported: list[LiteralString] = []  # signs in the statement, perhaps in quotes

    def number_sql(self, sql: LiteralString) -> LiteralString:
        """Number the SQL outside of quoted texts. A doubled quote counts as an end and a new beginning."""
        pieces = sql.split("'")
        if len(pieces) % 2 == 0 or any(text.endswith("\\") for text in pieces[1::2]):
            raise ValueError(f"a quoted text is not terminated, or ends with a backslash: {sql}")
        self._unsupported = [sign for sign in _UNSUPPORTED if sign in sql]
        pieces[::2] = [self._number_unquoted(piece) for piece in pieces[::2]]
        return "'".join(pieces)

    def _number_unquoted(self, sql: LiteralString) -> LiteralString:
        """Number the SQL outside of quoted identifiers."""
        if '"' not in sql:
            return self._number_code(sql)
        pieces = sql.split('"')
        if len(pieces) % 2 == 0:
            raise ValueError(f"a quoted identifier is not terminated, or has an apostrophe: {sql}")
        pieces[::2] = [self._number_code(piece) for piece in pieces[::2]]
        return '"'.join(pieces)

    def _number_code(self, code: LiteralString) -> LiteralString:
        """Number SQL without quotes."""
        for sign in self._unsupported:
            if sign in code:
                raise ValueError(f"{sign} is not supported in a statement with named parameters: {code}")
        written: list[LiteralString] = []
        copied = at = 0
        while (colon := code.find(":", at)) >= 0:
            self._depth += code.count("[", at, colon) - code.count("]", at, colon)
            at = colon + 1
            if code.startswith((":", "="), at):
                at += 1
                continue
            end = at
            while end < len(code) and code[end] in _NAME:
                end += 1
            name = code[at:end]
            if self._depth and (not name or name[0].isdigit() or _follows_operand(code, colon)):
                continue
            if not name or name[0].isdigit():
                raise ValueError(f"a colon is not followed by a name, and is not part of a cast: {code}")
            written += (code[copied:colon], "$", self._number(name))
            copied = at = end
        self._depth += code.count("[", at) - code.count("]", at)
        return "".join((*written, code[copied:])) if written else code

    def _number(self, name: str) -> LiteralString:
        return self.numbers.setdefault(name, NUMBERS[len(self.numbers) + 1])


def _follows_operand(code: LiteralString, colon: int) -> bool:
    """Whether an operand ends directly before the colon. At the start of the code, a quote may precede it."""
    return colon == 0 or code[colon - 1].lower() in _OPERAND_ENDS
