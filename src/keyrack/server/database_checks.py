"""Checks of a database before a process works with it."""

from __future__ import annotations

from keyrack.changelog import audited_tables
from keyrack.core.settings import Cell, Settings
from keyrack.db.audit_context import acting, system
from keyrack.db.cell_identity import require_identity
from keyrack.db.connection import Database
from keyrack.db.encryption.bootstrap import check_master_key, open_vault
from keyrack.db.schema_version import SchemaState, SchemaStatus


async def check_before_migration(dsn: str, settings: Settings, status: SchemaStatus) -> None:
    """Check before a migration what would stop the process after it.

    A current schema is left to `check_database`. Raises `MasterKeyError`, `SchemaError`.
    """
    if status.state not in (SchemaState.EMPTY, SchemaState.OLDER):
        return
    acting.set(system("server"))
    database = await Database.connect(dsn, settings)
    try:
        await check_master_key(database, settings)
        await audited_tables.require_triggers(database)
    finally:
        await database.close()


async def check_database(dsn: str, cell: Cell) -> None:
    """Check this node's master key, and that the database records changes.

    With several cells, the database must be this one. Raises `MasterKeyError`, `SchemaError`, `WrongCell`.
    """
    acting.set(system("server"))
    database = await Database.connect(dsn, cell.settings)
    try:
        if cell.is_one_of_several:
            await require_identity(database, cell)
        await open_vault(database, cell.settings)
        await audited_tables.require(database)
    finally:
        await database.close()
