"""Artefacts that phones carry: key sets, roots, lists, times and receipts."""

from __future__ import annotations

from dataclasses import replace

from keyrack.offline_keys import cose
from keyrack.offline_keys.box import clock, held_lists, links, log, verification_budget
from keyrack.offline_keys.box.crypto import Crypto
from keyrack.offline_keys.box.log import Event
from keyrack.offline_keys.box.state import Authority, BoxMemory
from keyrack.offline_keys.cose import MessageRefused, SignedMessage
from keyrack.offline_keys.link_messages import CarryMessage
from keyrack.offline_keys.message_fields import KEY_SET, RECEIPT, ROOT, STATUS_LIST, TIME
from keyrack.offline_keys.public_key import PublicKey
from keyrack.offline_keys.refusal_codes import BoxRefusalCode


def take(state: BoxMemory, link: int, said: CarryMessage, tick: int, crypto: Crypto) -> None:
    """Verify an artefact, and apply it.

    Raises `MessageRefused`. A refused artefact uses up a nonce and tokens at most.
    """
    signed = cose.read(said.artefact, KEY_SET, ROOT, STATUS_LIST, TIME, RECEIPT)
    message, claims, authority = signed.message, signed.claims, state.authority
    signer = _signer(authority, signed)
    if claims["iss"] != authority.iss:
        raise MessageRefused(BoxRefusalCode.ISSUER)
    if claims.get("aud", authority.name) != authority.name:
        raise MessageRefused(BoxRefusalCode.AUDIENCE)
    if message is TIME and links.take(state, link, tick).nonce != claims["nonce"]:
        raise MessageRefused(BoxRefusalCode.NONCE)
    _check_newer(state, signed, tick)
    if message is RECEIPT and not log.holds(state.kept.log, *claims["upto"]):
        raise MessageRefused(BoxRefusalCode.RECEIPT)
    if message in (STATUS_LIST, RECEIPT) and clock.is_ahead(state, tick, claims["iat"]):
        raise MessageRefused(BoxRefusalCode.FUTURE)
    verification_budget.take(state, link, tick)
    if not crypto.verify(signer, signed.to_be_signed, signed.signature):
        raise MessageRefused(BoxRefusalCode.SIGNATURE)
    _apply(state, signed, tick, crypto)


def _apply(state: BoxMemory, signed: SignedMessage, tick: int, crypto: Crypto) -> None:
    """Apply a verified artefact. Raises `MessageRefused` if a list does not inflate."""
    message, claims, lists = signed.message, signed.claims, held_lists.counting(state, tick)
    if message is STATUS_LIST:
        lists = held_lists.renewed(lists, held_lists.unpacked(signed))
    authority = state.kept.authority = replace(state.authority, lists=lists)
    if message is KEY_SET:
        keys = tuple(claims["keys"])
        state.kept.authority = replace(
            authority,
            sequence=claims["sequence"],
            keys=keys,
            service_keys=tuple(claims["service-keys"]),
            lists=tuple(each for each in lists if each.signer in {key.kid for key in keys}),
        )
        state.running.good = ()
    elif message is ROOT:
        state.kept.authority = replace(authority, sequence=claims["sequence"], root=claims["root"])
    elif message is TIME:
        if clock.put(state, tick, claims["iat"]):
            log.append_if_room(state, crypto, tick, Event.CLOCK_SET)
    else:
        if message is RECEIPT:
            state.kept.log = log.free(state.kept.log, claims["upto"][0])
        clock.move_forward(state, tick, claims["iat"])


def _signer(authority: Authority, signed: SignedMessage) -> PublicKey:
    if signed.message in (KEY_SET, ROOT):
        signer = authority.root if signed.kid == authority.root.kid else None
    elif signed.message is STATUS_LIST:
        signer = authority.key(signed.kid)
    else:
        signer = authority.service_key(signed.kid)
    if signer is None:
        raise MessageRefused(BoxRefusalCode.ISSUING_KEY)
    return signer


def _check_newer(state: BoxMemory, signed: SignedMessage, tick: int) -> None:
    """Check that an artefact is newer than what the box has. Raises `MessageRefused`."""
    claims, message = signed.claims, signed.message
    if message is STATUS_LIST:
        held_lists.check(held_lists.counting(state, tick), claims)
    elif (message in (KEY_SET, ROOT) and claims["sequence"] <= state.authority.sequence) or (
        message is RECEIPT and claims["upto"][0] < state.kept.log.first
    ):
        raise MessageRefused(BoxRefusalCode.OLDER)
