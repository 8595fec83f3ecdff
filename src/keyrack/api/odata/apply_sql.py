"""SQL of `$apply` and `$compute`: SELECTs around the rows, and the JSON of a row.

Names chosen by a client are parameters, like all of its text.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import LiteralString, NamedTuple

from keyrack.api.odata.literal_values import refuse
from keyrack.api.odata.plan import ComputedProperty, Edm, Function, Nested, Rows, Stage, Value
from keyrack.api.odata.select_list import as_value, columns, is_value, names, parts
from keyrack.api.odata.sql import SqlWriter
from keyrack.api.schema.fields import literal, utc
from keyrack.db.named_parameters import NUMBERS

_MEMBERS = 50  # of an object: PostgreSQL's functions take 100 arguments
# JSON of a value, if it differs from the value
_SHOWN: dict[Edm, LiteralString] = {
    Edm.DATE_TIME: utc("{0}"),
    Edm.WALL_CLOCK: "replace(timezone('UTC', {0})::text, ' ', 'T')",
    Edm.DECIMAL: "trim_scale({0})",
    Edm.DOUBLE: "replace(to_json({0})::text, 'Infinity', 'INF')::json",  # OData JSON Format 4.01, section 7.1
}


class ApplySource(NamedTuple):
    """The rows of a response and their JSON, if they are not simply the resource's.

    `joins` follows the resource's table. The resource's rows that match `where`, with the tenant's predicate and the
    path's conditions, are between `before` and `after`; both are empty if these rows are the response's rows. `item` is
    a row `{r}` as JSON; empty if its columns are its members.
    """

    joins: LiteralString
    where: LiteralString
    before: LiteralString
    after: LiteralString
    item: LiteralString


def source(writer: SqlWriter, rows: Rows, item: LiteralString) -> ApplySource | None:
    """The source of the rows; None for the plain resource."""
    if not (rows.joins or rows.stages or item):
        return None
    joins: LiteralString = "".join([writer.join_sql(step) for step in rows.joins])
    where: LiteralString = ""
    before: LiteralString = ""
    after: LiteralString = ""
    for number, stage in enumerate(rows.stages):
        columns: LiteralString = ", ".join(
            [writer.value(value) + " as c" + NUMBERS[place] for place, value in enumerate(stage.columns)]
        )
        condition: LiteralString = "" if stage.where is None else writer.condition(stage.where)
        if number:
            before = "select " + columns + " from (" + before
            after += ") " + writer.alias + (" where " + condition if condition else "")
        else:
            before, where = "select " + columns, condition
        after += _behind(writer, stage)
    return ApplySource(joins, where, before, after, item)


def _behind(writer: SqlWriter, stage: Stage) -> LiteralString:
    """SQL after the WHERE of a stage."""
    if stage.grouped is None:
        order = writer.items(stage.order)
        return (" order by " + order if order else "") + writer.page(stage.top, stage.skip)
    return " group by " + ", ".join(NUMBERS[1 : stage.grouped + 1]) if stage.grouped else ""


def select_list(writer: SqlWriter, rows: Rows) -> tuple[LiteralString, bool, LiteralString]:
    """The select list, whether it is one column, and the JSON of a row.

    The one column is `value`, the row as JSON. Otherwise the JSON is that of a row `{r}`, or "" if its columns are its
    members.
    """
    if not rows.computed:
        return columns(writer, rows), is_value(rows), ""
    own = names(rows)
    if len(own) + len(rows.computed) > _MEMBERS:
        refuse(f"A row of the response has more properties than the limit of {_MEMBERS}. Select fewer with $select.")
    select_items, lateral = parts(writer, rows)
    members: list[LiteralString] = [name + ", ({r})." + column for name, column in own]
    members += _members(writer, rows.computed, select_items, len(select_items))
    item: LiteralString = "json_build_object(" + ", ".join(members) + ")"
    if lateral:
        return as_value(item.format(r="v"), ", ".join(select_items), lateral), True, ""
    return ", ".join(select_items), False, item


def _members(
    writer: SqlWriter, made: Iterable[tuple[str, ComputedProperty | Nested]], columns: list[LiteralString], first: int
) -> list[LiteralString]:
    """The arguments of `json_build_object`, whose values become columns."""
    members: list[LiteralString] = []
    for name, member in made:
        if isinstance(member, Nested):
            parts = _members(writer, member.members.items(), columns, first)
            built: LiteralString = "json_build_object(" + ", ".join(parts) + ")"
            if member.is_present is not None:
                built = (
                    "case when " + _column(writer.value(member.is_present), columns, first) + " then " + built + " end"
                )
            members.append(literal(name) + ", " + built)
            continue
        key: LiteralString = writer.parameter(name, "::text") if member.alias else literal(name)
        value = _as_shown(member.value) if member.output is None else member.output
        members.append(key + ", " + _column(writer.value(value), columns, first))
    return members


def _column(sql: LiteralString, columns: list[LiteralString], first: int) -> LiteralString:
    name: LiteralString = "c" + NUMBERS[len(columns) - first]
    columns.append(sql + " as " + name)
    return "({r})." + name


def _as_shown(value: Value) -> Value:
    template = _SHOWN.get(value.type)
    return value if template is None else Function(value.type, True, template, (value,))
