"""In charge of going on behind a row: which rows follow it in the order that was asked for, as conditions.

An order can be walked if an index leads through it: the key's, either way, or that of one of the resource's fields in
`walks`, either way, with the key behind it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import LiteralString, NamedTuple

from keyrack.api.odata import names
from keyrack.api.odata.plan import Order, PlanColumn, Rows
from keyrack.api.odata.sql import CASTS, direction
from keyrack.api.schema.fields import Field, Resource
from keyrack.db.named_parameters import NUMBERS


class KeysetColumn(NamedTuple):
    """One criterion: its SQL, as an item of ORDER BY too, how text becomes its value again, whether it can be null."""

    sql: LiteralString
    order: LiteralString
    cast: LiteralString
    descending: bool
    nullable: bool


class SegmentSql(NamedTuple):
    """The condition of rows that follow one another, and their order.

    What the condition holds fast is no part of their order: an index might not lead through it else.
    """

    where: LiteralString
    order: LiteralString


class Segment(NamedTuple):
    """Rows that follow one another and are found by one condition."""

    sql: SegmentSql
    values: tuple[str, ...]  # of `:after0`, `:after1` and so on, as text

    @property
    def parameters(self) -> dict[str, object]:
        """The values by the names of the parameters."""
        return {f"after{number}": value for number, value in enumerate(self.values)}


def keys(plan: Rows, alias: LiteralString) -> tuple[KeysetColumn, ...]:
    """The criteria of an order that can be walked, else none."""
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
            return tuple(columns) if len(resource.key) == 1 else ()  # one row each: whatever follows does not matter
    return (*columns, *[_key(resource, name, alias, descending=False) for name in resource.key])


def _name(resource: Resource, item: Order) -> str | None:
    """The field that is ordered by, if an index leads through it."""
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
        raise TypeError(f"{resource.name}.{name} is no primitive field")
    return field


def segments_after(keys: Sequence[KeysetColumn], position: Sequence[str | None]) -> Iterator[Segment]:
    """All rows behind the one whose criteria are `position`, in their order.

    First those that differ from it in the last criterion only, then in the last but one, and so on. Nulls come first,
    descending last (odata rules, "Order"), so what is behind a value can be two segments, and behind a null none.
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
    """What is behind a value, the parameters of that, and whether it is one value."""
    if value is not None:
        sign: LiteralString = " < " if key.descending else " > "
        yield key.sql + sign + _parameter(number, key), (value,), False
        if key.descending and key.nullable:
            yield key.sql + " is null", (), True
    elif not key.descending:
        yield key.sql + " is not null", (), False


def _parameter(number: int, key: KeysetColumn) -> LiteralString:
    return ":after" + NUMBERS[number] + "::text" + key.cast
