"""The services that the handlers of reads need."""

from __future__ import annotations

from typing import Protocol

from keyrack.api.odata import Limits
from keyrack.api.response_spool import Spool
from keyrack.core.settings import Settings


class ReadServices(Protocol):
    """The services that every read needs. A domain package extends it for its own handlers."""

    @property
    def settings(self) -> Settings: ...
    @property
    def query_limits(self) -> Limits: ...
    @property
    def spool(self) -> Spool: ...
