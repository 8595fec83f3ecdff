"""Seals secrets: only this database's data keys open them, and only in their own place.

A sealed value is AES-256-GCM: a byte 1 for this form, the number of the data key (4 bytes), a nonce (12 bytes), the
ciphertext with its tag. Its place (column, customer, row) is authenticated with it, so a value that was moved to
another place does not open. The database stores a data key wrapped by each master key that may open it.

A sealed message leaves the database, such as the state of a sign-in in a browser's cookie. It has a byte 2, the number
of the data key (4 bytes), a salt (32 bytes), and the ciphertext with its tag. Key and nonce are derived from the data
key by HKDF (RFC 5869) with the salt and the message's purpose. So strangers who cause many messages never exhaust the
nonces of a data key.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Sequence
from typing import LiteralString

import structlog
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from keyrack.core.error_codes import ErrorCode
from keyrack.core.errors import Unavailable
from keyrack.core.settings import Settings
from keyrack.db.connection import Connection, Row, Statements
from keyrack.db.encryption import master_keys
from keyrack.db.encryption.master_keys import MasterKey, MasterKeyError

log = structlog.get_logger("keyrack.encryption")

FORM = b"\x01"
NONCE = 12  # bytes
HEAD = len(FORM) + 4 + NONCE
MESSAGE = b"\x02"
SALT = 32  # bytes
MESSAGE_HEAD = len(MESSAGE) + 4 + SALT
LOOK_SECONDS = 1.0  # between two lookups of an unknown data key of a message

LOCK = 7_260_921  # any constant: shared while sealing, exclusive while the data keys change
SEALING: LiteralString = "select pg_advisory_xact_lock_shared($1)"
NEWEST: LiteralString = "select max(number) from data_key"
DATA_KEYS: LiteralString = "select number, master, wrapped from data_key order by number, master"

CLOSED = ErrorCode(
    "secrets-unavailable",
    "The server cannot decrypt its secrets at the moment. Its log shows the cause.",
    "Ask the operator to give this server a master key of its database.",
)


class CannotDecrypt(Unavailable):
    """A sealed value does not open: it was changed or moved, or this node lacks its data key."""

    def __init__(self) -> None:
        super().__init__(CLOSED)


class Encryption:
    """The data keys of this database that this node's master keys open."""

    def __init__(self, statements: Statements, settings: Settings) -> None:
        self._statements = statements
        self._settings = settings
        self._keys: dict[int, bytes] = {}
        self._next_look = 0.0  # for the data key of a message, on the monotonic clock

    async def load(self, statements: Statements | None = None) -> None:
        """Unwrap the data keys with the node's current master keys. Raises `MasterKeyError`.

        Known keys stay: a value may have been read just before it was resealed.
        """
        self._keys |= unwrapped(await (statements or self._statements).fetch(DATA_KEYS), self._settings)

    async def seal(self, connection: Connection, secret: str, *place: object) -> bytes:
        """Seal the secret for its place: the name of the column, the customer or 0, the row's id.

        Write it in the connection's transaction: until that ends, the data key stays the newest one. Raises
        `CannotDecrypt`.
        """
        await connection.execute(SEALING, LOCK)
        number = await connection.fetchval(NEWEST) or 0
        return encrypt(await self._key(number, connection), number, secret, place)

    async def open(self, value: bytes, *place: object) -> str:
        """The secret that was sealed for this place. Raises `CannotDecrypt`."""
        try:
            return decrypt(await self._key(number_of(value)), value, place)
        except InvalidTag:
            log.error("secret decryption failed", location=place, alert=True)
            raise CannotDecrypt from None

    async def seal_message(self, purpose: str, text: str) -> bytes:
        """Seal a text that leaves the database, for one purpose. Raises `CannotDecrypt`."""
        number = await self._statements.fetchval(NEWEST) or 0
        head = MESSAGE + number.to_bytes(4, "big") + secrets.token_bytes(SALT)
        key, nonce = _derived(await self._key(number), head, purpose)
        return head + AESGCM(key).encrypt(nonce, text.encode(), head)

    async def open_message(self, purpose: str, value: bytes) -> str | None:
        """The text of a sealed message; None if it was changed, or is of another purpose or database.

        Strangers send these. So a failure is no alert, and unknown key numbers cause at most one lookup a second.
        """
        head = value[:MESSAGE_HEAD]
        number = int.from_bytes(head[1:5], "big")
        if not head.startswith(MESSAGE) or len(value) <= MESSAGE_HEAD:
            return None
        try:
            if number not in self._keys and time.monotonic() >= self._next_look:
                self._next_look = time.monotonic() + LOOK_SECONDS
                await self.load()
            key, nonce = _derived(self._keys[number], head, purpose)
            return AESGCM(key).decrypt(nonce, value[MESSAGE_HEAD:], head).decode()
        except (InvalidTag, KeyError, MasterKeyError):
            return None

    async def _key(self, number: int, statements: Statements | None = None) -> bytes:
        """A data key; an unknown one is loaded."""
        if number not in self._keys:
            try:
                await self.load(statements)
            except MasterKeyError as error:
                log.error("encryption key unavailable", reason=str(error), alert=True)
                raise CannotDecrypt from None
        if number not in self._keys:
            log.error("data key missing", number=number, alert=True)
            raise CannotDecrypt
        return self._keys[number]


