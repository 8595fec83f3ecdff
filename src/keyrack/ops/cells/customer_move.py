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
from datetime import datetime
from typing import LiteralString
from uuid import uuid4

import asyncpg

from keyrack.core.settings import Cell
from keyrack.ops.cells import cleanup, preflight
from keyrack.ops.cells.changed_rows import end_recording
from keyrack.ops.cells.compared_switch import ComparedSwitch
from keyrack.ops.cells.guards import guard_accounts, guard_customer, remove_guards
from keyrack.ops.cells.months import make_months
from keyrack.ops.cells.move_states import SWITCHED, KnownMove, Standing, read_moves
from keyrack.ops.cells.plan import replicated_tables
from keyrack.ops.cells.replication import Report, begin_copying, end_copying, wait_for_copies
from keyrack.ops.cells.side import MoveRefused, Side, open_side
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
    await preflight.check_identities(source, target)
    await preflight.check_roles(source, target)
    known = await _known(source, target, customer)
    switch = await _copy_and_switch(source, target, known, customer, report)
    held_seconds = max(switch.holds, default=0.0)
    report({"step": "switched", "heldSeconds": round(held_seconds, 3)})
    if known is not None and known.target_state in SWITCHED and known.source_state not in ("held", "switched"):
        await guard_customer(source, switch.move, customer)  # the source was restored to a time before its guards
    await switch_source(source, target.cell, switch.move, customer)
    await end_copying(source, target, customer)
    await end_recording(source, target, switch.move, customer)
    await remove_guards(source, customer, only_of_accounts=True)
    await remove_guards(target, customer)
    rows = sum(table.rows for table in switch.sums)
    return MovedCustomer(
        customer, source.cell.name, target.cell.name, held_seconds, switch.holds, len(switch.sums), rows
    )


async def _copy_and_switch(
    source: Side, target: Side, known: KnownMove | None, customer: int, report: Report
) -> ComparedSwitch:
    """Let the target accept writes, unless an earlier command has done it. Raises like `move_customer`."""
    switch = ComparedSwitch(source, target, known.id if known else uuid4(), customer, report)
    if known is not None and known.standing in (Standing.IN_BOTH, Standing.AFTER_SWITCH):
        return switch
    if known is None:
        await preflight.check_servers(source, target)
        await cleanup.delete_undone_copy(target, customer, report)
        await preflight.check_customer(source, target, customer)
    for key in await preflight.changed_keys(source, target):
        report({"step": "revoked-key" if key["isRevoked"] else "valid-key", **key})
    move = switch.move
    await source.begin_move(move, customer, "source", target.cell.name)
    await target.begin_move(move, customer, "target", source.cell.name)
    await guard_customer(target, move, customer)
    await guard_customer(source, move, customer)
    await guard_accounts(source, move, customer)
    await make_months(source, target)
    tables = await replicated_tables(source)
    await begin_copying(source, target, customer, tables)
    report({"step": "copying"})
    await wait_for_copies(source, target, customer, report)
    await switch.run(tables)
    return switch


async def _known(source: Side, target: Side, customer: int) -> KnownMove | None:
    """The move to continue; None for a new one. Raises `MoveRefused` if neither is possible."""
    names = (source.cell.name, target.cell.name)
    move = await _move_between(source, target, customer)
    for side in (source, target):
        other = await side.open_move(customer)
        if other is not None and other.other_cell not in names:
            raise MoveRefused(
                f"Another move of customer {customer} between the cells {side.cell.name} and {other.other_cell} is "
                f"open. End it with `keyrack cells finish {customer}` or `keyrack cells undo {customer}`."
            )
    if move is None:
        if not await source.fetchval(cleanup.IS_HERE, customer):
            raise MoveRefused(f"There is no customer {customer} in cell {source.cell.name}.")
        return None
    can_continue = move.standing in (Standing.BEFORE_SWITCH, Standing.IN_BOTH) or (
        move.standing is Standing.AFTER_SWITCH and move.target_state in SWITCHED
    )
    if (move.source, move.target) == names and can_continue:
        return move
    raise MoveRefused(f"{move.problem} {move.remedy}")


async def _move_between(source: Side, target: Side, customer: int) -> KnownMove | None:
    return (await read_moves({side.cell.name: side for side in (source, target)}, customer)).get(customer)


async def undo_move(source: Side, target: Side, customer: int, report: Report) -> datetime | None:
    """Undo the customer's move. Raises `MoveRefused` if there is none, or if the target has the customer.

    Returns the time of the switch if the source has got the customer back.
    """
    return await cleanup.undo(source, target, await _open(source, target, customer), report)


async def finish_move(source: Side, target: Side, customer: int, report: Report) -> None:
    """Delete the rows of the moved customer in the source. Raises `MoveRefused` before the switch is complete."""
    await cleanup.finish(source, target, await _open(source, target, customer), report)


async def _open(source: Side, target: Side, customer: int) -> KnownMove:
    move = await _move_between(source, target, customer)
    if move is None or move.source != source.cell.name:
        raise MoveRefused(f"No move of customer {customer} from cell {source.cell.name} to {target.cell.name} is open.")
    await preflight.check_roles(source, target)
    return move


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
