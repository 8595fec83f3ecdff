"""Enrolment and provisioning of boxes: nonces, keys, epochs, and the messages that a box takes.

With each new key of a box an epoch begins. It is pending until an entry that the new key has signed has arrived; then
the epoch before ends, with its keys, lists and log (docs/keys.md, "Provisioning").
"""

from __future__ import annotations

import base64
import hashlib
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import LiteralString

import structlog

from keyrack.api.principals import CallerKey
from keyrack.api.rate_limits import HOUR, RateLimit, take_each
from keyrack.core.settings import Settings
from keyrack.db.connection import Connection, Row
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

log = structlog.get_logger("keyrack.enrolment")

NONCE = 16  # bytes
ADVERTISING = 16  # bytes
LASTS = timedelta(minutes=10)  # of a nonce on its way to a box and back
LIMIT = "box-enrolments"

PUT_NONCE: LiteralString = """
insert into enrolment_nonce (customer_id, product_id, nonce, expires_at) values ($1, $2, $3, $4)
on conflict (customer_id, product_id) do update set nonce = excluded.nonce, expires_at = excluded.expires_at
"""
TAKE_NONCE: LiteralString = """
delete from enrolment_nonce where customer_id = $1 and product_id = $2 and nonce = $3 returning expires_at
"""
# The row of the box, which is locked for share while a key is issued
LOCK: LiteralString = "select from product where customer_id = $1 and product_id = $2 for no key update"
# The same for a reader of the box's epochs: none begins, ends or is undone meanwhile
LOCK_SHARED: LiteralString = "select from product where customer_id = $1 and product_id = $2 for share"
# The epoch in force, and behind it the pending one
PRESENT: LiteralString = """
select e.epoch, e.public_key, e.is_pending, e.enrolled_by, e.advertising, e.enrolled_at >= t.created_at as is_ours
from box_epoch e left join key_authority t using (customer_id)
where e.customer_id = $1 and e.product_id = $2 and e.epoch >= coalesce((
  select max(epoch) from box_epoch where customer_id = $1 and product_id = $2 and not is_pending), 0)
order by e.epoch
"""
USED: LiteralString = """
select exists (select from box_epoch where customer_id = $1 and product_id = $2 and public_key = $3)
"""
INSERT: LiteralString = """
insert into box_epoch (customer_id, product_id, public_key, is_pending, enrolled_by, enrolled_at)
values ($1, $2, $3, $4, $5, clock_timestamp()) returning epoch
"""
# Keys of earlier epochs open nothing once the box has another key
END: LiteralString = """
update box_key set revoked_at = clock_timestamp()
where customer_id = $1 and product_id = $2 and epoch < $3 and is_placed and revoked_at is null
"""
PROVE: LiteralString = """
update box_epoch set proven_at = coalesce(proven_at, clock_timestamp())
where customer_id = $1 and product_id = $2 and epoch = $3 and is_pending
"""
APPROVE: LiteralString = """
update box_epoch set approved_at = clock_timestamp(), approved_by = $4
where customer_id = $1 and product_id = $2 and epoch = $3 and approved_at is null
"""
CONFIRM: LiteralString = """
update box_epoch e set is_pending = false from key_authority t
where e.customer_id = $1 and e.product_id = $2 and e.epoch = $3 and e.is_pending and e.proven_at is not null
  and t.customer_id = e.customer_id and (e.approved_at is not null or not t.needs_second_person)
returning true
"""
REVOKE_PENDING: LiteralString = """
update box_key k set revoked_at = clock_timestamp() from box_epoch e
where e.customer_id = $1 and e.product_id = $2 and e.is_pending and k.customer_id = $1 and k.product_id = $2
  and k.epoch = e.epoch and k.is_placed and k.revoked_at is null
"""
DISCARD: LiteralString = """
delete from box_epoch where customer_id = $1 and product_id = $2 and is_pending
returning epoch, proven_at is not null as is_proven
"""
# A secret that another request has made meanwhile stays
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


class NotPending(Exception):
    """The box has no pending enrolment."""


class OtherKey(Exception):
    """The box's key has another thumbprint than the expected one."""


class SameCaller(Exception):
    """The caller that enrolled the box cannot approve the enrolment."""


@dataclass(frozen=True, slots=True)
class BoxEnrolment:
    """A box in its epoch."""

    product: int
    epoch: int
    thumbprint: bytes
    is_pending: bool = False

    @property
    def name(self) -> str:
        return box_name(self.product, self.epoch)


