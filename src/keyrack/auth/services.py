"""The parts of the process that the handlers of authentication need."""

from __future__ import annotations

from typing import Protocol

from keyrack.api.services import ReadServices
from keyrack.auth.authenticator import Authenticator
from keyrack.db.encryption.cipher import Encryption


class AuthServices(ReadServices, Protocol):
    """Authentication, and the encryption of second factors."""

    @property
    def authenticator(self) -> Authenticator: ...
    @property
    def encryption(self) -> Encryption: ...
