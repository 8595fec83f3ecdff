"""Rotates the data key and the master key while all nodes keep running.

The old master keys wrap the new data key too, so nodes that have only those still open everything. No node has to be
stopped, and each gets the new master key at its own time. The next rotation continues an interrupted one.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import LiteralString

from keyrack.core.settings import Settings
from keyrack.db.connection import Connection, Database
from keyrack.db.encryption import master_keys
from keyrack.db.encryption.bootstrap import IS_BEGUN, ensure_data_key
from keyrack.db.encryption.cipher import DATA_KEYS, LOCK, NEWEST, Encryption, unwrapped
from keyrack.db.encryption.encrypted_columns import HOLDINGS, EncryptedColumn, seal_piece
from keyrack.db.encryption.master_keys import MasterKey, MasterKeyError

ALONE: LiteralString = "select pg_advisory_xact_lock($1)"
MASTERS: LiteralString = """
select master as id, min(created_at) as since, bool_or(number = (select max(number) from data_key)) as opens
from data_key group by master order by min(created_at), master
"""
DROP_OLD: LiteralString = "delete from data_key where number < $1"
RETIRE: LiteralString = "delete from data_key where master = $1"
DROP_ALL: LiteralString = "delete from data_key"


@dataclass(frozen=True, slots=True)
class RotationResult:
    """The result of a rotation: resealed secrets, the new master key, and others that still open."""

    secrets: int
    master: str
    other_masters: list[str]


async def masters(db: Database) -> list[dict[str, object]]:
    """The master keys that open the database: id, since when, and whether they open all of it (`opens`)."""
    return [dict(row) for row in await db.fetch(MASTERS)]


async def rotate(db: Database, settings: Settings) -> RotationResult:
    """Reseal everything under a new data key, wrapped by the node's first master key.

    The old master keys still open it. If Keyrack itself writes the key file, it makes a new master key and drops the
    old ones at the end.

    Raises `MasterKeyError` if there is no key to rotate to, a key of the database is missing here, or a secret does not
    open.
    """
    async with db.transaction() as connection:
        await connection.execute(ALONE, LOCK)
        ours = await _prepare(connection, settings)
    count = 0
    for holding in HOLDINGS:
        while done := await _piece(db, holding, settings):
            count += done
    async with db.transaction() as connection:
        await connection.lift_timeouts()
        await connection.execute(ALONE, LOCK)
        newest = await connection.fetchval(NEWEST)
        keys = unwrapped(await connection.fetch(DATA_KEYS), settings)
        for holding in HOLDINGS:  # values that were being sealed under the old key when the new one came
            while done := await seal_piece(connection, holding, keys):
                count += done
        await connection.execute(DROP_OLD, newest)
        if ours:
            for row in await connection.fetch(MASTERS):
                if row["id"] != ours.id:
                    await connection.execute(RETIRE, row["id"])
            master_keys.replace(
                settings, [ours]
            )  # under the lock of rotations; this key opens all committed data already
    first = master_keys.read(settings)[0].id
    return RotationResult(count, first, [str(row["id"]) for row in await masters(db) if row["id"] != first])


async def _prepare(connection: Connection, settings: Settings) -> MasterKey | None:
    """Begin a rotation unless one was interrupted. Returns the new master key if Keyrack writes the file."""
    if not await connection.fetchval(IS_BEGUN):
        raise MasterKeyError("There is nothing to rotate: the database has no secrets yet.")
    rows = await connection.fetch(DATA_KEYS)
    keys, ring = unwrapped(rows, settings), master_keys.read(settings)
    used_masters = {row["master"] for row in rows}
    if missing := used_masters - {key.id for key in ring}:
        raise MasterKeyError(
            f"The database also opens with the master key {', '.join(sorted(missing))}, which is not in "
            f"{master_keys.where(settings)}. Add it there after the others, or retire it with "
            "`keyrack master-key retire ID`."
        )
    ours = master_keys.is_ours(settings)
    if len(keys) > 1 and ring[0].id in used_masters:
        return ring[0] if ours else None  # continue an interrupted rotation
    if ring[0].id in used_masters:
        if not ours:
            raise MasterKeyError(
                f"The database already uses the first key in {master_keys.where(settings)}. Put a new one before it, "
                "which `keyrack master-key new` makes."
            )
        ring = [master_keys.new(), *ring]
        master_keys.replace(settings, ring)  # before the database needs it
    for number, data_key in keys.items():
        await ensure_data_key(connection, number, data_key, ring[:1])
    opening = [key for key in ring if key is ring[0] or key.id in used_masters]
    await ensure_data_key(connection, max(keys) + 1, secrets.token_bytes(master_keys.LENGTH), opening)
    return ring[0] if ours else None


async def _piece(db: Database, holding: EncryptedColumn, settings: Settings) -> int:
    async with db.transaction() as connection:
        return await seal_piece(connection, holding, unwrapped(await connection.fetch(DATA_KEYS), settings))


async def retire(db: Database, settings: Settings, id: str) -> None:
    """Remove a master key from the database. Raises `MasterKeyError` unless this node has another one that opens it."""
    async with db.transaction() as connection:
        await connection.execute(ALONE, LOCK)
        rows = await connection.fetch(DATA_KEYS)
        others = [row for row in rows if row["master"] != id]
        if len(others) == len(rows):
            raise MasterKeyError(f"The database has no master key {id}.")
        if {row["number"] for row in others} != {row["number"] for row in rows}:
            raise MasterKeyError(
                f"The master key {id} cannot be retired: no other one opens all secrets of the database."
            )
        unwrapped(others, settings)
        await connection.execute(RETIRE, id)


async def replace_all_keys(connection: Connection, settings: Settings) -> Encryption:
    """Drop all data keys and make a new one. Raises `MasterKeyError`.

    The caller replaces all sealed secrets in the same transaction.
    """
    await connection.execute(ALONE, LOCK)
    number = (await connection.fetchval(NEWEST) or 0) + 1
    await connection.execute(DROP_ALL)
    await ensure_data_key(connection, number, secrets.token_bytes(master_keys.LENGTH), master_keys.make(settings)[:1])
    vault = Encryption(connection, settings)
    await vault.load()
    return vault
