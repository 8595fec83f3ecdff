"""The links of a box: challenges, and nonces for one use."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import replace

from keyrack.offline_keys.box import clock, held_lists
from keyrack.offline_keys.box.state import BoxMemory, LinkState, TokenBucket
from keyrack.offline_keys.cose import MessageRefused
from keyrack.offline_keys.link_messages import VERSIONS, Challenge, Hello, VersionsMessage, write
from keyrack.offline_keys.refusal_codes import BoxRefusalCode

LIFE = 10  # seconds for which a nonce is valid
PROOF_LIFE = 300  # seconds for which a proof is valid: ample to fetch a whole log


def connect(state: BoxMemory, tick: int, bucket: TokenBucket) -> int:
    """Find a place for a new link. It may end another link.

    The oldest unproven link ends, or the oldest of all if all are proven. No new link is refused: three proven links
    that stay would shut out all phones, and with them the list that revokes the keys of the three.
    """
    links = state.running.links
    free = [place for place, each in enumerate(links) if not each.connection]
    unproven = [place for place in range(len(links)) if not is_proven(state, place, tick)]
    place = free[0] if free else min(unproven or range(len(links)), key=lambda place: links[place].connection)
    state.running.connections += 1
    put(state, place, LinkState(state.running.connections, bucket))
    return place


def challenge(state: BoxMemory, link: int, said: Hello, tick: int, random: bytes) -> Challenge | VersionsMessage:
    """The challenge, with a new nonce for this link.

    The link's proof ends. `random` is 16 bytes. Returns the box's versions if the phone supports none of them.
    """
    kept, log, authority = state.kept, state.kept.log, state.kept.authority
    begun = _begun(state.running.links[link])
    put(state, link, begun)
    common = set(said.versions) & set(VERSIONS)
    if not common:
        return VersionsMessage(list(VERSIONS))
    lists = held_lists.counting(state, tick)
    challenge = Challenge(
        version=max(common),
        name=authority.name if authority else "",
        nonce=_nonce(state, random),
        time=clock.now(state, tick),
        certain=int(kept.is_certain),
        sequence=authority.sequence if authority else 0,
        generation=lists[0].generation if lists else 0,
        listed=lists[0].iat if lists else 0,
        first=log.first,
        next=log.next,
        newest=log.newest,
        root=authority.root.kid if authority else b"",
    )
    named = hashlib.sha256(write(challenge)).digest()
    put(state, link, replace(begun, nonce=challenge.nonce, made=tick, challenge=named))
    return challenge


def take(state: BoxMemory, link: int, tick: int) -> LinkState:
    """Use up the nonce of a link, and return the former link.

    Raises `MessageRefused` if the link has no nonce, or an expired one.
    """
    was = state.running.links[link]
    put(state, link, replace(_begun(was), proven_at=was.proven_at))
    if not was.nonce or tick - was.made >= LIFE:
        raise MessageRefused(BoxRefusalCode.NONCE)
    return was


def prove(state: BoxMemory, link: int, tick: int) -> None:
    """Record that possession of a valid key was proven on this link."""
    put(state, link, replace(state.running.links[link], proven_at=tick))


def is_proven(state: BoxMemory, link: int, tick: int) -> bool:
    """Whether the link has a proof of possession that has not expired."""
    proven_at = state.running.links[link].proven_at
    return proven_at is not None and tick - proven_at < PROOF_LIFE


def _begun(link: LinkState) -> LinkState:
    """The link as it was at its start, with its present bucket."""
    return LinkState(link.connection, link.bucket)


def put(state: BoxMemory, link: int, now: LinkState) -> None:
    links = state.running.links
    state.running.links = (*links[:link], now, *links[link + 1 :])


def _nonce(state: BoxMemory, random: bytes) -> bytes:
    """16 bytes that never repeat, even if the random source does."""
    state.running.challenges += 1
    counters = state.kept.boot.to_bytes(8, "big") + state.running.challenges.to_bytes(8, "big")
    return hmac.digest(state.kept.secret, counters + random, hashlib.sha256)[:16]
