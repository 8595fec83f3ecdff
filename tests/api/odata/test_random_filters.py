"""Random filters against PostgreSQL and a plain evaluator, and relations between filters (metamorphic)."""

from __future__ import annotations

import json
import os
import random
import re
from collections.abc import Callable
from itertools import chain
from typing import Any
from urllib.parse import quote

import asyncpg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from keyrack.api.odata import Limits, Query, Shape, query
from keyrack.db.named_parameters import compile_statement
from tests.api.odata import random_filters as odata_filters
from tests.api.odata.random_expands import Expand, expands
from tests.api.odata.random_filters import SAMPLE, Piece, condition, fill, filters, sample_rows

LONG = bool(os.environ.get("KEYRACK_LONG"))
OURS, THEIRS = 7001, 7002
ROWS = sample_rows()
LIMITS = Limits(nodes=5_000, nesting=100)
OF_OURS = " from odata_sample t where t.customer_id = :customer"

Ask = Callable[[str], list[int]]


QUOTED = re.compile(r"('[^']*(?:''[^']*)*')")
LAMBDA_COLON = re.compile(r"(?<=\()([^\W\d]\w*):")


def with_blanks(text: str, chance: random.Random) -> str:
    """Return the text of an option with other blanks of the same meaning.

    They are at places of BWS or RWS in the grammar, around the value, `,`, `;` and `=`, and next to parentheses.
    """

    def blanks(least: int = 0) -> str:
        return "".join(chance.choices(" \t", k=chance.choice((least, least, 1, 2))))

    def changed(piece: str) -> str:
        piece = re.sub(r"(?<=\)) (?=[a-z])|(?<=[a-z]) (?=\()", lambda _: blanks(), piece)  # `) and (`
        piece = re.sub(r"(?<![)\s]) +(?![(\s])", lambda _: blanks(1), piece)
        piece = LAMBDA_COLON.sub(lambda found: f"{found[1]}{blanks()}:{blanks()}", piece)
        return re.sub(r"[(),;=]", lambda found: blanks() + found[0] + blanks(), piece)

    pieces = QUOTED.split(text)
    pieces[::2] = [changed(piece) for piece in pieces[::2]]
    return blanks() + "".join(pieces) + blanks()


def found(sql: Any, statement: str, plan: Query) -> list[Any]:
    """The rows of a statement that uses parts of a plan."""
    named = compile_statement(statement)
    return sql.rows(named.sql, *named.select({"customer": OURS, **plan.parameters}))


def compiled(**options: str) -> Query:
    text = "&".join(f"${name}={quote(value, safe='')}" for name, value in options.items())
    return query(SAMPLE, text.encode(), Shape.COLLECTION, alias="t", limits=LIMITS)


@pytest.fixture(scope="module")
def ask(sql: Any) -> Any:
    """Return a function from options to the ids of the found rows, in order."""
    fill(sql, (OURS, THEIRS), ROWS)

    def run(**options: str) -> list[int]:
        plan = compiled(**options)
        where = f" and ({plan.sql.where})" if plan.sql.where else ""
        statement = f"select t.id{OF_OURS}{where} order by {plan.sql.order}{plan.sql.limit}"
        return [row[0] for row in found(sql, statement, plan)]

    yield run
    for table in ("odata_sample", "odata_part", "odata_whole"):
        sql.execute(f"drop table {table}")


@pytest.fixture(scope="module")
def shown(ask: Ask, sql: Any) -> Callable[..., list[dict[str, Any]]]:
    """Return a function from options to the rows of the response."""

    def run(**options: str) -> list[dict[str, Any]]:
        plan = compiled(**options)
        row = "r.value" if plan.sql.value else "row_to_json(r)"
        page = f"{OF_OURS} order by {plan.sql.order}{plan.sql.limit}"
        statement = f"select {row}::text from (select {plan.sql.columns}{page}) r"
        return [json.loads(row[0]) for row in found(sql, statement, plan)]

    return run


def expected(piece: Piece) -> list[int]:
    return [row["id"] for row in ROWS if piece.run({"": row}) is True]


quick = settings(
    max_examples=20_000 if LONG else 200,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)
few = settings(quick, max_examples=1_000 if LONG else 40)


@quick
@given(piece=filters)
def test_random_filters_find_the_expected_rows(ask: Any, piece: Piece) -> None:
    try:
        found = ask(filter=piece.text)
    except asyncpg.DataError as error:  # a value out of range gets 400
        assert error.sqlstate.startswith("22")
        return
    assert found == expected(piece), piece.text


@few
@given(piece=filters, chance=st.randoms(use_true_random=False))
def test_blanks_do_not_change_the_rows(ask: Any, piece: Piece, chance: random.Random) -> None:
    try:
        rows = ask(filter=piece.text, orderby="u desc,i", top="9")
    except asyncpg.DataError:
        return
    text, order = with_blanks(piece.text, chance), with_blanks("u desc,i", chance)
    assert ask(filter=text, orderby=order, top=with_blanks("9", chance)) == rows, text


