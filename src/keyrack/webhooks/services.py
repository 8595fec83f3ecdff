"""The parts of the process that webhook handlers need."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from keyrack.api.event_stream import EventHub
from keyrack.api.services import ReadServices
from keyrack.db.encryption.cipher import Encryption


class MessageExamples(Protocol):
    """The examples of the messages, which the API reference shows."""

    @property
    def message_example(self) -> Callable[[str], dict[str, Any]]: ...


class WebhookServices(ReadServices, Protocol):
    """The services of reads, and those of webhooks."""

    @property
    def encryption(self) -> Encryption: ...
    @property
    def documents(self) -> MessageExamples: ...
    @property
    def event_hub(self) -> EventHub: ...
