"""The start of a further cell: checks, and retries until it works."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import asyncpg
import structlog

from keyrack.core.errors import Unavailable
from keyrack.core.log_config import MINUTE, RateLimitedLogger
from keyrack.core.settings import Cell
from keyrack.db import schema_version
from keyrack.db.cell_identity import WrongCell
from keyrack.db.connection import UNREACHABLE
from keyrack.db.encryption.master_keys import MasterKeyError
from keyrack.db.schema_version import SchemaError, SchemaState
from keyrack.server.database_checks import check_before_migration, check_database

log = structlog.get_logger("keyrack.cells")
seldom = RateLimitedLogger("keyrack.cells", MINUTE)

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 10.0  # seconds until the next attempt
UNFIT = (SchemaError, MasterKeyError, WrongCell)  # an operator has to act; the text has the remedy
NOT_USABLE = (*UNFIT, Unavailable, *UNREACHABLE, asyncpg.PostgresError, TimeoutError)


async def require_usable(cell: Cell, dsn: str) -> None:
    """Check that the database is this cell, and fits this server. Raises one of `NOT_USABLE`."""
    await schema_version.require(cell.settings.direct_address(dsn), cell.settings, newer=True)
    await check_database(dsn, cell)


async def migrate(cell: Cell, dsn: str) -> None:
    """Migrate the database of a further cell, if needed. Raises one of `NOT_USABLE`.

    An empty database is not migrated: it would become a second cell 0.
    """
    address = cell.settings.direct_address(dsn)
    status = await schema_version.read_schema_state(address, cell.settings)
    if status.state is SchemaState.EMPTY:
        raise SchemaError(f"The database of cell {cell.name} is empty. Run `keyrack cells add {cell.name}`.")
    await check_before_migration(dsn, cell.settings, status)
    await schema_version.migrate(address, cell.settings)


async def migrate_others(cells: tuple[Cell, ...]) -> None:
    """Migrate each cell after cell 0. One that cannot be used stays away, which the log reports."""
    for cell in cells[1:]:
        try:
            await migrate(cell, _address(cell))
        except NOT_USABLE as error:
            report(cell, error)


async def prepare(cell: Cell) -> None:
    """Migrate and check the database of a further cell. Raises one of `NOT_USABLE`."""
    await migrate(cell, _address(cell))
    await require_usable(cell, _address(cell))


def _address(cell: Cell) -> str:
    address = cell.settings.database_url
    assert address is not None  # noqa: S101 - only cell 0 can be the embedded database
    return address


def report(cell: Cell, error: BaseException) -> None:
    """Log why a cell cannot be used.

    It is an alert if an operator has to act, and seldom otherwise.
    """
    if isinstance(error, UNFIT):
        log.critical("cell not usable", alert=True, cell=cell.name, reason=str(error))
    else:
        seldom.warning("cell away, retrying", cell=cell.name, error=error, throttle_by=cell.name)


async def keep_trying(cell: Cell, attempt: Callable[[], Awaitable[None]], stop: asyncio.Event) -> None:
    """Repeat the attempt until it succeeds, or until the stop. The pauses between attempts grow."""
    pause, last = FIRST_PAUSE, ""
    while not stop.is_set():
        try:
            await attempt()
        except NOT_USABLE as error:
            if str(error) != last or not isinstance(error, UNFIT):  # one alert for each cause
                report(cell, error)
            last = str(error)
        except Exception as error:
            log.critical("cell failed, retrying", alert=True, cell=cell.name, exc_info=error)
        else:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(pause):
                await stop.wait()
        pause = min(2 * pause, LONGEST_PAUSE)
