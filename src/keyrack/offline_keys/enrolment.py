"""Enrolment and provisioning of boxes: nonces, keys, epochs and messages.

Each new key of a box begins an epoch. The epoch is pending until an entry signed by the new key arrives. Then the
previous epoch ends, with its keys, lists and log (docs/key-enrolment.md, "Provisioning").

A pending epoch that was undone or replaced is discarded. It is restored if a box is in use under it
(docs/key-enrolment.md, "Discarded enrolments").
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import LiteralString

import structlog

from keyrack.api.principals import CallerKey
from keyrack.api.rate_limits import HOUR, RateLimit, take_each
from keyrack.core.settings import Settings
from keyrack.db.connection import Connection, Row
from keyrack.db.encryption.cipher import Encryption
from keyrack.offline_keys import advertising_secrets, cose, issuing_keys, status_list_slots, status_lists
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
LASTS = timedelta(minutes=10)  # validity of a nonce
LIMIT = "box-enrolments"

PUT_NONCE: LiteralString = """
insert into enrolment_nonce (customer_id, product_id, nonce, expires_at) values ($1, $2, $3, $4)
on conflict (customer_id, product_id) do update set nonce = excluded.nonce, expires_at = excluded.expires_at
"""
TAKE_NONCE: LiteralString = """
delete from enrolment_nonce where customer_id = $1 and product_id = $2 and nonce = $3 returning expires_at
"""
# The row of the box. It is locked for share while a key is issued
LOCK: LiteralString = "select from product where customer_id = $1 and product_id = $2 for no key update"
# For a reader of the box's epochs: no epoch begins, ends or is undone meanwhile
LOCK_SHARED: LiteralString = "select from product where customer_id = $1 and product_id = $2 for share"
# The epoch in force, followed by the pending one
PRESENT: LiteralString = """
select e.epoch, e.public_key, e.is_pending, e.enrolled_by, e.advertising, e.enrolled_at >= t.created_at as is_ours,
  e.proven_at is not null as is_proven, e.returned_at is not null and not t.needs_second_person as is_own_enough
from box_epoch e left join key_authority t using (customer_id)
where e.customer_id = $1 and e.product_id = $2 and e.discarded_at is null and e.epoch >= coalesce((
  select max(epoch) from box_epoch where customer_id = $1 and product_id = $2 and not is_pending), 0)
order by e.epoch
"""
# Includes a discarded epoch before the one in force. The previous release left such epochs, and they are not restored
USED: LiteralString = """
select exists (
  select from box_epoch where customer_id = $1 and product_id = $2 and public_key = $3 and (
    discarded_at is null or epoch < (
      select max(epoch) from box_epoch where customer_id = $1 and product_id = $2 and not is_pending)))
"""
INSERT: LiteralString = """
insert into box_epoch (customer_id, product_id, public_key, is_pending, enrolled_by, enrolled_at)
values ($1, $2, $3, $4, $5, clock_timestamp()) returning epoch
"""
# The key of a discarded epoch keeps that epoch, because a provisioned box obeys its name
ENROL_AGAIN: LiteralString = """
update box_epoch set discarded_at = null, heard_at = null, is_pending = $4, enrolled_by = $5,
  enrolled_at = clock_timestamp()
where customer_id = $1 and product_id = $2 and public_key = $3 and discarded_at is not null and epoch > coalesce((
  select max(epoch) from box_epoch where customer_id = $1 and product_id = $2 and not is_pending), 0)
returning epoch
"""
# Keys of earlier epochs open nothing once the box has another key
END: LiteralString = """
update box_key set revoked_at = clock_timestamp()
where customer_id = $1 and product_id = $2 and epoch < $3 and is_placed and revoked_at is null
"""
# An epoch that was discarded before the one in force is not restored
END_DISCARDED: LiteralString = """
delete from box_epoch where customer_id = $1 and product_id = $2 and epoch < $3 and discarded_at is not null
"""
PROVE: LiteralString = """
update box_epoch set proven_at = coalesce(proven_at, clock_timestamp())
where customer_id = $1 and product_id = $2 and epoch = $3 and is_pending and discarded_at is null
"""
APPROVE: LiteralString = """
update box_epoch set approved_at = clock_timestamp(), approved_by = $4
where customer_id = $1 and product_id = $2 and epoch = $3 and approved_at is null
"""
CONFIRM: LiteralString = """
update box_epoch e set is_pending = false from key_authority t
where e.customer_id = $1 and e.product_id = $2 and e.epoch = $3 and e.is_pending and e.discarded_at is null
  and e.proven_at is not null and t.customer_id = e.customer_id
  and (e.approved_at is not null or not t.needs_second_person and e.returned_at is null)
