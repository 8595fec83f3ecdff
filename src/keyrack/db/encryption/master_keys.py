"""In charge of the master keys: where a node finds them, and the file that it makes where nobody gave one."""

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

FORM = "A master key is 32 bytes in base64, as `keyrack master-key new` makes them"
HOW = "KEYRACK_MASTER_KEY or KEYRACK_MASTER_KEY_FILE"
NONE = (
    "There is no master key for the secrets in this database: {missing}. Make one with "
    "`keyrack master-key new`, keep it safe, and give the same one to every node: " + HOW + "."
)


class MasterKeyError(Exception):
    """What is wrong with the master key of this node, in words for its operator; no key is in them."""


@dataclass(frozen=True, slots=True)
class MasterKey:
    """A key that opens data keys. `id` is a fingerprint, which tells nothing of it."""

    raw: bytes = field(repr=False)

    @property
    def id(self) -> str:
        return hmac.digest(self.raw, b"keyrack master key", hashlib.sha256)[:8].hex()

    @property
    def text(self) -> str:
        """How it is written down."""
        return base64.b64encode(self.raw).decode()


def new() -> MasterKey:
    """A new key, of 256 random bits."""
    return MasterKey(secrets.token_bytes(LENGTH))


def path(settings: Settings) -> Path:
    """The file of the keys, unless they stand in KEYRACK_MASTER_KEY."""
    return settings.master_key_file or settings.state / FILE


def is_ours(settings: Settings) -> bool:
    """Whether the file is Keyrack's own to write: the database is the embedded one, and nobody gave a key."""
    given = (settings.database_url, settings.master_key, settings.master_key_file)
    return all(value is None for value in given)


def where(settings: Settings) -> str:
    """Where this node looks for its keys."""
    return "KEYRACK_MASTER_KEY" if settings.master_key is not None else str(path(settings))


def read(settings: Settings) -> list[MasterKey]:
    """The keys of this node, the one to be used from now on first; none where there is no file.

    Raises `MasterKeyError` for what is no key, or cannot be read.
    """
    if settings.master_key is not None:
        return _keys(settings.master_key.get_secret_value(), where(settings))
    try:
        return _keys(path(settings).read_text(), where(settings))
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise MasterKeyError(f"The master key in {where(settings)} cannot be read: {reason}.") from None


def _keys(text: str, where: str) -> list[MasterKey]:
    keys: list[MasterKey] = []
    for part in re.split(r"[\s,]+", text.strip(", \r\n\t")):
        try:
            raw = base64.b64decode(part, validate=True)
        except (binascii.Error, ValueError):
            raw = b""
        if len(raw) != LENGTH:
            raise MasterKeyError(f"{where} is not valid. {FORM}; several are separated by commas or lines.")
        keys.append(MasterKey(raw))
    return keys


def require(settings: Settings) -> list[MasterKey]:
    """The keys of this node; none if there are none yet and `make` may make one.

    Raises `MasterKeyError` where a key has to be given.
    """
    keys = read(settings)
    if not keys and not is_ours(settings):
        unset = "" if settings.master_key_file else "KEYRACK_MASTER_KEY and KEYRACK_MASTER_KEY_FILE are not set, and "
        raise MasterKeyError(NONE.format(missing=f"{unset}{path(settings)} is missing"))
    return keys


def make(settings: Settings) -> list[MasterKey]:
    """The keys of this node; where there are none, the file is made, and never in the place of one that is there.

    Raises `MasterKeyError` where a key has to be given.
    """
    if keys := require(settings):
        return keys
    with _writing(settings) as file:
        atomic_files.write_once(file, _lines([new()]))
    return read(settings)


def replace(settings: Settings, keys: Sequence[MasterKey]) -> None:
    """Write the file anew, whole or not at all. The caller keeps others from doing so at the same time."""
    with _writing(settings) as file:
        file.parent.mkdir(parents=True, exist_ok=True)
        atomic_files.write_temporary(file, _lines(keys), 0o600).replace(file)
        atomic_files.sync(file.parent)


def _lines(keys: Sequence[MasterKey]) -> bytes:
    return "".join(f"{key.text}\n" for key in keys).encode()


@contextmanager
def _writing(settings: Settings) -> Generator[Path]:
    """The file of the keys. Raises `MasterKeyError` where it cannot be written."""
    file = path(settings)
    try:
        yield file
    except OSError as error:
        raise MasterKeyError(f"The master key cannot be written to {file}: {error.strerror}.") from None
