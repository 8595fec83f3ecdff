"""The parts of the process that fleet handlers need."""

from __future__ import annotations

from typing import Protocol

from keyrack.api.services import ReadServices
from keyrack.auth.authenticator import Authenticator
from keyrack.db.other_cells import OtherCells


class FleetServices(ReadServices, Protocol):
    """Authentication, which hashes the passwords of users, and the other cells. Batch items need them as well."""

    @property
    def authenticator(self) -> Authenticator: ...
    @property
    def other_cells(self) -> OtherCells: ...
