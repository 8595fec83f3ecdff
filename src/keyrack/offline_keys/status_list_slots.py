"""Places in status lists: allocation to new keys, new lists, and release.

A place belongs to a key until the key can open nothing, whether it was revoked or not. Otherwise a list would say of a
new key what holds for an old one. A clock that is ahead releases places too early. They are taken back once the clock
is right, because a removed phone would open again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from typing import LiteralString

import structlog

from keyrack.core.settings import Settings
from keyrack.db.connection import Connection, Database, Row
from keyrack.db.row_batches import run_in_batches
from keyrack.offline_keys.message_fields import LONGEST_URI
from keyrack.offline_keys.status_list_bits import ENTRIES
from keyrack.offline_keys.status_lists import StatusListId, place_of
from keyrack.offline_keys.timestamps import now

log = structlog.get_logger("keyrack.status_lists")

Box = tuple[int, int]  # a product in an epoch

MARGIN = timedelta(hours=1)  # until a place is free: the tolerance of boxes, and the lag of their clocks

# The places in use, by list
TAKEN: LiteralString = """
select product_id, epoch, generation, array_agg(place) as places from box_key
where customer_id = $1 and (product_id, epoch) in (select * from unnest($2::integer[], $3::integer[])) and is_placed
group by 1, 2, 3
"""
BEGIN: LiteralString = """
insert into status_generation (customer_id, product_id, epoch, generation, uri) values ($1, $2, $3, $4, $5)
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
# Keys without a place that may still open. No key opens 28 days after its issue. Their lists are locked first, as they
# are to issue keys
EARLY: LiteralString = """
not is_placed and issued_at >= $1::timestamptz - interval '29 days'
and greatest(expires_at, issued_at + make_interval(secs => freshness)) >= $1
"""
LOCK_EARLY: LiteralString = (
    """
select customer_id, product_id, epoch, generation from status_generation
where (customer_id, product_id, epoch, generation) in (
  select customer_id, product_id, epoch, generation from box_key where """
    + EARLY
    + """)
order by customer_id, product_id, epoch, generation for update
"""
)
_OF_LISTS: LiteralString = """(customer_id, product_id, epoch, generation) in (
  select * from unnest($2::integer[], $3::integer[], $4::integer[], $5::integer[]))
"""
# A place that another key has by now: neither key can be revoked alone, so both are. One pass over the keys of these
# lists, because a wrong clock can make every key of the installation an early one
REVOKE_SHARED: LiteralString = (
    """
with listed as (
  select customer_id, key_id, count(*) over of_place as keys, bool_or("""
    + EARLY
    + """) over of_place as has_early
  from box_key where """
    + _OF_LISTS
    + """ and (is_placed or issued_at + make_interval(secs => freshness) >= $1 or expires_at >= $1)
  window of_place as (partition by customer_id, product_id, epoch, generation, place)
)
update box_key k set revoked_at = clock_timestamp() from listed l
where k.customer_id = l.customer_id and k.key_id = l.key_id and l.has_early and l.keys > 1 and k.revoked_at is null
"""
)
TAKE_BACK: LiteralString = (
    """
with taken as (
  update box_key set is_placed = true where (customer_id, key_id) in (
    select distinct on (customer_id, product_id, epoch, generation, place) customer_id, key_id from box_key k where """
    + EARLY
    + " and "
    + _OF_LISTS
    + """
      and not exists (select from box_key o where o.customer_id = k.customer_id and o.product_id = k.product_id
        and o.epoch = k.epoch and o.generation = k.generation and o.place = k.place and o.is_placed)
    order by customer_id, product_id, epoch, generation, place, number desc)
  returning true
), outdated as (
  update status_generation set is_outdated = true where """
    + _OF_LISTS
    + """
)
select count(*)::integer from taken
"""
)
FORGET: LiteralString = """
with gone as (
  delete from box_key where (customer_id, key_id) in (
    select customer_id, key_id from box_key where not is_placed and issued_at < $1
    limit $2)
  returning true)
select count(*) from gone
"""

