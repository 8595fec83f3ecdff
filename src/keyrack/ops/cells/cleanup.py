"""The two ends of a move: undo it, or finish it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import LiteralString
from uuid import UUID

from keyrack.ops.cells import preflight
from keyrack.ops.cells.account_copies import delete_moved
from keyrack.ops.cells.changed_rows import end_recording
from keyrack.ops.cells.guards import remove_guards
from keyrack.ops.cells.hold import ALONE, release
from keyrack.ops.cells.kept_rows import DELETE_KEPT, bring_back, require_kept
from keyrack.ops.cells.move_states import KnownMove, Standing
from keyrack.ops.cells.plan import customer_tables
from keyrack.ops.cells.replication import Report, end_copying
from keyrack.ops.cells.side import MoveRefused, Role, Side
from keyrack.ops.cells.switch import NOTE_ACCESS, UNPAUSE, wake

ROWS = 20_000  # rows that one statement deletes
# All open moves of the customer, because a restore can make an older one open again
UNDO: LiteralString = """
update cell_move set state = 'undone', ended_at = clock_timestamp()
where moved_customer = $1 and state in ('copying', 'held', 'switched')
"""
FINISH: LiteralString = """
update cell_move set state = 'finished', ended_at = clock_timestamp() where move_id = $1 and state <> 'finished'
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
IS_UNDONE: LiteralString = """
select coalesce((select role = 'target' and state = 'undone' from cell_move where moved_customer = $1
  order by started_at desc limit 1), false) and not exists (select from customer where customer_id = $1)
"""
IS_HERE: LiteralString = "select exists (select from customer where customer_id = $1)"


OF_OLD_TARGET = (Standing.OLD_TARGET, Standing.OLD_COPY)  # the target has older rows of the customer
LOST_IN_TARGET = (Standing.LOST_IN_TARGET, Standing.OLD_TARGET)  # the source gets the customer back
UNDONE = (Standing.BEFORE_SWITCH, Standing.HALF_KNOWN, Standing.GONE, *OF_OLD_TARGET, *LOST_IN_TARGET)
FINISHED = (Standing.AFTER_SWITCH, Standing.OLD_TARGET, Standing.REMOVED, Standing.LOST)


async def undo(source: Side, target: Side, move: KnownMove, report: Report) -> datetime | None:
    """Undo a move; the source accepts writes at once. Raises `MoveRefused` if the target has newer rows.

    If a restored target has lost the customer or has older rows, the source gets the customer back, with the rows of
    the returned time. The target's state changes first and under the lock of the switch, so that the move cannot switch
    any more.
    """
    customer, switched_at = move.customer, None
    if move.standing not in UNDONE:
        raise MoveRefused(f"{move.problem} {move.remedy}")
    if move.standing in LOST_IN_TARGET:
        await require_kept(source, move.id, customer)
    if move.standing in OF_OLD_TARGET:
        await _remove_from_target(target, move.id, customer)
    await _end_target(target, move)
    if move.standing in LOST_IN_TARGET:
        switched_at = await bring_back(source, target, move.id, customer)
    else:
        await release(source, move.id, customer)
    if move.source_state == "held":
        report({"step": "released"})
    await _end_replication(source, target, move.id, customer)
    await remove_guards(source, customer)
    await _delete_rows(target, await customer_tables(target), customer, report)
    await remove_guards(target, customer)
    await source.execute(UNDO, customer)
    return switched_at


async def delete_undone_copy(target: Side, customer: int, report: Report) -> None:
    """Delete the rows of an undone move. They remain if the source was restored while the move was being undone."""
    if await target.fetchval(IS_UNDONE, customer):
        await _delete_rows(target, await customer_tables(target), customer, report)
        await remove_guards(target, customer)


async def _remove_from_target(target: Side, move: UUID, customer: int) -> None:
    """Remove the accounts and the older rows of a restored target. Raises `MoveRefused`."""
    await preflight.check_accounts(target, customer)
    async with target.transaction(has_triggers=False):
        await target.execute(ALONE, customer)
        await delete_moved(target, move, customer)
        await target.execute(DELETE_KEPT, move)
        await target.execute(NOTE_ACCESS)
    await _delete_persons_and_users(target, customer)
    await wake(target)


async def _end_target(target: Side, move: KnownMove) -> None:
    """End the open moves of the target, unless it has the customer. Raises `MoveRefused`.

    Also a target that does not know the move records its end, so that an interrupted undo is not taken for a new move.
    """
    async with target.transaction():
        await target.execute(ALONE, move.customer)
        if await target.fetchval(IS_HERE, move.customer):
            raise MoveRefused(f"Customer {move.customer} has been switched meanwhile. Run the command again.")
        await target.end_other_moves(move.id, move.customer)
        await target.begin_move(move.id, move.customer, "target", move.source)
        await target.execute(UNDO, move.customer)


async def finish(source: Side, target: Side, move: KnownMove, report: Report) -> None:
    """Delete the rows of a switched customer in the source. Raises `MoveRefused` if the source still needs them."""
    customer = move.customer
    if move.standing not in FINISHED:
        raise MoveRefused(f"{move.problem} {move.remedy}")
    await _end_replication(source, target, move.id, customer)
    emptied = (source, target) if move.standing is Standing.LOST else (source,)
    for side in emptied:
        await _delete_persons_and_users(side, customer)
        await _delete_rows(side, await customer_tables(side), customer, report)
    await remove_guards(source, customer)
    await remove_guards(target, customer)
    await source.execute(DELETE_KEPT, move.id)
    await _end_as_finished(target, move.id, customer, "target", source.cell.name)
    await _end_as_finished(source, move.id, customer, "source", target.cell.name)


async def _end_as_finished(side: Side, move: UUID, customer: int, role: Role, other: str) -> None:
    """End the move, and older moves that a restore has made open.

    A restored cell may not know the move.
    """
    async with side.transaction(has_triggers=False):
        await side.end_other_moves(move, customer)
        await side.begin_move(move, customer, role, other)
        await side.execute(FINISH, move)
        await side.execute(UNPAUSE, customer)


async def _end_replication(source: Side, target: Side, move: UUID, customer: int) -> None:
    """Remove the replication in both directions.

    A restore may have brought the replication of an older move.
    """
    await end_copying(source, target, customer)
    await end_copying(target, source, customer)
    await end_recording(source, target, move, customer)


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
