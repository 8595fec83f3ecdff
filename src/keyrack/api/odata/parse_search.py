"""Parsing of `$search` (OData 4.01 Part 2, section 5.1.7; ABNF: searchExpr)."""

from __future__ import annotations

import re

from keyrack.api.odata import tokens
from keyrack.api.odata.ast import Search, SearchJunction, SearchNot, SearchWord
from keyrack.api.odata.cursor import Cursor

_WORD = re.compile(r"[^ \t()\"'][^ \t()\"]*").match
_PHRASE = re.compile(r'"([^"]+)"').match
_INCOMPLETE = re.compile(r"'((?:''|[^'])*)'").match
# Around AND, OR and NOT: no blanks are needed next to a parenthesis, as in expressions
_BEFORE_WORD = re.compile(tokens.BEFORE_WORD).match
_BEHIND_WORD = re.compile(r"[ \t]+|(?=\()").match
# In the parentheses of $expand, a semicolon ends the search only if another option follows
_NEXT_OPTION = re.compile(r";[ \t]*(?=\$?[A-Za-z]+[ \t]*=|@\w+[ \t]*=)")


def search(cursor: Cursor, *, nested: bool = False) -> Search:
    """The search expression at the cursor; `nested` in the parentheses of another option.

    `NOT` binds tighter than `AND`, which is optional, and `AND` tighter than `OR`. The three names are words where they
    cannot be operators. Raises `BadRequest` with the position.
    """
    cursor.blanks()
    if match := _INCOMPLETE(cursor.text, cursor.at):
        # The incomplete input of a person, as text
        at, cursor.at = cursor.at, match.end()
        return SearchWord(match[1].replace("''", "'"), at)
    return _or(cursor, nested)


def _or(cursor: Cursor, nested: bool) -> Search:
    operands = [_and(cursor, nested)]
    at = cursor.at
    while (blanks := _BEFORE_WORD(cursor.text, cursor.at)) and _operator(cursor, blanks.end(), "OR", nested):
        operands.append(_and(cursor, nested))
    return SearchJunction("or", tuple(operands), at) if len(operands) > 1 else operands[0]


def _and(cursor: Cursor, nested: bool) -> Search:
    operands = [_term(cursor, nested)]
    at = cursor.at
    while blanks := _BEFORE_WORD(cursor.text, cursor.at):
        start, end = blanks.span()
        if _operator(cursor, end, "OR", nested):
            cursor.at = start
            break
        if not _operator(cursor, end, "AND", nested):
            if start == end or not _starts_term(cursor, end, nested):
                break
            cursor.at = end
        operands.append(_term(cursor, nested))
    return SearchJunction("and", tuple(operands), at) if len(operands) > 1 else operands[0]


def _operator(cursor: Cursor, at: int, name: str, nested: bool) -> bool:
    """Parse the operator `name`, after its blanks, if a term follows. Otherwise it is a word."""
    if not cursor.text.startswith(name, at):
        return False
    after = _BEHIND_WORD(cursor.text, at + len(name))
    if after is None or not _starts_term(cursor, after.end(), nested):
        return False
    cursor.at = after.end()
    return True


def _starts_term(cursor: Cursor, at: int, nested: bool) -> bool:
    if at >= len(cursor.text) or cursor.text[at] in ")'":
        return False
    return not (nested and _NEXT_OPTION.match(cursor.text, at))


def _term(cursor: Cursor, nested: bool) -> Search:
    at = cursor.at
    text = cursor.text
    if text.startswith("NOT", at):
        blanks = _BEHIND_WORD(text, at + 3)
        if blanks is not None and _starts_term(cursor, blanks.end(), nested):
            cursor.enter()
            cursor.at = blanks.end()
            operand = _term(cursor, nested)
            cursor.depth -= 1
            return SearchNot(operand, at)
    if text.startswith("(", at):
        cursor.open()
        inner = _or(cursor, nested)
        cursor.close()
        return inner
    if match := _PHRASE(text, at):
        cursor.at = match.end()
        return SearchWord(match[1], at)
    match = _WORD(text, at)
    if match is None:
        hint = "Close the double quotes of the phrase, which must not be empty." if text.startswith('"', at) else None
        cursor.fail("a word, a phrase in double quotes or '(' was expected", hint=hint)
    end = match.end()
    if nested and (option := _NEXT_OPTION.search(text, at)) and option.start() < end:
        end = option.start()
    if end == at:
        cursor.fail("a word was expected")
    cursor.at = end
    return SearchWord(text[at:end], at)
