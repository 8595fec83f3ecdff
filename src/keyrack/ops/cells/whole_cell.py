"""Moves the database of a cell to another PostgreSQL.

1. The new database gets the schema and a subscription to all tables of the source. Nothing is held.
2. The switch makes the source read-only, waits for the new database, compares all rows, and advances the sequences.
3. The operator gives all processes the new address. Until then, writes get 503 with `Retry-After`.

The source stays read-only, so that no process with the old address can write.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import LiteralString
from uuid import uuid4

from keyrack.core.cell_ids import id_range
from keyrack.db import schema_version
from keyrack.db.cell_identity import BOUND_IDS, HAS_ROWS, read_identity
from keyrack.ops.cells import preflight
from keyrack.ops.cells.comparison import Comparison, TableSum
from keyrack.ops.cells.months import make_months
from keyrack.ops.cells.replication import (
    Report,
    begin_copying,
    end_copying,
    is_subscribed,
    wait_for_copies,
    wait_for_position,
)
from keyrack.ops.cells.side import EVERY_CUSTOMER, MoveRefused, OpenMove, Side
from keyrack.ops.cells.switch import advance_sequences

# Tables of the server itself: its schema, its processes, and the moves of its customers. The new server does not know
# the old one, because then it would begin new epochs of the change logs
OF_SERVER = (
    "alembic_version", "compatibility", "heartbeat", "write_check", "change_server", "cell_move", "cell_move_kept_row",
)  # fmt: skip
TABLES: LiteralString = """
select c.relname as name from pg_class c
where c.relkind in ('r', 'p') and not c.relispartition and c.relpersistence = 'p'
  and c.relnamespace = current_schema()::regnamespace and c.relname <> all($1::text[])
order by c.relname
"""
EMPTY: LiteralString = """
select 'truncate ' || string_agg(name::regclass::text, ', ') from unnest($1::text[]) name
"""
OPEN_MOVES: LiteralString = """
select moved_customer from cell_move where state in ('copying', 'held', 'switched') and moved_customer <> 0 order by 1
"""
DATABASE: LiteralString = "select quote_ident(current_database())"
# The others learn of the setting when they connect again
END_SESSIONS: LiteralString = """
select pg_terminate_backend(pid) from pg_stat_activity
where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'
"""
SESSIONS: LiteralString = """
select count(*) from pg_stat_activity a
where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'
  and backend_start < (select held_at from cell_move where move_id = $1)
"""
SET_STATE: LiteralString = """
update cell_move set state = $2, held_at = case $2 when 'held' then clock_timestamp() else held_at end,
  switched_at = case $2 when 'switched' then clock_timestamp() end,
  ended_at = case when $2 in ('finished', 'undone') then clock_timestamp() end
