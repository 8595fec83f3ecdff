"""The search columns are filled for rows of an older release, without a recorded change."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import closing

import pytest

from keyrack.core.settings import Settings
from keyrack.db import search_text
from keyrack.db.audit_context import acting, system
from keyrack.db.connection import Database
from tests.cli.test_operator_commands import Operator
from tests.support.servers import Sql, eventually, migrated_database

FILLED = "select count(*) filter (where search_text is null), count(*) filter (where sort_key is null) from {}"
MADE = {
    "car": "select $1, 'Größer ' || n from generate_series(1, 130) n",
    "fleet_group": "select $1, 'Gruppe ' || n from generate_series(1, 130) n",
}


@pytest.fixture
def database(database_server: str) -> Iterator[tuple[str, Sql]]:
    with migrated_database(database_server) as dsn, closing(Sql(dsn)) as sql:
        yield dsn, sql


def fill(dsn: str) -> None:
    async def run() -> None:
        acting.set(system("housekeeping"))
        settings = Settings(housekeeping_rows=50)
        db = await Database.connect(dsn, settings, size=2)
        await search_text.fill(db, settings)
        await db.close()

    asyncio.run(run())


def test_rows_of_an_older_release_are_filled_and_nothing_is_recorded(database: tuple[str, Sql]) -> None:
    dsn, sql = database
    customer = sql.value("insert into customer (name) values ('Old') returning customer_id")
    for table, rows in MADE.items():
        sql.execute(f"alter table {table} disable trigger fill_search_text")
        sql.execute(f"insert into {table} (customer_id, name) {rows}", customer)
        sql.execute(f"alter table {table} enable trigger fill_search_text")
        assert tuple(sql.rows(FILLED.format(table))[0]) == (130, 130)
    recorded = sql.value("select count(*) from change_inbox")
    fill(dsn)
    for table in MADE:
        assert tuple(sql.rows(FILLED.format(table))[0]) == (0, 0)
    assert sql.value("select count(*) from change_inbox") == recorded
    assert sql.value("select bool_and(search_text = search_document(car) and sort_key = natural_key(car)) from car")


def test_the_previous_release_fills_the_columns_as_well(database: tuple[str, Sql]) -> None:
    _, sql = database
    customer = sql.value("insert into customer (name) values ('Old') returning customer_id")
    sql.execute("insert into car (customer_id, name) values ($1, 'Alt')", customer)
    sql.execute("update car set name = 'Neu 7', license_plate = 'K-X 1'")
    assert sql.value("select search_text = search_document(car) and sort_key = natural_key(car) from car")
    assert sql.value("select search_text like '%kx1%neu 7%' from car")


def test_without_an_index_a_search_works_and_the_doctor_says_how_to_make_it(database: tuple[str, Sql]) -> None:
    dsn, sql = database
    operator = Operator(dsn)

    def search_checks() -> list[tuple[str, str, str]]:
        checks = json.loads(operator.quick("doctor", "--json")[1])["checks"]
        return [(check["result"], check["text"], check["action"]) for check in checks if check["check"] == "search"]

    def findings() -> list[tuple[str, str, str]]:
        """The doctor may stop before this check on a busy machine."""
        return eventually(search_checks, "the doctor's check of searches")

    if sql.value("select to_regclass('car_search') is null"):
        pytest.skip("this server has no pg_trgm and btree_gin")
    assert findings() == [("ok", "searches have indexes", "")]
    sql.execute("drop extension pg_trgm cascade")
    ((result, text, action),) = findings()
    assert (result, text) == ("warning", "Searches have no index, so each reads all cars or users of its customer.")
    customer = sql.value("insert into customer (name) values ('New') returning customer_id")
    sql.execute("insert into car (customer_id, name) values ($1, 'Größer')", customer)
    assert sql.value("select count(*) from car where search_text like search_pattern('grosser')") == 1
    for statement in (part for block in action.split("`")[1::2] for part in block.split("; ")):
        sql.execute(statement)
    assert findings() == [("ok", "searches have indexes", "")]
