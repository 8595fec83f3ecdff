"""In charge of a box as its firmware sees it: a reset, a start, a message on a link, and a link that has gone.

A state that was given stays as it is. Ticks are seconds of a counter that goes on while there is power.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from keyrack.offline_keys.box import (
    carried_messages,
    clock,
    links,
    lock_operation,
    log,
    provisioning,
    verification_budget,
)
from keyrack.offline_keys.box.crypto import Crypto
from keyrack.offline_keys.box.lock_operation import LockAction
from keyrack.offline_keys.box.log import Event
from keyrack.offline_keys.box.state import BoxMemory, LinkState, PersistentState, TokenBucket, VolatileState
from keyrack.offline_keys.cose import MessageRefused
from keyrack.offline_keys.link_messages import (
    AcceptedMessage,
    CarryMessage,
    Enrol,
    Fetch,
    Hello,
    Open,
    Provision,
    Result,
    Said,
    read,
    write,
)
from keyrack.offline_keys.public_key import PublicKey
from keyrack.offline_keys.refusal_codes import BoxRefusalCode


@dataclass(frozen=True, slots=True)
class MessageResult:
    """What a message has led to. What is kept is written down before the lock moves and the reply goes."""

    state: BoxMemory
    reply: bytes
    effect: LockAction
    code: BoxRefusalCode  # the exact one, which the wire says only to who has a good key
    persist: bool  # whether what is kept has changed


def reset(key: PublicKey, secret: bytes, tick: int) -> BoxMemory:
    """A box without an authority, with a key pair and a secret of 32 bytes that were made just now."""
    kept = PersistentState(key, secret, boot=1)
    return BoxMemory(kept, _running(kept, 0, tick))


def start(kept: PersistentState, tick: int, elapsed: int | None, crypto: Crypto) -> BoxMemory:
    """The box, after a loss of power. What is kept has to be written down at once.

    `elapsed` is how many seconds ago the floor was written down, by a clock that went on; None where it stood.
    """
    kept = replace(kept, boot=kept.boot + 1, is_certain=kept.is_certain and elapsed is not None)
    state = BoxMemory(kept, _running(kept, kept.floor + (elapsed or 0), tick))
    if kept.authority is not None:
        log.append_if_room(state, crypto, tick, Event.STARTED)
    return state


def connect(state: BoxMemory, tick: int) -> tuple[BoxMemory, int]:
    """A link has begun: which one of 0 to 2 it is from now on. If none is free, another one ends."""
    after = state.copy()
    return after, links.connect(after, tick, TokenBucket(verification_budget.LINK, tick))


def receive(state: BoxMemory, link: int, message: bytes, tick: int, random: bytes, crypto: Crypto) -> MessageResult:
    """A whole message has come on a link that `connect` has given. `random` is 16 bytes, for a nonce."""
    after = state.copy()
    effect, code = LockAction.NONE, BoxRefusalCode.GOOD
    reply: Said = Result(BoxRefusalCode.REFUSED)
    try:
        said = read(message, Hello, CarryMessage, Open, Fetch, Enrol, Provision)
        if isinstance(said, CarryMessage | Provision):
            reply = AcceptedMessage(1)
        reply, effect = _reply(after, link, said, tick, random, crypto)
    except MessageRefused as refused:
        code = refused.code
        if code is BoxRefusalCode.UNKNOWN:
            reply = Result(code)
    if isinstance(reply, Result):
        code = code or reply.code
        if code and not reply.entry:
            log.count(after, code)
    return MessageResult(after, write(reply), effect, code, after.kept != state.kept)


def disconnect(state: BoxMemory, link: int) -> BoxMemory:
    """The link has gone, and what was on it."""
    after = state.copy()
    links.put(after, link, LinkState())
    return after


def write_down(state: BoxMemory, tick: int) -> BoxMemory:
    """At least every 15 minutes, what is kept has to be written down as it is then."""
    after = state.copy()
    clock.write_down(after, tick)
    return after


def _running(kept: PersistentState, time: int, tick: int) -> VolatileState:
    return VolatileState(
        booted=time - tick,
        bucket=TokenBucket(verification_budget.COMMON, tick),
        phone_buckets={phone: verification_budget.full(tick) for phone, _ in kept.phones},
    )


def _reply(
    state: BoxMemory,
    link: int,
    said: Hello | CarryMessage | Open | Fetch | Enrol | Provision,
    tick: int,
    random: bytes,
    crypto: Crypto,
) -> tuple[Said, LockAction]:
    """What the box says and does. Raises `MessageRefused`."""
    match said:
        case Hello():
            return links.challenge(state, link, said, tick, random), LockAction.NONE
        case CarryMessage():
            carried_messages.take(state, link, said, tick, crypto)
            return AcceptedMessage(0), LockAction.NONE
        case Open():
            return lock_operation.operate(state, link, said, tick, crypto)
        case Fetch():
            if not links.is_proven(state, link, tick):
                raise MessageRefused(BoxRefusalCode.NOT_NOW)
            return log.fetch(state.kept.log, said.begin), LockAction.NONE
        case Enrol():
            return provisioning.enrol(state, link, said, tick, crypto), LockAction.NONE
        case Provision():
            provisioning.take(state, link, said, tick, crypto)
            return AcceptedMessage(0), LockAction.NONE
