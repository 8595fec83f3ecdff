"""Tables on a terminal: prose is shortened, but values for the next command are not."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from keyrack.cli.output import ListResult, columns, table

PASTED = {
    "id": "30ca1e74-7692-4c1e-9d38-5f6f2f6f0a11",
    "kind": "CreateAssignment",
    "requested": "2026-11-26T12:34:56.123456Z",
    "since": datetime(2026, 11, 26, 12, 34, tzinfo=UTC),
    "url": "https://receiver.example.com/a/very/long/path/to/keyrack",
    "scopes": ["customer:read", "cars:read", "assignments:write"],
    "number": 1_234_567,
    "expanded": '{"id": 17, "name": "Pool car 1"}',
}
SHOWN = {**PASTED, "since": "2026-11-26 12:34", "scopes": ", ".join(PASTED["scopes"]), "number": "1234567"}
PROSE = "A service that was terminated long before the assignment was to begin"


@pytest.mark.parametrize("member", PASTED)
@pytest.mark.parametrize("width", [10, 40, 80, 120])
def test_a_value_that_is_pasted_is_whole(member: str, width: int) -> None:
    rows = [{"value": PASTED[member], "message": PROSE}, {"value": None, "message": None}]
    lines = table(ListResult(rows, {"VALUE": "value", "MESSAGE": "message"}), width=width)
    assert SHOWN[member] in "\n".join(lines)


def test_prose_is_shortened_before_rows_become_blocks() -> None:
    result = ListResult([{"id": PASTED["id"], "message": PROSE}], {"ID": "id", "MESSAGE": "message"})
    heading, row = table(result, width=60)
    assert (len(row), row[-1]) == (60, "…") and heading.startswith("ID ")
    assert table(result, width=40) == [f"ID       {PASTED['id']}", f"MESSAGE  {PROSE}"]
    assert table(result) == columns([["ID", "MESSAGE"], [PASTED["id"], PROSE]])
