"""The log of a box: signed entries, each with the predecessor's hash."""

from __future__ import annotations

import hashlib
from enum import IntEnum
from typing import NamedTuple

from keyrack.offline_keys import cose
from keyrack.offline_keys.box import clock, held_lists
from keyrack.offline_keys.box.crypto import Crypto
from keyrack.offline_keys.box.state import BoxLogState, BoxMemory
from keyrack.offline_keys.link_messages import MOST_ENTRIES, EntriesMessage
from keyrack.offline_keys.message_fields import ENTRY
from keyrack.offline_keys.refusal_codes import BoxRefusalCode

PLACES = 1024
FOR_OPENINGS = 256  # places reserved for openings and closings


class Event(IntEnum):
    OPENED = 1
    CLOSED = 2
    REFUSED = 3
    STARTED = 4
    CLOCK_SET = 5
    PROVISIONED = 6


class OpenRequest(NamedTuple):
    """A requested command, with its key, counter and phone."""

    cti: bytes = b""
    command: int = 0
    counter: int = 0
    device: bytes = b""


NOBODY = OpenRequest()


def append(
    state: BoxMemory,
    crypto: Crypto,
    tick: int,
    event: Event,
    request: OpenRequest = NOBODY,
    code: BoxRefusalCode = BoxRefusalCode.GOOD,
) -> bytes:
    """Append an entry, and return it. A full log drops its oldest entry."""
    authority, log, lists = state.authority, state.kept.log, held_lists.counting(state, tick)
    entries = log.entries if len(log.entries) < PLACES else log.entries[1:]
    claims = request._asdict() | {
        "aud": authority.name,
        "iat": clock.now(state, tick),
        "number": log.next,
        "previous": log.newest,
        "first": log.next - len(entries),
        "event": int(event),
        "code": int(code),
        "certain": int(state.kept.is_certain),
        "held": (authority.sequence, lists[0].generation, lists[0].iat) if lists else (authority.sequence, 0, 0),
        "refused": state.running.refused,
        "skipped": state.running.skipped,
        "root-kid": authority.root.kid,
    }
    entry = cose.sign(ENTRY, state.kept.key.kid, claims, lambda message: cose.with_low_s(crypto.sign(message)))
    state.kept.log = BoxLogState((*entries, entry), log.next + 1, hashlib.sha256(entry).digest())
    state.running.refused, state.running.skipped = (0, BoxRefusalCode.GOOD), 0
    clock.write_down(state, tick)
    return entry


def append_if_room(state: BoxMemory, crypto: Crypto, tick: int, event: Event) -> None:
    """Append an event other than an opening or closing.

    Without room it is only counted.
    """
    if has_room(state.kept.log):
        append(state, crypto, tick, event)
    else:
        state.running.skipped += 1


def has_room(log: BoxLogState) -> bool:
    """Whether there is room for an event other than opening or closing."""
    return PLACES - len(log.entries) >= FOR_OPENINGS


def count(state: BoxMemory, code: BoxRefusalCode) -> None:
    """Count a refusal that gets no entry. The next entry has the count."""
    state.running.refused = (state.running.refused[0] + 1, code)


def fetch(log: BoxLogState, begin: int) -> EntriesMessage:
    """Entries from a number on, as many as fit into a message.

    A number below the first stored entry means the first.
    """
    start = max(begin - log.first, 0)
    return EntriesMessage(log.next, list(log.entries[start : start + MOST_ENTRIES]))


def free(log: BoxLogState, upto: int) -> BoxLogState:
    """The log after a receipt up to this number."""
    return BoxLogState(log.entries[upto + 1 - log.first :], log.next, log.newest)


def holds(log: BoxLogState, number: int, digest: bytes) -> bool:
    """Whether the log has the entry with this number and SHA-256."""
    return log.first <= number < log.next and hashlib.sha256(log.entries[number - log.first]).digest() == digest
