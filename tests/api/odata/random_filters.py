"""Random typed filters with their semantics by `odata_evaluator`, and the sample rows."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from typing import Any
from uuid import UUID

from hypothesis import strategies as st

from keyrack.api.permissions import Permission
from keyrack.api.schema.fields import (
    RESOURCES,
    Field,
    Relation,
    Resource,
    Type,
    boolean,
    date_time,
    double,
    guid,
    int32,
    int64,
    string,
)
from tests.api.odata import evaluator as means
from tests.api.odata.evaluator import Evaluate

SCHEMA = (
    "create table if not exists odata_sample (customer_id int not null, id int not null, i int not null, n int,"
    " l bigint, d float8 not null, e float8, s text not null, u text, b bool not null, c bool, t timestamptz not null,"
    " v timestamptz, g uuid, w timestamptz, primary key (customer_id, id))",
    "create table if not exists odata_part (customer_id int not null, part_id int not null, sample_id int not null,"
    " i int, u text, primary key (customer_id, part_id))",
    "create table if not exists odata_whole (customer_id int not null, id int not null, name text, n int,"
    " primary key (customer_id, id))",
)
_OF_CUSTOMER = "{t}.customer_id = :customer"
PART = Resource(
    "Part",
    "odata_part {t}",
    _OF_CUSTOMER,
    {
        "id": int32("{t}.part_id"),
        "i": int32("{t}.i", nullable=True),
        "u": string("{t}.u", nullable=True, search=True),
    },
    relations={
        "sample": Relation(
            "Sample", "{t}.customer_id = {p}.customer_id and {t}.id = {p}.sample_id", is_collection=False
        )
    },
    permission=Permission.CARS_READ,
)
WHOLE = Resource(
    "Whole",
    "odata_whole {t}",
    _OF_CUSTOMER,
    {"id": int32("{t}.id"), "name": string("{t}.name", nullable=True), "n": int32("{t}.n", nullable=True)},
    relations={"samples": Relation("Sample", "{t}.customer_id = {p}.customer_id and {t}.n = {p}.id")},
    permission=Permission.CARS_READ,
)
SAMPLE = Resource(
    "Sample",
    "odata_sample {t}",
    _OF_CUSTOMER,
    {
        "id": int32("{t}.id"),
        "i": int32("{t}.i"),
        "n": int32("{t}.n", nullable=True),
        "l": int64("{t}.l", nullable=True),
        "d": double("{t}.d"),
        "e": double("{t}.e", nullable=True),
        "s": string("{t}.s", search=True),
        "u": string("{t}.u", nullable=True, search=True),
        "b": boolean("{t}.b"),
        "c": boolean("{t}.c", nullable=True),
        "t": date_time("{t}.t"),
        "v": date_time("{t}.v", nullable=True),
        "g": guid("{t}.g", nullable=True),
        "w": Field(Type.WALL_CLOCK, "{t}.w", nullable=True),
    },
    relations={
        "parts": Relation("Part", "{t}.customer_id = {p}.customer_id and {t}.sample_id = {p}.id"),
        "whole": Relation("Whole", "{t}.customer_id = {p}.customer_id and {t}.id = {p}.n", is_collection=False),
    },
    permission=Permission.CARS_READ,
)

TEXTS = ["", "a", "A", "ab", "Ab c", " x ", "it's", "50%", "a_b", "\\", "Ünder", "\u00a0y\t", "b-7", "é"]
MOMENTS = [
    datetime(2020, 2, 29, 23, 59, 59, 999000, UTC),
    datetime(2021, 1, 1, tzinfo=UTC),
    datetime(2021, 1, 1, 12, 30, 5, 500000, UTC),
    datetime(1999, 12, 31, 22, tzinfo=UTC),
]
GUIDS = [UUID(int=number) for number in (1, 2)]
DOUBLES = [0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 10.25, -7.75, 100.0]
WHOLES = [0, 1, 2, 4, 5, -2, -7, 10]


def sample_rows(count: int = 80) -> list[dict[str, Any]]:
    """Rows with nulls in every nullable column, and 0 to 3 parts each."""
    chance = random.Random(20)

    def perhaps(values: list[Any]) -> Any:
        return None if chance.random() < 0.3 else chance.choice(values)

    rows: list[dict[str, Any]] = []
    part = 0
    for number in range(1, count + 1):
        row = {
            "id": number,
            "i": chance.choice(WHOLES),
            "n": perhaps(WHOLES),
            "l": perhaps([*WHOLES, 2**40]),
            "d": chance.choice(DOUBLES),
            "e": perhaps(DOUBLES),
            "s": chance.choice(TEXTS),
            "u": perhaps(TEXTS),
            "b": chance.random() < 0.5,
            "c": perhaps([True, False]),
            "t": chance.choice(MOMENTS),
            "v": perhaps(MOMENTS),
            "g": perhaps(GUIDS),
            "w": perhaps(MOMENTS),
        }
        row["parts"] = []
        for _ in range(chance.choice((0, 0, 1, 2, 3))):
            part += 1
            row["parts"].append({"id": part, "i": perhaps(WHOLES), "u": perhaps(TEXTS)})
        rows.append(row)
    wholes = {number: {"id": number, "name": perhaps(TEXTS), "n": perhaps(WHOLES)} for number in (1, 2, 4)}
    for row in rows:
        row["whole"] = wholes.get(row["n"])
    for number, whole in wholes.items():
        whole["samples"] = [row for row in rows if row["n"] == number]
    return rows


def fill(sql: Any, customers: tuple[int, ...], rows: list[dict[str, Any]]) -> None:
    """Insert the same rows for each customer.

    Registers the resources as targets of relations.
    """
    RESOURCES.update(Part=PART, Whole=WHOLE, Sample=SAMPLE)
    for statement in SCHEMA:
        sql.execute(statement)
    for table in ("odata_sample", "odata_part", "odata_whole"):
        sql.execute(f"truncate {table}")
    for customer in customers:
        wholes = {row["whole"]["id"]: row["whole"] for row in rows if row["whole"]}
        for whole in wholes.values():
            sql.execute(
                "insert into odata_whole values ($1, $2, $3, $4)", customer, whole["id"], whole["name"], whole["n"]
            )
        for row in rows:
            values = [row[name] for name in SAMPLE.fields]
            places = ", ".join(f"${number}" for number in range(1, len(values) + 2))
            sql.execute(f"insert into odata_sample values ({places})", customer, *values)
            for part in row["parts"]:
                sql.execute(
                    "insert into odata_part values ($1, $2, $3, $4, $5)",
                    customer, part["id"], row["id"], part["i"], part["u"],
                )  # fmt: skip


@dataclass(frozen=True)
class Piece:
    """A part of a filter: the precedence of its operator (9: needs no parentheses), its text, and its evaluation."""

    level: int
    text: str
    run: Evaluate


OR, AND, EQ, RELATION, ADD, MUL, UNARY, PRIMARY = 1, 2, 3, 4, 5, 6, 7, 9


def inside(draw: Any, piece: Piece, level: int) -> str:
    """The text at a place that requires a precedence of at least `level`."""
    if piece.level < level or draw(st.integers(0, 9)) == 0:
        return f"({piece.text})" if draw(st.booleans()) else f"( {piece.text} )"
    return piece.text


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def stamp(moment: datetime) -> str:
    fraction = f".{moment.microsecond:06}".rstrip("0") if moment.microsecond else ""
    return moment.strftime("%Y-%m-%dT%H:%M:%S") + fraction + "Z"


def named(names: list[str], variable: str) -> st.SearchStrategy[Piece]:
    prefix = f"{variable}/" if variable else ""

    def prop(name: str) -> Piece:
        def run(env: means.Env) -> Any:
            value: Any = env[variable]
            for part in name.split("/"):
                value = None if value is None else value[part]
            return value

        return Piece(PRIMARY, prefix + name, run)

    return st.sampled_from([prop(name) for name in names])


def literal(text: str, value: Any) -> Piece:
    return Piece(PRIMARY, text, means.constant(value))


_WHOLE = st.sampled_from([literal(str(n), n) for n in (*WHOLES, 3, 100, 2**31, -(2**31))])
_NUMBERS = st.one_of(
    _WHOLE,
    st.sampled_from([literal(text, Fraction(text)) for text in ("1.5", "-0.25", "2.0", "10.25", "+4.0")]),
    st.sampled_from([literal(text, float(text)) for text in ("2.5e0", "1e2", "-5e-1")]),
)
_TEXTS = st.sampled_from([literal(quoted(text), text) for text in TEXTS])
_NULL = literal("null", None)


@st.composite
def number(draw: Any, depth: int, variable: str) -> Piece:
    kind = draw(st.integers(0, 9)) if depth else draw(st.integers(0, 3))
    if kind < 3:
        return draw(named(["i", "n", "l", "d", "e", "whole/n"] if not variable else ["i", "id"], variable))
    if kind == 3:
        return draw(_NUMBERS)
    if kind == 4:
        operand = draw(number(depth - 1, variable))
        blank = " " if operand.text[0] in "-+0123456789" else draw(st.sampled_from(["", " "]))

        def minus(env: means.Env) -> Any:
            value = operand.run(env)
            return None if value is None else -value

        return Piece(UNARY, "-" + blank + inside(draw, operand, UNARY), minus)
    if kind == 5:
        name = draw(st.sampled_from(["round", "floor", "ceiling"]))
        operand = draw(number(depth - 1, variable))
        return Piece(PRIMARY, f"{name}({operand.text})", means.call(name, operand.run))
    if kind == 6:
        return draw(whole_of(depth - 1, variable))
    operator = draw(st.sampled_from(["add", "sub", "mul", "div", "divby", "mod"]))
    left = draw(number(depth - 1, variable))
    right = draw(number(depth - 1, variable))
    if operator in ("div", "divby", "mod"):
        right = draw(st.one_of(named(["i", "n"] if not variable else ["i"], variable), _NUMBERS))
        if right.text.strip("+-0.") == "":
            right = literal("2", 2)
    level = ADD if operator in ("add", "sub") else MUL
    return Piece(
        level,
        f"{inside(draw, left, level)} {operator} {inside(draw, right, level + 1)}",
        lambda env: means.arithmetic(operator, left.run(env), right.run(env)),
    )


@st.composite
def whole_of(draw: Any, depth: int, variable: str) -> Piece:
    """An integer that is computed from another value."""
    kind = draw(st.integers(0, 3 if not variable else 1))
    if kind == 0:
        operand = draw(text(depth, variable))
        return Piece(PRIMARY, f"length({operand.text})", means.call("length", operand.run))
    if kind == 1:
        one, two = draw(text(depth, variable)), draw(text(depth, variable))
        return Piece(PRIMARY, f"indexof({one.text},{two.text})", means.call("indexof", one.run, two.run))
    if kind == 2:
        return Piece(PRIMARY, "parts/$count", lambda env: len(env[""]["parts"]))
    name = draw(
        st.sampled_from(["year", "month", "day", "hour", "minute", "second", "fractionalseconds", "totaloffsetminutes"])
    )
    operand = draw(moment())
    return Piece(PRIMARY, f"{name}({operand.text})", means.call(name, operand.run))


@st.composite
def text(draw: Any, depth: int, variable: str) -> Piece:
    kind = draw(st.integers(0, 7)) if depth else draw(st.integers(0, 3))
    if kind < 3:
        return draw(named(["s", "u", "whole/name"] if not variable else ["u"], variable))
    if kind == 3:
        return draw(_TEXTS)
    operand = draw(text(depth - 1, variable))
    if kind in (4, 5):
        name = draw(st.sampled_from(["tolower", "toupper", "trim"]))
        return Piece(PRIMARY, f"{name}({operand.text})", means.call(name, operand.run))
    if kind == 6:
        other = draw(text(depth - 1, variable))
        return Piece(PRIMARY, f"concat({operand.text}, {other.text})", means.call("concat", operand.run, other.run))
    start = draw(st.one_of(_WHOLE, named(["i"], variable)))
    parts = [operand, start]
    if draw(st.booleans()):
        parts.append(literal(*draw(st.sampled_from([("0", 0), ("1", 1), ("3", 3)]))))
    return Piece(
        PRIMARY,
        "substring(" + ",".join(part.text for part in parts) + ")",
        means.call("substring", *[part.run for part in parts]),
    )


@st.composite
def moment(draw: Any) -> Piece:
    kind = draw(st.integers(0, 3))
    if kind < 3:
        return draw(named(["t", "v"], ""))
    value = draw(st.sampled_from(MOMENTS))
    shifted = value + timedelta(hours=1)
    return draw(st.sampled_from([literal(stamp(value), value), literal(stamp(shifted).replace("Z", "+01:00"), value)]))


@st.composite
def sides(draw: Any, depth: int, variable: str) -> tuple[Piece, Piece]:
    """Two comparable values."""
    kind = draw(st.integers(0, 10)) if not variable else draw(st.sampled_from([0, 1, 2, 3, 9]))
    if kind <= 2:
        pair = draw(number(depth, variable)), draw(number(depth, variable))
    elif kind <= 4:
        pair = draw(text(depth, variable)), draw(text(depth, variable))
    elif kind == 5:
        pair = draw(moment()), draw(moment())
    elif kind == 6:
        value = draw(st.sampled_from(MOMENTS))
        other = [literal(quoted(stamp(value)), value), literal(value.date().isoformat(), value.date())]
        pair = draw(named(["t", "v"], "")), draw(st.sampled_from(other))
    elif kind == 7:
        operand = draw(named(["t", "v", "w"], ""))
        day = Piece(PRIMARY, f"date({operand.text})", means.call("date", operand.run))
        value = date(2021, 1, 1)
        pair = day, draw(st.sampled_from([literal("2021-01-01", value), literal("'2021-01-01'", value), operand]))
    elif kind == 8:
        value = draw(st.sampled_from(GUIDS))
        pair = (
            draw(named(["g"], "")),
            draw(st.sampled_from([literal(str(value), value), literal(quoted(str(value)), value)])),
        )
    elif kind == 10:  # a wall clock ignores the offset
        value = draw(st.sampled_from(MOMENTS))
        shown = stamp(value).removesuffix("Z") + draw(st.sampled_from(["", "Z", "+05:00", "-00:30"]))
        other = [literal(shown, value), literal(quoted(shown), value), literal(value.date().isoformat(), value.date())]
        pair = draw(named(["w"], "")), draw(st.one_of(st.sampled_from(other), named(["t", "v", "w"], "")))
    else:
        pair = draw(condition(max(depth - 1, 0), variable)), draw(condition(0, variable))
    if draw(st.integers(0, 5)) == 0:
        pair = (pair[0], _NULL)
    return pair if draw(st.booleans()) else (pair[1], pair[0])


@st.composite
def condition(draw: Any, depth: int, variable: str = "") -> Piece:
    kind = draw(st.integers(0, 11)) if depth else draw(st.integers(0, 4))
    if kind == 0 and not variable:
        return draw(named(["b", "c"], ""))
    if kind <= 3:
        left, right = draw(sides(max(depth - 1, 0), variable))
        operator = draw(st.sampled_from(["eq", "ne", "gt", "ge", "lt", "le"]))
        level = EQ if operator in ("eq", "ne") else RELATION
        return Piece(
            level,
            f"{inside(draw, left, level)} {operator} {inside(draw, right, level + 1)}",
            means.compare(operator, left.run, right.run),
        )
    if kind == 4:
        return draw(membership(depth, variable))
    if kind <= 6:
        name = draw(st.sampled_from(["contains", "startswith", "endswith"]))
        one, two = draw(text(depth - 1, variable)), draw(text(depth - 1, variable))
        return Piece(PRIMARY, f"{name}({one.text},{two.text})", means.call(name, one.run, two.run))
    if kind == 7:
        operand = draw(condition(depth - 1, variable))
        return Piece(UNARY, "not " + inside(draw, operand, UNARY), lambda env: means.negated(operand.run(env)))
    if kind <= 10 or variable:
        operator = draw(st.sampled_from(["and", "or"]))
        parts = [draw(condition(depth - 1, variable)) for _ in range(draw(st.integers(2, 3)))]
        level = AND if operator == "and" else OR
        join = means.conjunction if operator == "and" else means.disjunction
        return Piece(
            level,
            f" {operator} ".join(inside(draw, part, level + 1) for part in parts),
            lambda env: join([part.run(env) for part in parts]),
        )
    return draw(quantified(depth - 1))


@st.composite
def membership(draw: Any, depth: int, variable: str) -> Piece:
    if draw(st.booleans()):
        operand = draw(number(max(depth - 1, 0), variable))
        items = draw(st.lists(st.one_of(_NUMBERS, st.just(_NULL)), max_size=4))
    else:
        operand = draw(text(max(depth - 1, 0), variable))
        items = draw(st.lists(st.one_of(_TEXTS, st.just(_NULL)), max_size=4))
    listed = ",".join(item.text for item in items)
    return Piece(
        AND,  # puts it in parentheses beside other operators, as the grammar requires
        f"{inside(draw, operand, PRIMARY)} in ({listed})",
        means.contained(operand.run, [item.run({}) for item in items]),
    )


@st.composite
def quantified(draw: Any, depth: int) -> Piece:
    every = draw(st.booleans())
    body = draw(condition(depth, "p"))

    def run(env: means.Env) -> bool:
        found = [body.run(env | {"p": part}) is True for part in env[""]["parts"]]
        return all(found) if every else any(found)

    if not every and draw(st.integers(0, 5)) == 0:
        return Piece(PRIMARY, "parts/any()", lambda env: bool(env[""]["parts"]))
    return Piece(PRIMARY, f"parts/{'all' if every else 'any'}(p:{body.text})", run)


filters = st.integers(1, 4).flatmap(lambda depth: condition(depth))
