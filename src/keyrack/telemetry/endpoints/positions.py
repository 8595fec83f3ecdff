"""Positions of all cars, the track of one car, and its telemetry series. An extension of the spec."""

from __future__ import annotations

from typing import Annotated, LiteralString

from pydantic import ConfigDict, Field

from keyrack.api import conditional_requests
from keyrack.api.auth_schemes import CustomerAuth
from keyrack.api.endpoint import TAGGED, Doc, Responses, Tag
from keyrack.api.endpoint_registry import Endpoints
from keyrack.api.exchange import Request, Response
from keyrack.api.permissions import Permission
from keyrack.api.query_parameters import (
    TIME_RANGE,
    TOO_LONG_RANGE,
    QueryParameter,
    at_most,
    parse_parameters,
    time_range,
    whole_number,
)
from keyrack.api.schema.fields import utc
from keyrack.api.schema.request_body import Body, Id, Int32, Latitude, Longitude, Moment
from keyrack.api.services import ReadServices
from keyrack.core.error_codes import EMPTY_RANGE
from keyrack.core.errors import NotFound
from keyrack.fleet.endpoints.cars import NO_CAR
from keyrack.telemetry.schema import MEASURES, POSITION

endpoints = Endpoints[ReadServices](
    Tag("Positions", "Current positions of all cars; tracks and telemetry series of one car."),
    "positions",
    is_extension=True,
)

endpoints.read(
    "/positions",
    POSITION,
    Doc(
        "listPositions",
        "List the newest positions of all cars",
        "Returns every car, with or without a unit, with its newest position and whether an assignment is in force"
        " now.",
    ),
)

# For each run, its first and last reading within the time range. A run may begin before the range, on the same UTC day.
# The odometer reading of a point is less than a day old, because an odometer run lies within one day, too
TRACK: LiteralString = (
    """
with told as (
  select at, at as until, latitude, longitude from position
  where customer_id = $1 and car_id = $2 and at >= $3 and at < $4 and times is null
  union all
  select n.at, n.until, h.latitude, h.longitude from (
    select at, times, latitude, longitude from position
    where customer_id = $1 and car_id = $2 and at >= date_trunc('day', $3::timestamptz, 'UTC') and at < $4
      and times is not null
    union all
    select position_since, position_times, latitude, longitude from car_state
    where customer_id = $1 and car_id = $2 and position_since < $4
  ) h cross join lateral (
    select min(t) as at, max(t) as until from packed_times(h.at, h.times) t where t >= $3 and t < $4
  ) n where n.at is not null
), counted as (
  select *, row_number() over (order by at) as number, count(*) over () as places from told
), shown as (
  select * from counted
  where places <= $5 or number = 1
    or (number - 1) * ($5::bigint - 1) / (places - 1) > (number - 2) * ($5::bigint - 1) / (places - 1)
)
select convert_to(json_build_object(
  'carId', c.car_id, 'from', """
    + utc("$3::timestamptz")
    + """, 'to', """
    + utc("$4::timestamptz")
    + """, 'count', coalesce(max(s.places), 0), 'thinned', coalesce(max(s.places) > $5, false),
  'points', coalesce(json_agg(json_build_object(
    'utcDateTime', """
    + utc("s.at")
    + """, 'until', """
    + utc("s.until")
    + """, 'latitude', s.latitude, 'longitude', s.longitude, 'odometer', o.odometer) order by s.at)
    filter (where s.at is not null), '[]'))::text, 'UTF8')
from car c left join shown s on true left join lateral (
  select n.odometer from (
    (select at, odometer from odometer
     where customer_id = $1 and car_id = $2 and at <= s.at and at > s.at - interval '1 day' order by at desc limit 1)
    union all
    select odometer_since, odometer from car_state where customer_id = $1 and car_id = $2 and odometer_since <= s.at
  ) n order by n.at desc limit 1
) o on true
where c.customer_id = $1 and c.car_id = $2 group by c.car_id
"""
)


class TrackPoint(Body):
    utc_date_time: Moment
    until: Moment
    latitude: Latitude
    longitude: Longitude
    odometer: float | None


class TrackBody(Body):
    model_config = ConfigDict(title="Track")

    car_id: Id
    since: Annotated[Moment, Field(alias="from")]
    to: Moment
    count: Int32
    thinned: bool
    points: list[TrackPoint]


POINTS = QueryParameter(
    "points", whole_number, "The maximum number of points. Default: the maximum of the server.",
    {"type": "integer", "minimum": 1},
)  # fmt: skip
TRACK_OPTIONS = (*TIME_RANGE, POINTS)


@endpoints.get(
    "/cars/{carId}/track",
    Doc(
        "getCarTrack",
        "Get the track of a car",
        "Returns the positions of the car between `from` and `to`, in order of time. If there are more than `points`,"
        " they are thinned out evenly.",
    ),
    auth=CustomerAuth(Permission.POSITIONS_READ, is_group_scoped=True),
    responses=Responses(200, TrackBody, headers=TAGGED, errors={400: (EMPTY_RANGE, TOO_LONG_RANGE), 404: (NO_CAR,)}),
    query_parameters=TRACK_OPTIONS,
)
async def track(request: Request, services: ReadServices) -> Response:
    options = parse_parameters(request.query, TRACK_OPTIONS)
    since, until = time_range(options, services.settings.track_days)
    points = at_most(options, "points", services.settings.track_points)
    body = await request.db.fetchval(TRACK, request.customer, *request.ids, since, until, points)
    if body is None:
        raise NotFound(NO_CAR)
    return conditional_requests.created_response(request, body)


