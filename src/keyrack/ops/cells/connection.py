"""A connection that reads the database of a cell, whatever its schema."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from keyrack.core.settings import Cell, Settings
from keyrack.db.cell_identity import require_identity
from keyrack.db.connection import Connection
from keyrack.db.replication.primary_connector import PrimaryConnector

APPLICATION = "keyrack cells"
LONGEST = 120.0  # seconds of a statement: persons of a large cell are sorted
BEGIN = "begin read only isolation level repeatable read"


def direct_address(settings: Settings, dsn: str) -> str:
    """The address without PgBouncer of the database that runs at `dsn`."""
    return dsn if settings.database_url is None else settings.database_direct_url or dsn


@asynccontextmanager
async def reading(settings: Settings, dsn: str) -> AsyncGenerator[Connection]:
    """A connection in a read-only transaction with one snapshot. Raises the errors of asyncpg."""
    raw = await PrimaryConnector(direct_address(settings, dsn), settings).connect(
        server_settings={"application_name": APPLICATION},
        statement_cache_size=settings.statement_cache,
        command_timeout=LONGEST,
    )
    try:
        await raw.execute(BEGIN)
        yield Connection(raw)
    finally:
        raw.terminate()


async def require_numbered(cell: Cell) -> None:
    """Raise `WrongCell` unless the database at the cell's address is this cell. Raises the errors of asyncpg."""
    async with reading(cell.settings, cell.settings.database_url or "") as connection:
        await require_identity(connection, cell)
