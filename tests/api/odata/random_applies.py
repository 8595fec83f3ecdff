"""Random `$apply`, `$compute` and following options, with their semantics by `evaluator`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from hypothesis import strategies as st

from tests.api.odata import evaluator as means
from tests.api.odata.evaluator import Evaluate, Row
from tests.api.odata.random_filters import GUIDS, MOMENTS, TEXTS, WHOLES, condition, quoted, stamp

# Kinds of values. A Decimal is a Fraction. An average is not used in further calculations, because its digits are
# rounded. A sum of 32-bit values has 64 bits, and one of 64-bit values is a Decimal
INT, LONG, DECIMAL, AVERAGE, DOUBLE, TEXT, BOOLEAN, MOMENT, CLOCK, DAY, GUID = (
    "int", "long", "decimal", "average", "double", "text", "bool", "moment", "clock", "day", "guid"
)  # fmt: skip
NUMBERS = (INT, LONG, DECIMAL, DOUBLE)
WIDER = {INT: LONG, LONG: DECIMAL}
COLUMNS: dict[means.Path, str] = {
    ("i",): INT, ("n",): INT, ("l",): LONG, ("d",): DOUBLE, ("e",): DOUBLE, ("s",): TEXT, ("u",): TEXT,
    ("b",): BOOLEAN, ("c",): BOOLEAN, ("t",): MOMENT, ("v",): MOMENT, ("g",): GUID, ("w",): CLOCK,
    ("whole", "name"): TEXT, ("whole", "n"): INT,
}  # fmt: skip
WHOLE = ("whole",)


def value_of(path: means.Path) -> Evaluate:
    def run(env: means.Env) -> Any:
        value: Any = env[""]
        for name in path:
            value = None if value is None else value[name]
        return value

    return run


def projected(whole: Row) -> Row:
    return means.projected(whole, [("id",), ("name",), ("n",)])


@dataclass
class Applied:
    """A growing query and the rows of its response. `known` maps the properties to their kinds."""

    rows: list[Row]
    known: dict[means.Path, str] = field(default_factory=lambda: dict(COLUMNS))
    own: bool = True  # the rows are the resource's: they have relations and a key
    names: int = 0

    def alias(self) -> str:
        self.names += 1
        return f"a{self.names}"

    def of(self, *kinds: str) -> list[means.Path]:
        return [path for path, kind in self.known.items() if kind in kinds]


Expression = tuple[str, str, Evaluate]  # text, kind, evaluation


@st.composite
def expression(draw: Any, applied: Applied) -> Expression:
    """An exact value that is computed from a property."""
    path = draw(st.sampled_from(sorted(applied.known)))
    kind, text, run = applied.known[path], "/".join(path), value_of(path)
    if draw(st.booleans()):
        return text, kind, run
    if kind in NUMBERS:
        operator, number = draw(st.sampled_from(["add", "sub", "mul"])), draw(st.sampled_from([2, 3, -1]))
        wider = LONG if kind == INT else kind
        return f"{text} {operator} {number}", wider, lambda env: means.arithmetic(operator, run(env), number)
    if kind == TEXT:
        if draw(st.booleans()):
            return f"length({text})", INT, means.call("length", run)
        return f"concat({text},'x')", TEXT, means.call("concat", run, means.constant("x"))
    if kind == MOMENT:
        return draw(
            st.sampled_from(
                [
                    (f"date({text})", DAY, means.call("date", run)),
                    (f"year({text})", INT, means.call("year", run)),
                ]
            )
        )
    return text, kind, run


@st.composite
def quotient(draw: Any, applied: Applied) -> Expression:
    """A division whose divisor can be zero."""
    path = draw(st.sampled_from(applied.of(INT, LONG)))
    return f"12 div {'/'.join(path)}", LONG, lambda env: means.arithmetic("div", 12, value_of(path)(env))


@st.composite
def predicate(draw: Any, applied: Applied) -> tuple[str, Evaluate]:
    """A condition on a property."""
    if applied.own and draw(st.booleans()):
        piece = draw(condition(draw(st.integers(0, 2))))
        return piece.text, piece.run
    path = draw(st.sampled_from(sorted(applied.known)))
    kind, text, run = applied.known[path], "/".join(path), value_of(path)
    operator = draw(st.sampled_from(["eq", "ne", "gt", "le"]))
    literals: dict[str, list[tuple[str, Any]]] = {
        INT: [(str(n), n) for n in WHOLES],
        TEXT: [(quoted(text), text) for text in TEXTS],
        BOOLEAN: [("true", True), ("false", False)],
        MOMENT: [(stamp(moment), moment) for moment in MOMENTS],
        CLOCK: [(stamp(moment)[:-1], moment) for moment in MOMENTS],
        DAY: [("2021-01-01", MOMENTS[1].date())],
        GUID: [(str(one), one) for one in GUIDS],
    }
    literals[LONG] = literals[INT]
    literals[DECIMAL] = literals[AVERAGE] = literals[DOUBLE] = [*literals[INT], ("1.5", Fraction(3, 2))]
    literal, value = draw(st.sampled_from([("null", None), *literals[kind], *literals[kind]]))
    return f"{text} {operator} {literal}", means.compare(operator, run, means.constant(value))


@st.composite
def order(draw: Any, applied: Applied) -> tuple[str, means.Order]:
    paths = draw(st.lists(st.sampled_from(sorted(applied.known)), min_size=1, max_size=3, unique=True))
    texts: list[str] = []
    criteria: list[tuple[Evaluate, bool]] = []
    for path in paths:
        direction = draw(st.sampled_from(["", " asc", " desc"]))
        texts.append("/".join(path) + direction)
        criteria.append((value_of(path), direction == " desc"))
    return ",".join(texts), criteria


def _filter(draw: Any, applied: Applied) -> str:
    text, run = draw(predicate(applied))
    applied.rows = [row for row in applied.rows if run({"": row}) is True]
    return f"filter({text})"


def _compute(draw: Any, applied: Applied) -> str:
    text, kind, run = draw(st.one_of(expression(applied), *([quotient(applied)] if applied.of(INT, LONG) else [])))
    alias = applied.alias()
    applied.rows = means.computed(applied.rows, alias, run)
    applied.known[(alias,)] = kind
    return f"compute({text} as {alias})"


def _orderby(draw: Any, applied: Applied) -> str:
    text, criteria = draw(order(applied))
    applied.rows = means.in_order(applied.rows, criteria)
    return f"orderby({text})"


def _cut(draw: Any, applied: Applied) -> str:
    name, number = draw(st.sampled_from(["top", "skip"])), draw(st.integers(0, 30))
    applied.rows = means.cut(applied.rows, name, number)
    if applied.own:
        for path in [path for path in applied.known if path[0] == "whole"]:
            del applied.known[path]
    applied.own = False
    return f"{name}({number})"


def _count(_: Any, applied: Applied) -> tuple[str, str, str, Evaluate]:
    return "$count", AVERAGE, "$count", means.constant(None)


def _method(draw: Any, applied: Applied) -> tuple[str, str, str, Evaluate]:
    text, kind, run = draw(expression(applied))
    methods = ["min", "max", "countdistinct"]
    if kind in NUMBERS and ("/" not in text or " " in text):  # such an aggregation along a relation gets 501
        methods += ["sum", "average"]
    method = draw(st.sampled_from(methods))
    if method == "sum" and kind == LONG:
        return f"{text} with sum", DECIMAL, method, means.call("decimal", run)
    result = {"countdistinct": DECIMAL, "sum": WIDER.get(kind, kind), "average": AVERAGE}.get(method, kind)
    return f"{text} with {method}", result, method, run


def _group(draw: Any, applied: Applied, *, alone: bool) -> str:
    paths: list[means.Path] = []
    if not alone:
        choices = sorted(applied.known) + ([WHOLE] if applied.own else [])
        paths = draw(st.lists(st.sampled_from(choices), min_size=1, max_size=3, unique=True))
        if WHOLE in paths:
            paths = [path for path in paths if path == WHOLE or path[0] != "whole"]
    texts: list[str] = []
    aggregates: list[means.Aggregate] = []
    known = {path: applied.known[path] for path in paths if path != WHOLE}
    if WHOLE in paths:
        known |= {("whole", "id"): INT, ("whole", "name"): TEXT, ("whole", "n"): INT}
    for _ in range(draw(st.integers(1 if alone else 0, 3))):
        text, kind, method, run = draw(st.sampled_from([_count, _method, _method]))(draw, applied)
        alias = applied.alias()
        texts.append(f"{text} as {alias}")
        aggregates.append((alias, method, run))
        known[(alias,)] = kind if method != "$count" else DECIMAL
    applied.rows = means.grouped(applied.rows, paths, aggregates)
    applied.known, applied.own = known, False
    aggregate = f"aggregate({','.join(texts)})"
    if alone:
        return aggregate
    listed = ",".join("/".join(path) for path in paths)
    return f"groupby(({listed}){',' + aggregate if texts else ''})"


_STEPS: list[Callable[[Any, Applied], str]] = [
    _filter,
    _compute,
    _orderby,
    _cut,
    lambda draw, applied: _group(draw, applied, alone=False),
    lambda draw, applied: _group(draw, applied, alone=False),
    lambda draw, applied: _group(draw, applied, alone=draw(st.booleans())),
    lambda _draw, _applied: "identity",
]


@dataclass
class Asked:
    """Options and the expected response: the number of rows before `$top` and `$skip`, and the rows."""

    options: dict[str, str]
    total: int
    rows: list[Row]
    own: bool  # the rows are the resource's, with computed properties


@st.composite
def questions(draw: Any, rows: list[Row]) -> Asked:
    applied = Applied([{**row, "whole": row["whole"] and projected(row["whole"])} for row in rows])
    options: dict[str, str] = {}
    if draw(st.integers(0, 5)):
        steps = [draw(st.sampled_from(_STEPS))(draw, applied) for _ in range(draw(st.integers(1, 4)))]
        options["apply"] = "/".join(steps)
    if draw(st.integers(0, 2)) == 0 or not options:
        items = [_compute(draw, applied)[len("compute(") : -1] for _ in range(draw(st.integers(1, 2)))]
        options["compute"] = ",".join(items)
    if draw(st.integers(0, 2)) == 0:
        options["filter"] = _filter(draw, applied)[len("filter(") : -1]
    if draw(st.integers(0, 2)) == 0:
        options["orderby"] = _orderby(draw, applied)[len("orderby(") : -1]
    total = len(applied.rows)
    for name in ("skip", "top"):
        if draw(st.integers(0, 3)) == 0:
            number = draw(st.integers(0, 12))
            options[name] = str(number)
            applied.rows = means.cut(applied.rows, name, number)
    own = bool(applied.rows) and "parts" in applied.rows[0]
    return Asked(options, total, applied.rows, own)


def agrees(shown: Any, expected: Any) -> bool:
    """Whether the JSON shows the value. Numbers with a point are Fractions, and averages are rounded."""
    if isinstance(expected, dict):
        return (
            isinstance(shown, dict)
            and shown.keys() == expected.keys()
            and all(agrees(shown[name], value) for name, value in expected.items())
        )
    if isinstance(expected, float):
        return isinstance(shown, int | Fraction) and float(shown) == expected
    if isinstance(expected, Fraction):
        return isinstance(shown, int | Fraction) and abs(shown - expected) <= Fraction(1, 10**15) * max(
            1, abs(expected)
        )
    if hasattr(expected, "tzinfo"):
        return shown in (stamp(expected), stamp(expected)[:-1])
    if expected is None or isinstance(expected, bool | int | str):
        return type(shown) is type(expected) and shown == expected
    return shown == str(expected)