# Each reading goes into the bucket of its time. The range has $5 equal buckets; those without a reading are left out.
# The last reading of a bucket is the greatest pair of time and value.
#
# All odometer readings are stored. Other members have one value for each quarter of an hour. The last quarter has not
# ended, so its values are in the newest state; values of that quarter from another unit are a row already
SAMPLES: LiteralString = (
    """
with quarter as (
  select at as begins, read_at, readings, told from telemetry
  where customer_id = $1 and car_id = $2 and at > $3::timestamptz - interval '15 minutes' and at < $4::timestamptz
), open as (
  select date_bin('15 minutes', read_at, 'epoch') as begins, read_at, telemetry as readings, told from car_state
  where customer_id = $1 and car_id = $2 and read_at >= $3
), told as (
  select 'odometer' as name, at, odometer as value from odometer
  where customer_id = $1 and car_id = $2 and at >= $3 and at < $4 and times is null and 'odometer' = any($6::text[])
  union all
  select 'odometer', t, h.odometer from (
    select at, times, odometer from odometer
    where customer_id = $1 and car_id = $2 and at >= date_trunc('day', $3::timestamptz, 'UTC') and at < $4
      and times is not null
    union all
    select odometer_since, odometer_times, odometer from car_state
    where customer_id = $1 and car_id = $2 and odometer_since < $4
  ) h cross join lateral packed_times(h.at, h.times) t
  where t >= $3 and t < $4 and 'odometer' = any($6)
  union all
  select n.name, n.at, n.value from (
    select name, coalesce((q.told->>name)::timestamptz, q.read_at) as at, (q.readings->>name)::float8 as value
    from quarter q cross join unnest($6) name
    where q.readings ? name and not exists (select from open o where o.begins = q.begins)
    union all
    (select distinct on (name) name, coalesce((q.told->>name)::timestamptz, q.read_at) as at,
      (q.readings->>name)::float8
    from (
      select *, 0 as place from quarter where begins in (select begins from open) union all select *, 1 from open
    ) q cross join unnest($6) name
    where q.readings ? name and coalesce((q.told->>name)::timestamptz, q.read_at) >= q.begins
    order by name, at desc, place)
  ) n where n.at >= $3 and n.at < $4
), width as (
  select extract(epoch from $4::timestamptz - $3::timestamptz)::float8 / $5::float8 as seconds
), bucket as (
  select name, least(floor(extract(epoch from at - $3)::float8 / seconds), $5::float8 - 1) as number, count(*) as count,
    min(value) as min, max(value) as max, avg(value) as average,
    (max(array[extract(epoch from at)::float8, value]))[2] as last, max(at) as last_at
  from told, width group by 1, 2
), series as (
  select f.name, f.place, coalesce(json_agg(json_build_object(
    'utcDateTime', """
    + utc("$3::timestamptz + make_interval(secs => b.number * w.seconds)")
    + """, 'count', b.count, 'min', b.min, 'max', b.max, 'average', b.average, 'last', b.last,
    'lastDateTime', """
    + utc("b.last_at")
    + """) order by b.number)
    filter (where b.number is not null), '[]') as buckets
  from unnest($6) with ordinality f (name, place) cross join width w left join bucket b using (name)
  group by f.name, f.place
)
select convert_to(json_build_object(
  'carId', c.car_id, 'from', """
    + utc("$3::timestamptz")
    + """, 'to', """
    + utc("$4::timestamptz")
    + """, 'seconds', w.seconds, 'series', (select json_object_agg(name, buckets order by place) from series)
)::text, 'UTF8')
from car c cross join width w where c.customer_id = $1 and c.car_id = $2
"""
)
# Telemetry members with stored readings; others have only their newest value
KEPT = (
    "odometer",
    *MEASURES,
)


def _fields(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(text.split(",")))
    if any(name not in KEPT for name in names):
        raise ValueError(f"The valid properties are {', '.join(KEPT)}.")
    return names


class Bucket(Body):
    """The readings of a bucket, which begins at `utcDateTime` and has the length `seconds` of the response."""

    utc_date_time: Moment
    count: Int32
    min: float
    max: float
    average: float
    last: float
    last_date_time: Moment


class Samples(Body):
    car_id: Id
    since: Annotated[Moment, Field(alias="from")]
    to: Moment
    seconds: float
    series: Annotated[
        dict[str, list[Bucket]], Field(description=("The buckets of each property in `fields`, by its name."))
    ]


FIELDS = QueryParameter(
    "fields", _fields, "Comma-separated properties of telemetry. Default: all with stored readings.",
    {"type": "string", "examples": ["odometer", "fuelLevelPercent,batteryVoltage"]},
)  # fmt: skip
SAMPLES_OPTIONS = (FIELDS, *TIME_RANGE, POINTS)


@endpoints.get(
    "/cars/{carId}/samples",
    Doc(
        "getCarSamples",
        "Get telemetry series of a car for charts",
        "Returns the readings between `from` and `to`, in at most `points` buckets of equal length for each property"
        " in `fields`. Empty buckets are omitted.",
    ),
    auth=CustomerAuth(Permission.POSITIONS_READ, is_group_scoped=True),
    responses=Responses(200, Samples, headers=TAGGED, errors={400: (EMPTY_RANGE, TOO_LONG_RANGE), 404: (NO_CAR,)}),
    query_parameters=SAMPLES_OPTIONS,
)
async def samples(request: Request, services: ReadServices) -> Response:
    options = parse_parameters(request.query, SAMPLES_OPTIONS)
    since, until = time_range(options, services.settings.track_days)
    points = at_most(options, "points", services.settings.sample_points)
    fields = options.get("fields", KEPT)
    body = await request.db.fetchval(SAMPLES, request.customer, *request.ids, since, until, points, fields)
    if body is None:
        raise NotFound(NO_CAR)
    return conditional_requests.created_response(request, body)
