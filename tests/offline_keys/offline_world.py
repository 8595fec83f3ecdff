"""A garage without a network: boxes, phones, and a server."""

from __future__ import annotations

import base64
import os
import time
from dataclasses import dataclass, field
from typing import Any

import httpx

from keyrack.core import secret_hashes
from keyrack.offline_keys import cose, link_messages, phone
from keyrack.offline_keys.box import firmware
from keyrack.offline_keys.box.firmware import MessageResult
from keyrack.offline_keys.box.state import LINKS, BoxMemory
from keyrack.offline_keys.link_messages import (
    AcceptedMessage,
    CarryMessage,
    Challenge,
    Enrol,
    EnrolledMessage,
    EntriesMessage,
    Fetch,
    Provision,
    Result,
)
from keyrack.offline_keys.message_fields import CLOSE, ENROLMENT, OPEN
from keyrack.offline_keys.p256 import PrivateKey, verify
from keyrack.offline_keys.public_key import PublicKey
from keyrack.offline_keys.refusal_codes import BoxRefusalCode
from tests.support.people import Person

DAY = 86_400


def b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def raw(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


@dataclass
class Firmware:
    """A box with its own key and its own clock, which runs with `tick`."""

    product: int
    key: PrivateKey = field(default_factory=PrivateKey.generate)
    tick: int = 0
    state: BoxMemory = field(init=False)
    last: MessageResult | None = None

    def __post_init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Reset the box, as a person at the box does."""
        self.state = firmware.reset(self.key.public, os.urandom(32), self.tick)
        for _ in range(LINKS):
            self.state, _ = firmware.connect(self.state, self.tick)

    def come_again(self, on: int = 0) -> None:
        """A phone arrives on a new link, some seconds after the one before."""
        self.tick += 4
        self.state, place = firmware.connect(firmware.disconnect(self.state, on), self.tick)
        assert place == on

    def verify(self, public: PublicKey, message: bytes, signature: bytes) -> bool:
        return verify(public, message, signature)

    def sign(self, message: bytes) -> bytes:
        return self.key.sign(message)

    def say(self, message: bytes, on: int = 0) -> bytes:
        """The box's answer."""
        self.last = firmware.receive(self.state, on, message, self.tick, os.urandom(16), self)
        self.state = self.last.state
        return self.last.reply

    def hello(self, on: int = 0) -> bytes:
        """The challenge as the box sends it."""
        return self.say(link_messages.write(link_messages.hello()), on)

    def challenge(self, on: int = 0) -> Challenge:
        return link_messages.read(self.hello(on), Challenge)

    def carry(self, artefact: bytes, on: int = 0) -> int:
        """0 if the artefact was accepted."""
        return link_messages.read(self.say(link_messages.write(CarryMessage(artefact)), on), AcceptedMessage).refused

    def fetch(self, begin: int, on: int = 0) -> list[bytes]:
        """All entries from a number on."""
        found: list[bytes] = []
        while True:
            entries = link_messages.read(self.say(link_messages.write(Fetch(begin + len(found))), on), EntriesMessage)
            if not entries.entries:
                return found
            found += entries.entries

    @property
    def code(self) -> BoxRefusalCode:
        """The reason for the last refusal."""
        assert self.last is not None
        return self.last.code

    def enrol(self, person: Person) -> dict[str, Any]:
        """Enrol the box in a new epoch, as a tool does."""
        given = person.post(f"/boxes/{self.product}/enrolment")
        assert given.status_code == 200, given.text
        answer = link_messages.read(self.say(link_messages.write(Enrol(raw(given.json()["nonce"])))), EnrolledMessage)
        assert cose.read(answer.enrolment, ENROLMENT).claims["cnf"] == self.key.public
        enrolled = person.put(f"/boxes/{self.product}/enrolment", {"enrolment": b64(answer.enrolment)})
        assert enrolled.status_code == 200, enrolled.text
        self.provision(person)
        return enrolled.json()

    def provision(self, person: Person) -> None:
        nonce = b64(self.challenge().nonce)
        told = person.get(f"/boxes/{self.product}/provisioning", params={"nonce": nonce})
        assert told.status_code == 200, told.text
        for root in told.json()["roots"]:
            self.carry(raw(root))  # uses no nonce
        messages = [raw(told.json()[name]) for name in ("provisioning", "keySet", "statusList")]
        assert link_messages.read(self.say(link_messages.write(Provision(*messages))), AcceptedMessage).refused == 0, (
            self.code
        )


@dataclass
class Phone:
    """A user's phone with its app: fetched keys, and entries of boxes."""

    person: Person
    user: int
    key: PrivateKey = field(default_factory=PrivateKey.generate)
    token: str = ""
    count: int = 0
    held: dict[str, Any] = field(default_factory=dict[str, Any])
    entries: list[bytes] = field(default_factory=list[bytes])
    receipts: dict[str, bytes] = field(default_factory=dict[str, bytes])

    @property
    def id(self) -> str:
        return b64(self.key.public.thumbprint)

    def call(self, method: str, path: str, json: Any = None, **options: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self.token}"} | options.pop("headers", {})
        if json is not None:
            options["json"] = json
        return self.person.client.request(method, path, headers=headers, **options)

    def sign_in(self) -> None:
        secret = secret_hashes.new_secret()
        self.person.sql.execute(
            "insert into sdk_key (customer_id, hash) values ($1, $2)",
            self.person.customer,
            secret_hashes.digest(secret),
        )
        body = {"customerId": self.person.customer, "sdkKey": secret, "userId": self.user}
        answer = self.person.post("/sdk/token", body)
        assert answer.status_code == 200, answer.text
        self.token = answer.json()["id_token"]

    @property
    def subject(self) -> str:
        payload = self.token.split(".")[1]
        return str(__import__("json").loads(raw(payload))["sub"])

    def nonce(self) -> bytes:
        """The server's nonce for a registration."""
        answer = self.call("POST", "/sdk/devices/nonce")
        assert answer.status_code == 200, answer.text
        return raw(answer.json()["nonce"])

    def registration(self) -> bytes:
        return phone.registration(self.subject, self.key.public, self.nonce(), self.key.sign)

    def register(self, name: str = "Phone") -> None:
        answer = self.call("PUT", "/sdk/devices", {"registration": b64(self.registration()), "name": name})
        assert answer.status_code == 200, answer.text
        assert answer.json()["id"] == self.id

    def fetch(self) -> dict[str, Any]:
        """The present answer of the server to this phone."""
        answer = self.call("GET", "/sdk/keys", params={"device": self.id})
        assert answer.status_code == 200, answer.text
        self.held = answer.json()
        return self.held

    def keys(self, box: Firmware) -> list[bytes]:
        return [raw(key["key"]) for key in self.held["keys"] if key["productId"] == box.product]

    def key_for(self, challenge: Challenge) -> bytes:
        """The first key for the box of this name."""
        return next(raw(key["key"]) for key in self.held["keys"] if key["box"] == challenge.name)

    def carried(self, box: Firmware) -> list[bytes]:
        """The artefacts for this box, the key set first."""
        own = [one for one in self.held["boxes"] if one["productId"] == box.product]
        lists = [raw(one["statusList"]) for each in own for one in each["statusLists"]]
        receipts = [raw(each["receipt"]) for each in own if each["receipt"]]
        roots = [raw(root) for root in self.held["roots"]]
        return [*roots, raw(self.held["keySet"]), *lists, *receipts, *self.receipts.values()]

    def bring(self, box: Firmware, on: int = 0) -> list[int]:
        """Carry missing artefacts to the box; 0 for each accepted one."""
        authority = f"customer:{self.person.customer}"
        challenge = box.challenge(on)
        wanted = phone.brought(challenge, authority, self.carried(box))
        return [box.carry(one.artefact, on) for one in wanted]

    def open(self, box: Firmware, command: int = OPEN, on: int = 0, key: bytes | None = None) -> BoxRefusalCode:
        """The box's answer to an `open`, without artefacts before."""
        challenge = box.hello(on)
        self.count = phone.counter(self.count, int(time.time() * 1000))
        key = key or self.key_for(link_messages.read(challenge, Challenge))
        said = phone.answer(challenge, key, command, self.count, self.key.sign)
        result = link_messages.read(box.say(link_messages.write(said), on), Result)
        if result.entry:
            self.entries.append(phone.kept(result.entry))
        return result.code

    def close(self, box: Firmware) -> BoxRefusalCode:
        return self.open(box, CLOSE)

    def visit(self, box: Firmware) -> BoxRefusalCode:
        """Act as an app: bring newer artefacts, open, and fetch the log."""
        box.come_again()
        self.bring(box)
        code = self.open(box)
        if code is BoxRefusalCode.GOOD:
            self.entries = [phone.kept(entry) for entry in box.fetch(1)]
        return code

    def home(self) -> dict[str, Any]:
        """Upload the entries of boxes."""
        answer = self.call("PUT", "/sdk/boxlog", {"entries": [b64(entry) for entry in self.entries]})
        assert answer.status_code == 200, answer.text
        self.receipts |= {one["box"]: raw(one["receipt"]) for one in answer.json()["receipts"]}
        return answer.json()


def garage(person: Person) -> tuple[int, Firmware]:
    """A car with an enrolled box."""
    car = person.car()
    box = Firmware(person.box_in(car))
    box.enrol(person)
    return car, box


def driver(person: Person, user: int | None = None) -> Phone:
    """A user with a registered phone."""
    found = Phone(person, user or person.user())
    found.sign_in()
    found.register()
    return found


def confirm(person: Person, box: Firmware) -> None:
    """Upload the log of a box, so that its enrolment comes into force."""
    bearer = driver(person)
    bearer.entries = list(box.state.kept.log.entries)
    assert bearer.home()["refused"] == []


def visited(person: Person) -> tuple[Firmware, Phone]:
    """A box that has opened for a phone."""
    car, box = garage(person)
    phone = driver(person)
    person.assignment(car, phone.user)
    phone.fetch()
    assert phone.visit(box) is BoxRefusalCode.GOOD
    return box, phone
