"""Two cells for tests: databases of one server, behind one address."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

import asyncpg
import httpx

from keyrack.core.settings import CellSettings, Settings
from keyrack.db.cell_identity import number_cell
from keyrack.db.connection import Connection
from tests.support.database_proxy import DatabaseProxy
from tests.support.people import Town, fetch
from tests.support.servers import TESTS, RunningServer, Sql, migrated_database

NORTH = "north"  # the name of cell 1
# Only ids of customers, managers and persons differ between cells. Tests expect that an id of another person's row is
# unknown, so the other sequences begin elsewhere too
APART = """
select setval(format('%I.%I', schemaname, sequencename)::regclass, 1000000) from pg_sequences
where schemaname = 'public' and max_value >= 2147483647 and coalesce(last_value, 0) < 1000000
"""


@contextlib.contextmanager
def second_cell(server: str, number: int = 1, name: str = NORTH) -> Iterator[CellSettings]:
    """A new database that is a cell, with its settings."""
    with migrated_database(server) as dsn:
        asyncio.run(_number(dsn, number, name))
        yield CellSettings(name=name, number=number, url=dsn)


def with_cells(settings: Settings, *cells: CellSettings) -> Settings:
    """The settings with these cells after cell 0."""
    return settings.model_copy(update={"cells": cells})


async def _number(dsn: str, number: int, name: str) -> None:
    raw = await asyncpg.connect(dsn, server_settings={"keyrack.who": TESTS})
    try:
        async with raw.transaction():
            await number_cell(Connection(raw), number, name)
            await raw.execute(APART)
    finally:
        await raw.close()


@dataclass
class TwoCells:
    """A server with cell 0 and cell 1. `proxies` stand before their databases."""

    server: RunningServer
    towns: tuple[Town, Town]
    proxies: tuple[DatabaseProxy, DatabaseProxy]

    def ready(self) -> httpx.Response:
        return fetch("GET", f"{self.server.url}/health/ready")

    def states(self) -> dict[str, str]:
        """The state of each cell by its name."""
        return {cell["name"]: cell["status"] for cell in self.ready().json()["cells"]}


@contextlib.contextmanager
def two_cells(server: str, settings: Settings) -> Iterator[TwoCells]:
    """A server with cells 0 and 1, each with its database."""
    with migrated_database(server) as main, second_cell(server) as cell:
        proxies = DatabaseProxy(main), DatabaseProxy(cell.url)
        sqls = Sql(main), Sql(cell.url)
        north = cell.model_copy(update={"url": proxies[1].dsn})
        with RunningServer(with_cells(settings, north), proxies[0].dsn) as running:
            yield TwoCells(running, (Town(sqls[0], running), Town(sqls[1], running)), proxies)
        for each in (*sqls, *proxies):
            each.close()
