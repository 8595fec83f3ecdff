"""In charge of how a webhook is told of a change, and of a checkpoint: message, lane and body."""

from __future__ import annotations

from typing import Annotated, Any, Literal, LiteralString
from uuid import UUID

from pydantic import BaseModel, ConfigDict, WithJsonSchema
from pydantic.alias_generators import to_camel

from keyrack.api.schema.event_types import CHANGES
from keyrack.api.schema.fields import utc
from keyrack.api.schema.request_body import Int32, Moment
from keyrack.changelog.schema import CHANGE
from keyrack.webhooks.message_sql import message_sql

# SQL of the row `t` of the log. The bytes of its record have the epoch behind version and customer (docs/log-format.md)
EPOCH: LiteralString = "encode(substring(t.record from 18 for 16), 'hex')::uuid"
# A UUID of version 8 (RFC 9562, section 5.8), of the first bytes of the record's hash
_HASH: LiteralString = "substring(sha256(t.record) for 16)"
MESSAGE: LiteralString = (
    "encode(set_byte(set_byte(" + _HASH + ", 6, get_byte(" + _HASH + ", 6) & 15 | 128), 8, get_byte(" + _HASH
    + ", 8) & 63 | 128), 'hex')::uuid"
)  # fmt: skip
# Those of assignments, of operations and of tests have numbers of 32 bits, or below zero
LANE: LiteralString = (
    "(hashtextextended(t.resource || '/' || t.resource_id, 0) & 4611686018427387903 | 4611686018427387904)"
)


JsonObject = Annotated[dict[str, Any], WithJsonSchema({"type": "object"})]


class ChangePayload(BaseModel):
    """What a webhook is told of a change: `data` is what `GET /changes` shows of it."""

    model_config = ConfigDict(alias_generator=to_camel, title="ChangeTold")

    type: Annotated[str, WithJsonSchema({"type": "string", "enum": [*CHANGES]})]
    timestamp: Moment
    customer_id: Int32
    epoch: UUID
    data: JsonObject


class CheckpointPayload(BaseModel):
    """What a webhook is told of a checkpoint: `data` has it."""

    model_config = ConfigDict(alias_generator=to_camel, title="CheckpointTold")

    type: Literal["changes.checkpoint"]
    timestamp: Moment
    customer_id: Int32
    data: JsonObject


# The same in SQL, of the row `t` of the log
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
# The columns of a delivery of a change, and their values
COLUMNS: LiteralString = "customer_id, webhook_id, message_id, type, lane, payload, applied"
VALUES: LiteralString = MESSAGE + ", t.kind, " + LANE + ", " + PAYLOAD + ", t.change_id"
