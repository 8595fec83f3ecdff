"""A connection that reads the database of a cell, whatever its schema."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import LiteralString

from keyrack.core.settings import Cell, Settings
from keyrack.db.cell_identity import require_identity
from keyrack.db.connection import Connection
from keyrack.db.read_only_session import read_only_session

APPLICATION = "keyrack cells"
LONGEST = 120.0  # seconds of a statement: persons of a large cell are sorted
BEGIN: LiteralString = "begin read only isolation level repeatable read"


@asynccontextmanager
async def reading(settings: Settings, dsn: str) -> AsyncGenerator[Connection]:
    """A connection in a read-only transaction with one snapshot. Raises the errors of asyncpg."""
    address = settings.direct_address(dsn)
    async with read_only_session(address, settings, application=APPLICATION, seconds=LONGEST, begin=BEGIN) as raw:
        yield Connection(raw)


async def require_numbered(cell: Cell) -> None:
    """Raise `WrongCell` unless the database at the cell's address is this cell. Raises the errors of asyncpg."""
    async with reading(cell.settings, cell.settings.database_url or "") as connection:
        await require_identity(connection, cell)
