"""In charge of links: the challenge, and the nonce in it that is good for one use."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import replace

from keyrack.offline_keys.box import clock
from keyrack.offline_keys.box.state import BoxMemory, LinkState
from keyrack.offline_keys.cose import MessageRefused
from keyrack.offline_keys.link_messages import VERSION, Challenge, write
from keyrack.offline_keys.refusal_codes import BoxRefusalCode

LIFE = 10  # seconds of a nonce


def challenge(state: BoxMemory, link: int, tick: int, random: bytes) -> Challenge:
    """What the box has, with a new nonce for this link. `random` is 16 bytes."""
    kept, log, authority = state.kept, state.kept.log, state.kept.authority
    said = Challenge(
        version=VERSION,
        name=authority.name if authority else "",
        nonce=_nonce(state, random),
        time=clock.now(state, tick),
        certain=int(kept.is_certain),
        sequence=authority.sequence if authority else 0,
        generation=authority.lists[0].generation if authority else 0,
        listed=authority.lists[0].iat if authority else 0,
        first=log.first,
        next=log.next,
        newest=log.newest,
    )
    named = hashlib.sha256(write(said)).digest()
    put(state, link, replace(state.running.links[link], nonce=said.nonce, made=tick, challenge=named))
    return said


def take(state: BoxMemory, link: int, tick: int) -> LinkState:
    """The link with its live nonce, which is dead from now on. Raises `MessageRefused` where there is none."""
    was = state.running.links[link]
    put(state, link, LinkState(is_proven=was.is_proven))
    if not was.nonce or tick - was.made >= LIFE:
        raise MessageRefused(BoxRefusalCode.NONCE)
    return was


def prove(state: BoxMemory, link: int) -> None:
    """Somebody on it has a good key."""
    put(state, link, replace(state.running.links[link], is_proven=True))


def put(state: BoxMemory, link: int, now: LinkState) -> None:
    links = state.running.links
    state.running.links = (*links[:link], now, *links[link + 1 :])


def _nonce(state: BoxMemory, random: bytes) -> bytes:
    """16 bytes that do not come again, even where the random source repeats."""
    state.running.challenges += 1
    counters = state.kept.boot.to_bytes(8, "big") + state.running.challenges.to_bytes(8, "big")
    return hmac.digest(state.kept.secret, counters + random, hashlib.sha256)[:16]
