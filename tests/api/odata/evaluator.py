"""The semantics of filters in plain Python, written from the OData specification.

It is independent of the compiler. A null value is None. Numbers are int, Fraction (Decimal) and float (Double).
Conditions are True, False or None. A division by zero is `Undefined`: a comparison with it is neither true nor false.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, date, datetime
from fractions import Fraction
from typing import Any

Env = dict[str, dict[str, Any]]
Evaluate = Callable[[Env], Any]


class Undefined(Exception):
    """The result of a division by zero."""


def arithmetic(operator: str, a: Any, b: Any) -> Any:
    if operator in ("div", "divby", "mod") and b is not None and b == 0:
        raise Undefined
    if a is None or b is None:
        return None
    if isinstance(a, float) or isinstance(b, float):
        a, b = float(a), float(b)
    match operator:
        case "add":
            return a + b
        case "sub":
            return a - b
        case "mul":
            return a * b
        case "mod":
            return math.fmod(a, b) if isinstance(a, float) else a - b * math.trunc(Fraction(a) / b)
        case "div" if isinstance(a, int) and isinstance(b, int):
            return math.trunc(Fraction(a, b))
        case _:
            return a / b if isinstance(a, float) else Fraction(a) / Fraction(b)


def comparable(a: Any, b: Any) -> tuple[Any, Any]:
    if isinstance(a, datetime) and type(b) is date:
        return a, datetime(b.year, b.month, b.day, tzinfo=UTC)
    if isinstance(b, datetime) and type(a) is date:
        return datetime(a.year, a.month, a.day, tzinfo=UTC), b
    if isinstance(a, float) and isinstance(b, int | Fraction) and not isinstance(b, bool):
        return a, float(b)
    if isinstance(b, float) and isinstance(a, int | Fraction) and not isinstance(a, bool):
        return float(a), b
    return a, b


def compare(operator: str, left: Evaluate, right: Evaluate) -> Evaluate:
    """`eq` and `ne` treat null as a value. The other operators are false for null."""

    def run(env: Env) -> Any:
        try:
            a, b = left(env), right(env)
        except Undefined:
            return None
        if a is None or b is None:
            same = a is None and b is None
            return {"eq": same, "ne": not same}.get(operator, False)
        a, b = comparable(a, b)
        return {"eq": a == b, "ne": a != b, "gt": a > b, "ge": a >= b, "lt": a < b, "le": a <= b}[operator]

    return run


def contained(operand: Evaluate, items: list[Any]) -> Evaluate:
    """`in` is a chain of `eq`, joined by `or`."""

    def run(env: Env) -> Any:
        try:
            value = operand(env)
        except Undefined:
            return None
        if value is None:
            return any(item is None for item in items)
        return any(item is not None and len({*comparable(value, item)}) == 1 for item in items)

    return run


def negated(a: Any) -> Any:
    return None if a is None else not a


def conjunction(values: list[Any]) -> Any:
    if any(value is False for value in values):
        return False
    return None if any(value is None for value in values) else True


def disjunction(values: list[Any]) -> Any:
    if any(value is True for value in values):
        return True
    return None if any(value is None for value in values) else False


def rounded(value: Any, how: str) -> Any:
    if isinstance(value, int):
        return value
    exact = Fraction(value)
    if how == "floor":
        whole = math.floor(exact)
    elif how == "ceiling":
        whole = math.ceil(exact)
    else:
        whole = math.floor(abs(exact) + Fraction(1, 2)) * (1 if exact >= 0 else -1)
    return float(whole) if isinstance(value, float) else Fraction(whole)


def substring(text: str, start: int, length: int | None = None) -> str:
    start = max(len(text) + start, 0) if start < 0 else start
    return text[start:] if length is None else text[start : start + length]


def trimmed(text: str) -> str:
    def blank(character: str) -> bool:
        return unicodedata.category(character) in ("Zs", "Zl", "Zp") or character in "\t\n\v\f\r\x85"

    while text and blank(text[0]):
        text = text[1:]
    while text and blank(text[-1]):
        text = text[:-1]
    return text


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "contains": lambda a, b: b in a,
    "startswith": lambda a, b: a.startswith(b),
    "endswith": lambda a, b: a.endswith(b),
    "indexof": lambda a, b: a.find(b),
    "length": len,
    "substring": substring,
    "tolower": str.lower,
    "toupper": str.upper,
    "trim": trimmed,
    "concat": lambda a, b: a + b,
    "year": lambda t: t.year,
    "month": lambda t: t.month,
    "day": lambda t: t.day,
    "hour": lambda t: t.hour,
    "minute": lambda t: t.minute,
    "second": lambda t: t.second,
    "fractionalseconds": lambda t: Fraction(t.microsecond, 1_000_000),
    "date": lambda t: t.date() if isinstance(t, datetime) else t,
    "time": lambda t: t.time() if isinstance(t, datetime) else t,
    "round": lambda x: rounded(x, "round"),
    "floor": lambda x: rounded(x, "floor"),
    "ceiling": lambda x: rounded(x, "ceiling"),
    "totaloffsetminutes": lambda t: 0,
    "decimal": Fraction,  # not in the language: the type of a sum of 64-bit values
}


def call(name: str, *arguments: Evaluate) -> Evaluate:
    """A function of null is null."""

    def run(env: Env) -> Any:
        values = [argument(env) for argument in arguments]
        return None if any(value is None for value in values) else FUNCTIONS[name](*values)

    return run


def ordered(rows: list[dict[str, Any]], keys: list[tuple[str, bool]]) -> list[dict[str, Any]]:
    """Sort by each key (name, whether descending), then by id. Nulls are first, and last if descending."""
    rows = sorted(rows, key=lambda row: row["id"])
    for name, descending in reversed(keys):
        rows = sorted(rows, key=lambda row: (row[name] is not None, row[name] or 0), reverse=descending)
    return rows


def expanded(
    name: str,
    rows: list[dict[str, Any]],
    keys: list[tuple[str, bool]],
    show: Callable[[dict[str, Any]], dict[str, Any]],
    *,
    top: int | None,
    skip: int | None,
    count: bool | None,
    alone: bool,
) -> dict[str, Any]:
    """The members of an expanded collection: a count before it, or a count alone.

    `rows` are the rows after filter and search. They are counted independently of the page (OData 4.01 Part 1, section
    11.2.6.5; JSON Format, sections 4.5.6 and 8.3).
    """
    members: dict[str, Any] = {}
    if alone or count:
        members[f"{name}@odata.count"] = len(rows)
    if not alone:
        start = skip or 0
        page = ordered(rows, keys)[start : None if top is None else start + top]
        members[name] = [show(row) for row in page]
    return members


def constant(value: Any) -> Evaluate:
    return lambda env: value


# Transformations of `$apply` (OData Extension for Data Aggregation 4.0, section 3). A row is a dictionary, with
# dictionaries for its objects, or None. The order is total: if the specification leaves it open, it is the order of the
# key or of the groups.

Row = dict[str, Any]
Path = tuple[str, ...]
Order = Sequence[tuple[Evaluate, bool]]  # with whether it is descending


def computed(rows: Iterable[Row], name: str, value: Evaluate) -> list[Row]:
    """Add a property to the rows. A division by 0 results in null."""

    def run(row: Row) -> Any:
        try:
            return value({"": row})
        except Undefined:
            return None

    return [{**row, name: run(row)} for row in rows]


def rank(value: Any) -> tuple[Any, ...]:
    """Null sorts before false, and false before true."""
    return (0,) if value is None else (1, value)


def in_order(rows: Iterable[Row], order: Order) -> list[Row]:
    """Sort stably by several criteria. Null is last if descending."""
    found = list(rows)
    for value, descending in reversed(order):
        found.sort(key=lambda row: rank(value({"": row})), reverse=descending)
    return found


def cut(rows: Sequence[Row], name: str, number: int) -> list[Row]:
    return list(rows[:number] if name == "top" else rows[number:])


def projected(row: Row, paths: Iterable[Path]) -> Row:
    """The remaining part of a row (section 3.2.3.1). A null object differs from an object with null values."""
    found: Row = {}
    paths = list(paths)
    for first in dict.fromkeys(path[0] for path in paths):
        rest = [path[1:] for path in paths if path[0] == first]
        value = row[first]
        found[first] = value if value is None or () in rest else projected(value, rest)
    return found


def frozen(value: Any) -> Any:
    """Return a hashable value that is equal for equal rows."""
    return tuple((name, frozen(part)) for name, part in value.items()) if isinstance(value, dict) else value


def criteria(value: Any, path: Path) -> tuple[Any, ...]:
    """The sort key of a group by its paths. A null object is before other objects, and null before other values."""
    if value is None:
        return (0,)
    if path:
        return (1, criteria(value[path[0]], path[1:]))
    return (1, *[rank(part) for part in value.values()]) if isinstance(value, dict) else rank(value)


Aggregate = tuple[str, str, Evaluate]  # the alias, the method, and the aggregated value


def grouped(rows: Iterable[Row], paths: Sequence[Path], aggregates: Sequence[Aggregate]) -> list[Row]:
    """One row per group. Without paths, one row for all, even for no rows."""
    groups: dict[Any, tuple[Row, list[Row]]] = {}
    for row in rows:
        found = projected(row, paths)
        groups.setdefault(frozen(found), (found, []))[1].append(row)
    if not paths and not groups:
        groups[()] = ({}, [])
    ordered = sorted(groups.values(), key=lambda group: [criteria(group[0], path) for path in paths])
    return [
        {**group, **{alias: aggregated(method, value, members) for alias, method, value in aggregates}}
        for group, members in ordered
    ]


def aggregated(method: str, value: Evaluate, rows: list[Row]) -> Any:
    """Apply the method to the values that are not null (section 3.2.1)."""
    if method == "$count":
        return Fraction(len(rows))
    found = [row["_"] for row in computed(rows, "_", value) if row["_"] is not None]
    if method == "countdistinct":
        return Fraction(len({frozen(one) for one in found}))
    if not found:
        return None
    if method in ("min", "max"):
        return min(found) if method == "min" else max(found)
    total = sum(found)
    if method == "sum":
        return total
    return total / len(found) if isinstance(total, float) else Fraction(total) / len(found)
