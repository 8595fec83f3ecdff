"""In charge of what phones carry to a box: key sets, status lists, times and receipts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from keyrack.offline_keys import cose, status_list_bits
from keyrack.offline_keys.box import clock, links, log, verification_budget
from keyrack.offline_keys.box.crypto import Crypto
from keyrack.offline_keys.box.log import Event
from keyrack.offline_keys.box.state import Authority, BoxMemory, StatusList
from keyrack.offline_keys.cose import MessageRefused, SignedMessage
from keyrack.offline_keys.link_messages import CarryMessage
from keyrack.offline_keys.message_fields import KEY_SET, RECEIPT, STATUS_LIST, TIME
from keyrack.offline_keys.public_key import PublicKey
from keyrack.offline_keys.refusal_codes import BoxRefusalCode


def take(state: BoxMemory, link: int, said: CarryMessage, tick: int, crypto: Crypto) -> None:
    """What is signed is the box's from now on. Raises `MessageRefused`, and has used up no more than a nonce and a
    token."""
    signed = cose.read(said.artefact, KEY_SET, STATUS_LIST, TIME, RECEIPT)
    message, claims, authority = signed.message, signed.claims, state.authority
    signer = _signer(authority, signed)
    if claims["iss"] != authority.iss:
        raise MessageRefused(BoxRefusalCode.ISSUER)
    if claims.get("aud", authority.name) != authority.name:
        raise MessageRefused(BoxRefusalCode.AUDIENCE)
    if message is TIME and links.take(state, link, tick).nonce != claims["nonce"]:
        raise MessageRefused(BoxRefusalCode.NONCE)
    if _is_older(state, signed):
        raise MessageRefused(BoxRefusalCode.OLDER)
    if message is RECEIPT and not log.holds(state.kept.log, *claims["upto"]):
        raise MessageRefused(BoxRefusalCode.RECEIPT)
    if message in (STATUS_LIST, RECEIPT) and clock.is_ahead(state, tick, claims["iat"]):
        raise MessageRefused(BoxRefusalCode.FUTURE)
    verification_budget.take(state, tick)
    if not crypto.verify(signer, signed.to_be_signed, signed.signature):
        raise MessageRefused(BoxRefusalCode.SIGNATURE)
    if message is KEY_SET:
        state.kept.authority = replace(authority, sequence=claims["sequence"], keys=tuple(claims["keys"]))
        state.running.good = ()
    elif message is TIME:
        clock.put(state, tick, claims["iat"])
        log.append(state, crypto, tick, Event.CLOCK_SET)
    elif message is STATUS_LIST:
        state.kept.authority = replace(authority, lists=renewed(authority.lists, unpacked(claims)))
        clock.move_forward(state, tick, claims["iat"])
    else:
        state.kept.log = log.free(state.kept.log, claims["upto"][0])
        clock.move_forward(state, tick, claims["iat"])


def unpacked(claims: Mapping[str, Any]) -> StatusList:
    """The list of a message. Raises `MessageRefused` where it does not inflate to one."""
    try:
        bits = status_list_bits.unpack(claims["status_list"])
    except status_list_bits.NotAList:
        raise MessageRefused(BoxRefusalCode.INFLATE) from None
    return StatusList(claims["sub"], claims["generation"], claims["iat"], bits)


def is_newer(held: tuple[StatusList, ...], generation: int, iat: int) -> bool:
    """Whether a list has its place beside or instead of those that are held."""
    same = next((each for each in held if each.generation == generation), None)
    return iat > same.iat if same else all(generation > each.generation for each in held)


def renewed(held: tuple[StatusList, ...], new: StatusList) -> tuple[StatusList, ...]:
    """The lists that are held when a newer one has come: two generations, the newer one first."""
    others = tuple(each for each in held if each.generation != new.generation)
    return tuple(sorted((new, *others), key=lambda each: -each.generation)[:2])


def _signer(authority: Authority, signed: SignedMessage) -> PublicKey:
    if signed.message is KEY_SET:
        signer = authority.root if signed.kid == authority.root.kid else None
    else:
        signer = authority.key(signed.kid)
    if signer is None:
        raise MessageRefused(BoxRefusalCode.ISSUING_KEY)
    return signer


def _is_older(state: BoxMemory, signed: SignedMessage) -> bool:
    """Whether the box has heard this already, or something newer."""
    claims, authority = signed.claims, state.authority
    if signed.message is KEY_SET:
        return claims["sequence"] <= authority.sequence
    if signed.message is STATUS_LIST:
        return not is_newer(authority.lists, claims["generation"], claims["iat"])
    return signed.message is RECEIPT and claims["upto"][0] < state.kept.log.first
