"""An authority and a box of it, for tests of the box.

Time passes only when a test moves it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

from keyrack.offline_keys import cose, link_messages, phone, status_list_bits
from keyrack.offline_keys.box import clock, firmware
from keyrack.offline_keys.box.firmware import MessageResult
from keyrack.offline_keys.box.state import BoxMemory
from keyrack.offline_keys.link_messages import (
    CarryMessage,
    Challenge,
    EntriesMessage,
    Fetch,
    Open,
    Provision,
    Result,
    Said,
)
from keyrack.offline_keys.message_fields import (
    ENTRY,
    KEY,
    KEY_SET,
    PROVISIONING,
    RECEIPT,
    ROOT,
    STATUS_LIST,
    TIME,
    Message,
    Status,
)
from keyrack.offline_keys.refusal_codes import BoxRefusalCode
from tests.offline_keys.fixed_keys import Own, public, signer

START = 1_800_000_000
DAY, WEEK = 86_400, 604_800
ISS = "customer:7"


@dataclass
class Authority:
    """The authority. It signs by the true time."""

    now: int = START
    name: str = "box:1041:3"
    root: str = "root"
    issuing: str = "issuing-1"
    service: str = "service-1"
    keys: list[str] = field(default_factory=lambda: ["issuing-1"])
    service_keys: list[str] = field(default_factory=lambda: ["service-1"])
    sequence: int = 1
    revoked: set[int] = field(default_factory=set[int])
    keys_made: int = 0

    def sign(self, message: Message, by: str, **claims: Any) -> bytes:
        return cose.sign(message, public(by).kid, {"iss": ISS, "iat": self.now} | claims, signer(by).sign)

    def key(self, index: int = 1, **claims: Any) -> bytes:
        self.keys_made += 1
        most = {
            "sub": "u-1", "aud": self.name, "exp": self.now + WEEK, "nbf": self.now, "limit": WEEK, "assignment": 5,
            "cti": self.keys_made.to_bytes(16, "big"), "cnf": public("phone-1"), "rights": [1, 2],
            "status": Status(index, self.uri(1)),
        }  # fmt: skip
        return self.sign(KEY, self.issuing, **most | claims)

    def uri(self, generation: int) -> str:
        return f"https://keyrack.example/{self.name}/{generation}"

    def list(self, generation: int = 1, **claims: Any) -> bytes:
        bits = sum(1 << index for index in self.revoked).to_bytes(status_list_bits.BYTES, "little")
        most = {
            "sub": self.uri(generation), "aud": self.name, "exp": self.now + WEEK, "ttl": 300,
            "status_list": status_list_bits.pack(bits), "generation": generation,
        }  # fmt: skip
        return self.sign(STATUS_LIST, self.issuing, **most | claims)

    def key_set(self) -> bytes:
        keys = {"keys": [public(name) for name in self.keys]}
        keys["service-keys"] = [public(name) for name in self.service_keys]
        return self.sign(KEY_SET, self.root, sequence=self.sequence, **keys)

    def new_root(self, name: str) -> bytes:
        """Replace the root: the present one names another one, which signs from now on."""
        self.sequence += 1
        said = self.sign(ROOT, self.root, sequence=self.sequence, root=public(name))
        self.root = name
        self.sequence += 1
        return said

    def rotate(self, number: int, *, revoke: bool = False) -> None:
        """Replace the signing issuing key and service key."""
        self.sequence += 1
        self.issuing, self.service = f"issuing-{number}", f"service-{number}"
        self.keys = [self.issuing] if revoke else [*self.keys[-1:], self.issuing]
        self.service_keys = [self.service] if revoke else [*self.service_keys[-1:], self.service]

    def time(self, nonce: bytes) -> bytes:
        return self.sign(TIME, self.service, aud=self.name, nonce=nonce)

    def receipt(self, number: int, digest: bytes) -> bytes:
        return self.sign(RECEIPT, self.service, aud=self.name, upto=(number, digest))

    def provisioning(self, nonce: bytes, key_set: bytes, listed: bytes, **claims: Any) -> bytes:
        most = {
            "aud": self.name, "root": public(self.root), "box": public("box").thumbprint, "advertising": bytes(16),
            "list": hashlib.sha256(listed).digest(), "keyset": hashlib.sha256(key_set).digest(),
        }  # fmt: skip
        return self.sign(PROVISIONING, self.service, nonce=nonce, **most | claims)

    def provision(self, nonce: bytes, generation: int = 1, **claims: Any) -> Provision:
        """The three parts of a provisioning, which fit together."""
        key_set, listed = self.key_set(), self.list(generation)
        return Provision(self.provisioning(nonce, key_set, listed, **claims), key_set, listed)


@dataclass
class Box:
    """A box, which learns the time only from its own ticks."""

    authority: Authority = field(default_factory=Authority)
    tick: int = 0
    chance: bytes = bytes(16)
    own: Own = field(default_factory=lambda: Own(verified=[]))
    state: BoxMemory = field(init=False)
    last: MessageResult | None = None

    def __post_init__(self) -> None:
        self.reset()
        self.provision()

    def reset(self) -> None:
        self.state = firmware.reset(public("box"), bytes(32), self.tick)
        self.connect()

    def connect(self, links: int = 3) -> list[int]:
        """Begin new links, one after the other."""
        places: list[int] = []
        for _ in range(links):
            self.state, place = firmware.connect(self.state, self.tick)
            places.append(place)
        return places

    def provision(self, generation: int = 1) -> None:
        assert not self.say(self.authority.provision(self.challenge().nonce, generation)).code

    def passes(self, seconds: int) -> None:
        """Let time pass, for the box and for the world."""
        self.tick += seconds
        self.authority.now += seconds

    def stops(self, seconds: int, *, clock_goes_on: bool = False) -> None:
        """Cut the power for a while.

        Afterwards the clock is right, or starts at the time that was stored last.
        """
        self.authority.now += seconds
        elapsed = self.now + seconds - self.state.kept.floor if clock_goes_on else None
        self.tick = 0
        self.state = firmware.start(self.state.kept, 0, elapsed, self.own)
        self.connect()

    @property
    def now(self) -> int:
        return clock.now(self.state, self.tick)

    @property
    def code(self) -> BoxRefusalCode:
        assert self.last is not None
        return self.last.code

    def hear(self, message: bytes, on: int = 0) -> MessageResult:
        before = self.state.copy()
        self.last = firmware.receive(self.state, on, message, self.tick, self.chance, self.own)
        assert self.state == before, "a state that is given stays as it is"
        assert self.last.persist is (self.last.state.kept != before.kept)
        assert len(self.last.reply) <= link_messages.LONGEST
        self.state = self.last.state
        return self.last

    def say(self, said: Said, on: int = 0) -> MessageResult:
        return self.hear(link_messages.write(said), on)

    def hello(self, on: int = 0) -> bytes:
        """The challenge as the box sends it."""
        return self.say(link_messages.hello(), on).reply

    def challenge(self, on: int = 0) -> Challenge:
        return link_messages.read(self.hello(on), Challenge)

    def answer(self, key: bytes, command: int = 1, on: int = 0, count: int | None = None, by: str = "phone-1") -> Open:
        """An answer to a newly requested challenge."""
        count = self.authority.now * 1000 if count is None else count
        return phone.answer(self.hello(on), key, command, count, signer(by).sign)

    def open(
        self, key: bytes, command: int = 1, on: int = 0, count: int | None = None, by: str = "phone-1"
    ) -> MessageResult:
        return self.say(self.answer(key, command, on, count, by), on)

    def carry(self, artefact: bytes, on: int = 0) -> BoxRefusalCode:
        return self.say(CarryMessage(artefact), on).code

    def result(self) -> Result:
        assert self.last is not None
        return link_messages.read(self.last.reply, Result)

    def entries(self, begin: int = 1, on: int = 0) -> list[bytes]:
        found: list[bytes] = []
        while fresh := link_messages.read(self.say(Fetch(begin + len(found)), on).reply, EntriesMessage).entries:
            found += fresh
        return found

    @property
    def log(self) -> list[dict[str, Any]]:
        """The claims of the stored entries.

        The box has signed each of them, and each names the one before.
        """
        return [self._entry(entry) for entry in self.state.kept.log.entries]

    def _entry(self, entry: bytes) -> dict[str, Any]:
        read = cose.read(entry, ENTRY)
        assert self.own.verify(public("box"), read.to_be_signed, read.signature)
        return read.claims | {"digest": hashlib.sha256(entry).digest()}
