"""The persistent and the volatile state of a box.

The two records are mutable, their values are not. So a copy of the records is a copy of the state.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from keyrack.offline_keys.cose import MessageRefused
from keyrack.offline_keys.public_key import PublicKey
from keyrack.offline_keys.refusal_codes import BoxRefusalCode

LINKS = 3  # simultaneous links


@dataclass(frozen=True, slots=True)
class StatusList:
    """A status list: which keys are revoked."""

    uri: str
    generation: int
    iat: int  # seconds since 1970
    bits: bytes  # 256 bytes
    signer: bytes  # kid of the issuing key, 8 bytes


@dataclass(frozen=True, slots=True)
class Authority:
    """The authority that a box obeys, with its newest keys and lists."""

    root: PublicKey
    iss: str  # of the authority: `iss` of its messages
    name: str  # of the box: `aud` of messages for it
    sequence: int  # of the newest key set or new root
    keys: tuple[PublicKey, ...]  # 1 or 2 issuing keys
    service_keys: tuple[PublicKey, ...]  # 1 or 2
    advertising: bytes  # 16 bytes
    lists: tuple[StatusList, ...]  # 0 to 2, the higher generation first

    def key(self, kid: bytes) -> PublicKey | None:
        """The issuing key with this `kid`."""
        return next((key for key in self.keys if key.kid == kid), None)

    def service_key(self, kid: bytes) -> PublicKey | None:
        """The service key with this `kid`."""
        return next((key for key in self.service_keys if key.kid == kid), None)


@dataclass(frozen=True, slots=True)
class BoxLogState:
    """The entries that no receipt has freed."""

    entries: tuple[bytes, ...] = ()
    next: int = 1  # the number of the next entry
    newest: bytes = bytes(32)  # SHA-256 of the entry before that

    @property
    def first(self) -> int:
        """The lowest stored number; `next` if the log is empty."""
        return self.next - len(self.entries)


@dataclass(frozen=True, slots=True)
class TokenBucket:
    """A token bucket. `verification_budget` refills it."""

    tokens: int
    since: int  # the tick up to which tokens were added


@dataclass(frozen=True, slots=True)
class PhoneBuckets:
    """The buckets of a remembered phone: for remembered and other keys.

    An attacker who knows a phone's public key can name it in forged keys. These take from the second bucket alone.
    """

    remembered_key: TokenBucket
    other_key: TokenBucket


@dataclass(frozen=True, slots=True)
class LinkState:
    """The state of a link. It has a nonce from a hello until the first use."""

    connection: int = 0  # serial number since the start; 0 for a free place
    bucket: TokenBucket = TokenBucket(0, 0)
    nonce: bytes = b""  # 16 bytes, or none
    made: int = 0  # the tick at which the nonce was made
    challenge: bytes = b""  # SHA-256 of the challenge with this nonce
    proven_at: int | None = None  # the tick of the last proof of a valid key since the last hello


@dataclass(slots=True)
class PersistentState:
    """The state that survives a power loss."""

    key: PublicKey  # the box's own
    secret: bytes  # 32 bytes, for nonces
    boot: int = 0  # number of starts
    floor: int = 0  # the box's time when it was last stored, seconds since 1970
    is_certain: bool = False  # whether the clock is certain
    ahead: int = 0  # seconds by which artefacts have moved the clock since it was set
    authority: Authority | None = None
    phones: tuple[tuple[bytes, int], ...] = ()  # thumbprint and last counter; the most recent user is last
    log: BoxLogState = BoxLogState()


@dataclass(slots=True)
class VolatileState:
    """The state that a power loss ends. Ticks are seconds of a counter that runs while there is power."""

    booted: int  # the clock's time at tick 0, seconds since 1970
    bucket: TokenBucket  # the common bucket
    phone_buckets: dict[bytes, PhoneBuckets]  # by thumbprint, of all remembered phones
    challenges: int = 0
    connections: int = 0
    links: tuple[LinkState, ...] = (LinkState(),) * LINKS
    good: tuple[bytes, ...] = ()  # SHA-256 of the last keys that opened or closed under this key set, the newest last
    # Since the newest entry: the number of messages refused without an entry and the last code; other events without
    # one
    refused: tuple[int, BoxRefusalCode] = (0, BoxRefusalCode.GOOD)
    skipped: int = 0


@dataclass(slots=True)
class BoxMemory:
    """The whole state of a box."""

    kept: PersistentState
    running: VolatileState

    def copy(self) -> BoxMemory:
        running = replace(self.running, phone_buckets=dict(self.running.phone_buckets))
        return BoxMemory(replace(self.kept), running)

    @property
    def authority(self) -> Authority:
        """The authority. Raises `MessageRefused` if the box has none."""
        if self.kept.authority is None:
            raise MessageRefused(BoxRefusalCode.NOT_NOW)
        return self.kept.authority