def encrypt(key: bytes, number: int, secret: str, place: Sequence[object]) -> bytes:
    """Encrypt the secret with the data key of this number."""
    nonce = secrets.token_bytes(NONCE)
    head = FORM + number.to_bytes(4, "big") + nonce
    return head + AESGCM(key).encrypt(nonce, secret.encode(), _bound(head, place))


def decrypt(key: bytes, value: bytes, place: Sequence[object]) -> str:
    """Decrypt the secret. Raises `InvalidTag` for another key, another place or a changed bit."""
    head = value[:HEAD]
    return AESGCM(key).decrypt(head[-NONCE:], value[HEAD:], _bound(head, place)).decode()


def number_of(value: bytes) -> int:
    """The number of a value's data key; 0, which no data key has, if the value is not sealed."""
    return int.from_bytes(value[1:5], "big") if value[:1] == FORM and len(value) > HEAD else 0


def wrap(data_key: bytes, number: int, by: MasterKey) -> bytes:
    """A data key, wrapped for the database."""
    nonce = secrets.token_bytes(NONCE)
    return nonce + AESGCM(by.raw).encrypt(nonce, data_key, _bound(b"data key", (number, by.id)))


def unwrapped(rows: Iterable[Row], settings: Settings) -> dict[int, bytes]:
    """The data keys of these rows. Raises `MasterKeyError` unless this node's master keys open the newest."""
    rows, keys = list(rows), {key.id: key for key in master_keys.read(settings)}
    data_keys = {row["number"]: _unwrapped(row, keys[row["master"]]) for row in rows if row["master"] in keys}
    newest = max((row["number"] for row in rows), default=0)
    if newest not in data_keys:
        raise MasterKeyError(_stranger({row["master"] for row in rows if row["number"] == newest}, keys, settings))
    return data_keys


def _unwrapped(row: Row, by: MasterKey) -> bytes:
    wrapped: bytes = row["wrapped"]
    try:
        return AESGCM(by.raw).decrypt(wrapped[:NONCE], wrapped[NONCE:], _bound(b"data key", (row["number"], by.id)))
    except InvalidTag:
        raise MasterKeyError(f"Data key {row['number']} in the database is damaged: it cannot be decrypted.") from None


def _stranger(wanted: Iterable[str], keys: Iterable[str], settings: Settings) -> str:
    wanted, keys, where = ", ".join(sorted(wanted)), ", ".join(keys), master_keys.where(settings)
    has = f"{where} has {keys}" if keys else f"there is none: {where} is missing"
    return (
        f"The secrets in this database are encrypted with another master key. They need {wanted or 'one'}; {has}. "
        f"Give this node the key of the other nodes ({master_keys.HOW}). If the key is lost, see docs/secrets.md."
    )


def _derived(data_key: bytes, head: bytes, purpose: str) -> tuple[bytes, bytes]:
    """The key and the nonce of a sealed message."""
    made = HKDF(SHA256(), 32 + NONCE, head[-SALT:], b"keyrack message " + purpose.encode()).derive(data_key)
    return made[:32], made[32:]


def _bound(head: bytes, place: Sequence[object]) -> bytes:
    return head + b"\0" + "\0".join(map(str, place)).encode()
