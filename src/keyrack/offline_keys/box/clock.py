"""The clock of a box, and the limits on moving it."""

from __future__ import annotations

from keyrack.offline_keys.box.state import BoxMemory
from keyrack.offline_keys.cbor import GREATEST

AHEAD = 604_800  # seconds by which artefacts may move the clock, in total
CORRECTION = 60  # seconds; a smaller change of a certain clock is neither stored nor logged


def now(state: BoxMemory, tick: int) -> int:
    """Seconds since 1970 by the box's clock, up to `GREATEST`."""
    return min(state.running.booted + tick, GREATEST)


def is_ahead(state: BoxMemory, tick: int, iat: int) -> bool:
    """Whether a time exceeds the limit for moving the clock."""
    return iat > now(state, tick) - state.kept.ahead + AHEAD


def move_forward(state: BoxMemory, tick: int, iat: int) -> None:
    """Move the clock forward to an artefact's time, within the limit."""
    by = iat - now(state, tick)
    if by > 0 and not is_ahead(state, tick, iat):
        state.running.booted = iat - tick
        state.kept.ahead += by
        write_down(state, tick)


def put(state: BoxMemory, tick: int, time: int) -> bool:
    """Set the clock to a time that answers the box's nonce.

    Returns whether this is a correction that must be logged.
    """
    is_correction = not state.kept.is_certain or abs(time - now(state, tick)) >= CORRECTION
    state.running.booted = time - tick
    state.kept.is_certain = True
    state.kept.ahead = 0
    if is_correction:
        write_down(state, tick)
    return is_correction


def write_down(state: BoxMemory, tick: int) -> None:
    """Set the floor, at which the clock starts after a power loss."""
    state.kept.floor = now(state, tick)