returning true
"""
# An approval is for one enrolment. Keys of the epoch are not revoked: phones no longer get them, and no list that could
# revoke them reaches the box
DISCARD: LiteralString = """
update box_epoch set discarded_at = clock_timestamp(), returned_at = null, approved_at = null, approved_by = null
where customer_id = $1 and product_id = $2 and is_pending and discarded_at is null
returning epoch, proven_at is not null as is_proven
"""
# Epochs beyond the limit, and those of a lost authority, which has no root that an entry could name
SUPERFLUOUS: LiteralString = """
select epoch, proven_at is not null as is_proven from (
  select epoch, proven_at, enrolled_at,
    row_number() over (partition by proven_at is null order by discarded_at desc, epoch desc) as place
  from box_epoch where customer_id = $1 and product_id = $2 and discarded_at is not null) d
where place > $3 or enrolled_at < (select created_at from key_authority where customer_id = $1)
order by epoch
"""
REVOKE: LiteralString = """
update box_key set revoked_at = clock_timestamp()
where customer_id = $1 and product_id = $2 and epoch = any($3::integer[]) and is_placed and revoked_at is null
"""
PURGE: LiteralString = """
delete from box_epoch
where customer_id = $1 and product_id = $2 and epoch = any($3::integer[]) and discarded_at is not null
"""
RETURN: LiteralString = """
update box_epoch set discarded_at = null, heard_at = null, returned_at = clock_timestamp()
where customer_id = $1 and product_id = $2 and epoch = $3 and discarded_at is not null and epoch > coalesce((
  select max(epoch) from box_epoch where customer_id = $1 and product_id = $2 and not is_pending), 0)
returning true
"""
# Whether the epoch had an entry when it was discarded. If so, the caller named it
WAS_IN_USE: LiteralString = """
select proven_at <= discarded_at from box_epoch where customer_id = $1 and product_id = $2 and epoch = $3
"""
# Returns true the first time only
HEAR: LiteralString = """
update box_epoch set heard_at = clock_timestamp(), proven_at = coalesce(proven_at, clock_timestamp())
where customer_id = $1 and product_id = $2 and epoch = $3 and discarded_at is not null
  and (heard_at is null or proven_at is null)
returning true
"""
# The box of this epoch may be the one in the car, although no entry of it has arrived
DISPLACE: LiteralString = """
update box_epoch set heard_at = discarded_at where customer_id = $1 and product_id = $2 and epoch = $3
"""
END_DISPLACED: LiteralString = """
update box_epoch set heard_at = null
where customer_id = $1 and product_id = $2 and discarded_at is not null and proven_at is null and heard_at is not null
"""
HEARD: LiteralString = """
select epoch from box_epoch
where customer_id = $1 and product_id = $2 and discarded_at is not null and heard_at is not null
order by proven_at is null, heard_at desc, epoch desc limit 1
"""
# A secret that a concurrent request has stored stays
KEEP_ADVERTISING: LiteralString = """
update box_epoch set advertising = coalesce(advertising, $4) where customer_id = $1 and product_id = $2 and epoch = $3
returning advertising
"""


class NoNonce(Exception):
    """The nonce was never issued, was used, or has expired."""


class UsedKey(Exception):
    """The box had this key in an earlier epoch. Each epoch has its own key."""


class NotEnrolled(Exception):
    """The box has no key under the present authority."""


class NotPending(Exception):
    """The box has no pending enrolment."""


class OtherKey(Exception):
    """The thumbprint of the box's key differs from the expected one."""


class InUse(Exception):
    """The pending enrolment is in use, and was not named."""


class SameCaller(Exception):
    """The caller that enrolled the box cannot approve the enrolment."""


@dataclass(frozen=True, slots=True)
class BoxEnrolment:
    """A box in one epoch."""

    product: int
    epoch: int
    thumbprint: bytes
    is_pending: bool = False

    @property
    def name(self) -> str:
        return box_name(self.product, self.epoch)


@dataclass(frozen=True, slots=True)
class Provisioning:
    """Three messages that a box accepts together.

    A box with an older root takes `roots` first.
    """

    provisioning: bytes
    key_set: bytes
    status_list: bytes
    roots: tuple[bytes, ...]


