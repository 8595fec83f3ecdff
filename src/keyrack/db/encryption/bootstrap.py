"""Opens the encryption of a database, or initialises it with this node's master key.

A database that has data keys already must know this node's master key.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import LiteralString

from keyrack.core.settings import Settings
from keyrack.db.connection import Connection, Database, Statements
from keyrack.db.encryption import master_keys
from keyrack.db.encryption.cipher import LOCK, Encryption, wrap
from keyrack.db.encryption.encrypted_columns import HOLDINGS, seal_piece
from keyrack.db.encryption.master_keys import MasterKey

PAUSE = 0.1  # seconds between two checks whether another process has initialised it

HAS_TABLE: LiteralString = "select to_regclass('data_key') is not null"
IS_BEGUN: LiteralString = "select exists (select from data_key)"
TRY_LOCK: LiteralString = "select pg_try_advisory_xact_lock($1)"
KEEP: LiteralString = "insert into data_key (number, master, wrapped) values ($1, $2, $3)"


async def open_vault(db: Database, settings: Settings) -> Encryption:
    """Open the encryption of the database; initialise it if it has no data keys yet.

    The initialisation seals the secrets that an older release stored as text.

    Raises `MasterKeyError`: no master key, or not that of this database.
    """
    while not await db.fetchval(IS_BEGUN):
        async with db.transaction() as connection:
            if await connection.fetchval(TRY_LOCK, LOCK) and not await connection.fetchval(IS_BEGUN):
                await _begin(connection, settings)
                continue
        await asyncio.sleep(PAUSE)
    vault = Encryption(db, settings)
    await vault.load()
    return vault


async def check_master_key(statements: Statements, settings: Settings) -> None:
    """Check that `open_vault` will have its master key; changes nothing.

    The schema may be empty, or of an older release.

    Raises `MasterKeyError`: no master key, or not that of this database.
    """
    if await statements.fetchval(HAS_TABLE) and await statements.fetchval(IS_BEGUN):
        await Encryption(statements, settings).load()
    else:
        master_keys.require(settings)


async def _begin(connection: Connection, settings: Settings) -> None:
    await connection.lift_timeouts()
    keys = {1: secrets.token_bytes(master_keys.LENGTH)}
    await ensure_data_key(connection, 1, keys[1], [master_keys.make(settings)[0]])
    for holding in HOLDINGS:
        while await seal_piece(connection, holding, keys, plain=True):
            pass


async def ensure_data_key(connection: Connection, number: int, data_key: bytes, by: list[MasterKey]) -> None:
    """Store a data key, wrapped by each of these master keys."""
    for key in by:
        await connection.execute(KEEP, number, key.id, wrap(data_key, number, key))
