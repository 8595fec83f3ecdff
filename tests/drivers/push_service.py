"""A push service for tests, and the browser that decrypts its messages."""

from __future__ import annotations

import base64
import os
import ssl
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tests.support.servers import NUMBERS
from tests.support.tls import certificate
from tests.webhooks.receiver import Received, Receiver, Reply

P256 = ec.SECP256R1()


def b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def raw(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def point(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)


class PushService(Receiver):
    """A push service over TLS. `replies` are its answers by path; 201 otherwise."""

    def __init__(self, directory: Path) -> None:
        self.replies: dict[str, Reply] = {}
        super().__init__(self._reply)
        self.certificate, key = certificate(directory)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, key)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.host = f"localhost:{self.port}"

    def _reply(self, request: Received) -> Reply:
        return self.replies.get(request.path, (201, b"", {}))


class PushBrowser:
    """A browser with a subscription at the push service."""

    def __init__(self, service: PushService) -> None:
        self._key, self._auth = ec.generate_private_key(P256), os.urandom(16)
        self._service = service
        self.path = f"/push/{next(NUMBERS)}"
        self.endpoint = f"https://{service.host}{self.path}"

    @property
    def subscription(self) -> dict[str, Any]:
        return {"endpoint": self.endpoint, "p256dh": b64(point(self._key)), "auth": b64(self._auth)}

    @property
    def messages(self) -> list[Received]:
        return self._service.of(self.path)

    def decrypt(self, body: bytes) -> bytes:
        """The text of a message, by RFC 8291 and RFC 8188."""
        salt, size, length = body[:16], int.from_bytes(body[16:20], "big"), body[20]
        sender, record = body[21 : 21 + length], body[21 + length :]
        assert len(record) <= size
        secret = self._key.exchange(ec.ECDH(), ec.EllipticCurvePublicKey.from_encoded_point(P256, sender))
        info = b"WebPush: info\0" + point(self._key) + sender
        input_key = HKDF(SHA256(), 32, self._auth, info).derive(secret)
        key = HKDF(SHA256(), 16, salt, b"Content-Encoding: aes128gcm\0").derive(input_key)
        nonce = HKDF(SHA256(), 12, salt, b"Content-Encoding: nonce\0").derive(input_key)
        text = AESGCM(key).decrypt(nonce, record, None)
        assert text[-1:] == b"\x02"
        return text[:-1]
