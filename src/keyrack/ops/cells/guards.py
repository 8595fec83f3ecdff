"""Guards: triggers that keep a customer's rows from being written while a move does not allow it.

In the target, the rows are closed from the beginning until the switch. In the source, they are closed from the moment
when the customer is held. `guard_cell_move` in the database decides; each side has its own state.
"""

from __future__ import annotations

from typing import LiteralString
from uuid import UUID

import asyncpg

from keyrack.ops.cells.plan import GUARDED_ACCOUNTS, customer_tables
from keyrack.ops.cells.side import Side

_PATIENCE: LiteralString = "set local lock_timeout = '1s'"
_ATTEMPTS = 30  # a table that a long transaction has locked is tried again

# $1: table, $2: move, $3: customer
OF_TABLE: LiteralString = """
select format('create or replace trigger %I before insert or update on %s for each row when (new.customer_id = %s)'
  ' execute function guard_cell_move(%L, %L)', 'guard_move_' || $3::integer, $1::text::regclass, $3, $2::uuid, $3)
union all
select format('create or replace trigger %I before delete on %s for each row when (old.customer_id = %s)'
  ' execute function guard_cell_move(%L, %L)', 'guard_move_of_delete_' || $3, $1::text::regclass, $3, $2, $3)
"""
# $4: the column of the account
OF_ACCOUNTS: LiteralString = """
select format('create or replace trigger %I before insert or update or delete on %s for each row'
  ' execute function guard_cell_move(%L, %L, %L)', 'guard_move_' || $3::integer, $1::text::regclass, $2::uuid, $3, $4::text)
"""
# The guards of customer $1 that exist: of its own tables, and of accounts
EXISTING: LiteralString = """
select format('drop trigger if exists %I on %s', t.tgname, t.tgrelid::regclass) as removal,
  exists (select from pg_attribute a where a.attrelid = t.tgrelid and a.attname = 'customer_id'
    and a.attnum = any(array(select unnest(i.indkey) from pg_index i where i.indrelid = t.tgrelid and i.indisprimary))
  ) as is_of_customer
from pg_trigger t
where t.tgname in ('guard_move_' || $1::integer, 'guard_move_of_delete_' || $1) and t.tgparentid = 0
"""


async def guard_customer(side: Side, move: UUID, customer: int) -> None:
    """Guard the tables with the customer in their key."""
    for table in await customer_tables(side):
        await _change(side, [row[0] for row in await side.fetch(OF_TABLE, table, move, customer)])


async def guard_accounts(side: Side, move: UUID, customer: int) -> None:
    """Guard the managers, machine clients, persons and drivers of the customer."""
    for table, column in GUARDED_ACCOUNTS.items():
        await _change(side, [row[0] for row in await side.fetch(OF_ACCOUNTS, table, move, customer, column)])


async def remove_guards(side: Side, customer: int, *, only_of_accounts: bool = False) -> None:
    """Remove the guards of the customer, or only those of accounts."""
    for row in await side.fetch(EXISTING, customer):
        if not (only_of_accounts and row["is_of_customer"]):
            await _change(side, [row["removal"]])


async def _change(side: Side, statements: list[str]) -> None:
    """Change the triggers of one table. Raises asyncpg's error if the table stays locked.

    Writers of the table wait while this waits, so that it gives up soon and begins again.
    """
    for attempt in range(_ATTEMPTS):
        try:
            async with side.transaction():
                await side.execute(_PATIENCE)
                for statement in statements:
                    await side.execute(statement)
            return
        except (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError):
            if attempt == _ATTEMPTS - 1:
                raise