async def begin(connection: Connection, vault: Encryption, customer: int, product: int) -> tuple[bytes, datetime]:
    """A nonce for a box to sign, and its expiry.

    Creates the customer's authority if there is none.
    """
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
    replaces: bytes | None = None,
) -> BoxEnrolment:
    """Begin the next epoch of a box.

    The epoch is pending if another one is in force. A further enrolment replaces a pending one. If the pending one is
    in use, `replaces` must name it by its thumbprint. The same key returns the same epoch again, also the key of a
    discarded epoch. `thumbprint` is the expected one.

    Raises `MessageRefused` if the message is no enrolment or is not signed by its own key. Raises `OtherKey`,
    `NotPending`, `InUse`, `NoNonce`, `UsedKey`, `TooManyRequests`.
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
    pending = _pending(rows)
    if pending is not None or replaces is not None:
        _check_named(pending, replaces)
    expires = await connection.fetchval(TAKE_NONCE, customer, product, message.claims["nonce"])
    if expires is None or expires < now():
        raise NoNonce
    if await connection.fetchval(USED, customer, product, load_authority(key)):
        raise UsedKey
    await _take_limits(connection, settings, customer, caller)
    await _discard(connection, settings, customer, product)
    await connection.execute(END_DISPLACED, customer, product)
    is_pending = any(not row["is_pending"] for row in rows)
    columns = customer, product, load_authority(key), is_pending, _stored_caller(caller)
    old_epoch: int | None = await connection.fetchval(ENROL_AGAIN, *columns)
    epoch: int = old_epoch or await connection.fetchval(INSERT, *columns)
    if old_epoch is None:
        await status_list_slots.begin(connection, settings, customer, product, epoch, 1)
    if is_pending:
        log.warning("box in use enrolled again", customer=customer, product=product, epoch=epoch, alert=True)
    else:
        await _end_before(connection, customer, product, epoch)
    return BoxEnrolment(product, epoch, key.thumbprint, is_pending)


async def undo(
    connection: Connection, settings: Settings, customer: int, product: int, thumbprint: bytes | None = None
) -> None:
    """Undo the pending enrolment of a box: it is discarded.

    `thumbprint` names the enrolment, and is required if that is in use. If a box is in use under an epoch that was
    discarded before, that epoch is restored. Otherwise the epoch that the undone one displaced is restored. Raises
    `NotPending`, `OtherKey`, `InUse`.
    """
    await lock(connection, customer, product)
    _check_named(_pending(await connection.fetch(PRESENT, customer, product)), thumbprint)
    await _discard(connection, settings, customer, product)
    await _bring_back_heard(connection, customer, product)


async def approve(connection: Connection, customer: int, product: int, *, caller: CallerKey, thumbprint: bytes) -> None:
    """Approve the pending enrolment of the key with this thumbprint.

    The caller must differ from the one that enrolled the box. One person is enough for a restored enrolment, unless the
    customer requires a second one. Raises `NotPending`, `OtherKey`, `SameCaller`.
    """
    await lock(connection, customer, product)
    pending = _pending(await connection.fetch(PRESENT, customer, product))
    if pending is None:
        raise NotPending
    if public(pending["public_key"]).thumbprint != thumbprint:
        raise OtherKey
    if pending["enrolled_by"] == _stored_caller(caller) and not pending["is_own_enough"]:
        raise SameCaller
    await connection.execute(APPROVE, customer, product, pending["epoch"], _stored_caller(caller))
    if await _confirm(connection, customer, product, pending["epoch"]):
        await _bring_back_heard(connection, customer, product)


async def lock(connection: Connection, customer: int, product: int) -> None:
    """Lock a box before its epochs change.

    Meanwhile no key is issued for the box, and no issuing key is revoked.
    """
    await issuing_keys.hold(connection, customer)
    await connection.execute(LOCK, customer, product)


async def prove(connection: Connection, customer: int, product: int, epoch: int) -> bool:
    """Record that the key of a pending epoch has signed an entry.

    The epoch comes into force unless an approval is missing. Returns whether it did. The caller has locked the box.
    """
    await connection.execute(PROVE, customer, product, epoch)
    return await _confirm(connection, customer, product, epoch)


async def bring_back(connection: Connection, customer: int, product: int, epoch: int) -> bool:
    """Make a discarded epoch pending again after an entry of its key.

    Returns whether that succeeded. A pending epoch without an entry is displaced: it is discarded, and an undo of this
    epoch restores it. The pending epoch stays in two cases, with an alert the first time:

    - A caller discarded this epoch while it was in use, and named it. Otherwise the holder of a key could displace each
      later enrolment.
    - The pending epoch has an entry. The server cannot know which of the two boxes is in the car.

    The caller has locked the box.
    """
    pending = _pending(await connection.fetch(PRESENT, customer, product))
    if pending is not None and (
        pending["is_proven"] or await connection.fetchval(WAS_IN_USE, customer, product, epoch)
    ):
        if await connection.fetchval(HEAR, customer, product, epoch):
            log.error(
                "discarded enrolment in use",
                customer=customer, product=product, epoch=epoch, pending=pending["epoch"], alert=True,
            )  # fmt: skip
        return False
    await connection.execute(DISCARD, customer, product)
    if pending is not None:
        await connection.execute(DISPLACE, customer, product, pending["epoch"])
    if not await _return(connection, customer, product, epoch):
        return False  # purged or restored meanwhile
    await connection.execute(PROVE, customer, product, epoch)
    return True


async def _bring_back_heard(connection: Connection, customer: int, product: int) -> None:
    """Restore the discarded epoch whose box was heard last, if any.

    If no epoch has an entry, it is the one that was displaced last. No epoch of the box is pending.
    """
    epoch = await connection.fetchval(HEARD, customer, product)
    if epoch is not None:
        await _return(connection, customer, product, epoch)


async def _return(connection: Connection, customer: int, product: int, epoch: int) -> bool:
    """Make a discarded epoch pending again. It then needs an approval.

    Returns whether that succeeded.
    """
    if not await connection.fetchval(RETURN, customer, product, epoch):
        return False
    log.warning("discarded enrolment restored", customer=customer, product=product, epoch=epoch, alert=True)
    return True


def _pending(rows: Sequence[Row]) -> Row | None:
    """The pending one among the box's present epochs."""
    return next((row for row in rows if row["is_pending"]), None)


