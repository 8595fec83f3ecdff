"""Named parameters become numbers, and nothing else in a statement changes."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import keyrack
from keyrack.db.named_parameters import NUMBERS, compile_statement


@pytest.mark.parametrize(
    ("named", "numbered", "names"),
    [
        ("select 1", "select 1", ""),
        ("a = :a and b = :b", "a = $1 and b = $2", "a b"),
        (":b, :a, :b", "$1, $2, $1", "b a"),
        (":id, :id0, :id_1", "$1, $2, $3", "id id0 id_1"),
        ("a = any(:list::int8[]) limit :top::int8+1", "a = any($1::int8[]) limit $2::int8+1", "list top"),
        ("f(first := :first, second=>:second)", "f(first := $1, second=>$2)", "first second"),
        ("and:a", "and$1", "a"),
        ("':a', 'it''s :a', E'\\n:a', :b", "':a', 'it''s :a', E'\\n:a', $1", "b"),
        ('":a", t.":b" = :c', '":a", t.":b" = $1', "c"),
        ("'\"' = :a and '\"' = :b", "'\"' = $1 and '\"' = $2", "a b"),
        ("x[1:2], x[i:j], x[(i):j], x[1 : j]", "x[1:2], x[i:j], x[(i):j], x[1 : j]", ""),
        ("x[a[1]:j], x[:2], x[:]", "x[a[1]:j], x[:2], x[:]", ""),
        ("array[:a, f(:b)], x[:c]", "array[$1, f($2)], x[$3]", "a b c"),
        ("x['a':j], x[1] = :a", "x['a':j], x[1] = $1", "a"),
        ("t->>':a' ? :a", "t->>':a' ? $1", "a"),
    ],
)  # fmt: skip
def test_names_become_numbers_in_the_order_of_their_first_use(named: Any, numbered: str, names: str) -> None:
    statement = compile_statement(named)
    assert (statement.sql, statement.names) == (numbered, tuple(names.split()))


@pytest.mark.parametrize(
    "sql",
    [
        "a = $1 and b = :b",
        "$$ :a $$",
        "a -- :a",
        "a /* :a */",
        "a : b",
        "a :1",
        "a = :",
        "'a",
        '"a',
        '"it\'s"',
        "'a\\'",
    ],
)
def test_syntax_that_could_hide_a_name_is_rejected(sql: Any) -> None:
    with pytest.raises(ValueError, match=r"supported|is not terminated|a colon is not followed"):
        compile_statement(sql)


def test_values_are_given_by_name() -> None:
    statement = compile_statement("a = :a and b = :b and c = :a")
    assert statement.arguments(b=2, a=1) == [1, 2]
    assert statement.select({"c": 3, "b": 2, "a": 1}) == [1, 2]
    with pytest.raises(TypeError, match="needs a value for :b"):
        statement.arguments(a=1)
    with pytest.raises(TypeError, match="needs a value for :b"):
        statement.arguments(a=1, c=3)
    with pytest.raises(TypeError, match="does not use :c"):
        statement.arguments(a=1, b=2, c=3)
    with pytest.raises(TypeError, match="needs a value for :b"):
        statement.select({"a": 1, "c": 3})


def test_numbers_are_constants_of_their_value() -> None:
    assert tuple(str(number) for number in range(5_100)) == NUMBERS


SOURCE = Path(keyrack.__file__).parent
FROZEN = ("db/migrations/versions/", "db/migrations/frozen/")  # files of released migrations, which do not change
MOST_NUMBERS = 8  # parameters whose order a reader still sees at the call
NUMBER = re.compile(r"\$([1-9][0-9]*)")


def numbered_literals(path: Path) -> list[str]:
    """The places of a module whose text has a number that is too high."""
    source = path.read_text()
    if not has_high_number(source):
        return []
    return [
        f"{path.relative_to(SOURCE)}:{node.lineno}"
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and has_high_number(node.value)
    ]


def has_high_number(text: str) -> bool:
    return any(int(number) > MOST_NUMBERS for number in NUMBER.findall(text))


def test_a_literal_with_a_high_number_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.SOURCE", tmp_path)
    module = tmp_path / "module.py"
    module.write_text('# $9\nLOW = "select $8"\nHIGH = "select $10"\n')
    assert numbered_literals(module) == ["module.py:3"]


def test_statements_with_many_parameters_name_them() -> None:
    """The schema generates rows of `values` with a number per column; no literal has those."""
    modules = [path for path in SOURCE.rglob("*.py") if not str(path.relative_to(SOURCE)).startswith(FROZEN)]
    assert len(modules) > 100
    assert [place for path in modules for place in numbered_literals(path)] == []


NAMES = st.from_regex(r"[a-z_][a-z0-9_]{0,5}", fullmatch=True)
# Code between parameters. No text has a backslash before a quote
TEXTS = st.text("ab:'\"[]$-/*\\ ", max_size=8).map(
    lambda text: "'" + text.replace("'", "''").replace("\\", "\\ ") + "'"
)
IDENTIFIERS = st.text("ab:[]$-/* ", min_size=1, max_size=8).map(lambda text: f'"{text}"')
CODE = st.sampled_from([" and ", " = ", "::text[]", " x[1:2] ", " x[i:j] ", ", ", "(", ")", " a := ", "\n", "array["])
PARTS = st.lists(st.tuples(TEXTS | IDENTIFIERS | CODE, NAMES | st.none()), max_size=12)


@given(PARTS)
def test_only_names_are_replaced(parts: list[tuple[str, str | None]]) -> None:
    numbers: dict[str, int] = {}
    named = numbered = ""
    for text, name in parts:
        named, numbered = f"{named} {text} ", f"{numbered} {text} "
        if name is not None:
            named += f":{name} "
            numbered += f"${numbers.setdefault(name, len(numbers) + 1)} "
    statement = compile_statement(named)
    assert (statement.sql, statement.names) == (numbered, tuple(numbers))


@given(st.lists(NAMES, min_size=1), st.dictionaries(NAMES, st.integers()))
def test_each_number_gets_the_value_of_its_name(used: list[str], others: dict[str, int]) -> None:
    statement = compile_statement(", ".join(f":{name}" for name in used))
    values = {**others, **{name: number for number, name in enumerate(used)}}
    arguments = statement.select(values)
    assert [arguments[int(number[1:]) - 1] for number in statement.sql.split(", ")] == [values[name] for name in used]
