"""The parts of the process that the handlers of reads need."""

from __future__ import annotations

from typing import Protocol

from keyrack.api.odata import Limits
from keyrack.api.response_spool import Spool
from keyrack.core.settings import Settings


class ReadServices(Protocol):
    """What every read needs. A domain package extends it by what its own handlers need."""

    @property
    def settings(self) -> Settings: ...
    @property
    def query_limits(self) -> Limits: ...
    @property
    def spool(self) -> Spool: ...
