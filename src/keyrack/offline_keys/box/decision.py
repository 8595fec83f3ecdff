"""The decision on an `open`, before a signature is verified."""

from __future__ import annotations

import hashlib

from keyrack.offline_keys import status_list_bits
from keyrack.offline_keys.box import clock, held_lists
from keyrack.offline_keys.box.state import BoxMemory, LinkState, StatusList
from keyrack.offline_keys.cose import SignedMessage
from keyrack.offline_keys.message_fields import UNCERTAIN
from keyrack.offline_keys.refusal_codes import BoxRefusalCode

TOLERANCE = 300  # seconds

NO_LIST = StatusList("", 0, 0, bytes(status_list_bits.BYTES), b"")  # replaces a missing list, so that all checks run

# These refusals leave the link proven. A driver of this box can meet them, and the server waits for the entries that
# the driver's phone brings
MAY_FAIL_IN_PROOF = {BoxRefusalCode.UNCERTAIN, BoxRefusalCode.STALE, BoxRefusalCode.RIGHT}
# If one of these fails, the `open` is for another box, or answers something else. A listener knows as much, so the
# choice of a bucket reveals nothing about clock, lists and counters
MUST_HOLD_FOR_BUCKET = {
    BoxRefusalCode.ISSUING_KEY, BoxRefusalCode.ISSUER, BoxRefusalCode.AUDIENCE, BoxRefusalCode.OTHER_KEY,
    BoxRefusalCode.NONCE, BoxRefusalCode.CHALLENGE,
}  # fmt: skip
FOREIGN = {BoxRefusalCode.ISSUER, BoxRefusalCode.AUDIENCE}  # keys of another authority or box


def decide(
    state: BoxMemory, link: LinkState, key: SignedMessage, answer: SignedMessage, tick: int
) -> list[BoxRefusalCode]:
    """All codes of docs/key-boxes.md, "Judging", that apply, in its order.

    `link` is the link as it was before its nonce was used up.
    """
    authority, claims, answered = state.authority, key.claims, answer.claims
    now = max(clock.now(state, tick), claims["iat"])
    index, uri = claims["status"]
    held_list = next((each for each in held_lists.counting(state, tick) if each.uri == uri), None)
    newest = held_list or NO_LIST
    last = dict(state.kept.phones).get(claims["cnf"].thumbprint, -1)
    must_hold = (
        (authority.key(key.kid) is not None, BoxRefusalCode.ISSUING_KEY),
        (claims["iss"] == authority.iss, BoxRefusalCode.ISSUER),
        (claims["aud"] == answered["aud"] == authority.name, BoxRefusalCode.AUDIENCE),
        (not clock.is_ahead(state, tick, claims["iat"]), BoxRefusalCode.FUTURE),
        (claims["nbf"] <= now + TOLERANCE, BoxRefusalCode.NOT_YET),
        (claims["exp"] > now - TOLERANCE, BoxRefusalCode.EXPIRED),
        (state.kept.is_certain or UNCERTAIN in claims["rights"], BoxRefusalCode.UNCERTAIN),
        (held_list is not None, BoxRefusalCode.LIST),
        (index < status_list_bits.ENTRIES, BoxRefusalCode.INDEX),
        (not status_list_bits.is_set(newest.bits, index % status_list_bits.ENTRIES), BoxRefusalCode.REVOKED),
        (now <= max(claims["iat"], newest.iat) + claims["limit"], BoxRefusalCode.STALE),
        (answered["command"] in claims["rights"], BoxRefusalCode.RIGHT),
        *_bindings(link, key, answer),
        (answered["counter"] > last, BoxRefusalCode.COUNTER),
    )
    return [code for holds, code in must_hold if not holds]


def is_answered(link: LinkState, key: SignedMessage, answer: SignedMessage) -> bool:
    """Whether the answer is for this challenge and this key.

    An answer to another challenge proves nothing, even with a valid signature.
    """
    return all(holds for holds, _ in _bindings(link, key, answer))


def _bindings(link: LinkState, key: SignedMessage, answer: SignedMessage) -> tuple[tuple[bool, BoxRefusalCode], ...]:
    said = answer.claims
    is_by_key = answer.kid == key.claims["cnf"].kid and said["key"] == hashlib.sha256(key.raw).digest()
    return (
        (is_by_key, BoxRefusalCode.OTHER_KEY),
        (said["nonce"] == link.nonce, BoxRefusalCode.NONCE),
        (said["challenge"] == link.challenge, BoxRefusalCode.CHALLENGE),
    )
