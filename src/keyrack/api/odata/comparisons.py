"""Comparisons: comparable types, and conversion of both sides to one type.

Source: OData 4.01 Part 2, section 5.1.1.1, and section 5.1.1.16 for promotion.
"""

from __future__ import annotations

from typing import NoReturn

from keyrack.api.odata.functions import as_double
from keyrack.api.odata.literal_values import DATE_TIMES, NUMERIC, check_offset, converted, refuse
from keyrack.api.odata.plan import (
    Edm,
    Function,
    Null,
    PlanColumn,
    PlanComparison,
    PlanMembership,
    PlanParameter,
    Value,
    divisors,
)

NEEDS_PARENTHESES = "'not' binds tighter than the comparison. Did you mean not (...)?"


def compare(operator: str, left: Value, right: Value) -> Value:
    """`eq ne gt ge lt le`. Raises `BadRequest` for types that cannot be compared."""
    left, right = together(operator, left, right)
    return PlanComparison(operator, left, right, divisors(left, right))


def together(operator: str, left: Value, right: Value) -> tuple[Value, Value]:
    """Both sides in one type. Raises `BadRequest`."""
    if isinstance(left, PlanParameter) and left.type is not right.type:
        left = _to(left, right)
    elif isinstance(right, PlanParameter):
        right = _to(right, left)
    left_type, right_type = left.type, right.type
    if left_type is Edm.OPAQUE or right_type is Edm.OPAQUE:
        refuse("This property can be selected, but not compared.")
    if left_type is right_type:
        _check_members(left, right)
        _check_members(right, left)
        return left, right
    check_offset(left)
    check_offset(right)
    if left_type is Edm.NULL or right_type is Edm.NULL:
        return left, right
    if left_type in NUMERIC and right_type in NUMERIC:
        return (as_double(left), as_double(right)) if Edm.DOUBLE in (left_type, right_type) else (left, right)
    if left_type in DATE_TIMES and right_type in DATE_TIMES:
        return left, right
    if left_type is Edm.DATE and right_type in DATE_TIMES:
        return _midnight(left), right
    if left_type not in DATE_TIMES or right_type is not Edm.DATE:
        _refuse_types(operator, left_type, right_type)
    return left, _midnight(right)


def _refuse_types(operator: str, left_type: Edm, right_type: Edm) -> NoReturn:
    hint = f" {NEEDS_PARENTHESES}" if Edm.BOOLEAN in (left_type, right_type) else ""
    refuse(f"The operator '{operator}' cannot compare {left_type.value} with {right_type.value}.{hint}", "wrong-type")


def _to(constant: PlanParameter, other: Value) -> Value:
    return converted(constant, other.type) or constant


def _midnight(day: Value) -> Value:
    """A date that is not a literal, as a date-time."""
    return Function(Edm.DATE_TIME, day.nullable, "(({0})::timestamp at time zone 'UTC')", (day,))


def _check_members(column: Value, constant: Value) -> None:
    """Check that a string compared with an enumeration is one of its members."""
    if isinstance(column, PlanColumn) and column.enum and isinstance(constant, PlanParameter):
        check_member(column, constant.value)


def check_member(column: PlanColumn, value: object) -> None:
    """Raise `BadRequest` unless the value is a member of the column's enumeration."""
    if value not in column.enum:
        refuse(
            f"'{str(value)[:50]}' is not a member of the enumeration. The members are {', '.join(column.enum)}.",
            "not-one-of",
            valid=column.enum,
        )


def among(operand: Value, items: list[PlanParameter | Null]) -> Value:
    """`operand in (items)`. Raises `BadRequest` for an item of another type."""
    null = any(isinstance(item, Null) for item in items)
    values: list[PlanParameter] = []
    for item in items:
        if isinstance(item, Null):
            continue
        _, right = together("in", operand, item)
        if isinstance(operand, Null):
            continue
        values.append(right if isinstance(right, PlanParameter) else item)
    widest = max((value.type for value in values), key=_width, default=operand.type)
    if operand.type is Edm.DATE and widest is Edm.DATE_TIME:
        operand = _midnight(operand)
    same = [converted(value, widest) or value for value in values]
    return PlanMembership(operand, widest, tuple([value.value for value in same]), null, divisors(operand))


def _width(type_: Edm) -> int:
    order = (*NUMERIC, Edm.DATE, *DATE_TIMES)
    return order.index(type_) if type_ in order else 0
