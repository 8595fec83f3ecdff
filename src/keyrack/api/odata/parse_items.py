"""Parsing of list items: items of `$orderby` and `$compute`, and paths."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise

from keyrack.api.odata import tokens
from keyrack.api.odata.ast import ComputeItem, OrderItem, Path
from keyrack.api.odata.parse_expressions import Parser

Keyword = Callable[[str, int], re.Match[str] | None]

# The aggregation specification requires lower-case keywords, $compute accepts any case
AS = re.compile(rf"{tokens.BEFORE_WORD}as[ \t]+").match
AS_IN_ANY_CASE = re.compile(rf"{tokens.BEFORE_WORD}as[ \t]+", re.IGNORECASE).match

_NAME = re.compile(tokens.IDENTIFIER).match
_DIRECTION = re.compile(rf"{tokens.BEFORE_WORD}(asc|desc)(?!\w)", re.IGNORECASE).match
_DIGITS = re.compile(r"[0-9]+").match


class Items(Parser):
    """Parses one item at the cursor."""

    __slots__ = ()

    def property_path(self) -> Path:
        """Names of properties, with optional types between them (ABNF: groupingProperty)."""
        at = self.at
        match = tokens.SEGMENTS(self.text, at)
        if match is None:
            self.fail("the path of a property was expected")
        self.check_name(match[0], at)
        names = tuple(match[0].split("/"))
        types = ["." in name for name in names]
        if any(types):
            if types[-1] or any(first and second for first, second in pairwise(types)):
                self.fail("the path of a property was expected")
            self.refuse_later("A type in a path")
        self.at = match.end()
        return Path(names, at)

    def compute_item(self, keyword: Keyword = AS_IN_ANY_CASE) -> ComputeItem:
        at = self.at
        expression = self.expression()
        alias = self.alias_behind(keyword)
        if alias is None:
            self.fail("'as' and a name were expected")
        return ComputeItem(expression, alias, at)

    def kept_as(self) -> None:
        """`as` and a name (ABNF: asAlias)."""
        if self.alias_behind(AS) is None:
            self.fail("'as' and a name were expected")

    def alias_behind(self, keyword: Keyword) -> str | None:
        """The name after the keyword; None, without moving the cursor, if the keyword does not follow."""
        match = keyword(self.text, self.at)
        if match is None:
            return None
        at = match.end()
        name = _NAME(self.text, at)
        if name is None:
            self.fail("a name was expected", at)
        self.check_name(name[0], at)
        self.at = name.end()
        return name[0]

    def order_item(self) -> OrderItem:
        at = self.at
        expression = self.expression()
        direction = _DIRECTION(self.text, self.at)
        if direction is not None:
            self.at = direction.end()
        return OrderItem(expression, direction is not None and direction[1].lower() == "desc", at)

    def number(self) -> int:
        """A number of rows. Raises `BadRequest`; the limits reject a number that is too large."""
        match = _DIGITS(self.text, self.at)
        if match is None:
            self.fail("a number was expected")
        if len(match[0]) > 40:
            self.fail("a number has more than 40 digits")
        self.at = match.end()
        return int(match[0])
