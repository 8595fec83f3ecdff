"""Signed notes: checkpoints of a log, signed for verification by other tools.

A note is C2SP's signed-note: a text, and lines of signatures. A reader checks only the signatures of keys that it
knows. A checkpoint is a note of C2SP's tlog-checkpoint. A cosignature of tlog-cosignature adds the time at which it was
seen. Both are Ed25519 here; a note may also have signatures of other kinds.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Collection
from dataclasses import dataclass

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

ED25519 = 0x01  # kinds of signatures, as signed-note numbers them
COSIGNATURE = 0x04  # over a checkpoint and a time
KINDS = (ED25519, COSIGNATURE)
SIGNATURES = 16  # per note: signed-note requires every reader to accept that many
BYTES = 128 << 10  # per note: sixteen signatures of five thousand bytes, and the text
SECRET = "PRIVATE+KEY+"  # noqa: S105 - the prefix of signing keys in Go's sumdb/note

CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f]")
NAME = re.compile(r"[^\s+\x00-\x1f]+")
LINE = re.compile(rf"— ({NAME.pattern}) (\S+)")
SIZE = re.compile(r"0|[1-9][0-9]{0,18}")


class NotANote(ValueError):
    """Bytes that are no signed note, or a text that is no checkpoint."""


class NotAKey(ValueError):
    """A text that is no key for signing or verifying notes."""


class NoteNotVerified(ValueError):
    """A note without a signature of a known key, or with a wrong one."""


class NotKnown(NoteNotVerified):
    """A note that only unknown keys have signed."""


@dataclass(frozen=True, slots=True)
class VerificationKey:
    """A key that verifies signatures."""

    name: str
    kind: int
    public: bytes  # 32 bytes

    @classmethod
    def read(cls, text: str) -> VerificationKey:
        """Parse `name+hash+base64`, a verifier key of signed-note. Raises `NotAKey`."""
        name, stated, raw = _parts(text)
        key = cls(name, raw[0], raw[1:])
        if stated != key.id.hex():
            raise NotAKey(f"the hash {stated[:8]} is of another key or name than {name}: it would be {key.id.hex()}")
        return key

    @property
    def id(self) -> bytes:
        """The id by which a signature names the key, besides the name (4 bytes)."""
        return hashlib.sha256(f"{self.name}\n".encode() + bytes([self.kind]) + self.public).digest()[:4]

    def __str__(self) -> str:
        return f"{self.name}+{self.id.hex()}+{_base64(bytes([self.kind]) + self.public)}"


@dataclass(frozen=True, slots=True)
class NoteSigner:
    """A signing key. Its `repr` shows only the public key."""

    key: VerificationKey
    private: Ed25519PrivateKey

    @classmethod
    def make(cls, name: str, kind: int = ED25519, seed: bytes | None = None) -> NoteSigner:
        """A new key, or the one of these 32 bytes. Raises `NotAKey` for an invalid name."""
        if not NAME.fullmatch(name):
            raise NotAKey("a key's name is not empty, and has neither spaces nor +")
        private = Ed25519PrivateKey.generate() if seed is None else Ed25519PrivateKey.from_private_bytes(seed)
        return cls(VerificationKey(name, kind, private.public_key().public_bytes_raw()), private)

    @classmethod
    def read(cls, text: str) -> NoteSigner:
        """Parse a key that `secret` wrote. Raises `NotAKey`, whose text does not quote it."""
        if not text.startswith(SECRET):
            raise NotAKey(f"a signing key begins with {SECRET}")
        name, stated, raw = _parts(text.removeprefix(SECRET))
        signer = cls.make(name, raw[0], raw[1:])
        if stated != signer.key.id.hex():
            raise NotAKey("the hash in a signing key is of another key or name")
        return signer

    @property
    def secret(self) -> str:
        """The private key as text, as Go's sumdb/note writes it."""
        raw = bytes([self.key.kind]) + self.private.private_bytes_raw()
        return f"{SECRET}{self.key.name}+{self.key.id.hex()}+{_base64(raw)}"

    def sign(self, text: str, at: int) -> Signature:
        """Sign a note's text. A cosignature includes the time `at`, in seconds since 1970.

        Raises `NotANote` if a cosignature's text is no checkpoint.
        """
        time = b""
        if self.key.kind == COSIGNATURE:
            Checkpoint.read(text)
            time = at.to_bytes(8, "big")
        return Signature(self.key.name, self.key.id, time + self.private.sign(_signed(self.key, text, time)))

    def __repr__(self) -> str:
        return f"Signer({self.key})"


@dataclass(frozen=True, slots=True)
class Signature:
    """A line of a note: the key's name and id, and the signature."""

    name: str
    id: bytes
    value: bytes

    def __str__(self) -> str:
        return f"— {self.name} {_base64(self.id + self.value)}\n"


