"""In charge of what a box knows: what it keeps over a loss of power, and what it does not.

The two records change, their values do not: so a state is copied by copying the records.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from keyrack.offline_keys.cose import MessageRefused
from keyrack.offline_keys.public_key import PublicKey
from keyrack.offline_keys.refusal_codes import BoxRefusalCode

LINKS = 3  # that are served at once


@dataclass(frozen=True, slots=True)
class StatusList:
    """Which keys are revoked, as it was said last."""

    uri: str
    generation: int
    iat: int
    bits: bytes  # 256 bytes
    signer: bytes  # kid of the issuing key, 8 bytes


@dataclass(frozen=True, slots=True)
class Authority:
    """Whom a box obeys, and what it has heard from there."""

    root: PublicKey
    iss: str
    name: str  # of the box: the aud of what is for it
    sequence: int  # of the key set or new root that came last
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
        """The lowest number that is held; `next` where none is."""
        return self.next - len(self.entries)


@dataclass(frozen=True, slots=True)
class TokenBucket:
    """How much may still be asked of the box; `verification_budget` counts it up."""

    tokens: int
    since: int  # the tick up to which it was counted


@dataclass(frozen=True, slots=True)
class PhoneBuckets:
    """The two buckets of a remembered phone: for an `open` with a remembered key, and for one with another key.

    An attacker who knows a phone's public key can name it in made-up keys. These take from the second bucket alone.
    """

    remembered_key: TokenBucket
    other_key: TokenBucket


@dataclass(frozen=True, slots=True)
class LinkState:
    """What a link is at. It has a nonce from a hello on to the first use."""

    connection: int = 0  # which one it is since the start; 0 for a free place
    bucket: TokenBucket = TokenBucket(0, 0)
    nonce: bytes = b""  # 16 bytes, or none
    made: int = 0  # the tick of the nonce
    challenge: bytes = b""  # SHA-256 of the challenge that has it
    proven_at: int | None = None  # the tick at which possession of a good key was proven last, since the last hello


@dataclass(slots=True)
class PersistentState:
    """What outlives a loss of power."""

    key: PublicKey  # the box's own
    secret: bytes  # 32 bytes, for nonces
    boot: int = 0  # how often it has started
    floor: int = 0  # its own time as it was written down last, seconds since 1970
    is_certain: bool = False  # that time
    ahead: int = 0  # seconds by which artefacts have moved the clock since it was set
    authority: Authority | None = None
    phones: tuple[tuple[bytes, int], ...] = ()  # thumbprint and last counter; the last user is at the end
    log: BoxLogState = BoxLogState()


@dataclass(slots=True)
class VolatileState:
    """What is new with each start. Ticks are seconds of a counter that goes on while there is power."""

    booted: int  # what the clock would have said at tick 0, seconds since 1970
    bucket: TokenBucket  # the common one
    phone_buckets: dict[bytes, PhoneBuckets]  # by thumbprint, of all phones that are remembered
    challenges: int = 0
    connections: int = 0
    links: tuple[LinkState, ...] = (LinkState(),) * LINKS
    good: tuple[bytes, ...] = ()  # SHA-256 of the keys that opened or closed last under this key set, the newest last
    # Since the newest entry: how many messages were refused without one and why the last, and other events without one
    refused: tuple[int, BoxRefusalCode] = (0, BoxRefusalCode.GOOD)
    skipped: int = 0


@dataclass(slots=True)
class BoxMemory:
    kept: PersistentState
    running: VolatileState

    def copy(self) -> BoxMemory:
        running = replace(self.running, phone_buckets=dict(self.running.phone_buckets))
        return BoxMemory(replace(self.kept), running)

    @property
    def authority(self) -> Authority:
        """Raises `MessageRefused`, as most of what a box does has no place before it has one."""
        if self.kept.authority is None:
            raise MessageRefused(BoxRefusalCode.NOT_NOW)
        return self.kept.authority
