"""The status lists of a box (docs/key-link.md, "Lists")."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from keyrack.offline_keys import status_list_bits
from keyrack.offline_keys.box import clock
from keyrack.offline_keys.box.state import BoxMemory, StatusList
from keyrack.offline_keys.cose import MessageRefused, SignedMessage
from keyrack.offline_keys.public_key import PublicKey
from keyrack.offline_keys.refusal_codes import BoxRefusalCode

MOST = 2  # generations


def counting(state: BoxMemory, tick: int) -> tuple[StatusList, ...]:
    """The lists that are not too far ahead of the clock.

    The highest generation is first. Without an authority there are no lists.
    """
    authority, latest = state.kept.authority, clock.now(state, tick) + clock.AHEAD
    return tuple(each for each in (authority.lists if authority else ()) if each.iat <= latest)


def check(lists: Sequence[StatusList], claims: Mapping[str, Any]) -> None:
    """Check that there is a place for a carried list.

    Raises `MessageRefused`: generation, older.
    """
    generation = claims["generation"]
    if any((each.generation == generation) != (each.uri == claims["sub"]) for each in lists):
        raise MessageRefused(BoxRefusalCode.GENERATION)
    same = next((each for each in lists if each.generation == generation), None)
    has_place = len(lists) < MOST or generation > lists[-1].generation
    if not (has_place if same is None else claims["iat"] > same.iat):
        raise MessageRefused(BoxRefusalCode.OLDER)


def renewed(lists: Sequence[StatusList], new: StatusList) -> tuple[StatusList, ...]:
    """The lists after a new one is added, the highest generation first."""
    others = [each for each in lists if each.generation != new.generation]
    return tuple(sorted((new, *others), key=lambda each: -each.generation)[:MOST])


def provisioned(lists: Sequence[StatusList], new: StatusList, keys: Iterable[PublicKey]) -> tuple[StatusList, ...]:
    """The lists after a provisioning: the new and the next lower one.

    Without the lower one, an older list of its generation could take the place, and revoked keys would open again.
    """
    signers = {key.kid for key in keys}
    lower = [each for each in lists if each.generation < new.generation and each.uri != new.uri]
    return (new, *[each for each in lower if each.signer in signers][: MOST - 1])


def unpacked(signed: SignedMessage) -> StatusList:
    """The list in a message. Raises `MessageRefused` if it does not inflate."""
    claims = signed.claims
    try:
        bits = status_list_bits.unpack(claims["status_list"])
    except status_list_bits.NotAList:
        raise MessageRefused(BoxRefusalCode.INFLATE) from None
    return StatusList(claims["sub"], claims["generation"], claims["iat"], bits, signed.kid)
