"""Parsing of literals: numbers, strings, dates and others (OData ABNF, section 7)."""

from __future__ import annotations

import re

from keyrack.api.odata import syntax_hints, tokens
from keyrack.api.odata.ast import Literal, LiteralKind
from keyrack.api.odata.cursor import Cursor

_KINDS: dict[str | None, LiteralKind] = {
    "guid": LiteralKind.GUID,
    "string": LiteralKind.STRING,
    "date_time": LiteralKind.DATE_TIME,
    "date": LiteralKind.DATE,
    "time": LiteralKind.TIME,
    "number": LiteralKind.INTEGER,
}
_WORDS = {"null": LiteralKind.NULL, "true": LiteralKind.BOOLEAN, "false": LiteralKind.BOOLEAN}
_NUMBERS = ("NaN", "INF")


class LiteralParser(Cursor):
    """Parses literals at the cursor."""

    __slots__ = ()

    def literal(self) -> Literal | None:
        """A literal; None, without moving the cursor, if there is none."""
        match = tokens.OPERAND(self.text, self.at)
        if match is None:
            return None
        if match.lastgroup == "name":
            return self.word(match[0])
        return self.value(match)

    def value(self, match: re.Match[str]) -> Literal | None:
        """The literal of the operand `match`; None if it is no literal."""
        kind = _KINDS.get(match.lastgroup)
        if kind is None:
            return None
        text = match[0]
        at = self.at
        if kind is LiteralKind.STRING:
            text = text[1:-1].replace("''", "'")
        elif kind is LiteralKind.INTEGER:
            if "." in text:
                kind = LiteralKind.DECIMAL
            if text == "-INF" or "e" in text or "E" in text:
                kind = LiteralKind.DOUBLE
        elif kind is LiteralKind.DATE_TIME and match["offset"] is None:
            kind = LiteralKind.WALL_CLOCK
        self.at = match.end()
        return Literal(kind, text, at)

    def word(self, text: str) -> Literal | None:
        """The literal that begins with the name `text`, such as `null` or `Sales.Pattern'Yellow'`."""
        at = self.at
        end = at + len(text)
        following = self.text[end : end + 1]
        if following == "'":
            return self._prefixed(text)
        if following == "(" or following == "/":
            return None
        kind = LiteralKind.DOUBLE if text in _NUMBERS else _WORDS.get(text.lower())
        if kind is None:
            return None
        self.at = end
        return Literal(kind, text if kind is LiteralKind.DOUBLE else text.lower(), at)

    def _prefixed(self, prefix: str) -> Literal:
        at = self.at
        match = tokens.QUOTED(self.text, at + len(prefix))
        if match is None:
            self.fail("the quoted value does not end", at)
        content = match[0][1:-1].replace("''", "'")
        kind = tokens.prefixed(prefix, content)
        if kind is None:
            self.fail("the literal is not valid", at, hint=syntax_hints.of_prefix(prefix))
        if kind is LiteralKind.OTHER:
            self.refuse_later(f"A {prefix.lower()} literal")
        self.at = match.end()
        return Literal(kind, content, at)

    def literals(self) -> tuple[Literal, ...] | None:
        """A list of literals in parentheses; None, with an undefined cursor, if there is none (ABNF: listExpr)."""
        self.at += 1
        self.blanks()
        if self.sees(")"):
            self.at += 1
            return ()
        items: list[Literal] = []
        while (item := self.literal()) is not None:
            items.append(item)
            if not self.comma():
                self.blanks()
                if self.sees(")"):
                    self.at += 1
                    return tuple(items)
                return None
        return None
