"""A passkey in software, registered by SQL.

It signs challenges as an authenticator does (WebAuthn, Level 3).
"""

from __future__ import annotations

import hashlib
import json
import secrets
from base64 import urlsafe_b64encode

import httpx
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256

from tests.support.people import Person, http_client
from tests.support.servers import RunningServer, Sql

INSERT = """
insert into passkey (manager_id, credential_id, public_key, sign_count, transports, aaguid, name, is_backed_up)
select manager_id, $2, $3, 0, '{}', '', 'software', false from manager where username = $1
"""
USER_PRESENT_AND_VERIFIED = bytes([0b101])
# A COSE key (RFC 9053, section 7.1.1): EC2, ES256, P-256, then the two coordinates
COSE_HEAD, COSE_X, COSE_Y = bytes.fromhex("a5010203262001"), bytes.fromhex("215820"), bytes.fromhex("225820")


class SoftwarePasskey:
    """A passkey of a person, for one server whose public address is `http://localhost:{port}`."""

    def __init__(self, sql: Sql, person: Person, server: RunningServer) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._id = secrets.token_bytes(16)
        self._origin = server.settings.public_url
        numbers = self._key.public_key().public_numbers()
        public = COSE_HEAD + COSE_X + numbers.x.to_bytes(32, "big") + COSE_Y + numbers.y.to_bytes(32, "big")
        sql.execute(INSERT, person.username, self._id, public)
        subject = sql.value("select subject from manager where username = $1", person.username)
        self._handle: bytes = subject.bytes

    def sign(self, challenge: str) -> str:
        """The credential for this challenge, as the page's form sends it."""
        client = json.dumps({"type": "webauthn.get", "challenge": challenge, "origin": self._origin}).encode()
        data = hashlib.sha256(b"localhost").digest() + USER_PRESENT_AND_VERIFIED + bytes(4)
        signature = self._key.sign(data + hashlib.sha256(client).digest(), ec.ECDSA(SHA256()))
        response = {
            "clientDataJSON": _text(client), "authenticatorData": _text(data), "signature": _text(signature),
            "userHandle": _text(self._handle),
        }  # fmt: skip
        name = _text(self._id)
        return json.dumps({"id": name, "rawId": name, "type": "public-key", "response": response})


class PasskeyBrowser:
    """A browser that signs in with a passkey, one request at a time."""

    def __init__(self, server: RunningServer, address: str = "203.0.113.77") -> None:
        self.cookie = ""
        self._origin = server.settings.public_url
        self._address = address
        self._url = server.url
        self._http = http_client()

    def challenge(self, server: RunningServer | None = None) -> httpx.Response:
        answer = self._post(server, "/console/sign-in/challenge", {})
        self.cookie = answer.cookies.get("keyrack-challenge") or self.cookie
        return answer

    def show(self, credential: str, server: RunningServer | None = None) -> httpx.Response:
        return self._post(server, "/console/sign-in/passkey", {"credential": credential})

    def _post(self, server: RunningServer | None, path: str, form: dict[str, str]) -> httpx.Response:
        headers = {"Origin": self._origin, "X-Forwarded-For": self._address}
        self._http.cookies.clear()
        if self.cookie:
            headers["Cookie"] = f"keyrack-challenge={self.cookie}"
        return self._http.post((server.url if server else self._url) + path, data=form, headers=headers)


def _text(value: bytes) -> str:
    return urlsafe_b64encode(value).rstrip(b"=").decode()
