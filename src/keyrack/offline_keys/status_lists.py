"""The status lists of boxes: signed on request, if they are due.

A list is due at once after a revocation, and otherwise at the age `FRESH`. It is of one box, epoch and generation
(docs/key-protocol.md, "Members"). Its time advances without a change, since a box relies on it for as long as a key's
limit allows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import LiteralString

from keyrack.db.connection import Connection, Row
from keyrack.offline_keys import cose, status_list_bits
from keyrack.offline_keys.issuing_keys import IssuingKeySigner, box_name, issuer
from keyrack.offline_keys.message_fields import STATUS_LIST

FRESH = timedelta(minutes=5)  # age up to which a list without a revocation is returned unchanged
TTL = int(FRESH.total_seconds())
SECOND = timedelta(seconds=1)
AHEAD = timedelta(seconds=5)  # lead of lists over the clock, at most
WRONG = timedelta(weeks=1)  # lead over the clock that no box with a right clock accepts
LASTS = 28 * 86_400  # seconds until `exp`, which is for other verifiers: the longest life of a key

# All lists of these boxes, locked before their keys are read: a concurrent revocation marks them as outdated again
LOCK: LiteralString = """
select product_id, epoch, generation, uri, is_outdated, listed_at, list from status_generation
where customer_id = $1 and (product_id, epoch) in (select * from unnest($2::integer[], $3::integer[]))
order by product_id, epoch, generation for update
"""
REVOKED: LiteralString = """
select product_id, epoch, generation, array_agg(place) as places from box_key
where customer_id = $1 and (product_id, epoch, generation) in (
  select * from unnest($2::integer[], $3::integer[], $4::integer[])) and is_placed and revoked_at is not null
group by 1, 2, 3
"""
# `shown_at` is the time of the first list that shows a revocation. A list is earlier than the one before if the clock
# was wrong then
KEEP: LiteralString = """
with kept as (
  select * from unnest($2::integer[], $3::integer[], $4::integer[], $5::timestamptz[], $6::bytea[])
    u (product_id, epoch, generation, listed_at, list)
), shown as (
  update box_key k set shown_at = u.listed_at from kept u
  where k.customer_id = $1 and k.product_id = u.product_id and k.epoch = u.epoch and k.generation = u.generation
    and k.is_placed and k.revoked_at is not null and (k.shown_at is null or k.shown_at > u.listed_at)
)
update status_generation g set list = u.list, listed_at = u.listed_at, is_outdated = false from kept u
where g.customer_id = $1 and g.product_id = u.product_id and g.epoch = u.epoch and g.generation = u.generation
"""


@dataclass(frozen=True, slots=True, order=True)
class StatusListId:
    """The id of a list: product, epoch and generation."""

    product: int
    epoch: int
    generation: int


def is_due(row: Row, now: datetime) -> bool:
    """Whether the list of this row must be signed again.

    Each list has its own time, as a box accepts only a later one. Many revocations in a second would get ahead of the
    clock. So at a lead of `AHEAD` they wait for the clock. A list with a larger lead was signed by a wrong clock, and
    nothing waits for that. Boxes would refuse a list that is ahead by more than a week.
    """
    if row["list"] is None:
        return True
    ahead: timedelta = row["listed_at"] - now
    return ahead <= -FRESH or ahead > WRONG or (row["is_outdated"] and ahead != AHEAD)


def _next_time(row: Row, now: datetime) -> datetime:
    """The next time of a list: now, or after the last one."""
    before: datetime | None = row["listed_at"]
    return now if before is None or before - now > WRONG else max(now, before + SECOND)


async def lock(connection: Connection, customer: int, boxes: Iterable[tuple[int, int]]) -> list[Row]:
    """Lock all lists of these boxes until the transaction ends.

    Each box is a product in an epoch.
    """
    listed = sorted(set(boxes))
    return await connection.fetch(LOCK, customer, [product for product, _ in listed], [epoch for _, epoch in listed])


async def renew(
    connection: Connection, customer: int, rows: Iterable[Row], signer: IssuingKeySigner, now: datetime
) -> dict[StatusListId, bytes]:
    """The lists of these rows, signed again if they are due.

    The caller has locked the rows. `now` has whole seconds.
    """
    rows_by_place = {place_of(row): row for row in rows}
    due = {place: row for place, row in rows_by_place.items() if is_due(row, now)}
    lists_by_id: dict[StatusListId, bytes] = {
        place: row["list"] for place, row in rows_by_place.items() if place not in due
    }
    if due:
        revoked = {place_of(row): row["places"] for row in await connection.fetch(REVOKED, customer, *columns(due))}
        times = [_next_time(row, now) for row in due.values()]
        lists = [
            _signed(customer, list_id, row["uri"], revoked.get(list_id, ()), signer, at)
            for (list_id, row), at in zip(due.items(), times, strict=True)
        ]
        await connection.execute(KEEP, customer, *columns(due), times, lists)
        lists_by_id |= zip(due, lists, strict=True)
    return lists_by_id


def _signed(
    customer: int, place: StatusListId, uri: str, revoked: Iterable[int], signer: IssuingKeySigner, at: datetime
) -> bytes:
    bits = bytearray(status_list_bits.ENTRIES // 8)
    for index in revoked:
        bits[index // 8] |= 1 << index % 8
    iat = int(at.timestamp())
    claims = {
        "iss": issuer(customer), "sub": uri, "aud": box_name(place.product, place.epoch), "exp": iat + LASTS,
        "iat": iat, "status_list": status_list_bits.pack(bytes(bits)), "ttl": TTL, "generation": place.generation,
    }  # fmt: skip
    return cose.sign(STATUS_LIST, signer.kid, claims, signer.key.sign)


def place_of(row: Row) -> StatusListId:
    """The list of a row."""
    return StatusListId(row["product_id"], row["epoch"], row["generation"])


def columns(places: Iterable[StatusListId]) -> tuple[list[int], list[int], list[int]]:
    """Products, epochs and generations, as parameters of statements."""
    listed = list(places)
    return (
        [place.product for place in listed],
        [place.epoch for place in listed],
        [place.generation for place in listed],
    )
