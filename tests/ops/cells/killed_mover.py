"""A mover in a process that ends at a statement."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import random
import signal
from collections.abc import Awaitable, Callable
from typing import Any

from keyrack.core.settings import Cell
from keyrack.ops.cells import customer_move
from keyrack.ops.cells.side import Side
from tests.ops.cells.conftest import RunningCell
from tests.ops.cells.moves import ignore

CONTEXT = multiprocessing.get_context("forkserver")
STEPS = {"move": customer_move.move_customer, "undo": customer_move.undo_move, "finish": customer_move.finish_move}


def run(step: str, source: RunningCell, target: RunningCell, customer: int, kill_at: int | None) -> tuple[bool, int]:
    """Run a step in a process that ends with the statement `kill_at`.

    Returns whether the step was completed, and the number of its statements.
    """
    CONTEXT.set_forkserver_preload(["keyrack.ops.cells.customer_move"])
    counter = CONTEXT.Value("i", 0)
    cells = ((source.cell, source.dsn), (target.cell, target.dsn))
    process = CONTEXT.Process(target=_run, args=(step, cells, customer, kill_at, counter))
    process.start()
    process.join()
    assert process.exitcode in (0, -signal.SIGKILL), process.exitcode
    return process.exitcode == 0, counter.value


def _run(
    step: str, cells: tuple[tuple[Cell, str], tuple[Cell, str]], customer: int, kill_at: int | None, counter: Any
) -> None:
    for name in ("fetch", "fetchval", "fetchrow", "execute"):
        setattr(Side, name, _counted(getattr(Side, name), kill_at, counter))

    async def work() -> None:
        async with customer_move.open_sides(*cells, customer) as (source, target):
            await STEPS[step](source, target, customer, ignore)

    asyncio.run(work())


def _counted(method: Callable[..., Awaitable[Any]], kill_at: int | None, counter: Any) -> Callable[..., Awaitable[Any]]:
    async def counted(self: Side, *args: Any) -> Any:
        counter.value += 1
        statement = asyncio.ensure_future(method(self, *args))
        if counter.value == kill_at:
            # Before, during or after its execution
            await asyncio.wait({statement}, timeout=random.choice((0, 0.001, 0.01)))
            os.kill(os.getpid(), signal.SIGKILL)
        return await statement

    return counted
