"""Guards: triggers that reject writes of a customer during its move.

In the target, the rows are closed from the beginning until the switch. In the source, they are closed from the moment
when the customer is held. `guard_cell_move` in the database decides; each side has its own state.
"""

from __future__ import annotations

from typing import LiteralString
from uuid import UUID

import asyncpg

from keyrack.ops.cells.plan import GUARDED_ACCOUNTS, customer_tables
from keyrack.ops.cells.side import Side

_PATIENCE: LiteralString = "set local lock_timeout = '1s'; "
_ATTEMPTS = 30  # a table that a long transaction has locked is tried again

# $1: tables, $2: move, $3: customer
OF_TABLES: LiteralString = """
select format('create or replace trigger %1$I before insert or update on %3$s for each row'
  ' when (new.customer_id = %4$s) execute function guard_cell_move(%5$L, %4$L);'
  ' create or replace trigger %2$I before delete on %3$s for each row when (old.customer_id = %4$s)'
  ' execute function guard_cell_move(%5$L, %4$L)', 'guard_move_' || $3::integer, 'guard_move_of_delete_' || $3,
  name::regclass, $3, $2::uuid)
from unnest($1::text[]) name
"""
# $4: the column of the account in each table
OF_ACCOUNTS: LiteralString = """
select format('create or replace trigger %I before insert or update or delete on %s for each row'
  ' execute function guard_cell_move(%L, %L, %L)', 'guard_move_' || $3::integer, name::regclass, $2::uuid, $3, account)
from unnest($1::text[], $4::text[]) g (name, account)
"""
# The guards of customer $1 that exist, by table: of its own tables, and of accounts
EXISTING: LiteralString = """
select string_agg(format('drop trigger if exists %I on %s', t.tgname, t.tgrelid::regclass), '; ') as removal,
  t.tgnargs = 2 as is_of_customer
from pg_trigger t
where t.tgname in ('guard_move_' || $1::integer, 'guard_move_of_delete_' || $1) and t.tgparentid = 0
group by t.tgrelid, t.tgnargs
"""


async def guard_customer(side: Side, move: UUID, customer: int) -> None:
    """Guard the tables with the customer in their key."""
    for row in await side.fetch(OF_TABLES, await customer_tables(side), move, customer):
        await change_triggers(side, row[0])


async def guard_accounts(side: Side, move: UUID, customer: int) -> None:
    """Guard the managers, machine clients, persons and drivers of the customer."""
    tables, columns = list(GUARDED_ACCOUNTS), list(GUARDED_ACCOUNTS.values())
    for row in await side.fetch(OF_ACCOUNTS, tables, move, customer, columns):
        await change_triggers(side, row[0])


async def remove_guards(side: Side, customer: int, *, only_of_accounts: bool = False) -> None:
    """Remove the guards of the customer, or only those of accounts."""
    for row in await side.fetch(EXISTING, customer):
        if not (only_of_accounts and row["is_of_customer"]):
            await change_triggers(side, row["removal"])


async def change_triggers(side: Side, statements: str) -> None:
    """Change the triggers of one table, in one transaction. Raises asyncpg's error if the table stays locked.

    Writers of the table wait while this waits, so that it gives up soon and begins again.
    """
    for attempt in range(_ATTEMPTS):
        try:
            await side.execute(_PATIENCE + statements)
            return
        except (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError):
            if attempt == _ATTEMPTS - 1:
                raise