TOO_MANY = "too-many-keys"  # the assignment has the maximum number of keys, on phones of this user
LIST_FULL = "status-list-full"  # both lists of the box are full of keys that may still open


@dataclass(frozen=True, slots=True)
class SlotAllocation:
    """The result of a search for places of new keys.

    It has the place of each key, which is None if the lists of its box are full, and the URIs of new lists.
    """

    places: Sequence[tuple[StatusListId, int] | None]
    begun: Mapping[StatusListId, str]


async def begin(
    connection: Connection, settings: Settings, customer: int, product: int, epoch: int, generation: int
) -> str:
    """Begin a list. Returns its URI."""
    uri = _uri(settings, product, epoch, generation)
    await connection.execute(BEGIN, customer, product, epoch, generation, uri)
    return uri


async def take(
    connection: Connection, settings: Settings, customer: int, boxes: Sequence[Box], locked: Iterable[Row]
) -> SlotAllocation:
    """Allocate a place for a new key of each of these boxes.

    A box occurs once for each key. `locked` are all lists of the boxes.
    """
    counts = Counter(boxes)
    columns = ([product for product, _ in counts], [epoch for _, epoch in counts])
    taken_rows = await connection.fetch(TAKEN, customer, *columns) if counts else []
    taken: dict[StatusListId, set[int]] = {place_of(row): set(row["places"]) for row in taken_rows}
    free: dict[Box, Iterator[tuple[StatusListId, int]]] = {}
    begun: dict[StatusListId, str] = {}
    newest = {(place.product, place.epoch): place for place in sorted(place_of(row) for row in locked)}
    for box, count in counts.items():
        place = newest[box]
        got = _free(place, taken.get(place, set[int]()), count)
        if len(got) < count and not any(_is_before(list_id, place) for list_id in taken):
            place = StatusListId(*box, place.generation + 1)
            begun[place] = await begin(connection, settings, customer, *box, place.generation)
            got += _free(place, set[int](), count - len(got))
        free[box] = iter(got)
    return SlotAllocation([next(free[box], None) for box in boxes], begun)


def _free(place: StatusListId, taken: Container[int], count: int) -> list[tuple[StatusListId, int]]:
    """Up to `count` free places of a list, the lowest first."""
    return [(place, slot) for slot in islice((slot for slot in range(ENTRIES) if slot not in taken), count)]


def _is_before(place: StatusListId, other: StatusListId) -> bool:
    """Whether a list is an older one of the same box."""
    return (place.product, place.epoch) == (other.product, other.epoch) and place.generation < other.generation


def _uri(settings: Settings, product: int, epoch: int, generation: int) -> str:
    """The permanent name of a list: its address, if short enough."""
    path = f"/v3/boxes/{product}/status?epoch={epoch}&generation={generation}"
    uri = settings.public_url + path
    return uri if len(uri) <= LONGEST_URI else "keyrack:" + path


async def recycle_slots(db: Database, settings: Settings) -> None:
    """Release the places of keys that open nothing, and delete old keys.

    A housekeeping step.
    """
    await _take_back(db)
    await run_in_batches(db, settings.housekeeping_rows, GIVE_BACK, now() - MARGIN)
    await run_in_batches(
        db, settings.housekeeping_rows, FORGET, now() - timedelta(days=settings.offline_key_retention_days)
    )


async def _take_back(db: Database) -> None:
    """Take back places that were released too early."""
    at = now() - MARGIN
    async with db.transaction() as connection:
        rows = await connection.fetch(LOCK_EARLY, at)
        if not rows:
            return
        columns = [[row[name] for row in rows] for name in ("customer_id", "product_id", "epoch", "generation")]
        await connection.execute(REVOKE_SHARED, at, *columns)
        taken: int = await connection.fetchval(TAKE_BACK, at, *columns)
    if taken:
        log.error("status list slots released too early", keys=taken, alert=True)
