"""Provisioning: a box gets authority, key set and status list together."""

from __future__ import annotations

import hashlib
from dataclasses import replace

from keyrack.offline_keys import cose
from keyrack.offline_keys.box import clock, held_lists, links, log, verification_budget
from keyrack.offline_keys.box.crypto import Crypto
from keyrack.offline_keys.box.log import Event
from keyrack.offline_keys.box.state import Authority, BoxMemory
from keyrack.offline_keys.cose import MessageRefused
from keyrack.offline_keys.link_messages import Enrol, EnrolledMessage, Provision
from keyrack.offline_keys.message_fields import ENROLMENT, KEY_SET, PROVISIONING, STATUS_LIST
from keyrack.offline_keys.refusal_codes import BoxRefusalCode


def enrol(state: BoxMemory, link: int, said: Enrol, tick: int, crypto: Crypto) -> EnrolledMessage:
    """The box's public key, signed by its private key.

    Raises `MessageRefused` if the box has an authority, or no token is left.
    """
    if state.kept.authority is not None:
        raise MessageRefused(BoxRefusalCode.NOT_NOW)
    verification_budget.take(state, link, tick)
    key = state.kept.key
    return EnrolledMessage(cose.sign(ENROLMENT, key.kid, {"cnf": key, "nonce": said.nonce}, crypto.sign))


def take(state: BoxMemory, link: int, said: Provision, tick: int, crypto: Crypto) -> None:
    """Verify the three parts of a provisioning, and apply all of them.

    Raises `MessageRefused`. A refused provisioning uses up a nonce and tokens at most.
    """
    provisioning = cose.read(said.provisioning, PROVISIONING)
    key_set, listed = cose.read(said.key_set, KEY_SET), cose.read(said.status_list, STATUS_LIST)
    claims, authority = provisioning.claims, state.kept.authority
    if claims["box"] != state.kept.key.thumbprint:
        raise MessageRefused(BoxRefusalCode.BOX)
    if links.take(state, link, tick).nonce != claims["nonce"]:
        raise MessageRefused(BoxRefusalCode.NONCE)
    new = Authority(
        root=claims["root"],
        iss=claims["iss"],
        name=claims["aud"],
        sequence=key_set.claims["sequence"],
        keys=tuple(key_set.claims["keys"]),
        service_keys=tuple(key_set.claims["service-keys"]),
        advertising=claims["advertising"],
        lists=(),
    )
    if authority is not None and (authority.root, authority.iss, authority.name) != (new.root, new.iss, new.name):
        raise MessageRefused(BoxRefusalCode.NOT_NOW)
    signer, list_signer = new.service_key(provisioning.kid), new.key(listed.kid)
    if key_set.kid != new.root.kid or signer is None or list_signer is None:
        raise MessageRefused(BoxRefusalCode.ISSUING_KEY)
    if not new.iss == key_set.claims["iss"] == listed.claims["iss"]:
        raise MessageRefused(BoxRefusalCode.ISSUER)
    if listed.claims["aud"] != new.name:
        raise MessageRefused(BoxRefusalCode.AUDIENCE)
    if (claims["list"], claims["keyset"]) != tuple(hashlib.sha256(each.raw).digest() for each in (listed, key_set)):
        raise MessageRefused(BoxRefusalCode.OTHER_PART)
    if authority is not None and new.sequence < authority.sequence:
        raise MessageRefused(BoxRefusalCode.OLDER)
    verification_budget.take(state, link, tick)
    for public, signed in ((signer, provisioning), (new.root, key_set), (list_signer, listed)):
        if not crypto.verify(public, signed.to_be_signed, signed.signature):
            raise MessageRefused(BoxRefusalCode.SIGNATURE)
    lists = held_lists.provisioned(held_lists.counting(state, tick), held_lists.unpacked(listed), new.keys)
    state.kept.authority = replace(new, lists=lists)
    state.running.good = ()
    clock.put(state, tick, claims["iat"])
    clock.write_down(state, tick)
    log.append_if_room(state, crypto, tick, Event.PROVISIONED)
