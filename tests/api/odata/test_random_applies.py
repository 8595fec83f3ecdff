"""Random `$apply` and `$compute` against PostgreSQL and a plain evaluator."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from fractions import Fraction
from typing import Any
from urllib.parse import quote

import asyncpg
import pytest
from hypothesis import HealthCheck, given, note, settings

from keyrack.api.odata import Limits, Query, Shape, query
from keyrack.api.read_sql import Select
from tests.api.odata.random_applies import Asked, agrees, questions
from tests.api.odata.random_filters import SAMPLE, fill, sample_rows

LONG = bool(os.environ.get("KEYRACK_LONG"))
OURS, THEIRS = 7101, 7102
ROWS = sample_rows()
LIMITS = Limits(nodes=5_000, nesting=100)
OF_SAMPLE = Select(SAMPLE)


def compiled(**options: str) -> Query:
    text = "&".join(f"${name}={quote(value, safe='')}" for name, value in options.items())
    return query(SAMPLE, text.encode(), Shape.COLLECTION, alias="t", limits=LIMITS)


@pytest.fixture(scope="module")
def ask(sql: Any) -> Any:
    """Return a function from options to rows and their total number."""
    fill(sql, (OURS, THEIRS), ROWS)

    def run(**options: str) -> tuple[list[Any], int]:
        plan = compiled(**options, count="true")
        statement = OF_SAMPLE.statement(plan.sql)
        values = {"customer": OURS, "rows": 10_000, "size": 1_000_000, **plan.parameters}
        row = sql.rows(statement.sql, *statement.select(values))[0]
        return json.loads(row["body"], parse_float=Fraction), row["total"]

    yield run
    for table in ("odata_sample", "odata_part", "odata_whole"):
        sql.execute(f"drop table {table}")


@settings(
    max_examples=20_000 if LONG else 150,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)
@given(asked=questions(ROWS))
def test_random_applies_return_the_expected_rows(ask: Callable[..., tuple[list[Any], int]], asked: Asked) -> None:
    note(str(asked.options))
    try:
        rows, total = ask(**asked.options)
    except asyncpg.DataError as error:  # a value out of range gets 400
        assert error.sqlstate.startswith("22")
        return
    assert (total, len(rows)) == (asked.total, len(asked.rows)), asked.options
    for row, expected in zip(rows, asked.rows, strict=True):
        if asked.own:
            expected = {name: value for name, value in expected.items() if name == "id" or name not in COPIED}
            row = {name: row[name] for name in expected}
        assert agrees(row, expected), (asked.options, row, expected)


COPIED = frozenset(ROWS[0])
