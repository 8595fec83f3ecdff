"""The parts of the process that the handlers of the fleet need."""

from __future__ import annotations

from typing import Protocol

from keyrack.api.services import ReadServices
from keyrack.auth.authenticator import Authenticator


class FleetServices(ReadServices, Protocol):
    """Authentication, which hashes the passwords of users. Items of a batch need the same."""

    @property
    def authenticator(self) -> Authenticator: ...
