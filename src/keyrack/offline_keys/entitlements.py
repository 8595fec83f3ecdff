"""A phone's rights to boxes, and whether their keys are due."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import LiteralString
from uuid import UUID

from keyrack.db.connection import Row
from keyrack.offline_keys.cose import PublicKey
from keyrack.offline_keys.issuing_keys import AUTHORITY, InconsistentKeys, public
from keyrack.offline_keys.message_fields import CLOSE, OPEN, UNCERTAIN
from keyrack.offline_keys.status_lists import StatusListId


# For each phone one row for each assignment that is in force, or begins within a key's life, if the car has a box that
# takes keys. The box's epoch in force and a pending epoch have a row each. A row has the phone by its place `n`, the
# phone's newest key for the epoch, and the newest list. The first row of a phone has the authority as well: all rows
# would repeat it. A phone without assignments has one row, and an unknown phone has none. The parameters are $1
# customer, $2 subjects, $3 phones, $4 times, $5 maximum number of rights of a phone, $6 whether to count the keys.
# `keys` counts those of the assignment with a place in the lists of the epoch, without those that a manager excluded
def _rights(phones: LiteralString) -> LiteralString:
    """The statement for the rows `w` of these phones."""
    return (
        "with authority as materialized ("
        + AUTHORITY
        + """)
select w.n, d.public_key, d.is_approved, s.subject, t.*, r.*
from """
        + phones
        + """ w (subject, device_id, at, n)
join app_subject s on s.customer_id = $1 and s.subject = w.subject
join app_device d on d.customer_id = s.customer_id and d.user_id = s.user_id and d.device_id = w.device_id
left join lateral (
  select row_number() over (order by greatest(a.starts_at, w.at), a.assignment_id, e.epoch) as position,
    a.assignment_id, a.car_id, a.user_id, a.starts_at, a.ends_at, a.lifetime,
    coalesce(a.renewable_after, a.lifetime / 2) as renewable_after,
    p.product_id, e.epoch, e.public_key as box_key, e.receipt, e.advertising, g.generation, g.uri, g.is_outdated,
    g.listed_at, g.list, k.key_id, k.issued_at, k.begins_at, k.expires_at, k.generation as key_generation,
    k.issuing_key_id, k.rights, k.freshness, k.token, case when $6 then (
      select count(*) from box_key where customer_id = a.customer_id and assignment_id = a.assignment_id
        and epoch = e.epoch and is_placed and is_counted) end as keys
  from key_authority c
  join assignment a on a.customer_id = c.customer_id
  join product p on p.customer_id = a.customer_id and p.car_id = a.car_id and p.kind = 'Box'
  join service v on v.customer_id = p.customer_id and v.product_id = p.product_id and not v.is_terminated
  join box_epoch e on e.customer_id = p.customer_id and e.product_id = p.product_id
    and e.enrolled_at >= c.created_at and e.discarded_at is null and e.epoch >= coalesce((
      select max(epoch) from box_epoch
      where customer_id = p.customer_id and product_id = p.product_id and not is_pending), 0)
  join lateral (
    select generation, uri, is_outdated, listed_at, list from status_generation
    where customer_id = p.customer_id and product_id = p.product_id and epoch = e.epoch
    order by generation desc limit 1) g on true
  left join lateral (
    select * from box_key where customer_id = a.customer_id and device_id = d.device_id
      and assignment_id = a.assignment_id and product_id = p.product_id and epoch = e.epoch and is_placed
      and revoked_at is null
    order by number desc limit 1) k on true
  where c.customer_id = d.customer_id and a.user_id = d.user_id and (a.ends_at is null or a.ends_at > w.at)
    and a.starts_at < w.at + make_interval(secs => a.lifetime)
  order by greatest(a.starts_at, w.at), a.assignment_id, e.epoch limit $5) r on true
