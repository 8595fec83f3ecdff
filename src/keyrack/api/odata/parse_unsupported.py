"""Parsing of unsupported transformations, to distinguish well-formed text from malformed text.

They are rejected with 501. Source: OData Aggregation ABNF, section 2; hierarchies are parsed in outline.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from keyrack.api.odata import tokens
from keyrack.api.odata.ast import Identity, Path, Transformation
from keyrack.api.odata.parse_apply import TRANSFORMATIONS, Transformations
from keyrack.core.suggestions import did_you_mean

_NAME = re.compile(tokens.IDENTIFIER).match
_KEEP_START = re.compile(r"keep start").match
_ORDER = re.compile(r"preorder|postorder").match
# Transformations that change neither rows nor their structure, so they are valid inside hierarchies
_PRESERVING = frozenset(
    (
        "bottomcount", "bottompercent", "bottomsum", "filter", "identity", "orderby", "search", "skip", "top",
        "topcount", "toppercent", "topsum", "ancestors", "descendants", "traverse",
    )
)  # fmt: skip
_PRESERVES = re.compile(rf"(?:{'|'.join(sorted(_PRESERVING - {'identity'}))})\(|identity(?!\w)").match


class UnsupportedParser(Transformations):
    """Parses transformations that `Transformations` does not support."""

    __slots__ = ()

    def unsupported_transformation(self, name: str, at: int) -> Transformation:
        read = _READ.get(name)
        if read is None and "." not in name:
            hint = did_you_mean(name, TRANSFORMATIONS).strip()
            self.fail(f"'{name[:50]}' is not a transformation", at, hint=hint, code="unknown", valid=TRANSFORMATIONS)
        self.refuse_later(f"The transformation '{name}'")
        if read is not None:
            self.open()
            read(self)
            self.close()
        elif not (self.opens() and (self._empty() or self._named())):
            self.fail("named arguments in parentheses were expected")
        return Identity(at)

    def rollup(self, name: str) -> Path:
        at = self.at
        self.refuse_later(f"'{name}'")
        self.open()
        if name == "rolluprecursive":
            self._hierarchy()
            if self.comma():
                self._preserving()
        else:
            first = self.property_path()
            if not self.comma():
                if len(first.names) > 1:
                    self.fail("',' was expected")
            else:
                self.property_path()
                while self.comma():
                    self.property_path()
        self.close()
        return Path((name,), at)

    def concat(self) -> None:
        self.apply()
        self._comma()
        self.apply()
        while self.comma():
            self.apply()

    def ranked(self) -> None:
        """`topcount` and similar ones: a number, and the ranking expression."""
        self.expression()
        self._comma()
        self.expression()

    def nest(self) -> None:
        self.apply()
        self.kept_as()
        while self.comma():
            self.apply()
            self.kept_as()

    def addnested(self) -> None:
        self._segments("the path of a relation was expected")
        self._comma()
        self.nest()

    def join(self) -> None:
        annotation = tokens.ANNOTATION(self.text, self.at)
        if annotation is not None:
            self.at = annotation.end()
        else:
            self._segments("the name of a relation was expected")
        self.kept_as()
        if self.comma():
            self.apply()

    def ancestors(self) -> None:
        """`ancestors` and `descendants`: a hierarchy, rows, an optional distance, and an optional `keep start`."""
        self._hierarchy()
        self._comma()
        self._preserving()
        if not self.comma():
            return
        if self.text[self.at : self.at + 1].isdigit():
            self.number()
            if not self.comma():
                return
        match = _KEEP_START(self.text, self.at)
        if match is None:
            self.fail("'keep start' was expected")
        self.at = match.end()

    def traverse(self) -> None:
        self._hierarchy()
        self._comma()
        match = _ORDER(self.text, self.at)
        if match is None:
            self.fail("'preorder' or 'postorder' was expected")
        self.at = match.end()
        if not self.comma():
            return
        if _PRESERVES(self.text, self.at):
            self._preserving()
            if not self.comma():
                return
        self.order_item()
        while self.comma():
            self.order_item()

    def _hierarchy(self) -> None:
        """A collection of the service, a name, and the path of a node's property (ABNF: recHierReference)."""
        if not self.sees("$root/"):
            self.fail("$root/ was expected")
        self.operand()
        self._comma()
        match = _NAME(self.text, self.at)
        if match is None:
            self.fail("the name of a hierarchy was expected")
        self.at = match.end()
        self._comma()
        self.property_path()

    def _preserving(self) -> None:
        while True:
            match = tokens.SEGMENTS(self.text, self.at)
            name = match[0].split("/")[0] if match else ""
            if name not in _PRESERVING and "." not in name:
                self.fail("a transformation that keeps rows unchanged was expected")
            self.transformation()
            if not self.sees("/"):
                return
            self.at += 1

    def _segments(self, expected: str) -> None:
        match = tokens.SEGMENTS(self.text, self.at)
        if match is None:
            self.fail(expected)
        self.check_name(match[0], self.at)
        self.at = match.end()

    def _comma(self) -> None:
        if not self.comma():
            self.fail("',' was expected")


_READ: dict[str, Callable[[UnsupportedParser], None]] = {
    "concat": UnsupportedParser.concat,
    **dict.fromkeys(
        ("topcount", "toppercent", "topsum", "bottomcount", "bottompercent", "bottomsum"), UnsupportedParser.ranked
    ),
    "nest": UnsupportedParser.nest,
    "addnested": UnsupportedParser.addnested,
    "join": UnsupportedParser.join,
    "outerjoin": UnsupportedParser.join,
    "ancestors": UnsupportedParser.ancestors,
    "descendants": UnsupportedParser.ancestors,
    "traverse": UnsupportedParser.traverse,
}
