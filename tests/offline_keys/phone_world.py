"""A world for tests of phones: an authority and one box.

The authority answers the requests of apps. All of it is in memory, and time passes only when a test moves it. The box
is the reference, `keyrack.offline_keys.box`.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from keyrack.offline_keys import cose, link_messages, message_fields, status_list_bits
from keyrack.offline_keys.box import clock, firmware, links
from keyrack.offline_keys.box.firmware import LockAction, MessageResult
from keyrack.offline_keys.box.state import LINKS
from keyrack.offline_keys.message_fields import Message, Status
from keyrack.offline_keys.p256 import PrivateKey, verify
from keyrack.offline_keys.public_key import PublicKey
from keyrack.offline_keys.refusal_codes import BoxRefusalCode
from keyrack.offline_keys.transports import advertisements
from keyrack.offline_keys.transports.advertisements import SLOT_SECONDS, day_key, day_of, slot_at
from keyrack.offline_keys.transports.bluetooth import BoxBluetooth, size_value
from keyrack.offline_keys.transports.message_buffer import MessageBuffer

ISS, BOX, PRODUCT = "customer:7", "box:1041:3", 1041
REASON = "forgery"
NONCE = bytes(range(16))  # for registrations


def b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def unb64(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def text(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


class Crypto:
    """The cryptography that the box needs."""

    def __init__(self, key: PrivateKey) -> None:
        self.verify, self.sign = verify, key.sign


@dataclass
class Issued:
    """A phone's key, and its place in the list."""

    key: bytes
    iat: int
    generation: int
    index: int


