"""Events: the records that a car was opened or closed, numbered per customer without gaps and in commit order."""

from __future__ import annotations

from typing import Literal, LiteralString

from keyrack.api import Answer, Endpoints, Request, created
from keyrack.bodies import Body, EventTime, Int32, Latitude, Longitude, LongText, instant, no_valid
from keyrack.endpoints.cars import NO_CAR
from keyrack.endpoints.users import NO_USER
from keyrack.errors import BadRequest, NotFound
from keyrack.resources import EVENT

endpoints = Endpoints("Events")

NO_EVENT = "Unable to find an event for the given eventId which is assigned to the given customerId."
CREATE_EVENT = "create event"

endpoints.get("/events/{eventId}", EVENT, "One event", one=True, missing=NO_EVENT)

# The counter's row stays locked until the commit: numbers have no gaps, and a higher one is never seen first
INSERT: LiteralString = """
with c as (select from car where customer_id = $1 and car_id = $2),
u as (select from customer_user where customer_id = $1 and user_id = $3),
n as (
  update event_counter set last_id = last_id + 1
  where customer_id = $1 and exists (select from c) and exists (select from u) returning last_id
),
e as (
  insert into event (customer_id, event_id, car_id, user_id, local_at, local_text, utc_at, type, user_agent,
                     latitude, longitude)
  select $1, last_id, $2, $3, $4, $5, $6, $7, $8, $9, $10 from n returning event_id
)
select (select event_id from e) as id, exists (select from c) as car, exists (select from u) as "user"
"""


class NewEvent(Body):
    date_time: EventTime
    utc_date_time: EventTime
    user_id: Int32
    car_id: Int32
    type: Literal["CarOpened", "CarClosed"] = "CarOpened"
    user_agent: LongText
    latitude: Latitude | None = None
    longitude: Longitude | None = None


@endpoints.put(
    "/events",
    "Record that a car was opened or closed",
    body=NewEvent,
    what=CREATE_EVENT,
    status=201,
    refuses={
        400: tuple(no_valid(CREATE_EVENT, member) for member in ("type", "dateTime", "utcDateTime", "userAgent")),
        404: (NO_CAR, NO_USER),
    },
)
async def create(request: Request, event: NewEvent) -> Answer:
    if not event.user_agent.strip():
        raise BadRequest(no_valid(CREATE_EVENT, "userAgent"))
    row = await request.db.fetchrow(
        INSERT, request.customer, event.car_id, event.user_id, instant(event.date_time), event.date_time,
        instant(event.utc_date_time), event.type, event.user_agent, event.latitude, event.longitude,
    )  # fmt: skip
    assert row is not None  # noqa: S101 - one row by its form
    if not row["car"]:
        raise NotFound(NO_CAR)
    if not row["user"]:
        raise NotFound(NO_USER)
    return created(row["id"])
