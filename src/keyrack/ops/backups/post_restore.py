"""In charge of what a restore must change in the data, since the world has seen more than they know.

Ids, the numbers of events and the order of outcomes were handed out after the time that is restored, and must not come
again with another meaning: each is advanced by a jump, and logs of changes go on in another epoch. Whoever signed out
since then stays signed out: everybody has to log in again. Of what cannot be known any more, such as keys revoked or
people erased since, the operator is told.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import LiteralString

from keyrack.changelog.transparency import epochs
from keyrack.core.settings import Settings
from keyrack.db.encryption import master_keys
from keyrack.db.encryption.cipher import Encryption
from keyrack.db.encryption.master_keys import MasterKeyError
from keyrack.ops.backups.connection import connected

JUMP = 1_000_000  # of ids and numbers of 32 bits: some 2,000 restores' worth
LONG_JUMP = 1_000_000_000  # of those of 64 bits
SIGN_OUTS = 10_000

KNOWN: LiteralString = "select to_regclass('event_counter') is not null and to_regclass('customer_hold') is not null"
# What would not fit any more stays, and is told
SEQUENCES: LiteralString = """
with s as (
  select format('%I.%I', schemaname, sequencename) as name, coalesce(last_value, 0) as last, max_value,
    case when max_value > 2147483647 then $2::bigint else $1::bigint end as jump
  from pg_sequences where schemaname = current_schema()
), moved as (
  select name, setval(name::regclass, last + jump) from s where last < max_value - 2 * jump
)
select array(select name from s where name not in (select name from moved) order by name)
"""
EVENTS: LiteralString = """
with moved as (
  update event_counter set last_id = last_id + $1::integer where last_id < 2147483647 - 2 * $1::integer
  returning customer_id)
select array(select customer_id from event_counter where customer_id not in (select customer_id from moved) order by 1)
"""
OUTCOMES: LiteralString = "update customer_hold set applied = applied + $1::bigint"
SESSIONS: LiteralString = "update manager set sign_outs = sign_outs + $1::integer"
TIMELINE: LiteralString = "select ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::integer"
LOGS: LiteralString = "select to_regclass('change_server') is not null"
SEALED: LiteralString = "select exists (select from data_key)"
HAS_KEYS: LiteralString = "select to_regclass('data_key') is not null"


@dataclass(frozen=True, slots=True)
class PostRestoreResult:
    """What could not be advanced: sequences, and customers' numbers of events; and how the master key stands."""

    full: list[str]
    full_customers: list[int]
    key: str | None  # what is wrong with it, in words


async def apply_post_restore(settings: Settings, dsn: str) -> PostRestoreResult:
    """Advance what must not be handed out twice, in one transaction. Raises what the database raises."""
    async with connected(settings, dsn) as database:
        full: list[str] = []
        customers: list[int] = []
        if await database.fetchval(KNOWN):
            async with database.transaction() as connection:
                await connection.lift_timeouts()
                full = await connection.fetchval(SEQUENCES, JUMP, LONG_JUMP)
                customers = await connection.fetchval(EVENTS, JUMP)
                await connection.execute(OUTCOMES, LONG_JUMP)
                await connection.execute(SESSIONS, SIGN_OUTS)
                if await connection.fetchval(LOGS):
                    await epochs.begin(connection, "restore")
    return PostRestoreResult(full, customers, await key_fault(settings, dsn))


async def key_fault(settings: Settings, dsn: str) -> str | None:
    """Why this node's master key does not open the secrets of that database, in words; None if it does."""
    async with connected(settings, dsn) as database:
        if not await database.fetchval(HAS_KEYS) or not await database.fetchval(SEALED):
            return None
        try:
            if not master_keys.read(settings):
                return (
                    "The master key is not in a backup, and "
                    f"{master_keys.where(settings)} is missing: put your copy of it "
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
