"""Supervision of background tasks: one that exits is logged as an alert and restarted.

The process continues. A task works on what is in the database, so a restart loses nothing. A fault in one task stops
neither the API nor the other tasks. The pauses between restarts grow while the task keeps exiting.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import structlog

log = structlog.get_logger("keyrack.background_tasks")

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0  # seconds until the restart


async def supervise(name: str, loop: Callable[[], Awaitable[object]], ends: Callable[[], bool] = lambda: False) -> None:
    """Run `loop` until it is cancelled, or until it returns while `ends` allows it.

    `name` is the field `task` of the log event: plain words for operators.
    """
    pause = FIRST_PAUSE
    while True:
        begun = time.monotonic()
        error: Exception | None = None
        try:
            await loop()
        except Exception as raised:
            error = raised
        if error is None and ends():
            return
        log.critical("background task exited, restarting", alert=True, task=name, error=error, exc_info=error)
        if ends():
            return
        pause = FIRST_PAUSE if time.monotonic() - begun > LONGEST_PAUSE else pause
        await asyncio.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE)
