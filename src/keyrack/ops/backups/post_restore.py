"""Changes to the data after a restore, because clients have seen newer data.

Ids, event numbers and the order of outcomes were issued after the restored time, and must not be issued again for other
things. So each is advanced by a jump, and change logs continue in a new epoch. Sessions that ended since then must not
come back, so everyone has to log in again. The operator is informed about facts that are lost, such as revoked keys and
erased persons.
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

JUMP = 1_000_000  # for ids and numbers of 32 bits: enough for some 2,000 restores
LONG_JUMP = 1_000_000_000  # for those of 64 bits
SIGN_OUTS = 10_000

KNOWN: LiteralString = "select to_regclass('event_counter') is not null and to_regclass('customer_hold') is not null"
# A sequence without room for the jump stays, and is reported
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
