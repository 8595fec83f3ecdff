"""Keyset pagination: conditions for the rows after a given row in the requested order.

An order supports it if an index has that order: the key's, in both directions, or that of a field in `walks`, in both
directions, followed by the key.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import LiteralString, NamedTuple

from keyrack.api.odata import names
from keyrack.api.odata.plan import Order, PlanColumn, PlanComparison, PlanJunction, PlanParameter, Rows, Value
from keyrack.api.odata.sql import CASTS, direction
from keyrack.api.schema.fields import Field, Resource
from keyrack.db.named_parameters import NUMBERS


class KeysetColumn(NamedTuple):
    """One sort criterion: its SQL, its ORDER BY item, the cast of its value from text, and its nullability."""

    sql: LiteralString
    order: LiteralString
    cast: LiteralString
    descending: bool
    nullable: bool


class SegmentSql(NamedTuple):
    """The condition of a segment, and its order.

    Criteria that the condition fixes are not part of the order, because an index might not support it otherwise.
    """

    where: LiteralString
    order: LiteralString


class Segment(NamedTuple):
    """Consecutive rows that one condition finds."""

    sql: SegmentSql
    values: tuple[str, ...]  # of `:after0`, `:after1` and so on, as text

    @property
    def parameters(self) -> dict[str, object]:
        """The values by the names of the parameters."""
        return {f"after{number}": value for number, value in enumerate(self.values)}


def keys(plan: Rows, alias: LiteralString) -> tuple[KeysetColumn, ...]:
    """The criteria of an order that supports keyset pagination; otherwise empty."""
    resource = plan.resource
    if plan.stages or not resource.key:
        return ()
    columns: list[KeysetColumn] = []
    for item in plan.order:
        name = _name(resource, item)
        if name is None or (columns and name not in resource.key):
            return ()
        columns.append(_key(resource, name, alias, descending=item.descending))
        if name in resource.key:
            return tuple(columns) if len(resource.key) == 1 else ()  # one row each: later criteria have no effect
    return (*columns, *[_key(resource, name, alias, descending=False) for name in resource.key])


def is_range(plan: Rows, walk: Sequence[KeysetColumn], alias: LiteralString) -> bool:
    """Whether the filter only bounds the first criterion, or there is none."""
    if plan.where is None or not walk:
        return plan.where is None
    where = plan.where
    parts = where.operands if isinstance(where, PlanJunction) and where.operator == "and" else (where,)
    return all(_bounds(part, walk[0].sql, alias) for part in parts)


def _bounds(condition: Value, sql: LiteralString, alias: LiteralString) -> bool:
    """Whether the condition compares the column with a literal."""
    if not isinstance(condition, PlanComparison) or condition.operator == "ne":
        return False
    for column, literal in ((condition.left, condition.right), (condition.right, condition.left)):
        if isinstance(column, PlanColumn) and isinstance(literal, PlanParameter) and not column.level:
            return column.sql.format(t=alias) == sql
    return False


def _name(resource: Resource, item: Order) -> str | None:
    """The field of the order, if an index supports it."""
    value = item.value
    if not isinstance(value, PlanColumn) or value.level:
        return None
    for name in (*resource.key, *resource.walks):
        if _field(resource, name).sql == value.sql:
            return name
    return None


def _key(resource: Resource, name: str, alias: LiteralString, *, descending: bool) -> KeysetColumn:
    field = _field(resource, name)
    sql: LiteralString = field.sql.format(t=alias)
    order: LiteralString = sql + direction(descending, field.nullable)
    return KeysetColumn(sql, order, CASTS[names.TYPES[field.type]], descending, field.nullable)


def _field(resource: Resource, name: str) -> Field:
    field = resource.fields[name]
    if not isinstance(field, Field):
        raise TypeError(f"{resource.name}.{name} is not a primitive field")
    return field


def segments_after(keys: Sequence[KeysetColumn], position: Sequence[str | None]) -> Iterator[Segment]:
    """All rows after the one with the criteria `position`, in order.

    First those that differ only in the last criterion, then in the last but one, and so on. Nulls come first,
    descending last (odata rules, "Order"). So the rows after a value can be two segments, and those after a null none.
    """
    for last in reversed(range(len(keys))):
        same: list[LiteralString] = []
        values: list[str] = []
        for key, value in zip(keys[:last], position, strict=False):
            if value is None:
                same.append(key.sql + " is null")
            else:
                same.append(key.sql + " = " + _parameter(len(values), key))
                values.append(value)
        for condition, limit, fast in _behind(keys[last], position[last], len(values)):
            order: LiteralString = ", ".join([key.order for key in keys[last + fast :]])
            yield Segment(SegmentSql(" and ".join([*same, condition]), order), (*values, *limit))


def _behind(key: KeysetColumn, value: str | None, number: int) -> Iterator[tuple[LiteralString, tuple[str, ...], bool]]:
    """The conditions after a value, their parameters, and whether each is for one value."""
    if value is not None:
        sign: LiteralString = " < " if key.descending else " > "
        yield key.sql + sign + _parameter(number, key), (value,), False
        if key.descending and key.nullable:
            yield key.sql + " is null", (), True
    elif not key.descending:
        yield key.sql + " is not null", (), False


def _parameter(number: int, key: KeysetColumn) -> LiteralString:
    return ":after" + NUMBERS[number] + "::text" + key.cast
