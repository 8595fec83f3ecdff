"""The fast path for the newest samples of units, as nearly all are.

One statement stores them. It decides as `car_state` does. That module processes all others: late samples, the first
sample of a unit, and cars with several samples in a batch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import LiteralString

import asyncpg
from pydantic_core import to_json

from keyrack.db.connection import Database
from keyrack.telemetry.rollups import KEPT
from keyrack.telemetry.samples import CheckedSample

# The rows of the cars' state are locked in the order of their keys, as by every writer. A run that ends becomes
# history. So does the quarter that ends, unless history already has a row of it. Every uncertain sample is left out:
# the result is the numbers of the stored samples
TAKE: LiteralString = """
with told as (
  select * from json_to_recordset($2::text::json) as n (
    number integer, serial text, uniq text, at timestamptz, latitude float8, longitude float8, odometer float8,
    readings jsonb)
), unit as (
  select distinct on (p.car_id) n.*, p.product_id, p.car_id
  from told n cross join lateral (
    select product_id, car_id, kind from product where customer_id = $1 and serial_number = n.serial union all
    select product_id, car_id, kind from product where customer_id = $1 and unique_id = n.uniq limit 1
  ) p
  where p.kind = 'IQ' and p.car_id is not null
  order by p.car_id
), ahead as (
  select s.*, n.number, n.at, n.odometer as new_odometer, n.readings, s.telemetry || n.readings as newest,
    date_bin('15 minutes', n.at, '2000-01-01 00:00:00+00') > s.read_quarter as ends_quarter,
    case when c.keeps_positions then n.latitude end as new_latitude,
    case when c.keeps_positions then n.longitude end as new_longitude,
    case when c.keeps_positions and n.latitude = s.latitude and n.longitude = s.longitude
      then continued_times(s.position_times, s.position_since, s.position_at, n.at) end as place_times,
    case when n.odometer = s.odometer
      then continued_times(s.odometer_times, s.odometer_since, s.odometer_at, n.at) end as distance_times
  from customer c cross join unit n cross join lateral (
    select * from car_state where customer_id = $1 and car_id = n.car_id for no key update
  ) s
  where c.customer_id = $1 and s.product_id = n.product_id
    and n.at > s.read_at and n.at >= now() - make_interval(days => coalesce(c.history_days, $3))
    and (n.latitude is null or not c.keeps_positions or s.position_since is not null and n.at > s.position_at)
    and (n.odometer is null or s.odometer_since is not null and n.at > s.odometer_at)
    and (date_bin('15 minutes', n.at, '2000-01-01 00:00:00+00') = s.read_quarter or (
      select at from telemetry h where h.customer_id = $1 and h.car_id = s.car_id and h.at = s.read_quarter) is null)
), places as (
  insert into position (customer_id, car_id, at, latitude, longitude, times)
  select customer_id, car_id, position_since, latitude, longitude, position_times
  from ahead where new_latitude is not null and place_times is null
), distances as (
  insert into odometer (customer_id, car_id, at, odometer, times)
  select customer_id, car_id, odometer_since, odometer, odometer_times
  from ahead where new_odometer is not null and distance_times is null
), quarters as (
  insert into telemetry (customer_id, car_id, at, read_at, readings, told)
  select a.customer_id, a.car_id, a.read_quarter, max(r.latest), jsonb_object_agg(r.name, r.value),
    coalesce(jsonb_object_agg(r.name, r.at) filter (where r.at < r.latest), '{}')
  from ahead a cross join lateral (
    select name, value, since.at, max(since.at) over () as latest from jsonb_each(a.telemetry) as kept (name, value)
    cross join lateral (select coalesce((a.told ->> name)::timestamptz, a.read_at) as at) since
    where name = any($4) and since.at >= a.read_quarter
  ) r
  where a.ends_quarter
  group by a.customer_id, a.car_id, a.read_quarter
), taken as (
  update car_state s set
    position_at = case when a.new_latitude is null then a.position_at else a.at end,
    latitude = coalesce(a.new_latitude, a.latitude), longitude = coalesce(a.new_longitude, a.longitude),
    position_since = case when a.new_latitude is null or a.place_times is not null then a.position_since else a.at end,
    position_times = case when a.new_latitude is null then a.position_times else a.place_times end,
    odometer_at = case when a.new_odometer is null then a.odometer_at else a.at end,
    odometer = coalesce(a.new_odometer, a.odometer),
    odometer_since =
      case when a.new_odometer is null or a.distance_times is not null then a.odometer_since else a.at end,
    odometer_times = case when a.new_odometer is null then a.odometer_times else a.distance_times end,
    read_at = a.at, telemetry = a.newest,
    told = case when a.newest = a.readings then '{}' else (
      select coalesce(jsonb_object_agg(name, coalesce(a.told -> name, to_jsonb(a.read_at))), '{}')
      from jsonb_object_keys(a.telemetry) as name where not a.readings ? name
    ) end
  from ahead a where s.customer_id = $1 and s.car_id = a.car_id
  returning a.number
)
select array(select number from taken)
"""


async def ingest_newer(
    db: Database, customer: int, parts: Sequence[Sequence[CheckedSample]], latest: datetime, days: int
) -> list[list[CheckedSample]]:
    """Store the samples that are the newest of their car; return the others by part.

    Only units with a single sample in the batch qualify, and samples not after `latest`. `days` is the retention of
    history for a customer without a setting of its own.
    """
    named = Counter(sample.unit for part in parts for sample in part)
    alone = [sample for part in parts for sample in part if named[sample.unit] == 1 and sample.at <= latest]
    if not alone:
        return [list(part) for part in parts]
    payload = to_json([_sample_members(number, sample) for number, sample in enumerate(alone)]).decode()
    try:
        numbers: list[int] = await db.fetchval(TAKE, customer, payload, days, KEPT)
    except (asyncpg.CheckViolationError, asyncpg.UniqueViolationError):
        # a partition is missing, or another unit's history has the same key: nothing was stored
        return [list(part) for part in parts]
    taken = {id(alone[number]) for number in numbers}
    return [[sample for sample in part if id(sample) not in taken] for part in parts]


def _sample_members(number: int, sample: CheckedSample) -> dict[str, object]:
    latitude, longitude = sample.position or (None, None)
    kind, name = sample.unit
    return {
        "number": number,
        "serial" if kind == "serialNumber" else "uniq": name,
        "at": sample.at,
        "latitude": latitude,
        "longitude": longitude,
        "odometer": sample.odometer,
        "readings": sample.values,
    }
