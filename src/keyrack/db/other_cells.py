"""Connections to the other cells, opened when they are first needed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import LiteralString

import asyncpg
import structlog

from keyrack.core.error_codes import DATABASE_AWAY
from keyrack.core.errors import Unavailable
from keyrack.core.settings import Cell, Settings
from keyrack.db.cell_identity import WrongCell, require_identity
from keyrack.db.connection import UNREACHABLE, Database, Row, is_interruption
from keyrack.db.throttled_log import ThrottledLogger

log = structlog.get_logger("keyrack.cells")
seldom = ThrottledLogger("keyrack.cells")

SIZE = 2  # connections to each other cell
PATIENCE = 3.0  # seconds that a request waits for another cell
AWAY = 5.0  # seconds until a cell that did not answer is asked again


class OtherCells:
    """The cells other than that of these settings. Without `cells` in the settings there are none.

    Few requests need them, so the pools are small. A cell that does not answer fails the request, not the process.
    """

    def __init__(self, settings: Settings) -> None:
        self._cells = {cell.number: cell for cell in settings.other_cells}
        self._databases: dict[int, Database] = {}
        self._away_until: dict[int, float] = {}  # seconds of the monotonic clock, by cell
        self._lock = asyncio.Lock()

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers of the other cells."""
        return tuple(self._cells)

    @asynccontextmanager
    async def database(self, number: int, seconds: float | None = PATIENCE) -> AsyncGenerator[Database]:
        """The database of another cell, for at most `seconds`.

        Raises `Unavailable` if the settings do not name the cell, or if it cannot be reached or does not answer in
        time, also from within the block.
        """
        try:
            async with asyncio.timeout(seconds):
                yield await self._open(number)
        except (*UNREACHABLE, asyncpg.PostgresError, TimeoutError) as error:
            if not is_interruption(error):
                raise
            seldom.warning("other cell unreachable", cell=number, error=error)
            raise Unavailable from error

    async def fetchrow_from_each(self, sql: LiteralString, *args: object) -> dict[int, Row | None]:
        """The first row of a read in each cell that answers.

        For some seconds, a cell that did not answer is not asked again, so that requests do not wait for it.
        """

        async def fetchrow(number: int) -> Row | None:
            async with self.database(number) as database:
                return await database.reading().fetchrow(sql, *args)

        asked = [number for number in self._cells if self._away_until.get(number, 0) <= time.monotonic()]
        rows = await asyncio.gather(*map(fetchrow, asked), return_exceptions=True)
        answers: dict[int, Row | None] = {}
        for number, row in zip(asked, rows, strict=True):
            if isinstance(row, Unavailable):
                self._away_until[number] = time.monotonic() + AWAY
            elif isinstance(row, BaseException):
                raise row
            else:
                answers[number] = row
        return answers

    async def close(self) -> None:
        """Close the connections."""
        for database in self._databases.values():
            await database.close()

    async def _open(self, number: int) -> Database:
        cell = self._cells.get(number)
        if cell is None:
            raise Unavailable(DATABASE_AWAY.with_text(f"The settings have no cell {number}."))
        async with self._lock:
            if number not in self._databases:
                self._databases[number] = await _connect(cell)
        return self._databases[number]


async def _connect(cell: Cell) -> Database:
    """Raises `Unavailable`, also if the database is another cell."""
    database = await Database.connect(
        _address(cell.settings), cell.settings, application="keyrack other cells", size=SIZE
    )
    try:
        await require_identity(database.reading(), cell)
    except WrongCell as error:
        await database.close()
        log.error("other cell has another number", alert=True, cell=cell.number, error=error)
        raise Unavailable from error
    return database


def _address(settings: Settings) -> str:
    if settings.database_url is not None:
        return settings.database_url
    from keyrack.db.embedded.server import EmbeddedServer  # only cell 0 can have it, and few installations do

    return EmbeddedServer(settings.state).dsn
