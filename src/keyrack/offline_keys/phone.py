"""The reference phone: its messages to boxes and to the server.

It has no input, output or clock of its own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable

from keyrack.offline_keys import cose
from keyrack.offline_keys.cose import SignedMessage
from keyrack.offline_keys.link_messages import CarryMessage, Challenge, Fetch, Open, read
from keyrack.offline_keys.message_fields import ANSWER, KEY, KEY_SET, RECEIPT, REGISTRATION, ROOT, STATUS_LIST, TIME
from keyrack.offline_keys.public_key import PublicKey

Sign = Callable[[bytes], bytes]  # signs with the phone's key, 64 bytes


def registration(subject: str, key: PublicKey, nonce: bytes, sign: Sign) -> bytes:
    """The registration of a phone, signed by its private key.

    It has the public key and the server's nonce.
    """
    return cose.sign(REGISTRATION, key.kid, {"sub": subject, "cnf": key, "nonce": nonce}, sign)


def counter(last: int, milliseconds: int) -> int:
    """The counter of the next answer.

    Milliseconds since 1970 let a newly installed app continue. `last` is 0 for none.
    """
    return max(last + 1, milliseconds)


def answer(message: bytes, key: bytes, command: int, count: int, sign: Sign) -> Open:
    """The message that opens (1) or closes (2) with a key.

    `message` is the challenge as it was received. Raises `MessageRefused` if the challenge or the key is invalid.
    """
    challenge = read(message, Challenge)
    claims = {
        "aud": challenge.name,
        "nonce": challenge.nonce,
        "command": command,
        "counter": count,
        "key": hashlib.sha256(key).digest(),
        "challenge": hashlib.sha256(message).digest(),
    }
    phone = cose.read(key, KEY).claims["cnf"]
    return Open(key, cose.sign(ANSWER, phone.kid, claims, sign))


def brought(challenge: Challenge, authority: str, artefacts: Iterable[bytes]) -> list[CarryMessage]:
    """The artefacts that a box lacks, in the order to send.

    The box obeys `authority`. A time uses the challenge up: after it the phone needs another challenge. Raises
    `MessageRefused` if something is no artefact.
    """
    signed = [cose.read(artefact, KEY_SET, ROOT, STATUS_LIST, TIME, RECEIPT) for artefact in artefacts]
    own = [each for each in signed if each.claims["iss"] == authority]
    roots = _roots(challenge, [each for each in own if each.message is ROOT])
    has_newer_set = any(each.message is KEY_SET and _is_wanted(challenge, each) for each in own)
    wanted = [each for each in own if each.message is not ROOT and _is_wanted(challenge, each, has_newer_set)]
    return [CarryMessage(each.raw) for each in (*roots, *sorted(wanted, key=_order))]


def _roots(challenge: Challenge, roots: list[SignedMessage]) -> list[SignedMessage]:
    """The new roots after the box's root, in their order."""
    kid, chain = challenge.root, list[SignedMessage]()
    for each in sorted(roots, key=lambda each: each.claims["sequence"]):
        if each.kid == kid and each.claims["sequence"] > challenge.sequence:
            kid = each.claims["root"].kid
            chain.append(each)
    return chain


def kept(entry: bytes) -> bytes:
    """An entry with a low s, to be stored and uploaded.

    Raises `MessageRefused`.
    """
    return cose.read_entry(entry).raw


def fetch(following: int, newest: int) -> Fetch | None:
    """The next request for entries; None if no entry is missing.

    The box has entries below `following`, the phone up to `newest`. At first `newest` is the later of what the phone
    has and the number before the challenge's `first`.
    """
    return Fetch(newest + 1) if newest + 1 < following else None


def _is_wanted(challenge: Challenge, artefact: SignedMessage, has_newer_set: bool = False) -> bool:
    """Whether the box may lack an artefact.

    A newer key set, which is sent first, may end the lists that the challenge names.
    """
    claims = artefact.claims
    if artefact.message is KEY_SET:
        return claims["sequence"] > challenge.sequence
    if claims["aud"] != challenge.name:
        return False
    if artefact.message is STATUS_LIST:
        # The challenge does not show the previous generation. Its list is sent if the box may have an older one
        ahead = claims["generation"] - challenge.generation
        return has_newer_set or ahead > 0 or (ahead >= -1 and claims["iat"] > challenge.listed)
    if artefact.message is RECEIPT:
        return challenge.first <= claims["upto"][0] < challenge.next
    return claims["nonce"] == challenge.nonce


def _order(artefact: SignedMessage) -> tuple[int, int]:
    """The position of an artefact in the order to send.

    Issuing keys precede what they sign, a time precedes what may be ahead of the clock, and an older list precedes a
    newer.
    """
    return (KEY_SET, TIME, STATUS_LIST, RECEIPT).index(artefact.message), artefact.claims.get("generation", 0)
