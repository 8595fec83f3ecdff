"""The parts of the process that webhook handlers need."""

from __future__ import annotations

from typing import Protocol

from keyrack.api.services import ReadServices
from keyrack.db.encryption.cipher import Encryption


class WebhookServices(ReadServices, Protocol):
    """The services of reads, and the encryption of webhooks' secrets."""

    @property
    def encryption(self) -> Encryption: ...
