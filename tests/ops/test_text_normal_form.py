"""Normal form of texts from an older release: converted in batches, with conflicts reported."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from keyrack.core.settings import Settings
from keyrack.db.audit_context import acting, system
from keyrack.db.connection import Database
from keyrack.ops import text_normal_form
from tests.cli.test_operator_commands import Operator
from tests.support.servers import Sql, migrated_database

DECOMPOSED, COMPOSED = "Cafe\u0301", "Caf\u00e9"
COLUMNS = """
select table_name || '.' || column_name from information_schema.columns
where table_schema = 'public' and data_type = 'text'
  and column_name in ('name', 'label', 'description', 'brand', 'model')
"""


@pytest.fixture
def database(database_server: str) -> Iterator[tuple[str, Sql]]:
    with migrated_database(database_server) as dsn, closing(Sql(dsn)) as sql:
        yield dsn, sql


def convert(dsn: str) -> list[Any]:
    async def run() -> list[Any]:
        acting.set(system("housekeeping"))
        settings = Settings(housekeeping_rows=50)
        db = await Database.connect(dsn, settings, size=2)
        await text_normal_form.convert(db, settings)
        rows = await text_normal_form.collisions(db)
        await db.close()
        return [tuple(row) for row in rows]

    return asyncio.run(run())


def test_texts_are_converted_once_and_in_batches(database: tuple[str, Sql]) -> None:
    dsn, sql = database
    customer = sql.value("insert into customer (name) values ($1) returning customer_id", DECOMPOSED)
    sql.execute(
        "insert into car (customer_id, name, brand, vin) select $1, $2 || n, $2, case when n % 2 = 0 then $2 end"
        " from generate_series(1, 130) n",
        customer, DECOMPOSED,
    )  # fmt: skip
    sql.execute("insert into car (customer_id, name) values ($1, 'Plain')", customer)
    sql.execute("insert into person (email_address, first_name, type) values ($1, $2, 'Anonymous')",
                f"{DECOMPOSED}@example.org", DECOMPOSED)  # fmt: skip
    before = sql.value("select count(*) from change_inbox")
    assert convert(dsn) == []
    assert sql.value("select name from customer") == COMPOSED
    assert sql.value("select count(*) from car where name like $1 || '%' and brand = $1", COMPOSED) == 130
    assert sql.value("select count(*) from car where vin = $1", COMPOSED) == 65
    assert sql.rows("select email_address, first_name from person")[0][:] == (f"{DECOMPOSED}@example.org", COMPOSED)
    recorded = sql.value("select count(*) from change_inbox") - before
    assert recorded >= 131, "a converted text is a change like any other"
    assert convert(dsn) == []
    assert sql.value("select count(*) from change_inbox") == before + recorded


def test_conflicting_unique_texts_are_kept_and_reported(database: tuple[str, Sql]) -> None:
    dsn, sql = database
    customers = [sql.value("insert into customer (name) values ('C') returning customer_id") for _ in range(2)]
    group = "insert into fleet_group (customer_id, name) values ($1, $2)"
    sql.execute(group, customers[0], COMPOSED)
    for customer in customers:
        sql.execute(group, customer, DECOMPOSED)
    twice = ("a\u0323\u0301", "a\u0301\u0323")  # neither is in normal form, and both have the same one
    for name in twice:
        sql.execute(group, customers[1], name)
    assert convert(dsn) == [("fleet_group", DECOMPOSED), ("fleet_group", twice[1])]
    names = [row[0] for row in sql.rows("select name from fleet_group order by customer_id, group_id")]
    assert names == [COMPOSED, DECOMPOSED, COMPOSED, "\u1ea1\u0301", twice[1]]
    checks = json.loads(Operator(dsn).quick("doctor", "--json")[1])["checks"]
    texts = [check["text"] for check in checks if check["check"] == "texts"]
    assert texts == [
        f"{name!r} in the table fleet_group is not in NFC, and another row has its NFC form."
        for name in (DECOMPOSED, twice[1])
    ]
    sql.execute("update fleet_group set name = 'Other' where name = $1 or name = $2", DECOMPOSED, twice[1])
    assert convert(dsn) == []


def test_every_column_of_free_text_is_converted(database: tuple[str, Sql]) -> None:
    """A new column of free text must be in the table or here."""
    _, sql = database
    converted = {f"{table}.{column}" for table, columns in text_normal_form.TEXTS.items() for column in columns}
    converted |= {f"{text.table}.{text.column}" for text in text_normal_form.UNIQUE_TEXTS}
    assert {row[0] for row in sql.rows(COLUMNS)} - converted == {
        "provider.name",  # ASCII only
        "cell.name",  # ASCII only
        "driver_passkey.name",  # in the normal form since its first release
    }
