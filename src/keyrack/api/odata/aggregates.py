"""Methods of `aggregate`: their operand types, result types and SQL. All of them ignore null.

Source: OData Extension for Data Aggregation 4.0, section 3.2.1.
"""

from __future__ import annotations

from typing import LiteralString, NoReturn

from keyrack.api.odata import ast
from keyrack.api.odata.binder import Binder
from keyrack.api.odata.groupby_paths import GroupByPath, PathFollower
from keyrack.api.odata.literal_values import NUMERIC, check_offset, refuse, refuse_unsupported
from keyrack.api.odata.plan import Edm, Function, Nested, Value
from keyrack.core.errors import BadRequest
from keyrack.db.named_parameters import NUMBERS

# A sum has the next larger type, so that it does not overflow
_SUMS: dict[Edm, tuple[Edm, LiteralString]] = {
    Edm.INT32: (Edm.INT64, "sum({0})::int8"),
    Edm.INT64: (Edm.DECIMAL, "sum({0})::numeric"),
    Edm.DECIMAL: (Edm.DECIMAL, "sum({0})"),
    Edm.DOUBLE: (Edm.DOUBLE, "sum({0})"),
}
# PostgreSQL has no minimum of Booleans, and none of uuids before version 18
_LEAST: dict[str, dict[Edm, LiteralString]] = {
    "min": {Edm.BOOLEAN: "bool_and({0})", Edm.GUID: "min(({0})::text)::uuid"},
    "max": {Edm.BOOLEAN: "bool_or({0})", Edm.GUID: "max(({0})::text)::uuid"},
}
_ANY: dict[str, LiteralString] = {"min": "min({0})", "max": "max({0})"}
# The specification requires a Decimal without a scale for counts
_COUNTED: LiteralString = "::numeric"


def value(item: ast.AggregateItem, binder: Binder, leading: PathFollower) -> Value:
    """The value of one item for a group. Raises `BadRequest` and `NotImplemented`."""
    expression, method, _, _ = item
    if method is None:
        _refuse_custom(expression, leading)
    if expression is None:
        return Function(Edm.DECIMAL, False, "count(*)" + _COUNTED)
    if not isinstance(expression, ast.Path):
        return _of(method, binder.value(expression))
    lead = leading.follow(expression, grouping=False)
    if method == "count":
        return _count(lead)
    if isinstance(lead.target, Nested):
        if method != "countdistinct":
            refuse(f"The method '{method}' takes values, and '{lead.name}' is an object.")
        return _distinct(lead.identity, lead.target)
    if lead.along and method in ("sum", "average"):
        # The specification counts the value of an object that several rows share only once
        refuse_unsupported(f"The method '{method}' along a relation")
    return _of(method, lead.target.value)


def _refuse_custom(expression: ast.Node | None, leading: PathFollower) -> NoReturn:
    path = expression if isinstance(expression, ast.Path) else ast.Path(("",), 0)
    name = "/".join(path.names)
    try:
        leading.follow(path, grouping=False)
    except BadRequest:
        refuse_unsupported(f"The custom aggregate '{name[:50]}'")
    refuse(f"'{name}' requires 'with' and a method.")


def _of(method: str, operand: Value) -> Value:
    """The method over the values of the rows; null without values."""
    check_offset(operand)
    type_ = operand.type
    if method in ("sum", "average"):
        if type_ not in NUMERIC:
            refuse(f"The method '{method}' takes numbers, not {type_.value}.", "wrong-type")
        if method == "sum":
            type_, template = _SUMS[type_]
            return Function(type_, True, template, (operand,))
        return Function(Edm.DOUBLE if type_ is Edm.DOUBLE else Edm.DECIMAL, True, "avg({0})", (operand,))
    if type_ in (Edm.NULL, Edm.OPAQUE):
        refuse(f"The method '{method}' does not take {type_.value}.", "wrong-type")
    if method == "countdistinct":
        return Function(Edm.DECIMAL, False, "count(distinct {0})" + _COUNTED, (operand,))
    return Function(type_, True, _LEAST[method].get(type_, _ANY[method]), (operand,))


def _count(lead: GroupByPath) -> Value:
    """`path/$count`: the number of objects, or of values that are not null."""
    if isinstance(lead.target, Nested):
        if lead.target.is_present is None and not lead.along:
            return Function(Edm.DECIMAL, False, "count(*)" + _COUNTED)
        return _distinct(lead.identity, lead.target)
    if lead.along:
        refuse_unsupported("/$count of a property along a relation")
    return Function(Edm.DECIMAL, False, "count({0})" + _COUNTED, (lead.target.value,))


def _distinct(identity: tuple[Value, ...], nested: Nested) -> Value:
    """The number of distinct objects."""
    if len(identity) == 1 and not identity[0].nullable:  # a key, null if the row does not exist
        return Function(Edm.DECIMAL, False, "count(distinct {0})" + _COUNTED, identity)
    places: LiteralString = ", ".join(["{" + NUMBERS[place] + "}" for place in range(len(identity))])
    counted: LiteralString = "count(distinct row(" + places + "))"
    if nested.is_present is not None:
        counted += " filter (where {" + NUMBERS[len(identity)] + "})"
        identity = (*identity, nested.is_present)
    return Function(Edm.DECIMAL, False, counted + _COUNTED, identity)
