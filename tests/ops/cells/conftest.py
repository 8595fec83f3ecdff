"""Two cells in one PostgreSQL, each with a server and a worker."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import asyncpg
import pytest

from keyrack.core.settings import Cell, Settings
from keyrack.core.settings.cells import CellSettings
from keyrack.db.cell_identity import number_cell
from keyrack.db.embedded.server import EmbeddedServer
from tests.support.people import Town
from tests.support.servers import RunningServer, Sql, drop_template, migrated_database, reachable_directory

EAST = "east"
OPTIONS = {
    "wal_level": "logical", "max_replication_slots": "20", "max_wal_senders": "20", "fsync": "off",
    "full_page_writes": "off", "max_connections": "150", "max_logical_replication_workers": "8",
    "max_sync_workers_per_subscription": "4",     "max_worker_processes": "16",
}  # fmt: skip


@dataclass(frozen=True)
class RunningCell:
    """A cell with its server and its rows."""

    cell: Cell
    dsn: str
    server: RunningServer
    sql: Sql
    town: Town


@dataclass(frozen=True)
class TwoCells:
    """The cells `main` and `east`, as the settings of one installation."""

    settings: Settings
    main: RunningCell
    east: RunningCell

    @property
    def environment(self) -> dict[str, str]:
        """The variables of a command."""
        east = f'[{{"name": "east", "number": 1, "url": "{self.east.dsn}"}}]'
        return {"KEYRACK_DATABASE_URL": self.main.dsn, "KEYRACK_CELLS": east}


@pytest.fixture(scope="session")
def logical_server() -> Iterator[str]:
    """The address of a server with `wal_level = logical`."""
    with reachable_directory() as state, EmbeddedServer(state, options=OPTIONS) as server:
        yield server.dsn
        drop_template(server.dsn)


async def _number(dsn: str) -> None:
    raw: Any = await asyncpg.connect(dsn)
    try:
        await number_cell(raw, 1, EAST)
    finally:
        await raw.close()


@pytest.fixture(scope="session")
def cells(logical_server: str, settings: Settings) -> Iterator[TwoCells]:
    with migrated_database(logical_server) as main, migrated_database(logical_server) as east:
        asyncio.run(_number(east))
        both = settings.model_copy(
            update={"database_url": main, "cells": (CellSettings(name=EAST, number=1, url=east),)}
        )
        with RunningServer(settings, main) as one, RunningServer(settings, east) as other:
            sqls = [Sql(main), Sql(east)]
            running = [
                RunningCell(cell, dsn, server, sql, Town(sql, server))
                for cell, dsn, server, sql in zip(both.all_cells, (main, east), (one, other), sqls, strict=True)
            ]
            yield TwoCells(both, *running)
            for sql in sqls:
                sql.close()
