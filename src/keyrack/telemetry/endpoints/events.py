"""Events: the records that a car was opened or closed, numbered per customer without gaps and in commit order."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal, LiteralString

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from keyrack.api.auth_schemes import CustomerAuth, DeviceAuth
from keyrack.api.endpoint import Doc, JsonBody, RawBody, Responses, Tag
from keyrack.api.endpoint_registry import Endpoints
from keyrack.api.exchange import Request, Response, answer, created
from keyrack.api.permissions import Permission
from keyrack.api.principals import Scope
from keyrack.api.request_mode import RequestMode
from keyrack.api.schema.field_errors import blank
from keyrack.api.schema.request_body import (
    Int32,
    Latitude,
    Longitude,
    LongText,
    Moment,
    StrictBody,
    WallClock,
    invalid_member,
    wall_clock,
)
from keyrack.core.error_codes import ErrorCode, FieldError
from keyrack.core.errors import BadRequest, NotFound, Refusal
from keyrack.core.metrics.catalog import EVENTS
from keyrack.core.settings import Settings
from keyrack.core.text import NOT_BLANK_LINE, is_blank
from keyrack.db.connection import Database, Row
from keyrack.db.named_parameters import compile_statement
from keyrack.db.worker_wakeup import DELIVER
from keyrack.fleet.endpoints.cars import NO_CAR
from keyrack.fleet.endpoints.users import NO_USER
from keyrack.fleet.schema import EVENT
from keyrack.telemetry.endpoints.ingest import IngestResult, shown
from keyrack.telemetry.json_lines import INVALID_LINES, InvalidLine, NotALine, Report, explained, lines
from keyrack.telemetry.services import EventServices
from keyrack.webhooks.event_deliveries import EventPublisher, takes_events_sql

endpoints = Endpoints[EventServices](
    Tag("Events", "Openings and closings of cars by users.", frozenset(("events",))), "events"
)

NO_EVENT = ErrorCode(
    "event-not-found",
    "Unable to find an event for the given eventId which is assigned to the given customerId.",
    "Use an id that `GET /cars/{carId}/events` returns.",
)
CREATE_EVENT = "create event"
TOO_LATE = "`utcDateTime` is in the future."
TOO_EARLY = "`utcDateTime` is more than {days} days in the past."
PER_BATCH = 100  # lines of a delivery that are read and recorded together

endpoints.read(
    "/events",
    EVENT,
    Doc(
        "listEvents",
        "List events",
        "Events are numbered per customer, without gaps and in the order of their recording. So `$filter=id gt"
        " N&$orderby=id` returns all new events and misses none. A long list has several pages.",
        is_extension=True,
    ),
    is_paged=True,
)
ONE_EVENT = endpoints.read(
    "/events/{eventId}",
    EVENT,
    Doc("getEvent", "Get an event", "Returns one event, even if its car or user no longer exists."),
    is_single=True,
    missing_error=NO_EVENT,
)

# The counter's row stays locked until the commit: numbers have no gaps, and no higher number is visible first. If a
# webhook takes the events, nothing is recorded unless the caller publishes them in the same transaction
RECORD = compile_statement(
    """
