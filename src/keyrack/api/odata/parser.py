"""Parsing of every query option, with `parse` as entry.

Source: OData 4.01 Part 2, section 5.1, and OData ABNF, section 2.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NoReturn

from keyrack.api.odata import tokens
from keyrack.api.odata.ast import AstOptions, ComputeItem, ExpandItem, OrderItem, SelectItem, Tree
from keyrack.api.odata.cursor import BLANKS, NESTING
from keyrack.api.odata.parse_search import search
from keyrack.api.odata.parse_unsupported import UnsupportedParser
from keyrack.core.suggestions import did_you_mean

_OPTION = re.compile(r"\$?([A-Za-z]+)[ \t]*=[ \t]*").match
_ALIAS = re.compile(rf"@{tokens.IDENTIFIER}[ \t]*=[ \t]*").match
_NAMES = re.compile(rf"\([ \t]*{tokens.IDENTIFIER}(?:[ \t]*,[ \t]*{tokens.IDENTIFIER})*[ \t]*\)").match
_SELECTED = re.compile(rf"@?{tokens.QUALIFIED}(?:#{tokens.IDENTIFIER})?(?:\.\*|(?:/@?{tokens.QUALIFIED})*)").match
_EXPANDED = re.compile(rf"@?{tokens.QUALIFIED}(?:#{tokens.IDENTIFIER})?(?:/@?{tokens.QUALIFIED})*(?:/\*)?").match
_LEVELS = re.compile(r"[1-9][0-9]*|max", re.IGNORECASE).match
_COUNT = re.compile(r"true|false", re.IGNORECASE).match

_IN_SELECT = ("filter", "search", "count", "orderby", "skip", "top", "compute", "select")
_IN_EXPAND = (*_IN_SELECT, "expand", "levels", "apply")
_IN_REFERENCE = ("filter", "search", "orderby", "skip", "top", "count")
_IN_COUNT = ("filter", "search")


class OptionParser(UnsupportedParser):
    """Parses a query option, and options in the parentheses of `$select` and `$expand`."""

    __slots__ = ()

    def orderby(self) -> tuple[OrderItem, ...]:
        items = [self.order_item()]
        while self.comma():
            items.append(self.order_item())
        return tuple(items)

    def compute(self) -> tuple[ComputeItem, ...]:
        items = [self.compute_item()]
        while self.comma():
            items.append(self.compute_item())
        return tuple(items)

    def count(self) -> bool:
        match = _COUNT(self.text, self.at)
        if match is None:
            self.fail("'true' or 'false' was expected")
        self.at = match.end()
        return match[0].lower() == "true"

    def select(self) -> tuple[SelectItem, ...]:
        items: list[SelectItem] = []
        while True:
            at = self.at
            if self.sees("*"):
                self.at += 1
                items.append(SelectItem(("*",), None, at))
            else:
                items.append(self._selected())
            if not self.comma():
                return tuple(items)

    def _selected(self) -> SelectItem:
        at = self.at
        match = _SELECTED(self.text, at)
        if match is None:
            self.fail("the name of a property was expected")
        text = match[0]
        self.at = match.end()
        self.check_name(text, at)
        qualified = any(mark in text for mark in ".@#")
        if qualified:
            self.refuse_later("A qualified name or an annotation in $select")
        options = None
        if self.opens():
            if names := _NAMES(self.text, self.at):
                self.at = names.end()
                self.refuse_later("A function in $select")
            elif qualified and "/" not in text and not text.startswith("@"):
                self.fail("an action or a function takes no options")
            else:
                options = self.options(_IN_SELECT)
        return SelectItem(tuple(text.split("/")), options, at)

    def expand(self) -> tuple[ExpandItem, ...]:
        items: list[ExpandItem] = []
        while True:
            items.append(self._expanded())
            if not self.comma():
                return tuple(items)

    def _expanded(self) -> ExpandItem:
        at = self.at
        if self.sees("*"):
            self.at += 1
            return self._star(at)
        if self.sees("$value"):
            self.at += len("$value")
            self.refuse_later("$value in $expand")
            return ExpandItem((), None, at)
        if (match := _EXPANDED(self.text, at)) is None:
            self.fail("the name of a relation was expected")
        text = match[0]
        self.at = match.end()
        self.check_name(text, at)
        if any(mark in text for mark in ".@#"):
            if "/" not in text and not text.startswith("@"):
                self.fail(f"'{text[:50]}' is the name of a type", at)
            self.refuse_later("A qualified name or an annotation in $expand")
        if text.endswith("/*"):
            return self._star(at)
        allowed = _IN_EXPAND
        alone = self.sees("/$count")
        if alone:
            self.at += len("/$count")
            allowed = _IN_COUNT
        elif self.sees("/$ref"):
            self.at += len("/$ref")
            self.refuse_later("/$ref in $expand")
            allowed = _IN_REFERENCE
        options = self.options(allowed) if self.opens() else None
        return ExpandItem(tuple(text.split("/")), options, at, alone)

    def _star(self, at: int) -> ExpandItem:
        """`*`, `*/$ref` or `*($levels=2)`: rejected, because no limit would apply to it."""
        self.refuse_later("'*' in $expand")
        if self.sees("/$ref"):
            self.at += len("/$ref")
        elif self.opens():
            self.options(("levels",))
        return ExpandItem(("*",), None, at)

    def count_options(self) -> None:
        self.options(_IN_COUNT)

    def options(self, allowed: tuple[str, ...]) -> AstOptions:
        """The options in parentheses, separated by semicolons. Rejects a repeated option."""
        self.open()
        values: dict[str, object] = {}
        while True:
            at = self.at
            if alias := _ALIAS(self.text, at):
                self.at = alias.end()
                self.expression()
                self.refuse_later("An alias in parentheses")
            else:
                match = _OPTION(self.text, at)
                name = match[1].lower() if match else ""
                if match is None or name not in allowed:
                    self._fail_on_option(match[1] if match else "", allowed)
                if name in values:
                    self.fail(f"${name} is given more than once", at)
                self.at = match.end()
                values[name] = self._option(name)
            if not self.semicolon():
                break
        self.close()
        # `_option` gives each value the type of its option, which the type of `values` does not show
        return AstOptions(**{name: value for name, value in values.items() if name in AstOptions._fields})  # type: ignore[arg-type]

    def _fail_on_option(self, name: str, allowed: tuple[str, ...]) -> NoReturn:
        valid = [f"${option}" for option in allowed]
        suggestion = did_you_mean(f"${name}", valid).strip() if name else None
        self.fail(f"one of the options {', '.join(valid)} was expected", hint=suggestion, valid=valid)

    def _option(self, name: str) -> object:
        match name:
            case "filter":
                return self.expression()
            case "orderby":
                return self.orderby()
            case "select":
                return self.select()
            case "expand":
                return self.expand()
            case "search":
                return search(self, nested=True)
            case "top" | "skip":
                return self.number()
            case "levels":
                levels = _LEVELS(self.text, self.at)
                if levels is None:
                    self.fail("a number or 'max' was expected")
                self.at = levels.end()
            case "compute":
                self.compute()
            case "apply":
                self.apply()
            case _:
                return self.count()
        return self.refuse_later(f"${name} in parentheses")


def _literal(parser: OptionParser) -> Tree:
    literal = parser.literal()
    if literal is None:
        parser.fail("a literal was expected")
    return literal


def _text(pattern: str) -> Callable[[OptionParser], Tree]:
    """An option whose text is one word that matches `pattern`."""
    match = re.compile(pattern).match

    def read(parser: OptionParser) -> Tree:
        token = match(parser.text, parser.at)
        if token is None:
            parser.fail("the value is not valid")
        parser.at = token.end()
        return token[0]

    return read


def _filter(parser: OptionParser) -> Tree:
    return parser.expression()


_READ: dict[str, Callable[[OptionParser], Tree]] = {
    "filter": _filter,
    "expr": _filter,
    "literal": _literal,
    "orderby": OptionParser.orderby,
    "select": OptionParser.select,
    "expand": OptionParser.expand,
    "search": search,
    "top": OptionParser.number,
    "skip": OptionParser.number,
    "count": OptionParser.count,
    "compute": OptionParser.compute,
    "apply": OptionParser.apply,
    "format": _text(r"(?i:atom|json|xml)(?=[ \t]*\Z)|[^/?\#\t]+/ *[^/?\#\t ][^/?\#\t]*"),
}
# Rejected with 501, or with 400 if the text is malformed
_READ_AND_REFUSED: dict[str, Callable[[OptionParser], Tree]] = {
    "index": _text(r"-?[0-9]+"),
    "skiptoken": _text(r"(?s).+"),
    "deltatoken": _text(r"(?s).+"),
    "schemaversion": _text(r"\*(?=[ \t]*\Z)|[-A-Za-z0-9._~]+"),
    "id": _text(r"(?s).+"),
}
NOT_SUPPORTED = tuple(_READ_AND_REFUSED)


def parse(option: str, text: str, *, nesting: int = NESTING, alias: str = "") -> Tree:
    """The tree of the text of one query option.

    `option` is its name in lower case and without `$`, or `expr` (an expression), or `literal`. `text` is
    percent-decoded. `nesting` is the maximum number of nested levels, such as parentheses. `alias` is the parameter
    alias, with its `@`, if the text is its value. Blanks around the text are ignored. Raises `BadRequest` with the
    position if the text is malformed, `NotImplemented` if it is well-formed but not supported, and `KeyError` for an
    option that OData does not have.
    """
    read = _READ.get(option)
    parser = OptionParser(alias or option, text, nesting)
    if read is None:
        read = _READ_AND_REFUSED[option]
        parser.unsupported = f"Query option '${option}'"
    if text[:1] in BLANKS:
        parser.blanks()
    tree = read(parser)
    parser.finish()
    return tree
