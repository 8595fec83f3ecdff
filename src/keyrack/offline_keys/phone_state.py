"""The state of the reference phone, and its queries, as pure functions.

`reference/phone` (JavaScript) and `reference/phone-core` (C) have the same. Times are milliseconds since 1970 unless
stated otherwise.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass, replace

from keyrack.offline_keys import cose, phone
from keyrack.offline_keys.cbor import CborError, decode
from keyrack.offline_keys.cose import MessageRefused, SignedMessage
from keyrack.offline_keys.link_messages import Challenge
from keyrack.offline_keys.message_fields import ENTRY, KEY, KEY_SET, RECEIPT, ROOT, STATUS_LIST, Message
from keyrack.offline_keys.public_key import PublicKey
from keyrack.offline_keys.refusal_codes import BoxRefusalCode

MOST_ENTRIES = 1_100  # of one box, whose log has 1,024
LONGEST_NAME = 40
CLOCK_TOLERANCE = 300_000  # the tolerance of boxes


@dataclass(frozen=True, slots=True)
class HeldKey:
    """A key with its assignment.

    From `renew_after` on, the server has a newer one.
    """

    message: bytes
    assignment: int
    renew_after: int


@dataclass(frozen=True, slots=True)
class HeldBox:
    """A box of which the phone has a list. Its key verifies its entries; older servers do not send it."""

    name: str
    key: PublicKey | None


@dataclass(frozen=True, slots=True)
class AnsweredBox:
    name: str
    key: bytes | None  # `boxKey`
    lists: tuple[bytes, ...]
    receipt: bytes | None


@dataclass(frozen=True, slots=True)
class KeysAnswer:
    """The messages of `GET /sdk/keys`."""

    key_set: bytes | None
    roots: tuple[bytes, ...]
    keys: tuple[HeldKey, ...]
    boxes: tuple[AnsweredBox, ...]


@dataclass(frozen=True, slots=True)
class PhoneState:
    key_set: bytes | None = None
    roots: tuple[bytes, ...] = ()  # in the order of their sequences
    boxes: tuple[HeldBox, ...] = ()
    keys: tuple[HeldKey, ...] = ()
    lists: tuple[bytes, ...] = ()
    receipts: tuple[bytes, ...] = ()
    entries: tuple[bytes, ...] = ()  # with a low s
    counter: int = 0  # the last one used
    met_server: int = 0  # 0 for never


def take_keys(state: PhoneState, answer: KeysAnswer, public: PublicKey, now: int) -> PhoneState:
    """The state after an answer of `GET /sdk/keys`.

    `public` is the key of this phone. Answers may come in the wrong order, so an older key set or root never replaces a
    newer one. Raises `MessageRefused`.
    """
    authority = _authority_messages(answer.key_set, answer.roots)
    for key in answer.keys:
        if _read(key.message, KEY).claims["cnf"] != public:
            raise MessageRefused(BoxRefusalCode.OTHER_KEY)
    listed = [box for box in answer.boxes if box.lists]
    boxes = tuple(HeldBox(_name(box.name), _box_key(box.key)) for box in listed)
    lists = tuple(_read(each, STATUS_LIST).raw for box in listed for each in box.lists)
    receipts = [_read(box.receipt, RECEIPT).raw for box in answer.boxes if box.receipt is not None]
    is_older = answer.key_set is not None and _newest(authority) < _newest(
        _authority_messages(state.key_set, state.roots)
    )
    if not is_older:
        roots = tuple(sorted(answer.roots, key=lambda each: _read(each, ROOT).claims["sequence"]))
        state = replace(state, key_set=answer.key_set, roots=roots)
    state = replace(state, boxes=boxes, keys=answer.keys, lists=lists, met_server=now)
    return _with_receipts(state, receipts)


def have_met(state: PhoneState, now: int) -> PhoneState:
    """The state after a contact with the server, which had nothing newer."""
    return replace(state, met_server=max(state.met_server, now))


def bring_home(state: PhoneState, entries: Iterable[bytes], receipts: Iterable[bytes]) -> PhoneState:
    """The state without the entries that were uploaded, and with the receipts. Raises `MessageRefused`."""
    uploaded, taken = set(entries), [_read(each, RECEIPT).raw for each in receipts]
    left = tuple(each for each in state.entries if each not in uploaded)
    return _with_receipts(replace(state, entries=left), taken)


def box_of(state: PhoneState, name: str) -> HeldBox | None:
    return next((box for box in state.boxes if box.name == name), None)


def keys_for(state: PhoneState, box: str, now: int) -> list[HeldKey]:
    """The keys for a box: valid ones first, then by expiry."""

    def order(key: HeldKey) -> tuple[bool, int]:
        claims = _read(key.message, KEY).claims
        is_valid = claims["nbf"] * 1000 <= now < claims["exp"] * 1000
        return not is_valid, -claims["exp"]

    return sorted((key for key in state.keys if _read(key.message, KEY).claims["aud"] == box), key=order)


def is_overdue(state: PhoneState, key: HeldKey, now: int) -> bool:
    """Whether the app must warn its user: the server has a newer key, but the phone has not asked for it."""
    return state.met_server < key.renew_after <= now


def next_counter(state: PhoneState, now: int) -> PhoneState:
    return replace(state, counter=phone.counter(state.counter, now))


def authority_for(state: PhoneState, challenge: Challenge) -> list[bytes]:
    """The roots and key set for a box, in order."""
    artefacts = [*state.roots, *([] if state.key_set is None else [state.key_set])]
    return _brought(challenge, artefacts) if box_of(state, challenge.name) else []


def artefacts_for(state: PhoneState, challenge: Challenge) -> list[bytes]:
    """The lists and the receipt for a box, in order."""
    return _brought(challenge, [*state.lists, *state.receipts])


def is_clock_right(challenge: Challenge, now: int) -> bool:
    """Whether the box's clock needs no signed time."""
    return challenge.certain == 1 and abs(challenge.time * 1000 - now) <= CLOCK_TOLERANCE


