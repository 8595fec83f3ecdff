"""Searches as conditions and ranks: the documents of rows, and the schema functions that read them.

The functions `search_pattern`, `search_rank` and others fold texts; this module folds nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import LiteralString

from keyrack.api.odata import ast
from keyrack.api.odata.limits import Limits
from keyrack.api.odata.literal_values import refuse
from keyrack.api.odata.plan import Edm, Function, PlanColumn, PlanJunction, PlanNot, PlanParameter, Value
from keyrack.api.schema.fields import Complex, Field, Resource

Row = tuple[Resource, int]  # a resource and the level of its row

# The patterns are computed once per statement, whichever plan PostgreSQL chooses
_MATCHES: LiteralString = "({0} like (select search_pattern({1})) or {0} like (select search_digraph_pattern({1})))"
_EITHER: LiteralString = "(({0} is not null and {1}) or ({2} and {3}))"
# An index cannot find so short a word: it would be scanned for each row
_SHORT = 2


def condition(limits: Limits, row: Row, search: ast.Search) -> Value:
    """Rows that match the words of `$search`. Raises `BadRequest`."""
    nodes = 0

    def bind(node: ast.Search) -> Value:
        nonlocal nodes
        nodes += 1
        if nodes > limits.nodes:
            refuse(f"$search has more parts than the limit of {limits.nodes}.")
        if isinstance(node, ast.SearchWord):
            word = PlanParameter(Edm.STRING, node.text)
            return matches(row, word, is_short=len(node.text) <= _SHORT)
        if isinstance(node, ast.SearchNot):
            return PlanNot(bind(node.operand), False)
        return PlanJunction(node.operator, tuple([bind(operand) for operand in node.operands]), False)

    return bind(search)


def matches(row: Row, word: PlanParameter, *, is_short: bool = False) -> Value:
    """Whether a row matches a word; an index may find the rows, unless the word `is_short`."""
    resource, level = row
    source, document = resource.search, _document(resource, level)
    if document is None:
        return Function(Edm.BOOLEAN, False, "false")
    computed = Function(Edm.BOOLEAN, False, _MATCHES, (document, word))
    if source is None:
        return computed
    column = PlanColumn(Edm.STRING, True, source.column, level)
    sought = Function(Edm.STRING, True, "({0} || '')", (column,)) if is_short else column
    filled = Function(Edm.BOOLEAN, False, _MATCHES, (sought, word))
    pending = PlanColumn(Edm.BOOLEAN, False, source.is_pending, level)
    found = Function(Edm.BOOLEAN, False, _EITHER, (column, filled, pending, computed))
    if not source.key:
        return found
    # An array is computed once per statement. Both conditions are of one table, so two indexes find the rows
    keys: LiteralString = source.equal_keys if is_short else source.prefix_keys
    elsewhere = Function(
        Edm.BOOLEAN, False, "({1} = any(array(" + keys + ")))", (word, PlanColumn(Edm.INT32, False, source.key, level))
    )
    return PlanJunction("or", (found, elsewhere), False)


def rank(row: Row, search: ast.Search) -> Value:
    """The rank of a row's match: from 0, the best, to 5. `NOT` does not affect it."""
    resource, level = row
    document = _document(resource, level)
    if document is None:
        return PlanParameter(Edm.INT32, 5)
    if resource.search is not None:
        column = PlanColumn(Edm.STRING, True, resource.search.column, level)
        document = Function(Edm.STRING, False, "coalesce({0}, {1})", (column, document))
    words = PlanParameter(Edm.STRING, " ".join(_words(search)))
    return Function(Edm.INT32, False, "search_rank({0}, (select search_rank_keys({1})))", (document, words))


def _words(search: ast.Search) -> Iterator[str]:
    if isinstance(search, ast.SearchWord):
        yield search.text
    elif isinstance(search, ast.SearchJunction):
        for operand in search.operands:
            yield from _words(operand)


def _document(resource: Resource, level: int) -> Value | None:
    """The search document of a row, from its texts; None if no text is searchable.

    The first text is the name.
    """
    if resource.search is not None:
        return PlanColumn(Edm.STRING, False, resource.search.computed, level)
    texts: list[LiteralString] = [field.sql for field in _fields(resource) if field.searchable]
    if not texts:
        return None
    name, *others = texts
    document: LiteralString = "search_document(null, " + name + ", array[" + ", ".join(others) + "]::text[], null)"
    return PlanColumn(Edm.STRING, False, document, level)


def _fields(resource: Resource) -> list[Field]:
    fields: list[Field] = []
    for member in resource.fields.values():
        fields += member.fields.values() if isinstance(member, Complex) else [member]
    return fields
