"""The select list: the columns of a row, and its expanded rows and counts."""

from __future__ import annotations

from functools import lru_cache
from typing import LiteralString

from keyrack.api.odata.plan import COUNT, Expansion, Rows
from keyrack.api.odata.sql import SqlWriter
from keyrack.api.schema.fields import Resource, literal, quote_identifier
from keyrack.db.named_parameters import NUMBERS


def columns(writer: SqlWriter, rows: Rows) -> LiteralString:
    """The select list: the row's columns, then its expansions.

    It is one column if `is_value`.
    """
    shown, lateral = parts(writer, rows)
    together: LiteralString = ", ".join(shown)
    if not lateral:
        return together
    return as_value("row_to_json(v.*)", together, lateral)


def as_value(item: LiteralString, columns: LiteralString, lateral: list[LiteralString]) -> LiteralString:
    """The select list as one column, which is the row `v` as JSON.

    Some of its columns come from lateral tables.
    """
    return "(select " + item + " from (select " + columns + " from " + ", ".join(lateral) + ") v) as value"


def parts(writer: SqlWriter, rows: Rows) -> tuple[list[LiteralString], list[LiteralString]]:
    """The items of the select list, and the lateral tables that they need."""
    shown: list[LiteralString] = [_own(writer, rows)]
    lateral: list[LiteralString] = []
    for number, expansion in enumerate(rows.expanded):
        name, count = quote_identifier(expansion.name), quote_identifier(expansion.name, COUNT)
        if _is_read_once(expansion):
            value, source = _expanded(writer, expansion)
            alias: LiteralString = "e" + NUMBERS[number]
            lateral.append("(select count(*) as total, " + value + " as listed" + source + ") " + alias)
            shown.append(alias + ".total as " + count + ", " + alias + ".listed as " + name)
            continue
        if expansion.is_counted:
            shown.append("(select count(*)" + _expansion_rows(writer, expansion) + ") as " + count)
        if expansion.is_listed:
            value, source = _expanded(writer, expansion)
            shown.append("(select " + value + source + ") as " + name)
    return [part for part in shown if part], lateral


def names(rows: Rows) -> list[tuple[LiteralString, LiteralString]]:
    """The members of a row as SQL strings, and their columns.

    The resource's own members come first, then the expansions.
    """
    own = rows.resource.fields if rows.selected is None else [member.name for member in rows.selected]
    members: list[tuple[LiteralString, LiteralString]] = [(literal(name), quote_identifier(name)) for name in own]
    for expansion in rows.expanded:
        if expansion.is_counted:
            members.append((literal(expansion.name, COUNT), quote_identifier(expansion.name, COUNT)))
        if expansion.is_listed:
            members.append((literal(expansion.name), quote_identifier(expansion.name)))
    return members


def is_value(rows: Rows) -> bool:
    """Whether the rows have one column, `value`, which is the row as JSON."""
    return any(_is_read_once(expansion) for expansion in rows.expanded)


def _is_read_once(expansion: Expansion) -> bool:
    """Whether one lateral table provides both rows and count.

    That requires that all counted rows are returned.
    """
    whole = expansion.rows.top is None and not expansion.rows.skip
    return expansion.is_listed and expansion.is_counted and whole


def _own(writer: SqlWriter, rows: Rows) -> LiteralString:
    alias = writer.row(rows.level)
    if rows.selected is None:
        return _everything(rows.resource, alias)
    return ", ".join([member.json_sql(alias) + " as " + quote_identifier(name) for name, member in rows.selected])


@lru_cache(1024)
def _everything(resource: Resource, alias: LiteralString) -> LiteralString:
    return resource.json_columns(alias)


def _expansion_rows(writer: SqlWriter, expansion: Expansion) -> LiteralString:
    """FROM and WHERE of the rows of a relation, regardless of the page."""
    where = expansion.rows.where
    return writer.steps((expansion.step,)) + ("" if where is None else " and " + writer.condition(where))


def _expanded(writer: SqlWriter, expansion: Expansion) -> tuple[LiteralString, LiteralString]:
    """The value of a relation, with its FROM: an ordered array, an object or null."""
    rows = expansion.rows
    inner: LiteralString = "select " + columns(writer, rows) + _expansion_rows(writer, expansion)
    if not expansion.step.relation.is_collection:
        return ("r.value" if is_value(rows) else "row_to_json(r)"), " from (" + inner + ") r"
    order = writer.order(rows)
    inner += (" order by " + order if order else "") + writer.page(rows.top, rows.skip)
    array: LiteralString = "coalesce(json_agg(" + ("r.value" if is_value(rows) else "r") + "), '[]')"
    if rows.top is None:
        bound = writer.parameter(expansion.max_rows, "::int8")
        inner += " limit " + bound + " + 1"
        array = "case when count(*) > " + bound + " then refuse_expansion(" + bound + ") else " + array + " end"
    return array, " from (" + inner + ") r"
