"""In charge of bringing a box and its customer's authority together: nonces, the box's key, and what the box is told.

With each new key of a box an epoch begins: keys, lists and log of the one before are over (docs/keys.md,
"Provisioning").
"""

from __future__ import annotations

import base64
import hashlib
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import LiteralString

from keyrack.core.settings import Settings
from keyrack.db.connection import Connection
from keyrack.db.encryption.cipher import Encryption
from keyrack.db.encryption.encrypted_columns import ADVERTISING_SECRET
from keyrack.offline_keys import cose, issuing_keys, status_list_slots, status_lists
from keyrack.offline_keys.cose import MessageRefused
from keyrack.offline_keys.issuing_keys import (
    IssuingKeySigners,
    ServiceKeySigner,
    box_name,
    issuer,
    load_authority,
    public,
)
from keyrack.offline_keys.message_fields import ENROLMENT, PROVISIONING, TIME
from keyrack.offline_keys.p256 import verify
from keyrack.offline_keys.refusal_codes import BoxRefusalCode
from keyrack.offline_keys.timestamps import now

NONCE = 16  # bytes
ADVERTISING = 16  # bytes
LASTS = timedelta(minutes=10)  # of a nonce on its way to a box and back

PUT_NONCE: LiteralString = """
insert into enrolment_nonce (customer_id, product_id, nonce, expires_at) values ($1, $2, $3, $4)
on conflict (customer_id, product_id) do update set nonce = excluded.nonce, expires_at = excluded.expires_at
"""
TAKE_NONCE: LiteralString = """
delete from enrolment_nonce where customer_id = $1 and product_id = $2 and nonce = $3 returning expires_at
"""
LOCK: LiteralString = "select from product where customer_id = $1 and product_id = $2 for no key update"
NEWEST: LiteralString = """
select e.epoch, e.public_key, e.enrolled_at >= t.created_at as is_ours
from box_epoch e left join key_authority t using (customer_id)
where e.customer_id = $1 and e.product_id = $2 order by e.epoch desc limit 1
"""
USED: LiteralString = """
select exists (select from box_epoch where customer_id = $1 and product_id = $2 and public_key = $3)
"""
INSERT: LiteralString = """
insert into box_epoch (customer_id, product_id, public_key, enrolled_at) values ($1, $2, $3, clock_timestamp())
returning epoch
"""
# Keys of the epoch before open nothing any more once the box has another key
END: LiteralString = """
update box_key set revoked_at = clock_timestamp()
where customer_id = $1 and product_id = $2 and epoch < $3 and is_placed and revoked_at is null
"""


# The one that was there before stays
KEEP_ADVERTISING: LiteralString = """
update box_epoch set advertising = coalesce(advertising, $4) where customer_id = $1 and product_id = $2 and epoch = $3
returning advertising
"""


class NoNonce(Exception):
    """The nonce of the enrolment was never given, was used, or is over."""


class UsedKey(Exception):
    """The box has had this key in an epoch that is over: each epoch has its own."""


class NotEnrolled(Exception):
    """The box has no key under the authority that there is now."""


@dataclass(frozen=True, slots=True)
class BoxEnrolment:
    """A box in its epoch."""

    product: int
    epoch: int
    thumbprint: bytes

    @property
    def name(self) -> str:
        return box_name(self.product, self.epoch)


@dataclass(frozen=True, slots=True)
class Provisioning:
    """The three messages that a box takes together, and what a box with an older root takes first."""

    provisioning: bytes
    key_set: bytes
    status_list: bytes
    roots: tuple[bytes, ...]


async def begin(connection: Connection, vault: Encryption, customer: int, product: int) -> tuple[bytes, datetime]:
    """A nonce for this box to sign, and until when it is taken; the customer's authority is made if there is none."""
    await issuing_keys.ensure(connection, vault, customer)
    nonce, expires = secrets.token_bytes(NONCE), now() + LASTS
    await connection.execute(PUT_NONCE, customer, product, nonce, expires)
    return nonce, expires


