"""The master keys: their source on a node, and the key file that Keyrack makes itself."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from keyrack.core import atomic_files
from keyrack.core.settings import Settings

LENGTH = 32  # bytes
FILE = "master.key"  # in the state directory

FORM = "A master key is 32 bytes in base64, as `keyrack master-key new` makes it"
HOW = "KEYRACK_MASTER_KEY or KEYRACK_MASTER_KEY_FILE"
NONE = (
    "There is no master key for the secrets in this database: {missing}. Make one with "
    "`keyrack master-key new`, keep it safe, and give the same one to every node: " + HOW + "."
)


class MasterKeyError(Exception):
    """A problem with this node's master key, described for its operator without any key."""


@dataclass(frozen=True, slots=True)
class MasterKey:
    """A key that opens data keys. `id` is a fingerprint, which reveals nothing of the key."""

    raw: bytes = field(repr=False)

    @property
    def id(self) -> str:
        return hmac.digest(self.raw, b"keyrack master key", hashlib.sha256)[:8].hex()

    @property
    def text(self) -> str:
        """The written form of the key."""
        return base64.b64encode(self.raw).decode()


def new() -> MasterKey:
    """A new key of 256 random bits."""
    return MasterKey(secrets.token_bytes(LENGTH))


def path(settings: Settings) -> Path:
    """The file of the keys, unless KEYRACK_MASTER_KEY is set."""
    return settings.master_key_file or settings.state / FILE


def is_ours(settings: Settings) -> bool:
    """Whether Keyrack itself writes the key file: the database is embedded, and no key is configured."""
    given = (settings.database_url, settings.master_key, settings.master_key_file)
    return all(value is None for value in given)


def where(settings: Settings) -> str:
    """The source of this node's keys."""
    return "KEYRACK_MASTER_KEY" if settings.master_key is not None else str(path(settings))


def read(settings: Settings) -> list[MasterKey]:
    """The keys of this node, the preferred one first; none if there is no file.

    Raises `MasterKeyError` if the file cannot be read, or if a key is invalid.
    """
    if settings.master_key is not None:
        return _keys(settings.master_key.get_secret_value(), where(settings))
    try:
        return _keys(path(settings).read_text(), where(settings))
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not a text file"
        raise MasterKeyError(f"The master key in {where(settings)} cannot be read: {reason}.") from None


def _keys(text: str, where: str) -> list[MasterKey]:
    keys: list[MasterKey] = []
    for part in re.split(r"[\s,]+", text.strip(", \r\n\t")):
        try:
            raw = base64.b64decode(part, validate=True)
        except (binascii.Error, ValueError):
            raw = b""
        if len(raw) != LENGTH:
            raise MasterKeyError(f"{where} is not valid. {FORM}. Separate several keys by commas or lines.")
        keys.append(MasterKey(raw))
    return keys


def require(settings: Settings) -> list[MasterKey]:
    """The keys of this node; none if `make` may make the first one.

    Raises `MasterKeyError` if the operator has to configure a key.
    """
    keys = read(settings)
    if not keys and not is_ours(settings):
        unset = "" if settings.master_key_file else "KEYRACK_MASTER_KEY and KEYRACK_MASTER_KEY_FILE are not set, and "
        raise MasterKeyError(NONE.format(missing=f"{unset}{path(settings)} is missing"))
    return keys


def make(settings: Settings) -> list[MasterKey]:
    """The keys of this node. Makes the file if there are none, but never replaces one.

    Raises `MasterKeyError` if the operator has to configure a key.
    """
    if keys := require(settings):
        return keys
    with _writing(settings) as file:
        atomic_files.write_once(file, _lines([new()]))
    return read(settings)


def replace(settings: Settings, keys: Sequence[MasterKey]) -> None:
    """Replace the file atomically. The caller excludes concurrent writers. Raises `MasterKeyError`."""
    with _writing(settings) as file:
        file.parent.mkdir(parents=True, exist_ok=True)
        atomic_files.write_temporary(file, _lines(keys), 0o600).replace(file)
        atomic_files.sync(file.parent)


def _lines(keys: Sequence[MasterKey]) -> bytes:
    return "".join(f"{key.text}\n" for key in keys).encode()


@contextmanager
def _writing(settings: Settings) -> Generator[Path]:
    """The file of the keys. Raises `MasterKeyError` if it cannot be written."""
    file = path(settings)
    try:
        yield file
    except OSError as error:
        raise MasterKeyError(f"The master key cannot be written to {file}: {error.strerror}.") from None
