"""The keys that sign checkpoints: a file outside of the database, and the signers of each log.

Each secret of 32 bytes has two keys. One signs logs, under the name of each log. The other one signs the time.
Verifiers pin the public keys of the file's first secret. The other secrets sign as well, for verifiers that have pinned
older keys.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from keyrack.changelog.transparency.signed_notes import COSIGNATURE, ED25519, NotAKey, NoteSigner
from keyrack.core import atomic_files
from keyrack.core.settings import Settings

LENGTH = 32  # bytes
FILE = "checkpoint.key"  # in the state directory
MOST = 4  # secrets per file: each signs twice, and a note has at most 16 signatures

NONE = (
    "There is no signing key for checkpoints: {where} is missing. Make it with `keyrack audit keys`, and give every "
    "worker the same file (KEYRACK_CHECKPOINT_KEY_FILE)."
)


class CheckpointKeyError(Exception):
    """A problem with the signing key, described for the operator without any key."""


def path(settings: Settings) -> Path:
    """The file of the keys."""
    return settings.checkpoint_key_file or settings.state / FILE


def is_ours(settings: Settings) -> bool:
    """Whether Keyrack makes the file itself: the database is embedded, and no file is configured."""
    return settings.database_url is None and settings.checkpoint_key_file is None


def read(settings: Settings) -> list[bytes]:
    """The secrets of the file, the newest first; none if there is no file.

    Raises `CheckpointKeyError` if the file cannot be read, or if a key is invalid.
    """
    file = path(settings)
    try:
        lines = file.read_text("ascii").split()
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not an ASCII text"
        raise CheckpointKeyError(f"The checkpoint keys in {file} cannot be read: {reason}.") from None
    keys = [_secret(line) for line in lines]
    if not 0 < len(keys) <= MOST or not all(keys):
        raise CheckpointKeyError(
            f"{file} is not a valid file of checkpoint keys. It has 1 to {MOST} lines, each with 32 bytes in base64."
        )
    return keys


def make(settings: Settings) -> list[bytes]:
    """The secrets of the file, which is made if missing. Raises `CheckpointKeyError`."""
    if keys := read(settings):
        return keys
    file = path(settings)
    try:
        atomic_files.write_once(file, base64.b64encode(secrets.token_bytes(LENGTH)) + b"\n")
    except OSError as error:
        raise CheckpointKeyError(f"The checkpoint key cannot be written to {file}: {error.strerror}.") from None
    return read(settings)


def needed(settings: Settings) -> list[bytes]:
    """The secrets of a worker. Makes the file if `is_ours`. Raises `CheckpointKeyError` without any."""
    keys = make(settings) if is_ours(settings) else read(settings)
    if not keys:
        raise CheckpointKeyError(NONE.format(where=path(settings)))
    return keys


def server(settings: Settings) -> str:
    """The name of this server in its logs' names: its public address without the scheme."""
    parts = urlsplit(settings.public_url)
    return f"{parts.netloc}{parts.path}"


def signers(keys: Sequence[bytes], origin: str, name: str) -> list[NoteSigner]:
    """The signers of a log's checkpoints: for each secret, the log's key and the time key of server `name`.

    Raises `CheckpointKeyError` if the server's name is not valid in a key.
    """
    try:
        return [
            signer
            for secret in keys
            for signer in (
                NoteSigner.make(origin, ED25519, _derived(secret, b"log")),
                NoteSigner.make(f"{name}/time", COSIGNATURE, _derived(secret, b"time")),
            )
        ]
    except NotAKey as error:
        raise CheckpointKeyError(f"KEYRACK_PUBLIC_URL ({name}) is not valid in a key name: {error}.") from None


def _derived(secret: bytes, use: bytes) -> bytes:
    return hmac.digest(secret, b"keyrack checkpoint " + use, hashlib.sha256)


def _secret(line: str) -> bytes:
    """The secret in a line; empty if the line is invalid."""
    try:
        raw = base64.b64decode(line, validate=True)
    except (binascii.Error, ValueError):
        return b""
    return raw if len(raw) == LENGTH else b""
