"""Records which rows of a customer change while both sides are compared.

Triggers of both sides write the key of each changed row into `cell_move_changed_row`, in the transaction of the change.
They run for replicated rows too. `take_changes` deletes the keys that it returns. A change whose key it returns is
visible to every later snapshot, and the key of any other change is still there. So a comparison of a later snapshot,
and then of the rows that the next `take_changes` returns, covers every row.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import LiteralString
from uuid import UUID

from keyrack.ops.cells.guards import change_triggers
from keyrack.ops.cells.side import Side

# The keys of changed rows, as JSON, by table
ChangedRows = Mapping[str, set[str]]

# $1: tables, $2: move, $3: customer
TRIGGERS: LiteralString = """
select format('create or replace trigger %1$I after insert or update on %3$s for each row'
  ' when (new.customer_id = %4$s) execute function record_changed_row(%5$L, %6$L, %7$s);'
  ' create or replace trigger %2$I after delete on %3$s for each row when (old.customer_id = %4$s)'
  ' execute function record_changed_row(%5$L, %6$L, %7$s);'
  ' alter table %3$s enable always trigger %1$I, enable always trigger %2$I',
  'record_move_' || $3::integer, 'record_move_of_delete_' || $3, name::regclass, $3, $2::uuid, name, columns)
from unnest($1::text[]) name cross join lateral (
  select string_agg(quote_literal(attname), ', ' order by attname) as columns
  from pg_index i join pg_attribute a on a.attrelid = i.indrelid and a.attnum = any(i.indkey)
  where i.indrelid = name::regclass and i.indisprimary) c
"""
REMOVALS: LiteralString = """
select string_agg(format('drop trigger if exists %I on %s', t.tgname, t.tgrelid::regclass), '; ') from pg_trigger t
where t.tgname in ('record_move_' || $1::integer, 'record_move_of_delete_' || $1) and t.tgparentid = 0
group by t.tgrelid
"""
TAKE: LiteralString = "delete from cell_move_changed_row where move_id = $1 returning table_name, key::text"
FORGET: LiteralString = "delete from cell_move_changed_row where move_id = $1"


async def record_changes(side: Side, move: UUID, customer: int, tables: list[str]) -> None:
    """Record the changed rows of these tables from now on."""
    for row in await side.fetch(TRIGGERS, tables, move, customer):
        await change_triggers(side, row[0])
    await side.execute(FORGET, move)  # of an interrupted move


async def take_changes(source: Side, target: Side, move: UUID) -> ChangedRows:
    """The rows that have changed on either side since the last call."""
    changes: dict[str, set[str]] = {}
    for side in (source, target):
        for table, key in await side.fetch(TAKE, move):
            changes.setdefault(table, set()).add(key)
    return changes


async def end_recording(source: Side, target: Side, move: UUID, customer: int) -> None:
    """Remove the triggers and the recorded keys of both sides."""
    for side in (source, target):
        for row in await side.fetch(REMOVALS, customer):
            await change_triggers(side, row[0])
        await side.execute(FORGET, move)
