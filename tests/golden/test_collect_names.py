"""The comparison of two tables of test functions."""

from __future__ import annotations

from tests.golden.collect_names import TEST, compare, format_table, parse_files, parse_table

OLD = {("tests/a.py", "test_x"): 3, ("tests/a.py", "test_y"): 1, ("tests/b.py", "Class::test_z"): 1}


def test_a_table_is_read_as_it_was_written() -> None:
    assert parse_table(format_table(OLD)) == OLD


def test_a_line_of_pytest_is_a_file_and_a_function() -> None:
    matches = [TEST.match(line) for line in ("tests/a.py::test_x[a::b [c] d]", "tests/b.py::Class::test_z", "3 tests")]
    assert [match and match.groups() for match in matches] == [
        ("tests/a.py", "test_x"),
        ("tests/b.py", "Class::test_z"),
        None,
    ]


def test_moved_functions_are_not_missing() -> None:
    new = {("tests/c.py", "test_x"): 4, ("tests/c.py", "test_y"): 1, ("tests/b.py", "Class::test_z"): 1}
    assert compare(OLD, new, parse_files("old\tnew\ntests/a.py\ttests/c.py\n")) == []


def test_missing_functions_and_fewer_cases_are_reported() -> None:
    new = {("tests/c.py", "test_x"): 2, ("tests/a.py", "test_y"): 1}
    assert compare(OLD, new, {"tests/a.py": "tests/c.py"}) == [
        "fewer cases: tests/c.py::test_x (before: tests/a.py): 2 instead of 3",
        "missing: tests/c.py::test_y (before: tests/a.py)",
        "missing: tests/b.py::Class::test_z",
    ]
