"""In charge of a box's clock: what it says, and what may move it."""

from __future__ import annotations

from keyrack.offline_keys.box.state import BoxMemory
from keyrack.offline_keys.cbor import GREATEST

AHEAD = 604_800  # seconds that something signed may be ahead of it


def now(state: BoxMemory, tick: int) -> int:
    """Seconds since 1970, as far as the box knows. It stops at the last time that can be said."""
    return min(state.running.booted + tick, GREATEST)


def is_ahead(state: BoxMemory, tick: int, iat: int) -> bool:
    """Whether this is further ahead than anything signed may move the clock."""
    return iat > now(state, tick) + AHEAD


def move_forward(state: BoxMemory, tick: int, iat: int) -> None:
    """It is at least this late, somebody with a key has signed."""
    if iat > now(state, tick) and not is_ahead(state, tick, iat):
        state.running.booted = iat - tick
        write_down(state, tick)


def put(state: BoxMemory, tick: int, time: int) -> None:
    """It is this late: that was signed in answer to a nonce."""
    state.running.booted = time - tick
    state.kept.is_certain = True
    write_down(state, tick)


def write_down(state: BoxMemory, tick: int) -> None:
    """The floor, at which the clock begins after a loss of power."""
    state.kept.floor = now(state, tick)
