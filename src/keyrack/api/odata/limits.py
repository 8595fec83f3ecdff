"""The limits of queries. Each is a setting."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a query. Exceeding one is 400, with a message that names it."""

    nesting: int = 50  # levels of parentheses, functions, `not` and the like
    nodes: int = 400  # of the expressions and the search of one option; the list of an `in` counts as one
    items: int = 1_000  # in the list of one `in`
    orderby: int = 10  # items
    select: int = 100  # items
    top: int = 10_000  # rows
    digits: int = 40  # of a number
    expanded: int = 10_000  # rows of a relation, in one row of the response
    transformations: int = 20  # of one $apply
    properties: int = 30  # that $apply and $compute create or group by; an object of the response has at most 50
