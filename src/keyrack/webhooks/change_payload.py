"""Messages about changes and checkpoints: their id, lane and body."""

from __future__ import annotations

from typing import Annotated, Any, Literal, LiteralString
from uuid import UUID

from pydantic import BaseModel, ConfigDict, WithJsonSchema
from pydantic.alias_generators import to_camel

from keyrack.api.schema.event_types import CHANGES
from keyrack.api.schema.fields import utc
from keyrack.api.schema.request_body import Int32, Moment
from keyrack.changelog.schema import CHANGE
from keyrack.webhooks.message_sql import lane_sql, message_id_sql, message_sql

# SQL of the row `t` of the log. In the bytes of its record the epoch follows version and customer (docs/log-format.md)
EPOCH: LiteralString = "encode(substring(t.record from 18 for 16), 'hex')::uuid"
MESSAGE: LiteralString = message_id_sql("sha256(t.record)")
LANE: LiteralString = lane_sql("t.resource || '/' || t.resource_id")


JsonObject = Annotated[dict[str, Any], WithJsonSchema({"type": "object"})]


class ChangePayload(BaseModel):
    """The message about a change. `data` is the change as in `GET /changes`."""

    model_config = ConfigDict(alias_generator=to_camel, title="ChangeTold")

    type: Annotated[str, WithJsonSchema({"type": "string", "enum": [*CHANGES]})]
    timestamp: Moment
    customer_id: Int32
    epoch: UUID
    data: JsonObject


class CheckpointPayload(BaseModel):
    """The message about a checkpoint, which is in `data`."""

    model_config = ConfigDict(alias_generator=to_camel, title="CheckpointTold")

    type: Literal["changes.checkpoint"]
    timestamp: Moment
    customer_id: Int32
    data: JsonObject


# The same message in SQL, of the row `t` of the log
PAYLOAD: LiteralString = message_sql(
    ChangePayload,
    {
        "type": "t.kind",
        "timestamp": utc("t.at"),
        "customerId": "t.customer_id",
        "epoch": EPOCH,
        "data": "(select row_to_json(x) from (select " + CHANGE.json_columns("t") + ") x)",
    },
)
# The columns of a change's delivery, and their values
COLUMNS: LiteralString = "customer_id, webhook_id, message_id, type, lane, payload, applied"
VALUES: LiteralString = MESSAGE + ", t.kind, " + LANE + ", " + PAYLOAD + ", t.change_id"
