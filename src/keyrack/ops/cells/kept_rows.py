"""Makes a switched customer active again in the source of its move.

That is needed if the target is restored to a time before the switch. The switch has kept the rows that it deleted. The
restored target does not know which ids and numbers it has issued, so the source skips as many as after a restore.
"""

from __future__ import annotations

from datetime import datetime
from typing import LiteralString
from uuid import UUID

import asyncpg

from keyrack.changelog.transparency import epochs
from keyrack.db.connection import Connection
from keyrack.ops.backups.post_restore import JUMP, LONG_JUMP, SIGN_OUTS
from keyrack.ops.cells.hold import ALONE
from keyrack.ops.cells.side import MoveRefused, Side
from keyrack.ops.cells.switch import NOTE_ACCESS, UNPAUSE, WITH_RANGE, wake

HAS_KEPT: LiteralString = """
select exists (select from cell_move_kept_row where move_id = $1 and table_name = 'customer')
"""
# Drivers whom another customer of the source has got since the switch have rows again
SHARED = ("driver_account", "driver_identity", "driver_passkey")
# A second factor whose data key is rotated away cannot be opened, so its manager sets it up again
RETURNS: LiteralString = """
select k.table_name as name, format('insert into %1$s (%2$s) overriding system value select %3$s'
  ' from cell_move_kept_row k cross join jsonb_populate_record(null::%1$s, k.content) r'
  ' where k.move_id = %4$L and k.table_name = %5$L%6$s%7$s', k.table_name::regclass, c.columns, c.of_row, $1::uuid,
  k.table_name,
  case when k.table_name = 'totp' then ' and exists (select from data_key d where d.number = data_key_of(r.secret))'
    else '' end,
  case when k.table_name = any($2::text[]) then ' on conflict do nothing' else '' end) as statement
from (
  select distinct on (table_name) table_name, content from cell_move_kept_row where move_id = $1 order by table_name) k
cross join lateral (
  select string_agg(quote_ident(attname), ', ' order by attnum) as columns,
    string_agg('r.' || quote_ident(attname), ', ' order by attnum) as of_row
  from pg_attribute where attrelid = k.table_name::regclass and attnum > 0 and not attisdropped and attgenerated = ''
    and k.content ? attname::text) c
"""
DELETE_KEPT: LiteralString = "delete from cell_move_kept_row where move_id = $1"
# As before the switch, so that the rest of the move can be undone
REOPEN: LiteralString = """
update cell_move set state = 'copying', held_at = null, switched_at = null where move_id = $1
"""
SWITCHED_AT: LiteralString = "select switched_at from cell_move where move_id = $1"
SEQUENCES: LiteralString = """
select setval(name::regclass, last + jump) from (
  select sequencename::text as name, coalesce(last_value, 0) as last, max_value,
    case when max_value > 2147483647 then $2::bigint else $1::bigint end as jump
  from pg_sequences where schemaname = current_schema() and sequencename <> all($3::text[])) s
where last < max_value - 2 * jump
"""
EVENTS: LiteralString = """
update event_counter set last_id = last_id + $2::integer
where customer_id = $1 and last_id < 2147483647 - 2 * $2::integer
"""
OUTCOMES: LiteralString = "update customer_hold set applied = applied + $2::bigint where customer_id = $1"
SIGN_OUT: LiteralString = """
update manager set sign_outs = sign_outs + $2::integer
where manager_id in (select manager_id from manager_customer where customer_id = $1)
"""
USERS: LiteralString = "select array_agg(user_id) from customer_user where customer_id = $1"
PERSONS: LiteralString = "select array_agg(user_id) from person where user_id = any($1::integer[])"
# Persons whom the restored target does not have
FORGET_CELL: LiteralString = """
delete from person_cell where user_id = any($1::integer[]) and user_id <> all($2::integer[]) and cell = $3
"""


async def require_kept(source: Side, move: UUID, customer: int) -> None:
    """Raise `MoveRefused` unless the source has kept the rows of the switch."""
    if not await source.fetchval(HAS_KEPT, move):
        raise MoveRefused(
            f"Cell {source.cell.name} has no accounts of customer {customer} any more, because an older release has "
            f"switched it. Restore cell {source.cell.name} to a time before the switch instead."
        )


async def bring_back(source: Side, target: Side, move: UUID, customer: int) -> datetime:
    """Make the customer active again in the source, in one transaction. Returns the time of the switch.

    Raises `MoveRefused` if rows of the source are in the way.
    """
    switched_at: datetime = await source.fetchval(SWITCHED_AT, move)
    try:
        async with source.transaction(has_triggers=False):
            await source.execute(ALONE, customer)
            for row in await source.fetch(RETURNS, move, list(SHARED)):
                await source.execute(row["statement"])
            await source.execute(DELETE_KEPT, move)
            await source.execute(UNPAUSE, customer)
            await _skip_issued(source, customer)
            await _forget_target(source, target, customer)
            await source.execute(NOTE_ACCESS)
            await source.execute(REOPEN, move)
    except asyncpg.UniqueViolationError as error:
        raise MoveRefused(
            f"Cell {source.cell.name} has a row with a name or id of customer {customer}, which it got after the "
            f"switch: {error.args[0]}. Rename or remove that row, and run the command again."
        ) from None
    await wake(source)
    return switched_at


async def _skip_issued(source: Side, customer: int) -> None:
    """Skip ids and numbers that the target may have issued.

    All accounts of the customer have to sign in again.
    """
    await source.fetch(SEQUENCES, JUMP, LONG_JUMP, list(WITH_RANGE))
    await source.execute(EVENTS, customer, JUMP)
    await source.execute(OUTCOMES, customer, LONG_JUMP)
    await source.execute(SIGN_OUT, customer, SIGN_OUTS)
    await epochs.begin(Connection(source.raw), "restore", customer)


async def _forget_target(source: Side, target: Side, customer: int) -> None:
    users: list[int] = await source.fetchval(USERS, customer) or []
    there: list[int] = await target.fetchval(PERSONS, users) or []
    await source.execute(FORGET_CELL, users, there, target.cell.number)
