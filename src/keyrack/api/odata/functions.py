"""Functions and arithmetic: operand types and SQL (OData 4.01 Part 2, 5.1.1.1 to 5.1.1.11).

The result for a null operand is null; `comparisons` has the other rules for null.
"""

from __future__ import annotations

from typing import LiteralString

from keyrack.api.odata.literal_values import (
    DATE_TIMES,
    INT32,
    INTEGERS,
    NUMERIC,
    check_offset,
    converted,
    refuse,
    refuse_unsupported,
)
from keyrack.api.odata.parse_paths import FUNCTIONS, NATURAL_ORDER
from keyrack.api.odata.plan import Edm, Function, Null, PlanColumn, PlanParameter, Related, Value, divisors

# Unicode white space, which `trim` removes; PostgreSQL's btrim removes only blanks
_BLANKS: LiteralString = (
    r"U&' \0009\000A\000B\000C\000D\0085\00A0\1680\2000\2001\2002\2003\2004\2005\2006\2007\2008\2009\200A"
    r"\2028\2029\202F\205F\3000'"
)

# String functions: name -> type and SQL
_OF_TEXT: dict[str, tuple[Edm, LiteralString]] = {
    "contains": (Edm.BOOLEAN, "(strpos({0}, {1}) > 0)"),
    "startswith": (Edm.BOOLEAN, "starts_with({0}, {1})"),
    "endswith": (Edm.BOOLEAN, "(right({0}, char_length({1})) = {1})"),
    "indexof": (Edm.INT32, "(strpos({0}, {1}) - 1)"),
    "length": (Edm.INT32, "char_length({0})"),
    "tolower": (Edm.STRING, "lower({0})"),
    "toupper": (Edm.STRING, "upper({0})"),
    "trim": (Edm.STRING, "btrim({0}, " + _BLANKS + ")"),
    "concat": (Edm.STRING, "({0} || {1})"),
}

# Time functions: name -> type, SQL and operand types. Date-times are evaluated in UTC, wall clock times as they are
_OF_TIME: dict[str, tuple[Edm, LiteralString, tuple[Edm, ...]]] = {
    "year": (Edm.INT32, "extract(year from {0})::int4", (*DATE_TIMES, Edm.DATE)),
    "month": (Edm.INT32, "extract(month from {0})::int4", (*DATE_TIMES, Edm.DATE)),
    "day": (Edm.INT32, "extract(day from {0})::int4", (*DATE_TIMES, Edm.DATE)),
    "hour": (Edm.INT32, "extract(hour from {0})::int4", (*DATE_TIMES, Edm.TIME)),
    "minute": (Edm.INT32, "extract(minute from {0})::int4", (*DATE_TIMES, Edm.TIME)),
    "second": (Edm.INT32, "floor(extract(second from {0}))::int4", (*DATE_TIMES, Edm.TIME)),
    "fractionalseconds": (Edm.DECIMAL, "mod(extract(second from {0}), 1)", (*DATE_TIMES, Edm.TIME)),
    "date": (Edm.DATE, "({0})::date", (*DATE_TIMES, Edm.DATE)),
    "time": (Edm.TIME, "({0})::time", (*DATE_TIMES, Edm.TIME)),
}
_MOMENTS: dict[str, LiteralString] = {
    "now": "now()",
    "mindatetime": "'0001-01-01 00:00:00+00'::timestamptz",
    "maxdatetime": "'9999-12-31 23:59:59.999999+00'::timestamptz",
}
# PostgreSQL rounds a double to the even neighbour; `odata_round` and `odata_substring` are functions of the schema
_ROUNDED: dict[str, tuple[LiteralString, LiteralString]] = {
    "round": ("odata_round({0})", "round({0})"),
    "floor": ("floor({0})", "floor({0})"),
    "ceiling": ("ceil({0})", "ceil({0})"),
}
_DAYS = (*DATE_TIMES, Edm.DATE)  # two of them differ by a duration (Part 2, section 5.1.1.2.2)
_RANK = {type_: rank for rank, type_ in enumerate(NUMERIC)}


def call(name: str, arguments: tuple[Value, ...]) -> Value:
    """The function `name` with these arguments. Raises `BadRequest` for a wrong number or type of arguments."""
    if len(arguments) not in FUNCTIONS[name]:
        refuse(f"The function '{name}' takes {' or '.join(map(str, FUNCTIONS[name]))} arguments.")
    if (moment := _MOMENTS.get(name)) is not None:
        return Function(Edm.DATE_TIME, False, moment)
    if name == "substring":
        return _substring(arguments)
    if name == NATURAL_ORDER:
        return _natural_order(arguments[0])
    if (of_text := _OF_TEXT.get(name)) is not None:
        for argument in arguments:
            _check(name, argument, (Edm.STRING,))
        return _function(of_text[0], of_text[1], *arguments)
    argument = arguments[0]
    if (of_time := _OF_TIME.get(name)) is not None:
        type_, template, takes = of_time
        _check(name, argument, takes)
        if argument.type in DATE_TIMES:
            template = template.replace("{0}", "{0} at time zone 'UTC'")
        return _function(type_, template, argument)
    if name == "totaloffsetminutes":
        _check(name, argument, (Edm.DATE_TIME,))
        # Stored times are in UTC, and so are parsed literals
        return _function(Edm.INT32, "(case when {0} is not null then 0 end)", argument)
    _check(name, argument, NUMERIC)
    of_double, of_decimal = _ROUNDED[name]
    if argument.type in INTEGERS:
        return argument
    return _function(argument.type, of_double if argument.type is Edm.DOUBLE else of_decimal, argument)


