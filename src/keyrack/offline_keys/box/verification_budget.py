"""In charge of the bucket: how many signatures a box verifies for whoever asks."""

from __future__ import annotations

from keyrack.offline_keys.box.state import BoxMemory
from keyrack.offline_keys.cose import MessageRefused
from keyrack.offline_keys.refusal_codes import BoxRefusalCode

MOST = 16  # tokens; one a second comes


def take(state: BoxMemory, tick: int) -> None:
    """One token. Raises `MessageRefused` where there is none."""
    running = state.running
    running.tokens = min(MOST, running.tokens + tick - running.refilled)
    running.refilled = tick
    if not running.tokens:
        raise MessageRefused(BoxRefusalCode.BUSY)
    running.tokens -= 1
