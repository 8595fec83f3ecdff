"""A database knows its cell, and gives ids of its range."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeVar

import asyncpg
import pytest

from keyrack.core.cell_ids import IDS_PER_CELL, id_range
from keyrack.core.settings import Cell, Settings
from keyrack.db.cell_identity import CellIdentity, WrongCell, number_cell, read_identity, require_identity
from tests.support.servers import Sql, migrated_database

T = TypeVar("T")


@pytest.fixture
def dsn(database_server: str) -> Iterator[str]:
    with migrated_database(database_server) as dsn:
        yield dsn


def run(dsn: str, work: Callable[[Any], Awaitable[T]]) -> T:
    async def connected() -> T:
        raw = await asyncpg.connect(dsn)
        try:
            return await work(raw)
        finally:
            await raw.close()

    return asyncio.run(connected())


def number(dsn: str, cell: int, name: str) -> None:
    run(dsn, lambda statements: number_cell(statements, cell, name))


def made(sql: Sql) -> set[int]:
    """The ids of a new customer, manager, client and person."""
    return {
        sql.value("insert into customer (name) values ('a') returning customer_id"),
        sql.value("insert into manager (username, password_hash) values ('a', 'x') returning manager_id"),
        sql.value("insert into client (name) values ('a') returning client_id"),
        sql.value("insert into person (email_address, type) values ('a@example.org', 'Anonymous') returning user_id"),
    }


def test_a_database_is_the_main_cell_and_gives_ids_from_one(dsn: str) -> None:
    assert run(dsn, read_identity) == CellIdentity(0, "main")
    sql = Sql(dsn)
    try:
        assert made(sql) == {1, 2}  # managers and clients have one sequence
    finally:
        sql.close()


def test_a_numbered_cell_gives_ids_of_its_range_and_no_others(dsn: str) -> None:
    number(dsn, 1, "north")
    number(dsn, 1, "nord")
    assert run(dsn, read_identity) == CellIdentity(1, "nord")
    sql = Sql(dsn)
    try:
        first = IDS_PER_CELL + 1
        assert made(sql) == {first, first + 1}
        sql.execute(f"select setval('customer_customer_id_seq', {id_range(1).stop - 1})")
        with pytest.raises(asyncpg.PostgresError, match="reached maximum value"):
            sql.value("insert into customer (name) values ('b') returning customer_id")
    finally:
        sql.close()


def test_the_last_cell_ends_at_the_greatest_id_of_the_contract(dsn: str) -> None:
    number(dsn, 63, "last")
    sql = Sql(dsn)
    try:
        sql.execute(f"select setval('customer_customer_id_seq', {2**31 - 2})")
        assert sql.value("insert into customer (name) values ('b') returning customer_id") == 2**31 - 1
    finally:
        sql.close()


def test_the_main_cell_is_bounded_without_losing_its_position(dsn: str) -> None:
    sql = Sql(dsn)
    try:
        made(sql)
        number(dsn, 0, "main")
        assert sql.value("insert into customer (name) values ('b') returning customer_id") == 2
    finally:
        sql.close()


def test_a_database_with_customers_or_another_number_is_not_numbered(dsn: str) -> None:
    sql = Sql(dsn)
    try:
        sql.execute("insert into customer (name) values ('a')")
        with pytest.raises(WrongCell, match="already cell 0, main"):
            number(dsn, 1, "north")
        assert run(dsn, read_identity) == CellIdentity(0, "main")
        sql.execute("delete from customer")
        number(dsn, 1, "north")
        with pytest.raises(WrongCell, match="already cell 1, north"):
            number(dsn, 2, "south")
        assert run(dsn, read_identity) == CellIdentity(1, "north")
    finally:
        sql.close()


def test_a_database_of_another_cell_is_refused(dsn: str) -> None:
    settings = Settings(database_url=dsn)
    run(dsn, lambda statements: require_identity(statements, Cell(0, "main", settings)))
    with pytest.raises(WrongCell, match="The database of cell north says that it is cell 0, main"):
        run(dsn, lambda statements: require_identity(statements, Cell(1, "north", settings)))
