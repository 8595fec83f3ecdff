"""In charge of places in status lists: which one a new key gets, when a box begins another list, when a place is free.

A place is a key's own until nothing could open by it any more, whether it was revoked or not: a list must not say of a
new key what it said of an old one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import LiteralString

from keyrack.database.connection import Connection, Database, Row
from keyrack.database.pieces import repeat
from keyrack.keys.lists import Place
from keyrack.keys.moments import now
from keyrack.settings import Settings

LONGEST_URI = 128  # characters (docs/keys.md, "Members")
MARGIN = timedelta(hours=1)  # after which a place is free: the tolerance of boxes, and what their clocks may be slow by

LOCK: LiteralString = """
select from status_generation where customer_id = $1 and (product_id, epoch) in (
  select * from unnest($2::integer[], $3::integer[]))
order by product_id, epoch, generation for update
"""
# Of each box the list that grows, as many free places of it as are wanted, and whether one before it is still needed
FREE: LiteralString = """
select b.product_id, b.epoch, g.generation, array(
    select i from generate_series(0, 2047) i where not exists (
      select from box_key k where k.customer_id = $1 and k.product_id = b.product_id and k.epoch = b.epoch
        and k.generation = g.generation and k.place = i and k.is_placed)
    limit b.wanted) as places,
  exists (select from box_key k where k.customer_id = $1 and k.product_id = b.product_id and k.epoch = b.epoch
    and k.generation < g.generation and k.is_placed) as has_older
from unnest($2::integer[], $3::integer[], $4::integer[]) b (product_id, epoch, wanted)
join lateral (select max(generation) as generation from status_generation s
  where s.customer_id = $1 and s.product_id = b.product_id and s.epoch = b.epoch) g on true
"""
BEGIN: LiteralString = """
insert into status_generation (customer_id, product_id, epoch, generation, uri) values ($1, $2, $3, $4, $5)
"""
OF_ASSIGNMENTS: LiteralString = """
select assignment_id, count(*) as keys from box_key
where customer_id = $1 and assignment_id = any($2::integer[]) and is_placed group by assignment_id
"""
GIVE_BACK: LiteralString = """
with gone as (
  update box_key set is_placed = false where (customer_id, key_id) in (
    select customer_id, key_id from box_key where is_placed
      and greatest(expires_at, issued_at + make_interval(secs => freshness)) < $1
    limit $2)
  returning true)
select count(*) from gone
"""
FORGET: LiteralString = """
with gone as (
  delete from box_key where (customer_id, key_id) in (
    select customer_id, key_id from box_key where not is_placed and issued_at < $1
    limit $2)
  returning true)
select count(*) from gone
"""

TOO_MANY = "too-many-keys"  # phones of this user have been given as many as one assignment may have
LIST_FULL = "status-list-full"  # both lists of the box are full of keys that may still open


@dataclass(frozen=True, slots=True)
class Taken:
    """What each assignment got: its place, or why there is none."""

    places: Mapping[int, tuple[Place, int]]
    refused: Mapping[int, str]


async def begin(
    connection: Connection, settings: Settings, customer: int, product: int, epoch: int, generation: int
) -> None:
    """Begin a list."""
    uri = _uri(settings, product, epoch, generation)
    await connection.execute(BEGIN, customer, product, epoch, generation, uri)


async def take(connection: Connection, settings: Settings, customer: int, rows: Sequence[Row]) -> Taken:
    """A place for a new key of each of these rights, which are of different assignments, in the caller's transaction;
    their boxes' lists are locked."""
    counted = await connection.fetch(OF_ASSIGNMENTS, customer, [row["assignment_id"] for row in rows])
    many = {row["assignment_id"] for row in counted if row["keys"] >= settings.keys_per_assignment}
    refused = dict.fromkeys(many, TOO_MANY)
    places: dict[int, tuple[Place, int]] = {}
    wanted = [row for row in rows if row["assignment_id"] not in many]
    boxes = Counter((row["product_id"], row["epoch"]) for row in wanted)
    products, epochs = [product for product, _ in boxes], [epoch for _, epoch in boxes]
    await connection.execute(LOCK, customer, products, epochs)
    for free in await connection.fetch(FREE, customer, products, epochs, list(boxes.values())):
        box = (free["product_id"], free["epoch"])
        assignments = [row["assignment_id"] for row in wanted if (row["product_id"], row["epoch"]) == box]
        got = [(Place(*box, free["generation"]), place) for place in free["places"]]
        if len(got) < len(assignments) and not free["has_older"]:
            await begin(connection, settings, customer, *box, free["generation"] + 1)
            got += _first(Place(*box, free["generation"] + 1), len(assignments) - len(got))
        places |= zip(assignments, got, strict=False)
        refused |= dict.fromkeys(assignments[len(got) :], LIST_FULL)
    return Taken(places, refused)


def _first(place: Place, count: int) -> Iterable[tuple[Place, int]]:
    return [(place, number) for number in range(count)]


def _uri(settings: Settings, product: int, epoch: int, generation: int) -> str:
    """What a list is called for good: where it can be had, if that fits."""
    path = f"/v3/boxes/{product}/status?epoch={epoch}&generation={generation}"
    uri = settings.public_url + path
    return uri if len(uri) <= LONGEST_URI else "keyrack:" + path


async def tend(db: Database, settings: Settings) -> None:
    """Give back the places of keys that open nothing any more, and forget old keys. A step of housekeeping."""
    await repeat(db, settings.housekeeping_rows, GIVE_BACK, now() - MARGIN)
    await repeat(db, settings.housekeeping_rows, FORGET, now() - timedelta(days=settings.key_days))