def entry_room(state: PhoneState, box: str) -> int:
    """The number of entries for which the phone has room."""
    return max(0, MOST_ENTRIES - sum(_read(each, ENTRY).claims["aud"] == box for each in state.entries))


def keep_entries(state: PhoneState, box: str, entries: Iterable[bytes]) -> PhoneState:
    """The state with as many of these entries as fit. The oldest ones are kept."""
    fresh = [each for each in entries if each not in state.entries]
    return replace(state, entries=(*state.entries, *fresh[: entry_room(state, box)]))


def first_missing(state: PhoneState, box: str, first: int) -> int:
    """The lowest number, from `first` on, of an entry to fetch.

    Neither the phone nor, as far as it knows, the server has that entry.
    """
    receipts = [_read(each, RECEIPT).claims for each in state.receipts]
    entries = [_read(each, ENTRY).claims for each in state.entries]
    numbers = {claims["number"] for claims in entries if claims["aud"] == box}
    number = max(first, 1, *(claims["upto"][0] + 1 for claims in receipts if claims["aud"] == box))
    while number in numbers:
        number += 1
    return number


@functools.lru_cache(1 << 12)
def _read(data: bytes, message: Message) -> SignedMessage:
    return cose.read(data, message)


def _authority_messages(key_set: bytes | None, roots: Iterable[bytes]) -> list[SignedMessage]:
    sets = [] if key_set is None else [_read(key_set, KEY_SET)]
    return [*sets, *(_read(root, ROOT) for root in roots)]


def _newest(authority: Iterable[SignedMessage]) -> int:
    """The last sequence: key sets and new roots share one series."""
    return max((each.claims["sequence"] for each in authority), default=0)


def _name(name: str) -> str:
    if len(name) > LONGEST_NAME:
        raise MessageRefused(BoxRefusalCode.CLAIMS)
    return name


def _box_key(encoded: bytes | None) -> PublicKey | None:
    try:
        return None if encoded is None else PublicKey.from_map(decode(encoded))
    except CborError:
        raise MessageRefused(BoxRefusalCode.CLAIMS) from None


def _brought(challenge: Challenge, artefacts: Iterable[bytes]) -> list[bytes]:
    """The artefacts for a box. All artefacts of the state are of one authority."""
    read = [cose.read(each, KEY_SET, ROOT, STATUS_LIST, RECEIPT) for each in artefacts]
    return [each.artefact for each in phone.in_order(challenge, read)]


def _with_receipts(state: PhoneState, receipts: Iterable[bytes]) -> PhoneState:
    """The state with the newest receipt of each box.

    It has the highest number. The latest time wins if numbers are equal.
    """
    kept = {_read(each, RECEIPT).claims["aud"]: each for each in state.receipts}
    for receipt in receipts:
        box = _read(receipt, RECEIPT).claims["aud"]
        if box not in kept or _receipt_order(receipt) > _receipt_order(kept[box]):
            kept[box] = receipt
    return replace(state, receipts=tuple(kept.values()))


def _receipt_order(receipt: bytes) -> tuple[int, int]:
    claims = _read(receipt, RECEIPT).claims
    return claims["upto"][0], claims["iat"]
