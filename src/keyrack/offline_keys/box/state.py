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


@dataclass(frozen=True, slots=True)
class Authority:
    """Whom a box obeys, and what it has heard from there."""

    root: PublicKey
    iss: str
    name: str  # of the box: the aud of what is for it
    sequence: int  # of the key set
    keys: tuple[PublicKey, ...]  # 1 or 2 issuing keys
    lists: tuple[StatusList, ...]  # 1 or 2, the newer generation first

    def key(self, kid: bytes) -> PublicKey | None:
        """The issuing key of that name."""
        return next((key for key in self.keys if key.kid == kid), None)

    def list(self, uri: str) -> StatusList | None:
        return next((each for each in self.lists if each.uri == uri), None)


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
class LinkState:
    """What a link is at. It has a nonce from a hello on to the first use."""

    nonce: bytes = b""  # 16 bytes, or none
    made: int = 0  # the tick of the nonce
    challenge: bytes = b""  # SHA-256 of the challenge that has it
    is_proven: bool = False  # possession of a good key


@dataclass(slots=True)
class PersistentState:
    """What outlives a loss of power."""

    key: PublicKey  # the box's own
    secret: bytes  # 32 bytes, for nonces
    boot: int = 0  # how often it has started
    floor: int = 0  # its own time as it was written down last, seconds since 1970
    is_certain: bool = False  # that time
    authority: Authority | None = None
    phones: tuple[tuple[bytes, int], ...] = ()  # thumbprint and last counter, of who opened last at the end
    log: BoxLogState = BoxLogState()


@dataclass(slots=True)
class VolatileState:
    """What is new with each start. Ticks are seconds of a counter that goes on while there is power."""

    booted: int  # what the clock would have said at tick 0, seconds since 1970
    refilled: int  # the tick at which the bucket was counted
    tokens: int
    challenges: int = 0
    links: tuple[LinkState, ...] = (LinkState(),) * LINKS
    good: tuple[bytes, ...] = ()  # SHA-256 of keys whose signature is good under this key set, the newest last
    refused: tuple[int, BoxRefusalCode] = (
        0,
        BoxRefusalCode.GOOD,
    )  # how many, and why the last one, since the newest entry


@dataclass(slots=True)
class BoxMemory:
    kept: PersistentState
    running: VolatileState

    def copy(self) -> BoxMemory:
        return BoxMemory(replace(self.kept), replace(self.running))

    @property
    def authority(self) -> Authority:
        """Raises `MessageRefused`, as most of what a box does has no place before it has one."""
        if self.kept.authority is None:
            raise MessageRefused(BoxRefusalCode.NOT_NOW)
        return self.kept.authority
