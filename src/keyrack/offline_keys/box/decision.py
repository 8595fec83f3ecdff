"""In charge of the judgement: what a box says to a key and an answer before it has verified a signature."""

from __future__ import annotations

import hashlib

from keyrack.offline_keys import status_list_bits
from keyrack.offline_keys.box import clock
from keyrack.offline_keys.box.state import Link, State, StatusList
from keyrack.offline_keys.cose import Signed
from keyrack.offline_keys.message_fields import UNCERTAIN
from keyrack.offline_keys.refusal_codes import Code

TOLERANCE = 300  # seconds

NO_LIST = StatusList("", 0, 0, bytes(status_list_bits.BYTES))  # so that all is worked out where there is none


def judge(state: State, link: Link, key: Signed, answer: Signed, tick: int) -> Code:
    """The first code of docs/keys.md, "Judging", that applies; `link` has the nonce that was live."""
    authority, claims, answered = state.authority, key.claims, answer.claims
    now = max(clock.now(state, tick), claims["iat"])
    index, uri = claims["status"]
    held = authority.list(uri)
    newest = held or NO_LIST
    last = dict(state.kept.phones).get(claims["cnf"].thumbprint, -1)
    must_hold = (
        (authority.key(key.kid) is not None, Code.ISSUING_KEY),
        (claims["iss"] == authority.iss, Code.ISSUER),
        (claims["aud"] == answered["aud"] == authority.name, Code.AUDIENCE),
        (not clock.is_ahead(state, tick, claims["iat"]), Code.FUTURE),
        (claims["nbf"] <= now + TOLERANCE, Code.NOT_YET),
        (claims["exp"] > now - TOLERANCE, Code.EXPIRED),
        (state.kept.is_certain or UNCERTAIN in claims["rights"], Code.UNCERTAIN),
        (held is not None, Code.LIST),
        (index < status_list_bits.ENTRIES, Code.INDEX),
        (not status_list_bits.is_set(newest.bits, index % status_list_bits.ENTRIES), Code.REVOKED),
        (now <= max(claims["iat"], newest.iat) + claims["limit"], Code.STALE),
        (answered["command"] in claims["rights"], Code.RIGHT),
        *_bindings(link, key, answer),
        (answered["counter"] > last, Code.COUNTER),
    )
    return next((code for holds, code in must_hold if not holds), Code.GOOD)


def is_answered(link: Link, key: Signed, answer: Signed) -> bool:
    """Whether this answers the challenge with this key. An answer to another one proves nothing, though well signed."""
    return all(holds for holds, _ in _bindings(link, key, answer))


def _bindings(link: Link, key: Signed, answer: Signed) -> tuple[tuple[bool, Code], ...]:
    said = answer.claims
    is_by_key = answer.kid == key.claims["cnf"].kid and said["key"] == hashlib.sha256(key.raw).digest()
    return (
        (is_by_key, Code.OTHER_KEY),
        (said["nonce"] == link.nonce, Code.NONCE),
        (said["challenge"] == link.challenge, Code.CHALLENGE),
    )
