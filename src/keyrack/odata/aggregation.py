"""In charge of the outline of `$apply`, so that malformed text is 400 and well-formed text 501.

Source: OData Extension for Data Aggregation 4.0, section 3: transformations joined by `/`, each with its parameters.
What stands in the parentheses is read only as far as its shape is simple.
"""

from __future__ import annotations

import re

from keyrack.odata import tokens
from keyrack.odata.cursor import Cursor

_NAME = re.compile(tokens.QUALIFIED).match
_PLAIN = ("identity",)
_KNOWN = frozenset(
    (
        "aggregate", "groupby", "filter", "compute", "concat", "expand", "search", "orderby", "top", "skip", "topcount",
        "bottomcount", "toppercent", "bottompercent", "topsum", "bottomsum", "addnested", "join", "outerjoin", "nest",
        "ancestors", "descendants", "traverse",
    )
)  # fmt: skip
_KEPT_AS = re.compile(r"[ \t]as[ \t]+\w+\Z").search


def transformations(cursor: Cursor) -> None:
    """Read a sequence of transformations. Raises `BadRequest` with the position."""
    while True:
        found = _NAME(cursor.text, cursor.at)
        if found is None:
            cursor.fail("the name of a transformation was expected")
        name = found[0][:50]
        at = cursor.at
        cursor.at = found.end()
        if cursor.sees("("):
            _parameters(cursor, name)
        elif name not in _PLAIN:
            cursor.fail(f"'{name}' is no transformation", at)
        if not cursor.sees("/"):
            return
        cursor.at += 1


def _parameters(cursor: Cursor, name: str) -> None:
    if name not in _KNOWN and "." not in name:
        cursor.fail(f"'{name}' is no transformation")
    start = cursor.at
    end = tokens.balanced(cursor.text, start)
    if end is None:
        cursor.fail("')' was expected", len(cursor.text))
    if name == "aggregate":
        for item in tokens.parts(cursor.text[start + 1 : end - 1]):
            if not item.strip(" \t"):
                cursor.fail("an expression was expected")
            aliased = _KEPT_AS(item) is not None
            if aliased and not (" with " in item or "$count" in item or " from " in item):
                cursor.fail("'with' and a method were expected")
            if " with " in item and not aliased:
                cursor.fail("'as' and a name were expected")
    elif name == "groupby" and "@" in cursor.text[start:end]:
        cursor.fail("annotations cannot be grouped by")
    elif name in ("top", "skip"):
        if not cursor.text[start + 1 : end - 1].strip(" \t").isdigit():
            cursor.fail("a number was expected")
    elif end - start <= 2 and "." not in name:
        cursor.fail(f"'{name}' takes parameters")
    cursor.at = end
