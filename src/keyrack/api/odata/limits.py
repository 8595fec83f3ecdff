"""In charge of the bounds of a query; each of them is a setting."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """What a query may ask for, at most; more is 400 with a text that names the limit."""

    nesting: int = 50  # levels of parentheses, functions, `not` and the like
    nodes: int = 400  # of the expressions and the search of one option; the list of an `in` counts as one
    items: int = 1_000  # in the list of one `in`
    orderby: int = 10  # items
    select: int = 100  # items
    top: int = 10_000  # rows
    digits: int = 40  # of a number
    expanded: int = 10_000  # rows of a relation, in one row of the answer
    transformations: int = 20  # of one $apply
    properties: int = 30  # that $apply and $compute make or group by; an object of the answer has 50 at most
