"""The parts of the process that the handlers of offline keys need."""

from __future__ import annotations

from typing import Protocol

from keyrack.api.services import ReadServices
from keyrack.db.encryption.cipher import Encryption
from keyrack.offline_keys.issuing_keys import IssuingKeySigners
from keyrack.webhooks.event_deliveries import EventPublisher


class OfflineKeyServices(ReadServices, Protocol):
    """Encryption of nonces, signing keys, and the publisher of events."""

    @property
    def encryption(self) -> Encryption: ...
    @property
    def issuing_keys(self) -> IssuingKeySigners: ...
    @property
    def event_publisher(self) -> EventPublisher: ...