@dataclass(frozen=True, slots=True)
class Provisioning:
    """Three messages that a box takes together.

    A box with an older root takes `roots` first.
    """

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


async def enrol(
    connection: Connection,
    settings: Settings,
    customer: int,
    product: int,
    data: bytes,
    *,
    caller: CallerKey,
    thumbprint: bytes | None = None,
) -> BoxEnrolment:
    """Begin the next epoch of a box with this key.

    The epoch is pending if the box has one that is in force. A further enrolment replaces a pending one. The same key
    again returns the same epoch. `thumbprint` is the expected one. Raises `MessageRefused` for a message that is no
    enrolment or that its own key has not signed, `OtherKey`, `NoNonce`, `UsedKey`, `TooManyRequests`.
    """
    message = cose.read(data, ENROLMENT)
    key = message.claims["cnf"]
    if message.kid != key.kid or not verify(key, message.to_be_signed, message.signature):
        raise MessageRefused(BoxRefusalCode.SIGNATURE)
    if thumbprint is not None and thumbprint != key.thumbprint:
        raise OtherKey
    await lock(connection, customer, product)
    rows = [row for row in await connection.fetch(PRESENT, customer, product) if row["is_ours"]]
    for row in rows:
        if row["public_key"] == load_authority(key):
            return BoxEnrolment(product, row["epoch"], key.thumbprint, row["is_pending"])
    expires = await connection.fetchval(TAKE_NONCE, customer, product, message.claims["nonce"])
    if expires is None or expires < now():
        raise NoNonce
    if await connection.fetchval(USED, customer, product, load_authority(key)):
        raise UsedKey
    await _take_limits(connection, settings, customer, caller)
    await _discard(connection, customer, product)
    is_pending = any(not row["is_pending"] for row in rows)
    epoch: int = await connection.fetchval(
        INSERT, customer, product, load_authority(key), is_pending, _stored_caller(caller)
    )
    await status_list_slots.begin(connection, settings, customer, product, epoch, 1)
    if is_pending:
        log.warning("box at work enrolled anew", customer=customer, product=product, epoch=epoch, alert=True)
    else:
        await connection.execute(END, customer, product, epoch)
    return BoxEnrolment(product, epoch, key.thumbprint, is_pending)


async def undo(connection: Connection, customer: int, product: int) -> None:
    """Undo the pending enrolment of a box: its keys are revoked, and its log is deleted. Raises `NotPending`."""
    await lock(connection, customer, product)
    if not await _discard(connection, customer, product):
        raise NotPending


async def approve(connection: Connection, customer: int, product: int, *, caller: CallerKey, thumbprint: bytes) -> None:
    """Approve the pending enrolment of the key with this thumbprint.

    The caller has to be another one than the caller that enrolled the box. Raises `NotPending`, `OtherKey`,
    `SameCaller`.
    """
    await lock(connection, customer, product)
    rows = await connection.fetch(PRESENT, customer, product)
    if not rows or not rows[-1]["is_pending"]:
        raise NotPending
    pending = rows[-1]
    if public(pending["public_key"]).thumbprint != thumbprint:
        raise OtherKey
    if pending["enrolled_by"] == _stored_caller(caller):
        raise SameCaller
    await connection.execute(APPROVE, customer, product, pending["epoch"], _stored_caller(caller))
    await _confirm(connection, customer, product, pending["epoch"])


async def lock(connection: Connection, customer: int, product: int) -> None:
    """Lock a box before its epochs are changed: no key is issued for it meanwhile, and no issuing key revoked."""
    await issuing_keys.hold(connection, customer)
    await connection.execute(LOCK, customer, product)


async def prove(connection: Connection, customer: int, product: int, epoch: int) -> bool:
    """Record that a pending epoch's key has signed an entry. Whether the epoch is in force now.

    It comes into force, unless the approval of a second person is missing. The caller has locked the box.
    """
    await connection.execute(PROVE, customer, product, epoch)
    return await _confirm(connection, customer, product, epoch)


async def _confirm(connection: Connection, customer: int, product: int, epoch: int) -> bool:
    """Put a pending epoch into force, if its conditions hold, and end the one before. Whether that is done."""
    if not await connection.fetchval(CONFIRM, customer, product, epoch):
        return False
    await connection.execute(END, customer, product, epoch)
    return True


