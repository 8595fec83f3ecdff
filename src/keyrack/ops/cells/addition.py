"""Makes an empty database a cell.

It gets the schema, a number, a range of ids, a data key and a signing key.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import LiteralString

from keyrack.auth import signing_keys
from keyrack.core.cell_ids import IDS_PER_CELL, MOST_CELLS
from keyrack.core.settings import Cell, Settings
from keyrack.db import cell_identity, schema_version
from keyrack.db.cell_identity import CellIdentity, number_cell
from keyrack.db.connection import Database, Statements
from keyrack.db.encryption.bootstrap import check_master_key, open_vault
from keyrack.db.schema_version import SchemaState
from keyrack.ops.cells.connection import reading
from keyrack.ops.doctor.database import MINOR

FIRST_WITH_CELLS = "0081"  # the revision that has the table `cell`
SAME = 7_260_916  # any constant: the key of an advisory lock, which belongs to one database
LOCK: LiteralString = "select pg_advisory_xact_lock($1)"
TRY_LOCK: LiteralString = "select pg_try_advisory_xact_lock($1)"
# Numbers in whose ranges a cell has ids: its own, those of customers that moved in, and of persons that were copied
NUMBERS: LiteralString = """
select coalesce(array_agg(n), '{}') from generate_series(1, $1::integer) n
cross join lateral (select n * $2::bigint + 1 as first, (n + 1) * $2::bigint as last) r
where exists (select from customer where customer_id between r.first and r.last)
  or exists (select from manager where manager_id between r.first and r.last)
  or exists (select from client where client_id between r.first and r.last)
  or exists (select from person where user_id between r.first and r.last)
"""
VERSION: LiteralString = "select current_setting('server_version_num')::integer / 10000"


class CellNotAdded(Exception):
    """The database cannot become the cell. The text has the remedy."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A database that is to become a cell."""

    is_empty: bool
    identity: CellIdentity | None  # None: its schema has no table for it yet


async def numbers_with_ids(statements: Statements) -> set[int]:
    """The numbers of cells, except 0, whose ids this database has."""
    return set(await statements.fetchval(NUMBERS, MOST_CELLS - 1, IDS_PER_CELL))


async def inspect(settings: Settings, main: Database) -> Candidate:
    """Check that a database can become a cell beside `main`; changes nothing.

    Raises `CellNotAdded`, `SchemaError`, `MasterKeyError` and the errors of asyncpg.
    """
    dsn = settings.database_url or ""
    status = await schema_version.read_schema_state(settings.direct_address(dsn), settings)
    async with main.transaction() as locking, reading(settings, dsn) as connection:
        await locking.execute(LOCK, SAME)
        if not await connection.fetchval(TRY_LOCK, SAME):
            raise CellNotAdded("This is the database of cell main. Use another, empty database.")
        if (version := await connection.fetchval(VERSION)) < min(MINOR):
            raise CellNotAdded(f"PostgreSQL {version} is too old. Use PostgreSQL {min(MINOR)} or newer.")
        await check_master_key(connection, settings)
        if status.state is SchemaState.EMPTY:
            return Candidate(is_empty=True, identity=None)
        if (status.revision or "") < FIRST_WITH_CELLS:
            raise CellNotAdded(
                f"The database has tables of an older Keyrack, revision {status.revision}. Use an empty database."
            )
        return Candidate(is_empty=False, identity=await cell_identity.read_identity(connection))


async def add(cell: Cell, main: Database) -> bool:
    """Make the database the cell, and bound the ids of cell 0. Returns whether it was not that cell before.

    It can be repeated. Raises as `inspect` does, and `WrongCell` if the database is another cell or has rows.
    """
    settings, dsn = cell.settings, cell.settings.database_url or ""
    before = await inspect(settings, main)
    if before.identity is not None:
        async with reading(settings, dsn) as connection:
            await cell_identity.require_numberable(connection, cell.number)
    await schema_version.migrate(settings.direct_address(dsn), settings)
    database = await Database.connect(dsn, settings, application="keyrack command", size=2)
    try:
        await number_cell(database, cell.number, cell.name)
        await signing_keys.ensure(database, await open_vault(database, settings))
    finally:
        await database.close()
    await number_cell(main, 0, "main")
    return before.identity != CellIdentity(cell.number, cell.name)
