"""Moves one customer to another cell while it works.

1. Check both cells, and record the move in both.
2. Copy every row, and follow the changes.
3. Compare both sides, and let the target accept writes: see `compared_switch`.
4. Let the source forget the customer.

Each step looks first at what is done already. So a move that was killed continues when it is started again.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import LiteralString
from uuid import UUID, uuid4

import asyncpg

from keyrack.core.settings import Cell
from keyrack.ops.cells import cleanup, preflight
from keyrack.ops.cells.changed_rows import end_recording
from keyrack.ops.cells.compared_switch import ComparedSwitch
from keyrack.ops.cells.comparison import TableSum
from keyrack.ops.cells.guards import guard_accounts, guard_customer, remove_guards
from keyrack.ops.cells.months import make_months
from keyrack.ops.cells.plan import replicated_tables
from keyrack.ops.cells.replication import Report, begin_copying, end_copying, wait_for_copies
from keyrack.ops.cells.side import MoveRefused, OpenMove, Side, open_side
from keyrack.ops.cells.switch import switch_source

# One session moves a customer. An interrupted one may still be running in the server
ALONE: LiteralString = "select pg_advisory_lock(7260928, $1)"
PATIENCE: LiteralString = "set lock_timeout = '30s'"
NO_PATIENCE: LiteralString = "set lock_timeout = 0"


@dataclass(frozen=True, slots=True)
class MovedCustomer:
    """The result of a move."""

    customer: int
    source: str
    target: str
    held_seconds: float  # the longest time during which writes got 503
    holds: list[float]  # the seconds of each such time
    tables: int
    rows: int  # that were compared


async def move_customer(source: Side, target: Side, customer: int, report: Report) -> MovedCustomer:
    """Move the customer, or continue a move that was interrupted.

    Raises `MoveRefused`, and `MasterKeyError` if a secret does not open. Then the customer works in the source, unless
    the message says otherwise.
    """
    move = await _begin(source, target, customer)
    holds: list[float] = []
    sums: list[TableSum] = []
    state = await target.state(move)
    if state == "undone":
        raise MoveRefused(
            f"The move of customer {customer} is being undone. Complete it: `keyrack cells undo {customer}`."
        )
    if state == "copying":
        await guard_customer(target, move, customer)
        await guard_customer(source, move, customer)
        await guard_accounts(source, move, customer)
        await make_months(source, target)
        tables = await replicated_tables(source)
        await begin_copying(source, target, customer, tables)
        report({"step": "copying"})
        await wait_for_copies(source, target, customer, report)
        switch = ComparedSwitch(source, target, move, customer, report)
        await switch.run(tables)
        holds, sums = switch.holds, switch.sums
    held_seconds = max(holds, default=0.0)
    report({"step": "switched", "heldSeconds": round(held_seconds, 3)})
    await switch_source(source, target.cell, move, customer)
    await end_copying(source, target, customer)
    await end_recording(source, target, move, customer)
    await remove_guards(source, customer, only_of_accounts=True)
    await remove_guards(target, customer)
    rows = sum(table.rows for table in sums)
    return MovedCustomer(customer, source.cell.name, target.cell.name, held_seconds, holds, len(sums), rows)


async def _begin(source: Side, target: Side, customer: int) -> UUID:
    """The open move, or a new one after all checks."""
    known, there = await source.open_move(customer), await target.open_move(customer)
    if known is None and there is None:
        await preflight.check_servers(source, target)
        await preflight.check_customer(source, target, customer)
    elif not _is_same(known, there, source, target):
        raise MoveRefused(
            f"Another move of customer {customer} is open. Continue it with the same target, or end it with `keyrack "
            "cells finish` or `keyrack cells undo`."
        )
    move = known.id if known else uuid4()
    await source.begin_move(move, customer, "source", target.cell.name)
    await target.begin_move(move, customer, "target", source.cell.name)
    return move


def _is_same(known: OpenMove | None, there: OpenMove | None, source: Side, target: Side) -> bool:
    """Whether an open move is this one. A move that the target does not know yet was interrupted at its beginning."""
    if known is None or (known.role, known.other_cell) != ("source", target.cell.name):
        return False
    return there is None or there.id == known.id


async def is_source(side: Side, customer: int) -> bool:
    """Whether the customer moves, or can move, from this cell."""
    known = await side.open_move(customer)
    return known.role == "source" if known else await side.fetchval(cleanup.IS_HERE, customer)


async def undo_move(source: Side, target: Side, customer: int, report: Report) -> None:
    """Undo the customer's move before its switch. Raises `MoveRefused` if there is none, or after the switch."""
    await cleanup.undo(source, target, await _open(source, target, customer), customer, report)


async def finish_move(source: Side, target: Side, customer: int, report: Report) -> None:
    """Delete the rows of the moved customer in the source. Raises `MoveRefused` before the switch is complete."""
    move = await _open(source, target, customer)
    if await source.state(move) != "switched":
        raise MoveRefused(f"Customer {customer} has not been switched. Complete or undo its move first.")
    await cleanup.finish(source, target, move, customer, report)


async def _open(source: Side, target: Side, customer: int) -> UUID:
    known = await source.open_move(customer)
    if known is None or known.role != "source" or known.other_cell != target.cell.name:
        raise MoveRefused(f"No move of customer {customer} from cell {source.cell.name} to {target.cell.name} is open.")
    return known.id


@asynccontextmanager
async def open_sides(
    source: tuple[Cell, str], target: tuple[Cell, str], customer: int
) -> AsyncGenerator[tuple[Side, Side]]:
    """Both cells, locked for the moves of this customer.

    Raises `MoveRefused` if another process moves it.
    """
    async with open_side(*source, customer) as from_side, open_side(*target, customer) as to_side:
        for side in (from_side, to_side):
            await side.execute(PATIENCE)
            try:
                await side.execute(ALONE, customer)
            except asyncpg.LockNotAvailableError:
                raise MoveRefused(f"Another process moves customer {customer}. Wait for its end.") from None
            await side.execute(NO_PATIENCE)
        yield from_side, to_side
