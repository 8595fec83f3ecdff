"""Opening and closing: checks of a key and of its possession."""

from __future__ import annotations

import hashlib
from enum import IntEnum

from keyrack.offline_keys import cose
from keyrack.offline_keys.box import clock, decision, links, log, verification_budget
from keyrack.offline_keys.box.crypto import Crypto
from keyrack.offline_keys.box.log import Event, OpenRequest
from keyrack.offline_keys.box.state import Authority, BoxMemory
from keyrack.offline_keys.cose import MessageRefused, SignedMessage
from keyrack.offline_keys.link_messages import Open, Result
from keyrack.offline_keys.message_fields import ANSWER, KEY
from keyrack.offline_keys.refusal_codes import BoxRefusalCode

REMEMBERED_PHONES = 64
REMEMBERED_KEYS = 16


class LockAction(IntEnum):
    """The action of the lock: nothing, open or close."""

    NONE = 0
    OPEN = 1
    CLOSE = 2


def operate(state: BoxMemory, link: int, said: Open, tick: int, crypto: Crypto) -> tuple[Result, LockAction]:
    """The result of an `open`, and the lock action.

    Raises `MessageRefused` unless possession of a valid key is proven.
    """
    live = links.take(state, link, tick)
    key, answer = cose.read(said.key, KEY), cose.read(said.answer, ANSWER)
    phone = key.claims["cnf"]
    authority = state.authority
    named = hashlib.sha256(key.raw).digest()
    failed = decision.decide(state, live, key, answer, tick)
    caller = phone.thumbprint if decision.MUST_HOLD_FOR_BUCKET.isdisjoint(failed) else None
    verification_budget.take_for_open(state, link, tick, caller, is_remembered_key=named in state.running.good)
    code = failed[0] if failed else BoxRefusalCode.GOOD
    is_key_good = named in state.running.good or _is_signed(authority, crypto, key)
    is_answer_good = crypto.verify(phone, answer.to_be_signed, answer.signature)
    if not is_key_good:
        raise MessageRefused(code or BoxRefusalCode.KEY_SIGNATURE)  # `GOOD` is 0
    clock.move_forward(state, tick, key.claims["iat"])
    if not is_answer_good or not decision.is_answered(live, key, answer):
        raise MessageRefused(code or BoxRefusalCode.ANSWER_SIGNATURE)
    if decision.MAY_FAIL_IN_PROOF.issuperset(failed):
        links.prove(state, link, tick)
    effect, counter = LockAction(answer.claims["command"]), answer.claims["counter"]
    request = OpenRequest(key.claims["cti"], effect, counter, phone.thumbprint)
    if code is not BoxRefusalCode.GOOD:
        is_written = decision.FOREIGN.isdisjoint(failed) and log.has_room(state.kept.log)
        entry = log.append(state, crypto, tick, Event.REFUSED, request, code) if is_written else b""
        return Result(code, entry), LockAction.NONE
    _remember(state, phone.thumbprint, counter, named, tick)
    event = Event.OPENED if effect is LockAction.OPEN else Event.CLOSED
    return Result(code, log.append(state, crypto, tick, event, request)), effect


def _is_signed(authority: Authority, crypto: Crypto, key: SignedMessage) -> bool:
    """Whether an issuing key has signed the key.

    A signature is verified even if the issuing key is unknown, so that both cases take equally long.
    """
    issuing = authority.key(key.kid)
    is_signed = crypto.verify(issuing or authority.keys[0], key.to_be_signed, key.signature)
    return issuing is not None and is_signed


def _remember(state: BoxMemory, phone: bytes, counter: int, key: bytes, tick: int) -> None:
    kept, running = state.kept, state.running
    others = tuple(each for each in kept.phones if each[0] != phone)
    kept.phones = (*others, (phone, counter))[-REMEMBERED_PHONES:]
    full = verification_budget.full(tick)
    running.phone_buckets = {each: running.phone_buckets.get(each, full) for each, _ in kept.phones}
    running.good = (*(each for each in running.good if each != key), key)[-REMEMBERED_KEYS:]
