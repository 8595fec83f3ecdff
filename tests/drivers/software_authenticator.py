"""An authenticator in software (WebAuthn, Level 3)."""

from __future__ import annotations

import hashlib
import json
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any

import cbor2
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256

PRESENT_AND_VERIFIED, WITH_KEY = 0b101, 0b1000000
COSE_HEAD, COSE_X, COSE_Y = bytes.fromhex("a5010203262001"), bytes.fromhex("215820"), bytes.fromhex("225820")


class SoftwareAuthenticator:
    """One passkey. `handle` is its user, which it learns at the registration."""

    def __init__(self, origin: str, host: str = "localhost", handle: bytes = b"") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._origin = origin
        self._host = hashlib.sha256(host.encode()).digest()
        self.handle = handle
        self.id = secrets.token_bytes(16)

    @property
    def public_key(self) -> bytes:
        """The COSE key (RFC 9053, section 7.1.1)."""
        numbers = self._key.public_key().public_numbers()
        return COSE_HEAD + COSE_X + numbers.x.to_bytes(32, "big") + COSE_Y + numbers.y.to_bytes(32, "big")

    def create(self, options: dict[str, Any]) -> dict[str, Any]:
        """The credential that `navigator.credentials.create()` returns for these options."""
        self.handle = _bytes(options["user"]["id"])
        data = self._host + bytes([PRESENT_AND_VERIFIED | WITH_KEY]) + bytes(4) + bytes(16)
        data += len(self.id).to_bytes(2, "big") + self.id + self.public_key
        attestation = cbor2.dumps({"fmt": "none", "attStmt": {}, "authData": data})
        client = self._client("webauthn.create", options["challenge"])
        return self._credential({"clientDataJSON": _text(client), "attestationObject": _text(attestation)})

    def get(self, options: dict[str, Any]) -> dict[str, Any]:
        """The credential that `navigator.credentials.get()` returns for these options."""
        client = self._client("webauthn.get", options["challenge"])
        data = self._host + bytes([PRESENT_AND_VERIFIED]) + bytes(4)
        signature = self._key.sign(data + hashlib.sha256(client).digest(), ec.ECDSA(SHA256()))
        return self._credential(
            {
                "clientDataJSON": _text(client), "authenticatorData": _text(data), "signature": _text(signature),
                "userHandle": _text(self.handle),
            }
        )  # fmt: skip

    def _client(self, kind: str, challenge: str) -> bytes:
        return json.dumps({"type": kind, "challenge": challenge, "origin": self._origin}).encode()

    def _credential(self, response: dict[str, str]) -> dict[str, Any]:
        name = _text(self.id)
        return {"id": name, "rawId": name, "type": "public-key", "response": response, "clientExtensionResults": {}}


def _text(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def _bytes(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))
