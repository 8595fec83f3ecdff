"""A new database right after its migration: the API writes and takes readings before any worker has run."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from keyrack.core.settings import Settings
from keyrack.db import schema_version
from keyrack.db.partitions import months_ahead
from keyrack.ops.backups.restore_test import UNSOUND
from tests.support.people import Town
from tests.support.servers import RunningServer, Sql, fresh_database
from tests.telemetry.endpoints.test_ingest import ACCEPTED, unit_of

PARENTS = ("position", "odometer", "telemetry", "change_1", "change_2", "change_3", "change_4")
PARTITIONS = """
select c.relname from pg_inherits i join pg_class c on c.oid = i.inhrelid
where i.inhparent = any(array(select to_regclass(name) from unnest($1::text[]) name))
"""


@pytest.fixture(scope="module")
def began() -> datetime:
    """The time before the migration, which may be in another month than the test."""
    return datetime.now(UTC)


@pytest.fixture(scope="module")
def new(database_server: str, began: datetime) -> Iterator[str]:
    with fresh_database(database_server) as dsn:
        asyncio.run(schema_version.migrate(dsn))
        yield dsn


def partitions(sql: Sql) -> set[str]:
    return {row[0] for row in sql.rows(PARTITIONS, list(PARENTS))}


def partitions_at(moment: datetime) -> set[str]:
    return {f"{parent}_{month:%Y%m}" for parent in PARENTS for month in months_ahead(moment)}


def test_a_migration_makes_exactly_the_months_ahead(new: str, began: datetime) -> None:
    sql = Sql(new)
    try:
        assert partitions(sql) in (partitions_at(began), partitions_at(datetime.now(UTC)))
    finally:
        sql.close()


def test_a_migration_of_a_current_schema_makes_missing_months(new: str) -> None:
    sql = Sql(new)
    try:
        before = partitions(sql)
        sql.execute(f"drop table {max(name for name in before if name.startswith('position'))}")
        asyncio.run(schema_version.migrate(new))
        assert partitions(sql) == before
    finally:
        sql.close()


def test_migrations_leave_no_constraint_unchecked_and_no_index_invalid(new: str) -> None:
    """The check of a backup reports both as damage."""
    sql = Sql(new)
    try:
        assert sql.value(UNSOUND) == []
    finally:
        sql.close()


def test_the_api_writes_and_takes_readings_without_a_worker(new: str, settings: Settings) -> None:
    sql = Sql(new)
    try:
        with RunningServer(settings, new, worker=False) as server:
            unit = unit_of(Town(sql, server).person("nora"))
            for minutes, latitude in ((3, 52.0), (2, 53.0), (1, 54.0)):
                assert unit.tell(minutes, currentLatitude=latitude, currentLongitude=13.4, odometer=minutes) == ACCEPTED
            assert unit.get("telemetry")["currentLatitude"] == 54.0
    finally:
        sql.close()
