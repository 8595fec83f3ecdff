"""In charge of loops that are to run as long as their process: one that ends is told as an alert, and begun anew.

It is begun anew, and the process goes on: what a loop works on is in the database, so nothing is lost with it, and a
fault in one of them takes neither the API nor the other loops from anybody. The pauses grow while it goes on ending.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import structlog

log = structlog.get_logger("keyrack.loops")

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0  # seconds until it is begun anew


async def supervise(name: str, loop: Callable[[], Awaitable[object]], ends: Callable[[], bool] = lambda: False) -> None:
    """Run `loop` until it is cancelled, or until it ends while `ends` says that it is meant to."""
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
        log.critical("A LOOP HAS ENDED: it is begun anew", alert=True, loop=name, error=error, exc_info=error)
        if ends():
            return
        pause = FIRST_PAUSE if time.monotonic() - begun > LONGEST_PAUSE else pause
        await asyncio.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE)