@dataclass
class World:
    rights: list[int] = field(default_factory=lambda: [1, 2])
    limit: int = 604_800
    lifetime: int = 604_800
    begins: int = 0  # seconds after a key was issued

    def __post_init__(self) -> None:
        self.begun, self.tick = int(time.time()), 0
        self.root, self.roots = PrivateKey.generate(), list[bytes]()
        self.issuing, self.service = [PrivateKey.generate()], [PrivateKey.generate()]
        self.sequence, self.generation = 1, 1
        self.bits = {1: bytearray(status_list_bits.BYTES)}
        self.phones: dict[str, PublicKey] = {}
        self.issued: dict[str, Issued] = {}
        self.revoked: set[str] = set()
        self.entries: dict[int, bytes] = {}
        self.places = 0
        self.effects: list[str] = []
        self.codes: list[str] = []
        self.box_key = PrivateKey.generate()
        self.crypto = Crypto(self.box_key)
        self._reset(secrets.token_bytes(32))
        self._connect_all()
        self._provision()

    @property
    def now(self) -> int:
        return self.begun + self.tick

    # The box

    def say(self, number: int, message: bytes) -> bytes:
        """The box's answer on this link."""
        outcome = self._receive(number, message, secrets.token_bytes(16))
        if outcome.effect is not LockAction.NONE:
            self.effects.append(outcome.effect.name)
        if outcome.code is not BoxRefusalCode.GOOD:
            self.codes.append(outcome.code.text)
        return outcome.reply

    def connect(self) -> int:
        """A connection begins. Returns the number of its link."""
        self.box, number = firmware.connect(self.box, self.tick)
        return number

    def disconnect(self, number: int) -> None:
        self.box = firmware.disconnect(self.box, number)

    def is_proven(self, number: int) -> bool:
        """Whether possession of a key is proven on this link."""
        return links.is_proven(self.box, number, self.tick)

    @property
    def advertised_name(self) -> str:
        """The name that the box advertises in the present slot."""
        return advertisements.name_at(self.box.authority.advertising, clock.now(self.box, self.tick))

    @property
    def advertisement(self) -> bytes:
        return advertisements.advertisement(self.advertised_name)

    def size_value(self, att_mtu: int) -> bytes:
        """The value of `size` on a connection."""
        return size_value(att_mtu)

    def bluetooth(self) -> tuple[MessageBuffer, BoxBluetooth]:
        """The buffer and the Bluetooth side of the box, without connections."""
        for number in range(LINKS):  # those of the world's own tools
            self.disconnect(number)
        buffer = MessageBuffer()
        return buffer, BoxBluetooth(buffer)

    def _reset(self, secret: bytes) -> None:
        self.box = firmware.reset(self.box_key.public, secret, self.tick)

    def _receive(self, number: int, message: bytes, random: bytes) -> MessageResult:
        outcome = firmware.receive(self.box, number, message, self.tick, random, self.crypto)
        self.box = outcome.state
        return outcome

    def _connect_all(self) -> None:
        for _ in range(LINKS):
            self.connect()

    def _provision(self) -> None:
        nonce = link_messages.read(
            self.say(0, link_messages.write(link_messages.hello())), link_messages.Challenge
        ).nonce
        key_set, status_list = self.key_set(), self.list(self.generation)
        claims = {
            "nonce": nonce, "root": self.root.public, "box": self.box_key.public.thumbprint,
            "advertising": secrets.token_bytes(16), "list": hashlib.sha256(status_list).digest(),
            "keyset": hashlib.sha256(key_set).digest(),
        }  # fmt: skip
        provisioning = self._sign_service(message_fields.PROVISIONING, **claims)
        said = link_messages.Provision(provisioning, key_set, status_list)
        assert link_messages.read(
            self.say(0, link_messages.write(said)), link_messages.AcceptedMessage
        ) == link_messages.AcceptedMessage(0)

    # Events for tests

    def seconds_pass(self, seconds: int) -> None:
        self.tick += seconds

    def power_is_cut(self) -> None:
        """The clock of the box stands still meanwhile."""
        self.box = firmware.start(self.box.kept, self.tick, None, self.crypto)
        self._connect_all()

    def revoke(self, device: str) -> None:
        issued = self.issued.pop(device)
        self.bits[issued.generation][issued.index // 8] |= 1 << issued.index % 8
        self.revoked.add(device)

    def rotate(self) -> None:
        """Replace the issuing key, the service key and the keys of phones."""
        self.issuing = [self.issuing[-1], PrivateKey.generate()]
        self.service = [self.service[-1], PrivateKey.generate()]
        self.sequence += 1
        self.issued.clear()

    def replace_root(self) -> None:
        """Replace the root by another one, which signs the next key set."""
        successor = PrivateKey.generate()
        claims = {"iss": ISS, "iat": self.now, "sequence": self.sequence + 1, "root": successor.public}
        self.roots.append(cose.sign(message_fields.ROOT, self.root.public.kid, claims, self.root.sign))
        self.root = successor
        self.sequence += 2

    def begin_generation(self) -> None:
        self.generation += 1
        self.bits[self.generation] = bytearray(status_list_bits.BYTES)

    def change(self, **settings: Any) -> None:
        """Issue keys again, with other rights, another limit or another life."""
        vars(self).update(settings)
        self.issued.clear()

    def seen(self) -> dict[str, Any]:
        """The state that a test inspects."""
        log = self.box.kept.log
        authority = self.box.authority
        return {
            "effects": self.effects, "codes": self.codes, "first": log.first, "next": log.next,
            "home": sorted(self.entries), "sequence": authority.sequence, "root": b64(authority.root.kid),
            "certain": self.box.kept.is_certain, "lists": [each.generation for each in authority.lists],
        }  # fmt: skip

    # Answers of the server

    def registration_nonce(self) -> dict[str, Any]:
        return {"nonce": b64(NONCE)}

    def put_device(self, registration: bytes) -> dict[str, Any]:
        signed = cose.read(registration, message_fields.REGISTRATION)
        public: PublicKey = signed.claims["cnf"]
        assert signed.kid == public.kid and verify(public, signed.to_be_signed, signed.signature)
        assert signed.claims["nonce"] == NONCE
        device = b64(public.thumbprint)
        self.phones[device] = public
        return {"id": device, "isApproved": True}

    def keys(self, device: str) -> dict[str, Any]:
        lists = [{"generation": one, "statusList": b64(self.list(one))} for one in sorted(self.bits)[-2:]]
        receipt = self._receipt()
        return {
            "keySet": b64(self.key_set()),
            "roots": [b64(root) for root in self.roots],
            "keys": [] if device in self.revoked else [self._told(self._issued(device))],
            "boxes": [
                {
                    "box": BOX,
                    "productId": PRODUCT,
                    "boxKey": b64(self.box_key.public.encoded),
                    "statusLists": lists,
                    "receipt": receipt and b64(receipt),
                    "names": [] if device in self.revoked else self._names(),
                },
            ],
            "withheld": [],
            "isComplete": True,
        }

    def _names(self) -> list[dict[str, Any]]:
        """The keys of the box's names, for the days of a key."""
        first, last = (self.now + after for after in (-SLOT_SECONDS, self.lifetime + SLOT_SECONDS))
        days = range(day_of(slot_at(first)), day_of(slot_at(last)) + 1)
        return [{"day": day, "key": b64(day_key(self.box.authority.advertising, day))} for day in days]

    def put_log(self, entries: list[bytes]) -> dict[str, Any]:
        refused: list[dict[str, Any]] = []
        for index, entry in enumerate(entries):
            signed = cose.read_entry(entry)
            if verify(self.box_key.public, signed.to_be_signed, signed.signature):
                self.entries[signed.claims["number"]] = signed.raw
            else:
                refused.append({"index": index, "reason": REASON})
        receipt = self._receipt()
        receipts = [{"box": BOX, "upTo": self._end(), "receipt": b64(receipt)}] if receipt else []
        return {"receipts": receipts, "refused": refused}

    def time(self, box: str, nonce: bytes) -> dict[str, Any]:
        assert box == BOX
        return {"time": b64(self._sign_service(message_fields.TIME, nonce=nonce))}

    def key_set(self) -> bytes:
        keys, service = [key.public for key in self.issuing], [key.public for key in self.service]
        claims = {"iss": ISS, "iat": self.now, "sequence": self.sequence, "keys": keys, "service-keys": service}
        return cose.sign(message_fields.KEY_SET, self.root.public.kid, claims, self.root.sign)

    def list(self, generation: int) -> bytes:
        lst = status_list_bits.pack(bytes(self.bits[generation]))
        claims = {"sub": _uri(generation), "exp": self.now + self.lifetime, "ttl": 300, "generation": generation}
        return self._sign(message_fields.STATUS_LIST, **claims, status_list=lst)

    def _issued(self, device: str) -> Issued:
        """The phone's key, the same for half of its life."""
        held = self.issued.get(device)
        if held is None or self.now >= held.iat + self.lifetime // 2:
            key = self._key(self.phones[device], Status(self.places, _uri(self.generation)))
            held = self.issued[device] = Issued(key, self.now, self.generation, self.places)
            self.places += 1
        return held

    def _key(self, phone: PublicKey, status: Status) -> bytes:
        return self._sign(
            message_fields.KEY, sub="somebody", exp=self.now + self.lifetime, nbf=self.now + self.begins,
            cti=secrets.token_bytes(16), cnf=phone, status=status, assignment=4711, rights=self.rights,
            limit=self.limit,
        )  # fmt: skip

    def _told(self, issued: Issued) -> dict[str, Any]:
        times = {"issued": 0, "begins": self.begins, "expires": self.lifetime, "renewAfter": self.lifetime // 2}
        names = {"assignmentId": 4711, "carId": 12, "productId": PRODUCT, "box": BOX, "key": b64(issued.key)}
        return names | {name: text(issued.iat + after) for name, after in times.items()}

    def _end(self) -> int:
        """The number up to which the log has arrived without a gap."""
        end = 0
        while end + 1 in self.entries:
            end += 1
        return end

    def _receipt(self) -> bytes | None:
        end = self._end()
        if not end:
            return None
        return self._sign_service(message_fields.RECEIPT, upto=(end, hashlib.sha256(self.entries[end]).digest()))

    def _sign(self, message: Message, **claims: Any) -> bytes:
        return self._signed(self.issuing[-1], message, claims)

    def _sign_service(self, message: Message, **claims: Any) -> bytes:
        return self._signed(self.service[-1], message, claims)

    def _signed(self, key: PrivateKey, message: Message, claims: dict[str, Any]) -> bytes:
        return cose.sign(message, key.public.kid, {"iss": ISS, "aud": BOX, "iat": self.now} | claims, key.sign)


def _uri(generation: int) -> str:
    return f"https://keyrack.example/lists/{PRODUCT}-3-{generation}"