@few
@given(item=expands(), chance=st.randoms(use_true_random=False))
def test_blanks_do_not_change_expanded_rows(shown: Any, item: Expand, chance: random.Random) -> None:
    try:
        rows = shown(select="id,s", expand=item.text)
    except asyncpg.DataError:
        return
    text = with_blanks(item.text, chance)
    assert shown(select=with_blanks("id,s", chance), expand=text) == rows, text


@few
@given(item=expands())
def test_random_expands_return_the_expected_rows_and_counts(shown: Any, item: Expand) -> None:
    try:
        rows = shown(select="id", expand=item.text)
    except asyncpg.DataError:
        return
    assert rows == [{"id": row["id"], **item.run(row)} for row in ROWS], item.text
    assert [list(row) for row in rows] == [["id", *item.run(row)] for row in ROWS], item.text


@few
@given(piece=condition(2, "$this"))
def test_a_count_does_not_depend_on_the_shown_rows(shown: Any, piece: Piece) -> None:
    """The count equals the length of the array.

    It is read alone, beside the whole array and beside a page.
    """
    where = f"$filter={piece.text}"
    try:
        whole = shown(select="id", expand=f"parts({where})")
        others = [
            shown(select="id", expand=expand)
            for expand in (
                f"parts/$count({where})", f"parts($count=true;{where})", f"parts({where};$count=true;$top=1;$skip=1)",
                f"parts($top=0;{where};$count=true)", f"parts($skip=2;{where};$count=true)",
            )
        ]  # fmt: skip
    except asyncpg.DataError:
        return
    for rows in others:
        assert [row["parts@odata.count"] for row in rows] == [len(row["parts"]) for row in whole], piece.text


@few
@given(piece=filters)
def test_a_filter_its_negation_and_null_partition_the_rows(ask: Any, piece: Piece) -> None:
    try:
        parts = [ask(filter=text) for text in (piece.text, f"not ({piece.text})", f"({piece.text}) eq null")]
    except asyncpg.DataError:
        return
    assert sorted(chain.from_iterable(parts)) == [row["id"] for row in ROWS], piece.text


@few
@given(piece=filters)
def test_pages_concatenate_to_the_whole(ask: Any, piece: Piece) -> None:
    try:
        whole = ask(filter=piece.text, orderby="u desc,i")
    except asyncpg.DataError:
        return
    pages = [ask(filter=piece.text, orderby="u desc,i", top="7", skip=str(skip)) for skip in range(0, len(ROWS), 7)]
    assert list(chain.from_iterable(pages)) == whole


@few
@given(name=st.sampled_from(["s", "u"]), items=st.lists(st.sampled_from([*odata_filters.TEXTS, None]), min_size=1))
def test_in_is_a_chain_of_or(ask: Any, name: str, items: list[str | None]) -> None:
    texts = ["null" if item is None else odata_filters.quoted(item) for item in items]
    either = " or ".join(f"{name} eq {text}" for text in texts)
    assert ask(filter=f"{name} in ({','.join(texts)})") == ask(filter=either)
    assert ask(filter=f"not ({name} in ({','.join(texts)}))") == ask(filter=f"not ({either})")


@pytest.mark.parametrize(
    "name", ["i", "n", "e", "u", "c", "v", "g", "tolower(u)", "n add i", "whole/name", "parts/$count"]
)
def test_order_has_nulls_first_and_descending_is_its_reverse(ask: Any, sql: Any, name: str) -> None:
    up = ask(orderby=name)
    nulls = ask(filter=f"{name} eq null")
    assert up[: len(nulls)] == nulls
    down = ask(orderby=f"{name} desc")
    assert down[::-1] == ask(orderby=f"{name} asc,id desc")
    assert down[len(down) - len(nulls) :] == nulls


def test_filters_do_not_see_another_customer_s_rows(ask: Any, sql: Any) -> None:
    sql.execute("update odata_part set u = 'theirs' where customer_id = $1", THEIRS)
    assert ask(filter="parts/any(p:p/u eq 'theirs')") == []
    assert ask(filter="true or 1 eq 1") == [row["id"] for row in ROWS]


def test_a_count_is_the_number_of_rows_without_a_page(ask: Any, sql: Any) -> None:
    plan = compiled(filter="n gt 1", top="3", count="true", expand="parts($filter=i gt 100)")
    assert plan.sql.count
    ((total,),) = found(sql, f"select count(*){OF_OURS} and ({plan.sql.where})", plan)
    assert total == len(ask(filter="n gt 1"))
    assert len(ask(filter="n gt 1", top="3")) == 3
