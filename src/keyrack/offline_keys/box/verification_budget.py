"""In charge of the bucket: how many signatures a box verifies for whoever asks."""

from __future__ import annotations

from keyrack.offline_keys.box.state import State
from keyrack.offline_keys.cose import Refused
from keyrack.offline_keys.refusal_codes import Code

MOST = 16  # tokens; one a second comes


def take(state: State, tick: int) -> None:
    """One token. Raises `Refused` where there is none."""
    running = state.running
    running.tokens = min(MOST, running.tokens + tick - running.refilled)
    running.refilled = tick
    if not running.tokens:
        raise Refused(Code.BUSY)
    running.tokens -= 1
