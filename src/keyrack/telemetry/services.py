"""The parts of the process that the handlers of telemetry need."""

from __future__ import annotations

from typing import Protocol

from keyrack.api.services import ReadServices
from keyrack.telemetry.ingest import Telemetry
from keyrack.webhooks.event_deliveries import EventPublisher


class EventServices(ReadServices, Protocol):
    """The publisher of events to webhooks."""

    @property
    def event_publisher(self) -> EventPublisher: ...


class TelemetryServices(ReadServices, Protocol):
    """The ingest of samples."""

    @property
    def telemetry(self) -> Telemetry: ...
