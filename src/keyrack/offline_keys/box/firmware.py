"""The box as its firmware uses it: reset, start, links and messages.

No function changes the state that it gets. Ticks are seconds of a counter that runs while there is power.
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
    """The result of a message.

    The firmware stores `state.kept` before it moves the lock and sends the reply.
    """

    state: BoxMemory
    reply: bytes
    effect: LockAction
    code: BoxRefusalCode  # the exact code; replies have it only after proof of a valid key
    persist: bool  # whether `state.kept` has changed


def reset(key: PublicKey, secret: bytes, tick: int) -> BoxMemory:
    """A box without an authority.

    The key pair and the secret of 32 bytes are newly generated.
    """
    kept = PersistentState(key, secret, boot=1)
    return BoxMemory(kept, _running(kept, 0, tick))


def start(kept: PersistentState, tick: int, elapsed: int | None, crypto: Crypto) -> BoxMemory:
    """The box after a power loss.

    The firmware stores `kept` of the result at once: nonces never repeat only if each start has a new boot number.
    `elapsed` is the number of seconds since the floor was stored, by a clock that kept running. It is None if none did.
    """
    kept = replace(kept, boot=kept.boot + 1, is_certain=kept.is_certain and elapsed is not None)
    state = BoxMemory(kept, _running(kept, kept.floor + (elapsed or 0), tick))
    if kept.authority is not None:
        log.append_if_room(state, crypto, tick, Event.STARTED)
    return state


def connect(state: BoxMemory, tick: int) -> tuple[BoxMemory, int]:
    """Begin a link, and return its number from 0 to 2.

    If no place is free, another link ends.
    """
    after = state.copy()
    return after, links.connect(after, tick, TokenBucket(verification_budget.LINK, tick))


def receive(state: BoxMemory, link: int, message: bytes, tick: int, random: bytes, crypto: Crypto) -> MessageResult:
    """Handle a complete message on a link from `connect`.

    `random` is 16 bytes, for a nonce.
    """
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
    """End a link, and drop its state."""
    after = state.copy()
    links.put(after, link, LinkState())
    return after


def write_down(state: BoxMemory, tick: int) -> BoxMemory:
    """Record the present time as the floor.

    The firmware calls this, and stores `kept`, at least every 15 minutes.
    """
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
    """The reply to a message, and the lock action. Raises `MessageRefused`."""
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
