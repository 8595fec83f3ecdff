"""The switch of a held customer to the target.

It is two transactions, first in the target and then in the source. The source is held until the second one, so no
write is accepted in both cells, wherever the move is interrupted.
"""

from __future__ import annotations

from contextlib import suppress
from typing import LiteralString
from uuid import UUID

import asyncpg

from keyrack.core.settings import Cell
from keyrack.db import worker_wakeup
from keyrack.db.encryption.cipher import DATA_KEYS, LOCK, SEALING, unwrapped
from keyrack.db.encryption.encrypted_columns import HOLDINGS, resealed
from keyrack.ops.cells.account_copies import copy_accounts, delete_moved
from keyrack.ops.cells.hold import ALONE
from keyrack.ops.cells.moved_persons import share_in_source, share_in_target
from keyrack.ops.cells.side import MoveRefused, Side

# Shorter than `deadlock_timeout`, so that not the replication fails if the rehearsal and it wait for each other
PATIENCE: LiteralString = "set local lock_timeout = '500ms'"
SWITCH_TARGET: LiteralString = """
update cell_move set state = 'switched', switched_at = clock_timestamp() where move_id = $1 and state = 'copying'
returning true
"""
# A source that was restored to a time before the switch may have any state
SWITCH_SOURCE: LiteralString = """
update cell_move set state = 'switched', switched_at = clock_timestamp() where move_id = $1 and state <> 'switched'
"""
# Processes drop what they have cached of access
NOTE_ACCESS: LiteralString = "insert into access_change default values"
UNPAUSE: LiteralString = "update customer_hold set due_at = null where customer_id = $1"
# The values of these have a range for each cell
WITH_RANGE = ("customer_customer_id_seq", "manager_manager_id_seq", "person_user_id_seq")
SEQUENCES: LiteralString = """
select sequencename::text as name, last_value as last from pg_sequences
where schemaname = current_schema() and last_value is not null and sequencename <> all($1::text[])
"""
ADVANCE: LiteralString = """
select setval(s.name::regclass, s.last) from unnest($1::text[], $2::bigint[]) s (name, last)
where s.last > coalesce(pg_sequence_last_value(s.name::regclass), 0)
"""


async def switch_target(source: Side, target: Side, move: UUID, customer: int) -> None:
    """Let the target accept writes, in one transaction. Raises `MoveRefused` if the move was undone."""
    async with target.transaction(has_triggers=False):
        await _switch_target(source, target, move, customer)
    await wake(target)


async def rehearse_switch(source: Side, target: Side, move: UUID, customer: int) -> None:
    """Run the statements of `switch_target`, and roll them back.

    Errors show before writes are held, and the sessions load what they need of the tables, so that the switch is fast.
    Raises like `switch_target`. It gives up if another transaction has locked a row. Sequences stay advanced.
    """
    with suppress(_Rehearsed, asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError):
        async with target.transaction(has_triggers=False):
            await target.execute(PATIENCE)
            await _switch_target(source, target, move, customer)
            raise _Rehearsed


class _Rehearsed(Exception):
    """Rolls the rehearsal back."""


async def _switch_target(source: Side, target: Side, move: UUID, customer: int) -> None:
    await target.execute(ALONE, customer)
    if not await target.fetchval(SWITCH_TARGET, move):
        raise MoveRefused(f"The move of customer {customer} was undone.")
    await copy_accounts(source, target, customer)
    await share_in_target(source, target, customer)
    await target.execute(UNPAUSE, customer)
    await _reseal(source, target, customer)
    await advance_sequences(source, target, has_ranges=False)
    await target.execute(NOTE_ACCESS)


async def switch_source(source: Side, target: Cell, move: UUID, customer: int) -> None:
    """Make the customer unknown in the source, in one transaction."""
    async with source.transaction(has_triggers=False):
        await source.execute(ALONE, customer)
        await source.end_other_moves(move, customer)
        await source.begin_move(move, customer, "source", target.name)
        await delete_moved(source, move, customer)
        await share_in_source(source, target.number, customer)
        await source.execute(NOTE_ACCESS)
        await source.execute(SWITCH_SOURCE, move)
    await wake(source)


async def advance_sequences(source: Side, target: Side, *, has_ranges: bool) -> None:
    """Let the sequences of the target continue after the source.

    `has_ranges`: also those whose values have a range for each cell.

    The sequence of changes too: a change of the target must come after those that were moved.
    """
    rows = await source.fetch(SEQUENCES, [] if has_ranges else list(WITH_RANGE))
    await target.fetch(ADVANCE, [row["name"] for row in rows], [row["last"] for row in rows])


async def wake(side: Side) -> None:
    """Wake the processes of a cell, which cache access and work."""
    for notice in (worker_wakeup.ACCESS, worker_wakeup.WORK, worker_wakeup.DELIVER):
        await side.execute(notice)


async def _reseal(source: Side, target: Side, customer: int) -> None:
    """Encrypt the customer's secrets with the data key of the target. Each database has data keys of its own."""
    old_keys = unwrapped(await source.fetch(DATA_KEYS), source.cell.settings)
    await target.execute(SEALING, LOCK)
    new_keys = unwrapped(await target.fetch(DATA_KEYS), target.cell.settings)
    newest = max(new_keys)
    for holding in HOLDINGS:
        if holding.select_of_customer is None:
            continue
        if not (rows := await target.fetch(holding.select_of_customer, customer)):
            continue
        values = resealed(holding, rows, old_keys, newest, new_keys[newest])
        await target.execute(holding.update, [row["customer_id"] for row in rows], [row["id"] for row in rows], values)
