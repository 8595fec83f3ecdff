"""In charge of the text of `$search` (OData 4.01 Part 2, section 5.1.7; ABNF: searchExpr)."""

from __future__ import annotations

import re

from keyrack.api.odata.ast import Search, SearchJunction, SearchNot, SearchWord
from keyrack.api.odata.cursor import Cursor

_WORD = re.compile(r"[^ \t()\"'][^ \t()\"]*").match
_PHRASE = re.compile(r'"([^"]+)"').match
_INCOMPLETE = re.compile(r"'((?:''|[^'])*)'").match
_BLANKS = re.compile(r"[ \t]+").match
# In the parentheses of $expand a semicolon ends the search only where another option begins
_NEXT_OPTION = re.compile(r";(?=\$?[A-Za-z]+=|@\w+=)").search


def search(cursor: Cursor, *, nested: bool = False) -> Search:
    """The search expression at the cursor; `nested` in the parentheses of another option.

    `NOT` binds tighter than `AND`, which may be left out, and `AND` tighter than `OR`. The three words are words
    where they cannot be operators. Raises `BadRequest` with the position.
    """
    cursor.blanks()
    if match := _INCOMPLETE(cursor.text, cursor.at):
        # What a person has typed so far, as text
        at, cursor.at = cursor.at, match.end()
        return SearchWord(match[1].replace("''", "'"), at)
    return _or(cursor, nested)


def _or(cursor: Cursor, nested: bool) -> Search:
    operands = [_and(cursor, nested)]
    at = cursor.at
    while _operator(cursor, "OR"):
        operands.append(_and(cursor, nested))
    return SearchJunction("or", tuple(operands), at) if len(operands) > 1 else operands[0]


def _and(cursor: Cursor, nested: bool) -> Search:
    operands = [_term(cursor, nested)]
    at = cursor.at
    while True:
        start = cursor.at
        if _operator(cursor, "OR"):
            cursor.at = start
            break
        if not _operator(cursor, "AND"):
            blanks = _BLANKS(cursor.text, start)
            if blanks is None or not _starts_term(cursor, blanks.end()):
                break
            cursor.at = blanks.end()
        operands.append(_term(cursor, nested))
    return SearchJunction("and", tuple(operands), at) if len(operands) > 1 else operands[0]


def _operator(cursor: Cursor, name: str) -> bool:
    """The operator `name` with blanks around it, if a term follows: else it is a word like any other."""
    blanks = _BLANKS(cursor.text, cursor.at)
    if blanks is None or not cursor.text.startswith(name, blanks.end()):
        return False
    after = _BLANKS(cursor.text, blanks.end() + len(name))
    if after is None or not _starts_term(cursor, after.end()):
        return False
    cursor.at = after.end()
    return True


def _starts_term(cursor: Cursor, at: int) -> bool:
    return at < len(cursor.text) and cursor.text[at] not in ")'"


def _term(cursor: Cursor, nested: bool) -> Search:
    at = cursor.at
    text = cursor.text
    if text.startswith("NOT", at):
        blanks = _BLANKS(text, at + 3)
        if blanks is not None and _starts_term(cursor, blanks.end()):
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
        cursor.fail("a word, a phrase in double quotes or '(' was expected")
    end = match.end()
    if nested and (option := _NEXT_OPTION(text, at, end)):
        end = option.start()
    if end == at:
        cursor.fail("a word was expected")
    cursor.at = end
    return SearchWord(text[at:end], at)