@dataclass(frozen=True, slots=True)
class Note:
    """A text with its signatures. Nothing in it is trusted before `verify`."""

    text: str  # ends with a newline
    signatures: tuple[Signature, ...]

    @classmethod
    def read(cls, data: bytes) -> Note:
        """Parse a note. Raises `NotANote`."""
        if len(data) > BYTES:
            raise NotANote(f"a note has at most {BYTES} bytes")
        try:
            whole = data.decode()
        except UnicodeDecodeError:
            raise NotANote("a note is UTF-8") from None
        text, separator, lines = whole.rpartition("\n\n")
        if not separator or not lines.endswith("\n") or CONTROL.search(whole):
            raise NotANote("a note is a text, an empty line, and lines of signatures")
        signatures = lines.removesuffix("\n").split("\n")
        if len(signatures) > SIGNATURES:
            raise NotANote(f"a note has at most {SIGNATURES} signatures")
        return cls(text + "\n", tuple(map(_signature, signatures)))

    def __bytes__(self) -> bytes:
        return f"{self.text}\n{''.join(map(str, self.signatures))}".encode()

    def verify(self, keys: Collection[VerificationKey]) -> dict[VerificationKey, int | None]:
        """The keys with a valid signature, each with the time of its cosignature.

        Other signatures are ignored. Raises `NoteNotVerified` if the signature of a known key is wrong, `NotKnown`
        without one.
        """
        keys_by_name_and_id = {(key.name, key.id): key for key in keys}
        times = dict[VerificationKey, int | None]()
        for signature in self.signatures:
            key = keys_by_name_and_id.get((signature.name, signature.id))
            if key is not None:
                times.setdefault(key, _verified(key, self.text, signature.value))
        if not times:
            raise NotKnown("no known key has signed the note")
        return times


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The state of a log: its name, its number of records, and the root of their tree."""

    origin: str
    size: int
    root: bytes  # 32 bytes

    @classmethod
    def read(cls, text: str) -> Checkpoint:
        """Parse a note's text; ignores lines after the third one. Raises `NotANote`."""
        *lines, end = text.split("\n")
        if end or len(lines) < 3 or not all(lines) or not SIZE.fullmatch(lines[1]):
            raise NotANote("a checkpoint has lines for origin, size and root, and no empty line")
        return cls(lines[0], int(lines[1]), _bytes(lines[2], 32))

    def __str__(self) -> str:
        return f"{self.origin}\n{self.size}\n{_base64(self.root)}\n"


def signed(text: str, *signers: NoteSigner, at: int) -> Note:
    """Sign a text with each signer at this time. Raises `NotANote` if the text is invalid in a note."""
    note = Note(text, tuple(signer.sign(text, at) for signer in signers))
    if Note.read(bytes(note)) != note:
        raise NotANote("the text of a note must end with one newline")
    return note


def _signed(key: VerificationKey, text: str, time: bytes) -> bytes:
    """The bytes under a signature; `time` is that of a cosignature (8 bytes)."""
    if key.kind == COSIGNATURE:
        return f"cosignature/v1\ntime {int.from_bytes(time, 'big')}\n{text}".encode()
    return text.encode()


def _verified(key: VerificationKey, text: str, value: bytes) -> int | None:
    """Verify a signature. Returns the time of a cosignature, else None. Raises `NoteNotVerified`."""
    time, value = (value[:8], value[8:]) if key.kind == COSIGNATURE else (b"", value)
    at = int.from_bytes(time, "big")
    try:
        Ed25519PublicKey.from_public_bytes(key.public).verify(value, _signed(key, text, time))
        if not time:
            return None
        Checkpoint.read(text)
    except (InvalidSignature, ValueError):
        raise NoteNotVerified(f"the signature of {key.name} is invalid") from None
    if at >= 1 << 63:
        raise NoteNotVerified(f"the cosignature of {key.name} has no valid time")
    return at


def _signature(line: str) -> Signature:
    match = LINE.fullmatch(line)
    if match is None:
        raise NotANote("a signature line is an em dash, a name, and base64")
    raw = _bytes(match[2])
    if len(raw) < 5:
        raise NotANote("a signature has the four bytes of its key's id, and more bytes after them")
    return Signature(match[1], raw[:4], raw[4:])


def _parts(text: str) -> tuple[str, str, bytes]:
    """The parts of a key's text: name, hash, and kind with key. Raises `NotAKey`."""
    name, _, rest = text.partition("+")
    stated, _, encoded = rest.partition("+")
    try:
        raw = _bytes(encoded, 33)
    except NotANote:
        raise NotAKey("a key is name+hash+base64, with one byte for its kind and 32 bytes for the key") from None
    if not NAME.fullmatch(name) or raw[0] not in KINDS:
        raise NotAKey("a key has a name without spaces, and is of kind 1 (Ed25519) or 4 (cosignature/v1)")
    return name, stated, raw


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _bytes(text: str, length: int | None = None) -> bytes:
    """Decode canonical base64 with padding. Raises `NotANote`."""
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        data = b""
    if not data or _base64(data) != text or len(data) != (length or len(data)):
        raise NotANote("a signature, a key or a root is not canonical base64 of the right length")
    return data