left join authority t on coalesce(r.position, 1) = 1
"""
    )


RIGHTS = _rights("unnest($2::uuid[], $3::bytea[], $4::timestamptz[]) with ordinality")
# For one phone: PostgreSQL takes arrays for long ones, and would plan the statement again each time
RIGHTS_OF_ONE = _rights("(values ($2::uuid, $3::bytea, $4::timestamptz, 1))")


# The rows that keys of assignments $3 for phones $2 depend on: no transaction changes them meanwhile. Another request
# for one of these phones waits. The authority is locked first, as `hold` does, then the phones in one order everywhere
def _lock(phones: LiteralString, assignments: LiteralString) -> LiteralString:
    """The statement for phones and assignments with these conditions."""
    return (
        """
with authority as materialized (
  select from key_authority where customer_id = $1 for key share
), phone as materialized (
  select customer_id, user_id from app_device
  where customer_id = $1 and """
        + phones
        + """ and exists (select from authority)
  order by device_id for no key update
)
select a.assignment_id
from phone join assignment a using (customer_id, user_id) join product p using (customer_id, car_id)
  join service v on v.customer_id = p.customer_id and v.product_id = p.product_id
where """
        + assignments
        + """ and p.kind = 'Box'
order by a.assignment_id for share of a, p, v
"""
    )


LOCK = _lock("device_id = any($2::bytea[])", "a.assignment_id = any($3::integer[])")
LOCK_OF_ONE = _lock("device_id = $2", "a.assignment_id = $3")  # for the same reason as `RIGHTS_OF_ONE`

FUTURE = timedelta(minutes=5)  # a key issued further ahead comes from a wrong clock, and boxes may refuse it

Right = tuple[int, int]  # an assignment, and the epoch of the box: a pending epoch has keys of its own


@dataclass(frozen=True, slots=True)
class Phone:
    """The phone that keys are for, and the terms of its keys."""

    customer: int
    device: bytes  # the thumbprint of its key
    key: PublicKey
    subject: UUID
    freshness: int | None
    rights: list[int]
    signers: list[int]  # valid issuing keys, the signing one first


def phone_of(row: Row, customer: int, device: bytes) -> Phone:
    """The phone of a row of `RIGHTS`.

    It is the phone's first row, with an authority. Raises `InconsistentKeys` if the public key has another thumbprint
    than the phone's id.
    """
    rights = [OPEN, CLOSE, UNCERTAIN] if row["opens_uncertain"] else [OPEN, CLOSE]
    key = public(row["public_key"])
    if key.thumbprint != device:
        raise InconsistentKeys(customer, f"app_device.public_key of {device.hex()} has another thumbprint")
    return Phone(customer, device, key, row["subject"], row["chosen_freshness"], rights, row["signers"])


def needs_renewal(row: Row, phone: Phone, now: datetime) -> bool:
    """Whether a right needs a new key.

    It does if it has none, if its renewal is due, or if assignment, customer or authority now require another one.
    """
    if row["key_id"] is None:
        return True
    begins, expires = life(row, row["issued_at"])
    return (
        row["issued_at"] > now + FUTURE
        or now >= row["issued_at"] + timedelta(seconds=row["renewable_after"])
        or (row["begins_at"], row["expires_at"]) != (begins, expires)
        or row["issuing_key_id"] not in phone.signers
        or list(row["rights"]) != phone.rights
        or row["freshness"] != freshness(row, phone)
    )


def life(row: Row, issued: datetime) -> tuple[datetime, datetime]:
    """The begin and the end of a key issued at this time.

    Both are in whole seconds.
    """
    expires = issued + timedelta(seconds=row["lifetime"])
    return max(issued, row["starts_at"]), expires if row["ends_at"] is None else min(expires, row["ends_at"])


def freshness(row: Row, phone: Phone) -> int:
    """Seconds for which the key is valid without news from the server.

    If the customer has no limit, this is the key's whole life.
    """
    return row["lifetime"] if phone.freshness is None else phone.freshness


def right_of(row: Row) -> Right:
    """The right of a row of `RIGHTS`."""
    return row["assignment_id"], row["epoch"]


def box_of(row: Row) -> tuple[int, int]:
    """The product and the epoch of the right's box."""
    return row["product_id"], row["epoch"]


def of_key(row: Row) -> StatusListId:
    """The list that contains the right's key."""
    return StatusListId(row["product_id"], row["epoch"], row["key_generation"])
