"""The parts of the process that the handlers of offline keys need."""

from __future__ import annotations

from typing import Protocol

from keyrack.api.services import ReadServices
from keyrack.db.encryption.cipher import Encryption
from keyrack.offline_keys.issuing_keys import IssuingKeySigners


class OfflineKeyServices(ReadServices, Protocol):
    """The encryption of nonces, and the keys that sign for boxes."""

    @property
    def encryption(self) -> Encryption: ...
    @property
    def issuing_keys(self) -> IssuingKeySigners: ...