async def _discard(connection: Connection, customer: int, product: int) -> bool:
    """Delete the pending epoch of a box, and revoke its keys. Whether there was one.

    A box that is in use under the epoch gets no keys any more, and has to be reset while it still opens: an alert.
    """
    await connection.execute(REVOKE_PENDING, customer, product)
    row = await connection.fetchrow(DISCARD, customer, product)
    if row is not None and row["is_proven"]:
        log.warning("box in use lost its enrolment", customer=customer, product=product, epoch=row["epoch"], alert=True)
    return row is not None


async def _take_limits(connection: Connection, settings: Settings, customer: int, caller: CallerKey) -> None:
    """Raises `TooManyRequests`."""
    of_customer, of_caller = settings.enrolments_per_hour_per_customer, settings.enrolments_per_hour_per_caller
    await take_each(
        connection,
        (RateLimit(LIMIT, of_customer, of_customer, HOUR), f"customer {customer}"),
        (RateLimit(LIMIT, of_caller, of_caller, HOUR), f"customer {customer} {_stored_caller(caller)}"),
    )


def _stored_caller(caller: CallerKey) -> str:
    """A caller in columns of `box_epoch`.

    `manager:12` is the manager with the id 12.
    """
    return f"{caller.kind}:{caller.number}"


async def provision(
    connection: Connection,
    signers: IssuingKeySigners,
    customer: int,
    product: int,
    nonce: bytes,
    thumbprint: bytes | None = None,
) -> Provisioning:
    """The messages for the box, bound to its nonce.

    They are for the key with this thumbprint. Without one they are for the pending epoch, if there is one. Raises
    `NotEnrolled`, `CannotDecrypt`, `InconsistentKeys`.
    """
    signer = await signers.newest(connection, customer)
    service = await signers.newest_service(connection, customer)
    await connection.execute(LOCK_SHARED, customer, product)
    rows = await connection.fetch(PRESENT, customer, product)
    boxes = [(_present(product, row), row["advertising"]) for row in rows if row["is_ours"]]
    chosen = next((each for each in reversed(boxes) if thumbprint in (None, each[0].thumbprint)), None)
    key_set = await signers.key_set(connection, customer)
    if chosen is None or signer is None or service is None or key_set is None:
        raise NotEnrolled
    box, advertising = chosen
    at = now()
    locked = await status_lists.lock(connection, customer, [(product, box.epoch)])
    lists = await status_lists.renew(connection, customer, locked, signer, at)
    status_list = lists[max(lists)]  # the newest generation
    claims = {
        "iss": issuer(customer), "aud": box.name, "iat": int(at.timestamp()), "nonce": nonce,
        "root": key_set.root, "box": box.thumbprint,
        "advertising": await _advertising(connection, signers.vault, customer, box, advertising),
        "list": hashlib.sha256(status_list).digest(), "keyset": hashlib.sha256(key_set.data).digest(),
    }  # fmt: skip
    signed = cose.sign(PROVISIONING, service.kid, claims, service.key.sign)
    return Provisioning(signed, key_set.data, status_list, key_set.roots)


def _present(product: int, row: Row) -> BoxEnrolment:
    return BoxEnrolment(product, row["epoch"], public(row["public_key"]).thumbprint, row["is_pending"])


async def _advertising(
    connection: Connection, vault: Encryption, customer: int, box: BoxEnrolment, sealed: bytes | None
) -> bytes:
    """The secret of the names that the box advertises in this epoch. It is made if there is none."""
    place = (ADVERTISING_SECRET, customer, f"{box.product}.{box.epoch}")
    if sealed is None:
        secret = base64.b64encode(secrets.token_bytes(ADVERTISING)).decode()
        made = await vault.seal(connection, secret, *place)
        kept: bytes = await connection.fetchval(KEEP_ADVERTISING, customer, box.product, box.epoch, made)
        sealed = kept
    return base64.b64decode(await vault.open(sealed, *place), validate=True)


def time_for(customer: int, name: str, nonce: bytes, signer: ServiceKeySigner) -> bytes:
    """The signed time, for the box of this name and its nonce."""
    claims = {"iss": issuer(customer), "aud": name, "iat": int(now().timestamp()), "nonce": nonce}
    return cose.sign(TIME, signer.kid, claims, signer.key.sign)
