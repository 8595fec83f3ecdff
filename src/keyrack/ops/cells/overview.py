"""The size and the state of a cell, for `keyrack cells list`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import LiteralString

from keyrack.core.settings import Cell
from keyrack.db import schema_version, standbys
from keyrack.db.schema_version import SchemaState
from keyrack.ops.cells.connection import reading
from keyrack.ops.monitoring.status import printable_address

BYTES: LiteralString = "select pg_database_size(current_database())"
CUSTOMERS: LiteralString = "select count(*) from customer"


@dataclass(frozen=True, slots=True)
class CellOverview:
    """The size and the state of a cell's database. None: unknown, or not there."""

    number: int
    name: str
    address: str  # without secrets
    revision: str | None = None
    customers: int | None = None
    bytes: int | None = None
    lag: float | None = None  # seconds of the slowest replica
    away: str | None = None  # why the database cannot be read


def shown_address(cell: Cell) -> str:
    """The hosts of the database, or the directory of an embedded one."""
    url = cell.settings.database_url
    return str(cell.settings.state) if url is None else printable_address(url)


async def overview(cell: Cell, dsn: str) -> CellOverview:
    """The overview of a cell whose database runs at `dsn`. Raises the errors of asyncpg."""
    async with reading(cell.settings, dsn) as connection:
        status = await schema_version.standing(connection)
        has_tables = status.state is not SchemaState.EMPTY
        lags = [replica.seconds for replica in await standbys.standbys(connection) if replica.seconds is not None]
        return CellOverview(
            cell.number,
            cell.name,
            shown_address(cell),
            status.revision,
            await connection.fetchval(CUSTOMERS) if has_tables else None,
            await connection.fetchval(BYTES),
            max(lags, default=None),
        )
