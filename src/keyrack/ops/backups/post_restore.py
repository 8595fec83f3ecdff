"""Changes to the data after a restore, because clients have seen newer data.

Ids, event numbers and the order of outcomes were issued after the restored time, and must not be issued again for other
things. So each is advanced by a jump, and change logs continue in a new epoch. Sessions and tokens that ended since
then must not come back, so managers, drivers and machine clients have to sign in again. The operator is informed about
facts that are lost, such as revoked keys and erased persons.

A cell may have been moving customers at the restored time. The rows of a customer that another cell writes stay as they
are: that cell was not restored.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import LiteralString

from keyrack.changelog.transparency import epochs
from keyrack.core.settings import Settings
from keyrack.db.connection import Connection
from keyrack.db.encryption import master_keys
from keyrack.db.encryption.cipher import Encryption
from keyrack.db.encryption.master_keys import MasterKeyError
from keyrack.ops.backups.connection import connected

JUMP = 1_000_000  # for ids and numbers of 32 bits: some 2,000 restores, or 31 in the range of ids of a cell
LONG_JUMP = 1_000_000_000  # for those of 64 bits
SIGN_OUTS = 10_000

KNOWN: LiteralString = "select to_regclass('event_counter') is not null and to_regclass('customer_hold') is not null"
# A sequence without room for the jump stays, and is reported. An unused one has no last value. Its first id is not its
# start value in a cell, whose ids begin elsewhere, so it is taken
SEQUENCES: LiteralString = """
with s as materialized (
  select format('%I.%I', schemaname, sequencename) as name, max_value,
    coalesce(last_value, nextval(format('%I.%I', schemaname, sequencename)::regclass)) as last,
    case when max_value > 2147483647 then $2::bigint else $1::bigint end as jump
  from pg_sequences where schemaname = current_schema()
), moved as (
  select name, setval(name::regclass, last + jump) from s where last < max_value - 2 * jump
)
select array(select name from s where name not in (select name from moved) order by name)
"""
EVENTS: LiteralString = """
with moved as (
  update event_counter set last_id = last_id + $1::integer
  where last_id < 2147483647 - 2 * $1::integer and customer_id <> all($2::integer[])
  returning customer_id)
select array(
  select customer_id from event_counter
  where customer_id not in (select customer_id from moved) and customer_id <> all($2) order by 1)
"""
OUTCOMES: LiteralString = """
update customer_hold set applied = applied + $1::bigint where customer_id <> all($2::integer[])
"""
SESSIONS: LiteralString = "update manager set sign_outs = sign_outs + $1::integer"
HAS_DRIVERS: LiteralString = "select to_regclass('driver_account') is not null"
SESSIONS_OF_DRIVERS: LiteralString = "update driver_account set sign_outs = sign_outs + $1::integer"
# A token of a client names the id of its secret. The secret stays valid under a new id. The key of a row cannot change
HAS_CLIENTS: LiteralString = "select to_regclass('client_secret') is not null"
TOKENS_OF_CLIENTS: LiteralString = """
with gone as (
  delete from client_secret returning client_secret_id, client_id, managed_by, hash, created_at, used_at)
insert into client_secret (client_id, managed_by, hash, created_at, used_at)
select client_id, managed_by, hash, created_at, used_at from gone order by client_secret_id
"""
HAS_MOVES: LiteralString = "select to_regclass('cell_move') is not null"
# Customers whose rows another cell writes, by their newest move: see `guard_cell_move`
ELSEWHERE: LiteralString = """
select coalesce(array_agg(moved_customer), '{}') from (
  select distinct on (moved_customer) moved_customer, role, state from cell_move
  order by moved_customer, started_at desc) newest
where role = 'source' and state = 'switched' or role = 'target' and state in ('copying', 'undone')
"""
# A held customer is writable again in this cell if its move is undone. The guards read the state within this
# transaction, and no other one sees the change
OPEN_HELD: LiteralString = """
with opened as (
  update cell_move set state = 'copying' where role = 'source' and state = 'held' and moved_customer > 0
  returning move_id)
select coalesce(array_agg(move_id), '{}') from opened
"""
HOLD_AGAIN: LiteralString = "update cell_move set state = 'held' where move_id = any($1::uuid[])"
TIMELINE: LiteralString = "select ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::integer"
LOGS: LiteralString = "select to_regclass('change_server') is not null"
SEALED: LiteralString = "select exists (select from data_key)"
HAS_KEYS: LiteralString = "select to_regclass('data_key') is not null"


@dataclass(frozen=True, slots=True)
class PostRestoreResult:
    """The sequences and event numbers that could not be advanced, and the state of the master key."""

    full: list[str]
    full_customers: list[int]
    key: str | None  # the error of the master key


async def apply_post_restore(settings: Settings, dsn: str) -> PostRestoreResult:
    """Advance ids and numbers that must not be issued twice, in one transaction. Raises errors of the database."""
    async with connected(settings, dsn) as database:
        full: list[str] = []
        customers: list[int] = []
        if await database.fetchval(KNOWN):
            async with database.transaction() as connection, _despite_moves(connection) as elsewhere:
                await connection.lift_timeouts()
                full = await connection.fetchval(SEQUENCES, JUMP, LONG_JUMP)
                customers = await connection.fetchval(EVENTS, JUMP, elsewhere)
                await connection.execute(OUTCOMES, LONG_JUMP, elsewhere)
                await _sign_out(connection)
                if await connection.fetchval(LOGS):
                    await epochs.begin(connection, "restore")
    return PostRestoreResult(full, customers, await key_fault(settings, dsn))


@asynccontextmanager
async def _despite_moves(connection: Connection) -> AsyncGenerator[list[int]]:
    """The customers whose rows another cell writes. Within the block, the rows of all others can be changed."""
    if not await connection.fetchval(HAS_MOVES):
        yield []
        return
    held = await connection.fetchval(OPEN_HELD)
    yield await connection.fetchval(ELSEWHERE)
    await connection.execute(HOLD_AGAIN, held)


async def _sign_out(connection: Connection) -> None:
    """End all sessions and access tokens of managers, drivers and machine clients."""
    if await connection.fetchval(HAS_CLIENTS):
        await connection.execute(TOKENS_OF_CLIENTS)
    if await connection.fetchval(HAS_DRIVERS):
        await connection.execute(SESSIONS_OF_DRIVERS, SIGN_OUTS)
    await connection.execute(SESSIONS, SIGN_OUTS)  # its trigger clears the caches of all processes


async def key_fault(settings: Settings, dsn: str) -> str | None:
    """Why this node's master key does not decrypt the secrets of that database; None if it does."""
    async with connected(settings, dsn) as database:
        if not await database.fetchval(HAS_KEYS) or not await database.fetchval(SEALED):
            return None
        try:
            if not master_keys.read(settings):
                return (
                    f"No backup contains the master key, and {master_keys.where(settings)} is missing. Put your copy "
                    "there before you start Keyrack (docs/secrets.md, The master key)."
                )
            await Encryption(database, settings).load()
        except MasterKeyError as error:
            return str(error)
    return None


async def timeline(settings: Settings, dsn: str) -> int:
    """The timeline that the database writes."""
    async with connected(settings, dsn) as database:
        return await database.fetchval(TIMELINE)
