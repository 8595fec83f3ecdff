"""In charge of a box's clock: what it says, and what may move it."""

from __future__ import annotations

from keyrack.offline_keys.box.state import BoxMemory
from keyrack.offline_keys.cbor import GREATEST

AHEAD = 604_800  # seconds by which artefacts may move it, in sum
CORRECTION = 60  # seconds; a time that moves a certain clock by less is not written down


def now(state: BoxMemory, tick: int) -> int:
    """Seconds since 1970, as far as the box knows. It stops at the last time that can be said."""
    return min(state.running.booted + tick, GREATEST)


def is_ahead(state: BoxMemory, tick: int, iat: int) -> bool:
    """Whether this is further ahead than an artefact may move the clock."""
    return iat > now(state, tick) - state.kept.ahead + AHEAD


def move_forward(state: BoxMemory, tick: int, iat: int) -> None:
    """It is at least this late, an artefact says."""
    by = iat - now(state, tick)
    if by > 0 and not is_ahead(state, tick, iat):
        state.running.booted = iat - tick
        state.kept.ahead += by
        write_down(state, tick)


def put(state: BoxMemory, tick: int, time: int) -> bool:
    """It is this late: that was signed in answer to a nonce. Whether this is a correction that has to be logged."""
    is_correction = not state.kept.is_certain or abs(time - now(state, tick)) >= CORRECTION
    state.running.booted = time - tick
    state.kept.is_certain = True
    state.kept.ahead = 0
    if is_correction:
        write_down(state, tick)
    return is_correction


def write_down(state: BoxMemory, tick: int) -> None:
    """The floor, at which the clock begins after a loss of power."""
    state.kept.floor = now(state, tick)
