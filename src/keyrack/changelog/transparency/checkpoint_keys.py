"""In charge of the key that signs checkpoints: a file outside of the database, from which each log's signers are made.

Of a secret of 32 bytes there are two keys: one signs logs, under the name of each log; the other one says when. The
first secret of the file is the one to be pinned; the others sign, too, for whoever has pinned an older one.
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
MOST = 4  # keys of a file: each signs twice, and a note has 16 signatures at most

NONE = (
    "There is no key that signs checkpoints: {where} is missing. `keyrack audit keys` makes it; give every worker the "
    "same one: KEYRACK_CHECKPOINT_KEY_FILE."
)


class CheckpointKeyError(Exception):
    """What is wrong with the key that signs checkpoints, in words for the operator; no key is in them."""


def path(settings: Settings) -> Path:
    """The file of the keys."""
    return settings.checkpoint_key_file or settings.state / FILE


def is_ours(settings: Settings) -> bool:
    """Whether the file is made without a word: the database is the embedded one, and nobody named a file."""
    return settings.database_url is None and settings.checkpoint_key_file is None


def read(settings: Settings) -> list[bytes]:
    """The secrets of the file, the newest first; none where there is no file.

    Raises `CheckpointKeyError` for what is no key, or cannot be read.
    """
    file = path(settings)
    try:
        lines = file.read_text("ascii").split()
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise CheckpointKeyError(f"The key of checkpoints in {file} cannot be read: {reason}.") from None
    keys = [_secret(line) for line in lines]
    if not 0 < len(keys) <= MOST or not all(keys):
        raise CheckpointKeyError(
            f"{file} holds no key of checkpoints: that is 32 bytes in base64, or up to {MOST} of them, one a line."
        )
    return keys


def make(settings: Settings) -> list[bytes]:
    """The secrets of the file, which is made where there is none. Raises `CheckpointKeyError`."""
    if keys := read(settings):
        return keys
    file = path(settings)
    try:
        atomic_files.write_once(file, base64.b64encode(secrets.token_bytes(LENGTH)) + b"\n")
    except OSError as error:
        raise CheckpointKeyError(f"The key of checkpoints cannot be written to {file}: {error.strerror}.") from None
    return read(settings)


def needed(settings: Settings) -> list[bytes]:
    """The secrets of a worker: its file is made where that is ours to do. Raises `CheckpointKeyError`: none."""
    keys = make(settings) if is_ours(settings) else read(settings)
    if not keys:
        raise CheckpointKeyError(NONE.format(where=path(settings)))
    return keys


def server(settings: Settings) -> str:
    """The name under which this server's logs are known: its public address, without the scheme."""
    parts = urlsplit(settings.public_url)
    return f"{parts.netloc}{parts.path}"


def signers(keys: Sequence[bytes], origin: str, name: str) -> list[NoteSigner]:
    """What signs the checkpoints of a log: of each secret the log's key, and that of the time of the server `name`.

    Raises `CheckpointKeyError` for a server's name that no key may have.
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
        raise CheckpointKeyError(f"KEYRACK_PUBLIC_URL, {name}, names no key: {error}.") from None


def _derived(secret: bytes, use: bytes) -> bytes:
    return hmac.digest(secret, b"keyrack checkpoint " + use, hashlib.sha256)


def _secret(line: str) -> bytes:
    """The secret that a line is; none if it is none."""
    try:
        raw = base64.b64decode(line, validate=True)
    except (binascii.Error, ValueError):
        return b""
    return raw if len(raw) == LENGTH else b""
