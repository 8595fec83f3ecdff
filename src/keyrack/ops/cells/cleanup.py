"""The two ends of a move: undo it, or finish it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import LiteralString
from uuid import UUID

from keyrack.ops.cells.changed_rows import end_recording
from keyrack.ops.cells.guards import remove_guards
from keyrack.ops.cells.hold import ALONE, release
from keyrack.ops.cells.plan import customer_tables
from keyrack.ops.cells.replication import Report, end_copying
from keyrack.ops.cells.side import MoveRefused, Side

ROWS = 20_000  # rows that one statement deletes
UNDO: LiteralString = """
update cell_move set state = 'undone', ended_at = clock_timestamp()
where move_id = $1 and state in ('copying', 'held') returning true
"""
FINISH: LiteralString = """
update cell_move set state = 'finished', ended_at = clock_timestamp() where move_id = $1 and state = 'switched'
"""
# For each table $1: delete $3 rows of customer $2
DELETIONS: LiteralString = """
select name, format('with gone as (delete from %1$s where (tableoid, ctid) in (select tableoid, ctid from %1$s'
  ' where customer_id = %2$s limit %3$s) returning true) select count(*) from gone', name::regclass, $2::integer,
  $3::integer) as deletion
from unnest($1::text[]) name
"""
WITHOUT_TRIGGERS: LiteralString = "set session_replication_role = replica"
WITH_TRIGGERS: LiteralString = "reset session_replication_role"
# Persons who were users of no other customer. Their rows in the target are not affected
ONLY_USERS: LiteralString = """
select array_agg(user_id) from customer_user u where customer_id = $1
and not exists (select from customer_user o where o.user_id = u.user_id and o.customer_id <> u.customer_id)
"""
# Without triggers, no foreign key deletes the second table's rows
DELETE_PERSONS: LiteralString = """
with gone as (
  delete from person p where p.user_id = any($1::integer[])
  and not exists (select from customer_user u where u.user_id = p.user_id)
  returning user_id)
delete from person_cell c using gone where c.user_id = gone.user_id
"""
IS_HERE: LiteralString = "select exists (select from customer where customer_id = $1)"


async def undo(source: Side, target: Side, move: UUID, customer: int, report: Report) -> None:
    """Undo a move before its switch; the source accepts writes at once. Raises `MoveRefused` after the switch.

    The target's state changes first and under the lock of the switch, so that the move cannot switch any more.
    """
    async with target.transaction():
        await target.execute(ALONE, customer)
        if await target.state(move) == "switched":
            raise MoveRefused(
                f"Customer {customer} has been switched already. Run `keyrack cells move-customer` again to complete "
                "the move, and move the customer back if necessary."
            )
        await target.execute(UNDO, move)
    await release(source, move, customer)
    report({"step": "released"})
    await end_copying(source, target, customer)
    await end_recording(source, target, move, customer)
    await remove_guards(source, customer)
    await _delete_rows(target, await customer_tables(target), customer, report)
    await remove_guards(target, customer)
    await source.execute(UNDO, move)


async def finish(source: Side, target: Side, move: UUID, customer: int, report: Report) -> None:
    """Delete the rows of a switched customer in the source. Raises `MoveRefused` if the target lacks the customer."""
    if not await target.fetchval(IS_HERE, customer):
        raise MoveRefused(
            f"Cell {target.cell.name} does not have customer {customer}, so nothing is deleted in cell "
            f"{source.cell.name}. Restore cell {target.cell.name} first."
        )
    await end_copying(source, target, customer)
    await end_recording(source, target, move, customer)
    await _delete_persons_and_users(source, customer)
    await _delete_rows(source, await customer_tables(source), customer, report)
    await remove_guards(source, customer)
    await remove_guards(target, customer)
    for side in (target, source):
        await side.execute(FINISH, move)


async def _delete_persons_and_users(source: Side, customer: int) -> None:
    """Delete users with their persons.

    It is one transaction, because housekeeping erases persons without a customer.
    """
    async with source.transaction(has_triggers=False):
        persons: Sequence[int] | None = await source.fetchval(ONLY_USERS, customer)
        await source.execute("delete from customer_user where customer_id = $1", customer)
        await source.execute(DELETE_PERSONS, persons or [])


async def _delete_rows(side: Side, tables: Sequence[str], customer: int, report: Report) -> None:
    """Delete the rows of the customer in batches, without triggers."""
    await side.execute(WITHOUT_TRIGGERS)
    for row in await side.fetch(DELETIONS, tables, customer, ROWS):
        total = batch = await side.fetchval(row["deletion"])
        while batch == ROWS:
            batch = await side.fetchval(row["deletion"])
            total += batch
        if total:
            report({"step": "deleted", "table": row["name"], "rows": total})
    await side.execute(WITH_TRIGGERS)
