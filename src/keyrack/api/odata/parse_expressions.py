"""Parsing of operators: a Pratt parser from text to the nodes of `ast`.

It limits the nesting itself, so that no later recursion is deeper than the limit.

Source: OData 4.01 Part 2, section 5.1.1, with the precedence of 5.1.1.17, and OData ABNF, section 4.
"""

from __future__ import annotations

import re

from keyrack.api.odata import tokens
from keyrack.api.odata.ast import (
    Alias,
    Arithmetic,
    AstComparison,
    AstJunction,
    AstMembership,
    AstNot,
    LiteralKind,
    Negation,
    Node,
    Path,
)
from keyrack.api.odata.parse_paths import Paths

_BINDING = {
    "or": 1, "and": 2, "eq": 3, "ne": 3, "gt": 4, "ge": 4, "lt": 4, "le": 4,
    "add": 5, "sub": 5, "mul": 6, "div": 6, "divby": 6, "mod": 6, "in": 8, "has": 8,
}  # fmt: skip
_KEYWORDS = frozenset(("null", "true", "false", "nan", "inf", "not"))
# Look-ups of module names are faster
_match_operand, _match_operator = tokens.OPERAND, tokens.OPERATOR
_AND = 2
_RELATIONAL = 4
_UNARY = 7


class Parser(Paths):
    """Parses the `text` of one option. Raises `BadRequest` with the position."""

    __slots__ = ("_operator_match", "_seen_at", "in_list_end")

    def __init__(self, option: str, text: str, nesting: int) -> None:
        Paths.__init__(self, option, text, nesting)  # `super()` is half as fast, and each option creates a parser
        self._operator_match: re.Match[str] | None = (
            None  # the operator at `_seen_at`, used at each level of precedence
        )
        self._seen_at = -1
        self.in_list_end = -1  # the end of an `in` list: only `and` and `or` may follow (ABNF: inExpr)

    def expression(self, minimum: int = 0) -> Node:
        """An expression whose operators bind tighter than `minimum`."""
        left = self.operand()
        folds = 0
        # Inlines the cache hit of `_operator`, because this runs for each operand
        while match := self._operator_match if self._seen_at == self.at else self._operator():
            operator = match[1]
            binding = _BINDING.get(operator)
            if binding is None:
                operator = operator.lower()
                binding = _BINDING.get(operator, 0)
            if binding <= minimum:
                break
            at = match.start(1)
            if self.in_list_end == self.at and binding > _AND:
                self.fail("'in' and 'has' require parentheses before another operator", at)
            self.at = match.end()
            if binding <= _AND:
                left = self._junction(operator, binding, left, at)
                continue
            folds += 1
            if self.depth + folds > self.nesting:
                self.too_deep()
            if operator == "in":
                left = self._membership(left, at)
            elif operator == "has":
                left = self._has()
            elif binding <= _RELATIONAL:
                left = AstComparison(operator, left, self.expression(binding), at)
            else:
                left = Arithmetic(operator, left, self.expression(binding), at)
        return left

    def _operator(self) -> re.Match[str] | None:
        """The operator at the cursor, with surrounding blanks."""
        at = self.at
        if self._seen_at != at:
            self._seen_at = at
            self._operator_match = _match_operator(self.text, at)
        return self._operator_match

    def _junction(self, operator: str, binding: int, left: Node, at: int) -> Node:
        operands = [left, self.expression(binding)]
        while (match := self._operator()) and (match[1] == operator or match[1].lower() == operator):
            self.at = match.end()
            operands.append(self.expression(binding))
        return AstJunction(operator, tuple(operands), at)

    def _membership(self, left: Node, at: int) -> Node:
        start = self.at
        if self.sees("(") and (items := self.literals()) is not None:
            if len(items) != 1:  # one literal in parentheses is also an expression
                self.in_list_end = self.at
            return AstMembership(left, items, at)
        self.at = start
        self.expression(_BINDING["in"])
        return AstMembership(left, None, at)

    def _has(self) -> Node:
        literal = self.literal()
        if literal is None or literal.kind not in (LiteralKind.ENUM, LiteralKind.STRING):
            self.fail("'has' takes an enumeration member")
        self.in_list_end = self.at
        return self.refuse_later("The operator 'has'")

    def operand(self) -> Node:
        """An operand."""
        match = _match_operand(self.text, self.at)
        if match is None:
            self.fail("an expression was expected")
        kind = match.lastgroup
        if kind == "name":
            return self._name(match[0])
        if literal := self.value(match):
            return literal
        at = self.at
        if kind == "gap":
            return self._before_gap(match)
        if kind == "at":
            return self._alias(match[0])
        if kind == "dollar":
            return self.variable(match[0])
        self.at = match.end()
        self.enter()
        self.blanks()
        if kind == "open":
            inner = self.expression()
            self.close()
            return inner
        if kind == "minus":
            inner = Negation(self.expression(_UNARY), at)
            self.depth -= 1
            return inner
        return self.array() if kind == "array" else self.object()

    def _name(self, text: str) -> Node:
        at = self.at
        end = at + len(text)
        following = self.text[end : end + 1]
        if following == "'" or text.lower() in _KEYWORDS:
            if literal := self.word(text):
                return literal
            if len(text) == 3 and (match := tokens.NOT(self.text, end)):
                return self._negated(match.end())
        if following == "(" or following == "/" or "." in text:
            return self.path(text)
        self.at = end
        if len(text) > tokens.LONGEST:
            self.check_name(text, at)
        return Path(tuple(text.split("/")) if "/" in text else (text,), at)

    def _before_gap(self, match: re.Match[str]) -> Node:
        """A name followed by blanks and a parenthesis: `not (a)`, or a call such as `contains (a,b)`."""
        text = match["name"]
        return self._negated(match.end()) if text.lower() == "not" else self.path(text)

    def _negated(self, start: int) -> Node:
        """`not` at the cursor; its operand begins at `start`."""
        at, self.at = self.at, start
        self.enter()
        operand = self.expression(_UNARY)
        self.depth -= 1
        return AstNot(operand, at)

    def _alias(self, text: str) -> Node:
        at = self.at
        if "." in text or "#" in text or self.text.startswith("/", at + len(text)):
            return self.annotation(text)
        self.at += len(text)
        self.check_name(text, at)
        return Alias(text[1:], at)