with wanted as materialized (select {takes_events} as is_wanted),
told as (
  select * from unnest(
    :car_id::integer[], :user_id::integer[], :local_at::timestamptz[], :local_text::text[], :utc_at::timestamptz[],
    :type::text[], :user_agent::text[], :latitude::float8[], :longitude::float8[], :client_id::text[], :unit::integer[])
    with ordinality as t (car_id, user_id, local_at, local_text, utc_at, type, user_agent, latitude, longitude,
                          client_id, unit, n)
), judged as (
  select t.*, e.event_id as known,
    exists (select from car c where c.customer_id = :customer and c.car_id = t.car_id)
    and (t.unit is null or exists (
      select from product p where p.customer_id = :customer and p.product_id = t.unit and p.car_id = t.car_id)) as car,
    exists (select from customer_user u where u.customer_id = :customer and u.user_id = t.user_id) as "user"
  from told t left join event e on e.customer_id = :customer and e.client_id = t.client_id
), new as (
  select j.*, row_number() over (order by n)::integer as step from judged j, wanted
  where known is null and car and "user" and (:publishes or not is_wanted)
), counter as (
  update event_counter set last_id = last_id + (select count(*) from new)
  where customer_id = :customer and exists (select from new)
  returning last_id - (select count(*) from new)::integer as before
), written as (
  insert into event (customer_id, event_id, car_id, user_id, local_at, local_text, utc_at, type, user_agent,
                     latitude, longitude, client_id, recorded_at)
  select :customer, before + step, car_id, user_id, local_at, local_text, utc_at, type, user_agent,
    case when keeps_positions then latitude end, case when keeps_positions then longitude end, client_id,
    clock_timestamp()
  from new, counter, customer where customer.customer_id = :customer
)
select j.car, j."user", j.known, counter.before + new.step as id, j.type, is_wanted
from judged j cross join wanted left join new using (n) left join counter on true order by j.n
""".replace("{takes_events}", takes_events_sql(":customer"))
)
# Taken before `RECORD`, so that no other transaction can add the same client ids after the check
ALONE: LiteralString = "select from event_counter where customer_id = $1 for update"


class NewEvent(StrictBody):
    date_time: WallClock
    utc_date_time: Moment
    user_id: Int32
    car_id: Int32
    type: Literal["CarOpened", "CarClosed"] = "CarOpened"
    user_agent: LongText
    latitude: Latitude | None = None
    longitude: Longitude | None = None


class OfflineEvent(NewEvent):
    """An event that is delivered later, possibly more than once. `clientId` identifies it."""

    client_id: Annotated[str, Field(max_length=200, pattern=NOT_BLANK_LINE)]


class EventIdBody(BaseModel):
    model_config = ConfigDict(title="Numbered")

    line: int
    id: int


class DeliveredEvents(IngestResult):
    model_config = ConfigDict(title="DeliveredEvents")

    events: list[EventIdBody]


@dataclass(frozen=True, slots=True)
class ReportedEvent:
    """An event and its origin. `client_id` identifies it; a `unit` may only report its own car."""

    event: NewEvent
    client_id: str | None = None
    unit: int | None = None


@dataclass(frozen=True, slots=True)
class RecordedEventBody:
    """The number of an event, and whether it was recorded before."""

    id: int
    known: bool = False


@dataclass(frozen=True, slots=True)
class EventRecorder:
    """Records events of several callers in one transaction, with their deliveries.

    A repeated `clientId` gets its old number.
    """

    publisher: EventPublisher

    async def __call__(
        self, db: Database, customer: int, parts: Sequence[Sequence[ReportedEvent]]
    ) -> list[list[RecordedEventBody | Refusal]]:
        first: dict[str, int] = {}  # client id -> index in `reported`
        reported: list[ReportedEvent] = []
        places: list[list[tuple[int, bool]]] = []
        for part in parts:
            places.append([])
            for reported_event in part:
                client = reported_event.client_id
                place = len(reported) if client is None else first.setdefault(client, len(reported))
                places[-1].append((place, place < len(reported)))
                if place == len(reported):
                    reported.append(reported_event)
        stored_rows = await self._store(db, customer, reported, has_client_ids=bool(first))

        def result(place: int, again: bool) -> RecordedEventBody | Refusal:
            row = stored_rows[place]
            if row["known"] is not None:
                return RecordedEventBody(row["known"], known=True)
            if not row["car"]:
                return NotFound(NO_CAR)
            return RecordedEventBody(row["id"], again) if row["user"] else NotFound(NO_USER)

        return [[result(*at) for at in part] for part in places]

    async def _store(
        self, db: Database, customer: int, reported: Sequence[ReportedEvent], *, has_client_ids: bool
    ) -> Sequence[Row]:
        """Store the events, with their deliveries; return the rows of the statement."""
        if not has_client_ids and not self.publisher.is_expected(customer):
            rows = await db.fetch(RECORD.sql, *_arguments(customer, reported, publishes=False))
            if not rows[0]["is_wanted"]:
                return rows
        async with db.transaction() as connection:
            if has_client_ids:
                await connection.execute(ALONE, customer)
            rows = await connection.fetch(RECORD.sql, *_arguments(customer, reported, publishes=True))
            await self.publisher.publish(connection, customer, rows)
            return rows


def _arguments(customer: int, reported: Sequence[ReportedEvent], *, publishes: bool) -> list[object]:
    events = [reported_event.event for reported_event in reported]
    return RECORD.arguments(
        customer=customer,
        car_id=[event.car_id for event in events],
        user_id=[event.user_id for event in events],
        local_at=[wall_clock(event.date_time) for event in events],
        local_text=[event.date_time for event in events],
        utc_at=[event.utc_date_time for event in events],
        type=[event.type for event in events],
        user_agent=[event.user_agent for event in events],
        latitude=[event.latitude for event in events],
        longitude=[event.longitude for event in events],
        client_id=[reported_event.client_id for reported_event in reported],
        unit=[reported_event.unit for reported_event in reported],
        publishes=publishes,
    )


@endpoints.put(
    "/events",
    Doc(
        "createEvent",
        "Record that a car was opened or closed",
        "Records one opening or closing. `dateTime` is stored as sent, `utcDateTime` to the microsecond. For events"
        " that happened offline, use `POST /ingest/events`, which is safe to repeat.",
    ),
    auth=CustomerAuth(Permission.EVENTS_WRITE, is_group_scoped=True),
    body=JsonBody(TypeAdapter(NewEvent), CREATE_EVENT, scoped_members=("carId", "userId")),
    responses=Responses(
        201,
        errors={
            400: tuple(
                invalid_member(CREATE_EVENT, member) for member in ("type", "dateTime", "utcDateTime", "userAgent")
            ),
            404: (NO_CAR, NO_USER),
        },
        representation=ONE_EVENT,
    ),
)
async def create(request: Request, event: NewEvent, services: EventServices) -> Response:
    if is_blank(event.user_agent):
        raise BadRequest(invalid_member(CREATE_EVENT, "userAgent"), errors=[blank("/userAgent")])
    if request.mode is RequestMode.STRICT and _is_too_late(event, services.settings):
        fault = FieldError("out-of-range", TOO_LATE, "/utcDateTime")
        raise BadRequest(invalid_member(CREATE_EVENT, "utcDateTime", hint=TOO_LATE), errors=[fault])
    recorder = EventRecorder(services.event_publisher)
    (result,) = await request.batches.put(recorder, request.customer, [ReportedEvent(event)])
    if isinstance(result, Refusal):
        EVENTS.add("refused")
        raise result
    EVENTS.add("accepted")
    if services.event_publisher.is_expected(request.customer):
        request.announce(DELIVER)
    return created(result.id)


@endpoints.post(
    "/ingest/events",
    Doc(
        "deliverEvents",
        "Deliver offline events",
        "Delivers events of boxes and apps that were offline, one JSON object per line. `clientId` identifies an"
        " event. A repeated event counts as a duplicate and gets its existing number. Invalid lines are reported; all"
        " others are recorded.",
        is_extension=True,
    ),
    auth=DeviceAuth(Scope.EVENTS),
    body=RawBody(TypeAdapter(OfflineEvent)),
    responses=Responses(200, DeliveredEvents),
)
async def deliver(request: Request, services: EventServices) -> Response:
    recorder = EventRecorder(services.event_publisher)
    report, numbered = Report(services.settings.ingest_max_reported_rejections), list[EventIdBody]()
    unit = request.device and request.device.product
    try:
        for part in _parts(lines(request.body, services.settings), report, unit, services.settings):
            if not part:
                await asyncio.sleep(0)  # let other tasks run
                continue
            results = await request.batches.put(recorder, request.customer, [event for _, event in part])
            for (line, _), result in zip(part, results, strict=True):
                if isinstance(result, Refusal):
                    report.refuse(line, result.text)
                    continue
                report.duplicates += result.known
                report.accepted += not result.known
                numbered.append(EventIdBody(line=line, id=result.id))
    except NotALine as reason:
        raise BadRequest(INVALID_LINES.with_text(str(reason))) from None
    finally:
        if services.event_publisher.is_expected(request.customer):
            request.announce(DELIVER)
        EVENTS.add("accepted", by=report.accepted)
        EVENTS.add("duplicate", by=report.duplicates)
        EVENTS.add("refused", by=report.refusals)
    return answer(shown(report) | {"events": [number.model_dump() for number in numbered]})


def _parts(
    values: Iterable[tuple[int, Any]], report: Report, unit: int | None, settings: Settings
) -> Iterable[list[tuple[int, ReportedEvent]]]:
    """Batches of the events in these lines. Rejects invalid lines. A batch may be empty."""
    part: list[tuple[int, ReportedEvent]] = []
    for count, (line, value) in enumerate(values, 1):
        try:
            event = _event(value, settings)
            part.append((line, ReportedEvent(event, _named(event.client_id, unit), unit)))
        except ValidationError as error:
            report.refuse(line, explained(error))
        except InvalidLine as reason:
            report.refuse(line, str(reason))
        if count % PER_BATCH == 0:
            yield part
            part = []
    if part:
        yield part


def _event(value: Any, settings: Settings) -> OfflineEvent:
    """The event of a line. Raises `InvalidLine` and `ValidationError`."""
    if isinstance(value, InvalidLine):
        raise value
    event = OfflineEvent.model_validate(value)
    if is_blank(event.user_agent):
        raise InvalidLine("`userAgent` must not be blank.")
    if _is_too_late(event, settings):
        raise InvalidLine(TOO_LATE)
    if event.utc_date_time < datetime.now(UTC) - timedelta(days=settings.event_days):
        raise InvalidLine(TOO_EARLY.format(days=settings.event_days))
    return event


def _is_too_late(event: NewEvent, settings: Settings) -> bool:
    """Whether the event is in the future, beyond the tolerance for clocks."""
    return event.utc_date_time > datetime.now(UTC) + timedelta(seconds=settings.max_clock_skew_seconds)


def _named(client_id: str, unit: int | None) -> str:
    """The client id in the database. Each unit has its own namespace, so that it cannot take an id of another one."""
    return client_id if unit is None else f"{unit}\x1f{client_id}"