async def enrol(connection: Connection, settings: Settings, customer: int, product: int, data: bytes) -> BoxEnrolment:
    """Take the box's key and begin its next epoch; the same key again is the same epoch again.

    Raises `MessageRefused` for what is no enrolment that its own key has signed, `NoNonce`, `UsedKey`.
    """
    message = cose.read(data, ENROLMENT)
    key = message.claims["cnf"]
    if message.kid != key.kid or not verify(key, message.to_be_signed, message.signature):
        raise MessageRefused(BoxRefusalCode.SIGNATURE)
    await connection.execute(LOCK, customer, product)
    newest = await connection.fetchrow(NEWEST, customer, product)
    if newest is not None and newest["is_ours"] and newest["public_key"] == load_authority(key):
        return BoxEnrolment(product, newest["epoch"], key.thumbprint)
    expires = await connection.fetchval(TAKE_NONCE, customer, product, message.claims["nonce"])
    if expires is None or expires < now():
        raise NoNonce
    if await connection.fetchval(USED, customer, product, load_authority(key)):
        raise UsedKey
    epoch: int = await connection.fetchval(INSERT, customer, product, load_authority(key))
    await status_list_slots.begin(connection, settings, customer, product, epoch, 1)
    await connection.execute(END, customer, product, epoch)
    return BoxEnrolment(product, epoch, key.thumbprint)


async def provision(
    connection: Connection, signers: IssuingKeySigners, customer: int, product: int, nonce: bytes
) -> Provisioning:
    """The messages for the box, bound to its nonce. Raises `NotEnrolled`, `CannotDecrypt`, `InconsistentKeys`."""
    signer = await signers.newest(connection, customer)
    service = await signers.newest_service(connection, customer)
    newest = await connection.fetchrow(NEWEST, customer, product)
    if newest is None or not newest["is_ours"]:
        raise NotEnrolled
    key_set = await signers.key_set(connection, customer)
    if signer is None or service is None or key_set is None:
        raise NotEnrolled
    box = BoxEnrolment(product, newest["epoch"], public(newest["public_key"]).thumbprint)
    at = now()
    locked = await status_lists.lock(connection, customer, [(product, box.epoch)])
    lists = await status_lists.renew(connection, customer, locked, signer, at)
    status_list = lists[max(lists)]  # the newest generation
    claims = {
        "iss": issuer(customer), "aud": box.name, "iat": int(at.timestamp()), "nonce": nonce,
        "root": key_set.root, "box": box.thumbprint,
        "advertising": await _advertising(connection, signers.vault, customer, product, box.epoch),
        "list": hashlib.sha256(status_list).digest(), "keyset": hashlib.sha256(key_set.data).digest(),
    }  # fmt: skip
    signed = cose.sign(PROVISIONING, service.kid, claims, service.key.sign)
    return Provisioning(signed, key_set.data, status_list, key_set.roots)


async def _advertising(connection: Connection, vault: Encryption, customer: int, product: int, epoch: int) -> bytes:
    """The secret of the names that the box advertises in this epoch, made when it is first needed."""
    place = (ADVERTISING_SECRET, customer, f"{product}.{epoch}")
    made = base64.b64encode(secrets.token_bytes(ADVERTISING)).decode()
    sealed = await vault.seal(connection, made, *place)
    kept = await connection.fetchval(KEEP_ADVERTISING, customer, product, epoch, sealed)
    return base64.b64decode(await vault.open(kept, *place), validate=True)


def time_for(customer: int, name: str, nonce: bytes, signer: ServiceKeySigner) -> bytes:
    """What o'clock it is, for the box of this name and its nonce."""
    claims = {"iss": issuer(customer), "aud": name, "iat": int(now().timestamp()), "nonce": nonce}
    return cose.sign(TIME, signer.kid, claims, signer.key.sign)
