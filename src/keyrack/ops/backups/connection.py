"""The database connection of backups, and the warning about a database without archiving."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import structlog

from keyrack.core.settings import Settings
from keyrack.db.archive_status import standing
from keyrack.db.audit_context import acting, operator
from keyrack.db.connection import Database
from keyrack.db.embedded.wal_archiving import OFF

log = structlog.get_logger("keyrack.backups")


async def warn(settings: Settings, dsn: str) -> None:
    """Log a warning if the running database does not archive to the directory of this process's settings."""
    if settings.backup_directory in (None, OFF):
        return
    async with connected(settings, dsn) as database:
        archive = await standing(database)
    if not archive.on or settings.backup_directory not in (archive.command or ""):
        log.warning("wal archiving inactive, database restart required", directory=settings.backup_directory)


@asynccontextmanager
async def connected(settings: Settings, dsn: str) -> AsyncGenerator[Database]:
    """The database at this address, over one connection, for an operator. Raises `Unavailable`."""
    acting.set(operator())
    database = await Database.connect(dsn, settings, application="keyrack backup", size=1)
    try:
        yield database
    finally:
        await database.close()