def _check_named(pending: Row | None, thumbprint: bytes | None) -> None:
    """Check that a caller may discard this epoch.

    The caller must name the epoch's key if that has signed an entry. Raises `NotPending`, `OtherKey`, `InUse`.
    """
    if pending is None:
        raise NotPending
    if thumbprint is None:
        if pending["is_proven"]:
            raise InUse
    elif public(pending["public_key"]).thumbprint != thumbprint:
        raise OtherKey


async def _confirm(connection: Connection, customer: int, product: int, epoch: int) -> bool:
    """Put a pending epoch into force, and end the one before.

    Returns False if a condition is not met.
    """
    if not await connection.fetchval(CONFIRM, customer, product, epoch):
        return False
    await _end_before(connection, customer, product, epoch)
    return True


async def _end_before(connection: Connection, customer: int, product: int, epoch: int) -> None:
    """End the epochs before the one in force, including discarded ones."""
    await connection.execute(END, customer, product, epoch)
    await connection.execute(END_DISCARDED, customer, product, epoch)
    await connection.execute(END_DISPLACED, customer, product)


async def _discard(connection: Connection, settings: Settings, customer: int, product: int) -> None:
    """Discard the pending epoch of a box, if there is one.

    An epoch in use causes an alert. Discarded epochs beyond the limit are deleted with their logs.
    """
    row = await connection.fetchrow(DISCARD, customer, product)
    if row is not None and row["is_proven"]:
        log.warning(
            "enrolment of a box in use discarded", customer=customer, product=product, epoch=row["epoch"], alert=True
        )
    rows = await connection.fetch(SUPERFLUOUS, customer, product, settings.max_discarded_enrolments)
    if rows:
        epochs = [row["epoch"] for row in rows]
        await connection.execute(REVOKE, customer, product, epochs)
        await connection.execute(PURGE, customer, product, epochs)
        in_use = [row["epoch"] for row in rows if row["is_proven"]]
        log.warning(
            "discarded enrolments deleted", customer=customer, product=product, epochs=epochs, in_use=in_use, alert=True
        )


async def _take_limits(connection: Connection, settings: Settings, customer: int, caller: CallerKey) -> None:
    """Count an enrolment against the limits. Raises `TooManyRequests`."""
    of_customer, of_caller = settings.enrolments_per_hour_per_customer, settings.enrolments_per_hour_per_caller
    await take_each(
        connection,
        (RateLimit(LIMIT, of_customer, of_customer, HOUR), f"customer {customer}"),
        (RateLimit(LIMIT, of_caller, of_caller, HOUR), f"customer {customer} {_stored_caller(caller)}"),
    )


def _stored_caller(caller: CallerKey) -> str:
    """A caller as columns of `box_epoch` store it: `manager:12` for manager 12."""
    return f"{caller.kind}:{caller.number}"


async def provision(
    connection: Connection,
    signers: IssuingKeySigners,
    customer: int,
    product: int,
    nonce: bytes,
    thumbprint: bytes | None = None,
) -> Provisioning:
    """The messages for a box, bound to its nonce.

    They are for the key with this thumbprint. Without a thumbprint they are for the pending epoch, if there is one.
    Raises `NotEnrolled`, `CannotDecrypt`, `InconsistentKeys`.
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
    """The secret of the names that the box advertises in this epoch.

    It is created if there is none.
    """
    key = box.product, box.epoch
    if sealed is None:
        made = await advertising_secrets.seal_new(connection, vault, customer, key)
        kept: bytes = await connection.fetchval(KEEP_ADVERTISING, customer, *key, made)
        sealed = kept
    return await advertising_secrets.unseal(vault, customer, key, sealed)


def time_for(customer: int, name: str, nonce: bytes, signer: ServiceKeySigner) -> bytes:
    """The signed time, for the box of this name and its nonce."""
    claims = {"iss": issuer(customer), "aud": name, "iat": int(now().timestamp()), "nonce": nonce}
    return cose.sign(TIME, signer.kid, claims, signer.key.sign)
