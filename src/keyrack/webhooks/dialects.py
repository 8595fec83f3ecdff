"""Dialects of webhooks: how a stored message becomes the body and the headers of a request.

A message is stored once, in a neutral form. The webhook's dialect shapes it when it is sent, so a change of the dialect
also applies to waiting deliveries. A new dialect is a class here and its line in `DIALECTS`.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, NamedTuple

from typing_extensions import override

from keyrack.api.schema.event_types import EVENTS
from keyrack.webhooks.signatures import signature_headers

JSON = "application/json"


class EventEnvelope(NamedTuple):
    """The parts of a message, for dialects with an envelope."""

    type: str
    time: str  # RFC 3339
    data: dict[str, Any]  # all other members of the message, merged with its `data`


@dataclass(frozen=True, slots=True)
class WebhookMessage:
    """A stored message, without a dialect.

    `text` is JSON: an `OutcomePayload`, a `ChangePayload`, an `EventPayload` or a `CheckpointPayload`. All but the
    first have a timestamp. An outcome uses `created_at` of its delivery (RFC 3339), which is written with it. `server`
    is the public address of this installation.
    """

    id: str
    text: str
    created_at: str
    server: str

    def envelope(self) -> EventEnvelope:
        members: dict[str, Any] = json.loads(self.text)
        type, time, own = members.pop("type"), members.pop("timestamp", self.created_at), members.pop("data", {})
        return EventEnvelope(type, time, {**members, **own})


class Dialect(ABC):
    """A format of webhook requests. `label` and `hint` are for people; the console translates them."""

    name: ClassVar[str]  # in the API and in the database
    label: ClassVar[str]
    hint: ClassVar[str]
    content_type: ClassVar[str] = JSON

    @abstractmethod
    def body(self, message: WebhookMessage) -> str:
        """The body, the same in each attempt."""

    def headers(
        self,
        message: WebhookMessage,
        body: str,
        signing_secrets: Sequence[str],
        static_secret: str | None,
        now: datetime,
    ) -> dict[str, str]:
        """The headers other than `Content-Type`; by default, the signatures of Standard Webhooks."""
        return signature_headers(body, message.id, signing_secrets, now)


class KeyrackDialect(Dialect):
    """The stored message itself. No other dialect sends the static secret."""

    name = "keyrack"
    label = "Keyrack"
    hint = "Keyrack's own body. Only this format sends the static secret."

    @override
    def body(self, message: WebhookMessage) -> str:
        return message.text

    @override
    def headers(
        self,
        message: WebhookMessage,
        body: str,
        signing_secrets: Sequence[str],
        static_secret: str | None,
        now: datetime,
    ) -> dict[str, str]:
        headers = super().headers(message, body, signing_secrets, static_secret, now)
        return headers if static_secret is None else headers | {"secret": static_secret}


class StandardWebhooksDialect(Dialect):
    """The payload structure that the Standard Webhooks specification recommends."""

    name = "standard-webhooks"
    label = "Standard Webhooks"
    hint = "Type, time and data, as that specification recommends."

    @override
    def body(self, message: WebhookMessage) -> str:
        envelope = message.envelope()
        return compact_json({"type": envelope.type, "timestamp": envelope.time, "data": envelope.data})


class CloudEventsDialect(Dialect):
    """CloudEvents 1.0 in its JSON event format and the structured content mode of HTTP.

    - `source` is an address below the installation's own. The specification recommends an absolute URI, and numbers of
      customers repeat among installations.
    - `type` has no reverse DNS prefix. The project has no domain, and that of an installation would give each of them
      other types.
    - `subject` is the resource within which deliveries keep their order.

    Source: https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/spec.md
    """

    name = "cloudevents"
    label = "CloudEvents 1.0"
    hint = "The CNCF's event format in JSON, for brokers and serverless platforms."
    content_type = "application/cloudevents+json; charset=utf-8"

    @override
    def body(self, message: WebhookMessage) -> str:
        envelope = message.envelope()
        subject = self._subject(envelope.type, envelope.data)
        event = {
            "specversion": "1.0",
            "id": message.id,
            "source": f"{message.server}/customers/{envelope.data['customerId']}",
            "type": f"keyrack.{envelope.type}",
            **({} if subject is None else {"subject": subject}),
            "time": envelope.time,
            "datacontenttype": JSON,
            "data": envelope.data,
        }
        return compact_json(event)

    @staticmethod
    def _subject(type: str, data: Mapping[str, Any]) -> str | None:
        """The subject of a message; None for a test.

        It is the car of an event, a changed resource, or the assignment or operation of an outcome.
        """
        if type in EVENTS:
            return f"car/{data['carId']}"
        if "resourceId" in data:
            return f"{data['resource']}/{data['resourceId']}"
        if data.get("assignmentId") is not None:
            return f"assignment/{data['assignmentId']}"
        return None if data.get("operationId") is None else f"operation/{data['operationId']}"


def compact_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


DIALECTS: Mapping[str, Dialect] = {
    dialect.name: dialect for dialect in (KeyrackDialect(), StandardWebhooksDialect(), CloudEventsDialect())
}
DEFAULT = KeyrackDialect.name