def _check(name: str, argument: Value, takes: tuple[Edm, ...]) -> None:
    check_offset(argument)
    if argument.type not in takes and argument.type is not Edm.NULL:
        names = " or ".join(type_.value for type_ in takes)
        refuse(f"The function '{name}' takes {names}, not {argument.type.value}.", "wrong-type")


def _function(type_: Edm, template: LiteralString, *operands: Value) -> Value:
    if any(isinstance(operand, Null) for operand in operands):
        return Null()
    nullable = any(operand.nullable for operand in operands)
    return Function(type_, nullable, template, operands, divisors(*operands))


def _natural_order(text: Value) -> Value:
    """The natural order of a string: ignores case and accents, compares numbers by value."""
    _check(NATURAL_ORDER, text, (Edm.STRING,))
    if isinstance(text, PlanColumn) and text.natural is not None:
        return PlanColumn(Edm.STRING, True, text.natural, text.level)
    if isinstance(text, Related) and isinstance(text.value, PlanColumn) and text.value.natural is not None:
        return Related(Edm.STRING, text.steps, _natural_order(text.value))
    return _function(Edm.STRING, '(natural_key({0}) collate "C")', text)


def _substring(arguments: tuple[Value, ...]) -> Value:
    """The substring from a position, with an optional length.

    Positions count from 0, or from the end if they are negative. Literals that are not negative, the usual case, need
    no helper function: `substr` counts from 1.
    """
    text, start, *rest = arguments
    _check("substring", text, (Edm.STRING,))
    for number in (start, *rest):
        _check("substring", number, INTEGERS)
    if rest and isinstance(rest[0], PlanParameter) and isinstance(rest[0].value, int) and rest[0].value < 0:
        refuse("The length of a substring cannot be negative.")
    if isinstance(start, PlanParameter) and isinstance(start.value, int) and start.value >= 0:
        first = PlanParameter(Edm.INT32, min(start.value + 1, INT32 - 1))
        if not rest:
            return _function(Edm.STRING, "substr({0}, {1}::int4)", text, first)
        if isinstance(rest[0], PlanParameter) and isinstance(rest[0].value, int):
            length = PlanParameter(Edm.INT32, min(rest[0].value, INT32 - 1))
            return _function(Edm.STRING, "substr({0}, {1}::int4, {2}::int4)", text, first, length)
    if rest:
        return _function(Edm.STRING, "odata_substring({0}, {1}, {2})", text, start, rest[0])
    return _function(Edm.STRING, "odata_substring({0}, {1})", text, start)


def arithmetic(operator: str, left: Value, right: Value) -> Value:
    """`add sub mul div divby mod` of two numbers, in the wider of their types.

    The types from narrow to wide: Int32, Int64, Decimal, Double.
    """
    if operator == "sub" and left.type in _DAYS and right.type in _DAYS:
        refuse_unsupported("A duration (the difference of two times)")
    for side in (left, right):
        if side.type not in _RANK and side.type is not Edm.NULL:
            refuse(
                f"The operator '{operator}' takes numbers, not {left.type.value} and {right.type.value}.", "wrong-type"
            )
    division = operator in ("div", "divby", "mod")
    if division and isinstance(right, PlanParameter) and right.value == 0:
        refuse("A number cannot be divided by zero.")
    if isinstance(left, Null) or isinstance(right, Null):
        return Null()
    type_ = left.type if _RANK[left.type] >= _RANK[right.type] else right.type
    if type_ is Edm.DOUBLE:
        left, right = as_double(left), as_double(right)
    whole = type_ in INTEGERS
    if whole:
        # 64 bits, so that two 32-bit numbers do not overflow
        type_ = Edm.DECIMAL if operator == "divby" else Edm.INT64
    zero = division and not isinstance(right, PlanParameter)
    nullable = left.nullable or right.nullable or zero
    below = divisors(left, right) + ((right,) if zero else ())
    return Function(type_, nullable, _template(operator, type_, whole, zero), (left, right), below)


_SYMBOLS: dict[str, LiteralString] = {"add": "+", "sub": "-", "mul": "*", "div": "/", "divby": "/", "mod": "%"}


def _template(operator: str, type_: Edm, whole: bool, zero: bool) -> LiteralString:
    right: LiteralString = "nullif({1}, 0)" if zero else "{1}"
    left: LiteralString = "{0}"
    if operator == "mod" and type_ is Edm.DOUBLE:
        return "(({0})::numeric % (" + right + ")::numeric)::float8"
    if whole:
        left = "({0})::numeric" if operator == "divby" else "({0})::int8"
    return "(" + left + " " + _SYMBOLS[operator] + " " + right + ")"


def negation(operand: Value) -> Value:
    """The negated number."""
    if operand.type not in _RANK and operand.type is not Edm.NULL:
        refuse(f"The operator '-' takes a number, not {operand.type.value}.", "wrong-type")
    if operand.type is Edm.INT32:
        return _function(Edm.INT64, "(- ({0})::int8)", operand)
    return _function(operand.type, "(- {0})", operand)


def as_double(value: Value) -> Value:
    """The value as Double if it is a numeric literal, so that its parameter has that type."""
    if isinstance(value, PlanParameter) and value.type in NUMERIC:
        return converted(value, Edm.DOUBLE) or value
    return value
