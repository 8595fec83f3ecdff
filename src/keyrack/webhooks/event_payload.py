"""Messages about openings and closings: their id, lane and body."""

from __future__ import annotations

from typing import Annotated, Any, Literal, LiteralString

from pydantic import BaseModel, ConfigDict, WithJsonSchema
from pydantic.alias_generators import to_camel

from keyrack.api.schema.event_types import CLOSED, OPENED
from keyrack.api.schema.fields import utc
from keyrack.api.schema.request_body import Int32, Moment
from keyrack.fleet.schema import EVENT
from keyrack.webhooks.message_sql import lane_sql, message_id_sql, message_sql

LATE: LiteralString = "interval '60 seconds'"  # after the event, from which its record is late

JsonObject = Annotated[dict[str, Any], WithJsonSchema({"type": "object"})]


class EventPayload(BaseModel):
    """The message about an event. `data` is the event as in `GET /events/{eventId}`, with further members."""

    model_config = ConfigDict(alias_generator=to_camel, title="EventTold")

    type: Literal["event.opened", "event.closed"]
    timestamp: Moment
    customer_id: Int32
    data: JsonObject


EVENT_TYPES = {"CarOpened": OPENED, "CarClosed": CLOSED}  # by the `type` of an event

# SQL of the values of `kinds` that take events
KINDS: LiteralString = "'{event.opened,event.closed,event.*}'::text[]"
# SQL of the row `t` of `event`. A replay has the same id. An event that gets the number of a lost one after a restore
# has another
MESSAGE: LiteralString = message_id_sql(
    "sha256(convert_to('event/' || t.customer_id || '/' || t.event_id || '/' || extract(epoch from t.recorded_at),"
    " 'UTF8'))"
)
TYPE: LiteralString = "case t.type when 'CarOpened' then '" + OPENED + "' else '" + CLOSED + "' end"
# Events of a car share a lane, in the order of their numbers
LANE: LiteralString = lane_sql("'event/' || t.car_id")
# The members of `data` beside those of the resource
_FURTHER: LiteralString = (
    "(select c.external_id from car c where c.customer_id = t.customer_id and c.car_id = t.car_id)"
    ' as "carExternalId",'
    " (select u.external_id from customer_user u where u.customer_id = t.customer_id and u.user_id = t.user_id)"
    ' as "userExternalId", '
    + utc("t.recorded_at") + ' as "recordedTime",'
    " t.recorded_at > t.utc_at + " + LATE + " as late,"
    ' t.assignment_id as "assignmentId"'
)  # fmt: skip
PAYLOAD: LiteralString = message_sql(
    EventPayload,
    {
        "type": TYPE,
        "timestamp": utc("t.recorded_at"),
        "customerId": "t.customer_id",
        "data": "(select row_to_json(x) from (select " + EVENT.json_columns("t") + ", " + _FURTHER + ") x)",
    },
)
# The columns of an event's delivery, and their values
COLUMNS: LiteralString = "customer_id, webhook_id, message_id, type, lane, payload, applied"
VALUES: LiteralString = MESSAGE + ", " + TYPE + ", " + LANE + ", " + PAYLOAD + ", t.event_id"
