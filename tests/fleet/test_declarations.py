"""Declared members are in the database: columns, triggers and search texts."""

from __future__ import annotations

import pytest

from keyrack.api.schema.declaration import ResourceTable
from keyrack.changelog.declared_tables import TABLES
from tests.support.servers import Sql

MAKE = 'Write its migration: make migration NAME=what_is_new (docs/data-model.md, "Add a member").'
COLUMNS = """
select attname::text, format_type(atttypid, atttypmod), not attnotnull from pg_attribute
where attrelid = to_regclass($1) and attnum > 0 and not attisdropped
"""
TRIGGER = """
select pg_get_triggerdef(oid) from pg_trigger where tgrelid = to_regclass($1) and tgname = 'fill_search_text'
"""
SOURCE = "select prosrc from pg_proc where oid = to_regprocedure($1)"


@pytest.fixture(params=TABLES, ids=[table.table for table in TABLES])
def table(request: pytest.FixtureRequest) -> ResourceTable:
    return request.param


def test_each_member_has_its_column(table: ResourceTable, sql: Sql) -> None:
    columns = {row[0]: (row[1], row[2]) for row in sql.rows(COLUMNS, table.table)}
    for member in table.members:
        module = table.model.__module__.replace(".", "/")
        where = f"{table.resource}.{member.name} is declared in src/{module}.py"
        assert member.column in columns, f"{where}, but {table.table} has no column {member.column}. {MAKE}"
        type, is_nullable = columns[member.column]
        assert type == sql.value("select $1::text::regtype::text", member.sql_type), (
            f"{where} as {member.sql_type}, but {table.table}.{member.column} is {type}."
        )
        is_shown_otherwise = bool(member.info.sql)  # such as null instead of an empty text
        fits = is_nullable or is_shown_otherwise or not member.is_nullable
        assert fits, f"{where} as nullable, but {table.table}.{member.column} is not."


def test_changes_of_each_member_are_recorded(table: ResourceTable, sql: Sql) -> None:
    source = sql.value(SOURCE, f"record_{table.table}()")
    for member in table.members:
        assert f"'{member.recorded_name}'" in source, (
            f"Changes of {table.resource}.{member.name} are lost: the trigger function record_{table.table}() does not"
            f" record {member.recorded_name!r}. {MAKE}"
        )


def test_a_search_finds_each_searchable_member(table: ResourceTable, sql: Sql) -> None:
    source = sql.value(SOURCE, f"search_document({table.table})")
    if source is None:  # without the function, `$search` uses the properties themselves
        return
    for member in table.members:
        if member.info.is_searchable:
            assert f"r.{member.column}" in source, (
                f"$search does not find {table.resource}.{member.name}: search_document({table.table}) does not have"
                f" {member.column}. {MAKE}"
            )
            columns = sql.value(TRIGGER, table.table).partition(" ON ")[0]
            assert member.column in columns, (
                f"$search finds an older {table.resource}.{member.name}: the trigger fill_search_text of {table.table}"
                f" does not fire for {member.column}. {MAKE}"
            )
