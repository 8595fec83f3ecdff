"""The parts of the process that the handlers of telemetry need."""

from __future__ import annotations

from typing import Protocol

from keyrack.api.services import ReadServices
from keyrack.telemetry.ingest import Telemetry


class TelemetryServices(ReadServices, Protocol):
    """The ingest of samples."""

    @property
    def telemetry(self) -> Telemetry: ...