where move_id = $1
"""


@dataclass(frozen=True, slots=True)
class MovedCell:
    """The result of a move; `is_switched`: the new database has taken over."""

    tables: int
    rows: int
    is_switched: bool


async def move_cell(source: Side, target: Side, report: Report, *, is_switch: bool) -> MovedCell:
    """Copy the database; with `is_switch`, let the copy take over.

    It continues a move that was interrupted. Raises `MoveRefused`.
    """
    move = await source.open_move(EVERY_CUSTOMER)
    if move is None:
        move = await _begin(source, target)
    tables = await copied_tables(source)
    if move.state == "switched":
        return MovedCell(len(tables), 0, is_switched=True)
    if not await is_subscribed(target, EVERY_CUSTOMER):
        await _prepare(source, target, tables)
    await begin_copying(source, target, EVERY_CUSTOMER, tables)
    report({"step": "copying"})
    await wait_for_copies(source, target, EVERY_CUSTOMER, report)
    if not is_switch:
        return MovedCell(len(tables), 0, is_switched=False)
    sums = await _switch(source, target, move, tables, report)
    return MovedCell(len(sums), sum(table.rows for table in sums), is_switched=True)


async def undo_cell(source: Side, target: Side) -> None:
    """Let the source accept writes again, and empty the new database. Raises `MoveRefused` after the switch."""
    move = await _open(source)
    if move.state == "switched":
        raise MoveRefused(
            f"The new database has taken over from cell {source.cell.name}, so it may have newer rows. Move the cell "
            "back with another move instead."
        )
    await _set_read_only(source, is_read_only=False)
    await end_copying(source, target, EVERY_CUSTOMER)
    await _empty(target, await copied_tables(source))
    await source.execute(SET_STATE, move.id, "undone")


async def finish_cell(source: Side) -> None:
    """End a switched move. The old database stays read-only. Raises `MoveRefused` before the switch."""
    move = await _open(source)
    if move.state != "switched":
        raise MoveRefused(f"The new database has not taken over from cell {source.cell.name}. Use --switch first.")
    await source.execute(SET_STATE, move.id, "finished")


async def copied_tables(side: Side) -> list[str]:
    """The tables of a cell that are copied, by name."""
    return [row["name"] for row in await side.fetch(TABLES, list(OF_SERVER))]


async def _open(source: Side) -> OpenMove:
    if (move := await source.open_move(EVERY_CUSTOMER)) is None:
        raise MoveRefused(f"No move of cell {source.cell.name} is open.")
    return move


async def _begin(source: Side, target: Side) -> OpenMove:
    """Check both databases, and record the move in the source."""
    if customers := [row["moved_customer"] for row in await source.fetch(OPEN_MOVES)]:
        names = ", ".join(map(str, customers))
        raise MoveRefused(f"Moves of the customers {names} are open in cell {source.cell.name}. Finish or undo them.")
    await preflight.check_roles(source, target)
    await preflight.check_wal(source)
    await schema_version.migrate(target.address)
    if await target.fetchval(HAS_ROWS) or await target.fetchval(preflight.HAS_DATA_KEYS):
        raise MoveRefused("The new database has rows already. Use an empty one.")
    await preflight.check_revisions(source, target)
    await source.begin_move(uuid4(), EVERY_CUSTOMER, "source", source.cell.name)
    return await _open(source)


async def _prepare(source: Side, target: Side, tables: list[str]) -> None:
    """Remove the rows that migrations have made, and make partitions."""
    await _empty(target, tables)
    await make_months(source, target)


async def _empty(target: Side, tables: list[str]) -> None:
    async with target.transaction(has_triggers=False):
        await target.execute(await target.fetchval(EMPTY, tables))


async def _switch(source: Side, target: Side, move: OpenMove, tables: list[str], report: Report) -> list[TableSum]:
    comparison = await Comparison.of(source, tables, None)
    await _set_read_only(source, is_read_only=True)
    await source.execute(SET_STATE, move.id, "held")
    while await source.fetchval(SESSIONS, move.id):
        await source.execute(END_SESSIONS)
    report({"step": "held"})
    await wait_for_position(source, EVERY_CUSTOMER)
    try:
        sums = await comparison.compare_all(source, target, lambda table: None)
    except MoveRefused:
        await _set_read_only(source, is_read_only=False)
        raise
    number = (await read_identity(source)).number
    if number:
        ids = id_range(number)
        await target.execute(BOUND_IDS, ids.start, ids.stop - 1)
    await advance_sequences(source, target, has_ranges=True)
    await end_copying(source, target, EVERY_CUSTOMER)
    await source.execute(SET_STATE, move.id, "switched")
    return sums


async def _set_read_only(source: Side, *, is_read_only: bool) -> None:
    """Let new sessions of the database be read-only or not. The move's own session writes in any case."""
    name = await source.fetchval(DATABASE)
    action = "set default_transaction_read_only = on" if is_read_only else "reset default_transaction_read_only"
    await source.execute("alter database " + name + " " + action)
