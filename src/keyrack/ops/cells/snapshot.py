"""A second session of a side that reads a snapshot."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import LiteralString

from keyrack.db.connection import Row
from keyrack.db.session_settings import open_session, prepare
from keyrack.ops.cells.side import APPLICATION, Side

# The server ends a statement whose client is away, so that no snapshot outlasts its move
PARAMETERS = {"application_name": APPLICATION, "client_connection_check_interval": "2s", "tcp_keepalives_idle": "30"}
BEGIN: LiteralString = "begin isolation level repeatable read, read only"
TAKE: LiteralString = "select pg_current_snapshot()"
END: LiteralString = "rollback"
SAVE: LiteralString = "savepoint before_table"
RESTORE: LiteralString = "rollback to before_table"


class SnapshotReader(Side):
    """A side that is read in snapshots. While one is open, vacuum of its database has to keep old rows."""

    async def fetch(self, sql: str, *args: object) -> list[Row]:
        """The rows. The tables are not locked afterwards, so that housekeeping can drop partitions."""
        await self.raw.execute(SAVE)
        try:
            return await self.raw.fetch(sql, *args)
        finally:
            await self.raw.execute(RESTORE)

    async def take(self) -> None:
        """Read the present state until `end`."""
        await self.raw.execute(BEGIN)
        await self.raw.fetchval(TAKE)

    async def end(self) -> None:
        """End the snapshot."""
        await self.raw.execute(END)


@asynccontextmanager
async def open_reader(side: Side) -> AsyncGenerator[SnapshotReader]:
    """A second session of a side. Its snapshot ends with the block. Raises asyncpg's errors."""
    raw = await open_session(side.address, server_settings=PARAMETERS)
    try:
        await prepare(raw)
        yield SnapshotReader(side.cell, side.address, raw)
    finally:
        raw.terminate()  # without waiting for a statement
