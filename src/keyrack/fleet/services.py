"""The parts of the process that fleet handlers need."""

from __future__ import annotations

from typing import Protocol

from keyrack.api.services import ReadServices
from keyrack.auth.authenticator import Authenticator


class FleetServices(ReadServices, Protocol):
    """Authentication, which hashes the passwords of users. Batch items need it as well."""

    @property
    def authenticator(self) -> Authenticator: ...
