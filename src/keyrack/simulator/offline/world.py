"""The simulated world: its time, its people and boxes, and the exchanges between phones and boxes."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random
from typing import Any

from keyrack.core.api_client.session import Client
from keyrack.offline_keys import cose, link_messages
from keyrack.offline_keys.box.lock_operation import LockAction
from keyrack.offline_keys.link_messages import CarryMessage, Challenge, Open, Result
from keyrack.offline_keys.message_fields import ENTRY, KEY_SET, RECEIPT, ROOT, STATUS_LIST, TIME
from keyrack.offline_keys.refusal_codes import BoxRefusalCode
from keyrack.simulator.offline.box import VirtualBox
from keyrack.simulator.offline.expected_state import IssuedPhoneKey
from keyrack.simulator.offline.operator_actions import Operator
from keyrack.simulator.offline.oracle import BoxAction, Ledger, OpenAttempt
from keyrack.simulator.offline.phone import HeldPhoneKey, VirtualPhone
from keyrack.simulator.offline.radio import Radio, Sent, TransportLost
from keyrack.simulator.offline.summary import MADE_KEY, OWNER, ScenarioSummary

RECORDED = 0.2  # share of messages to boxes that an attacker records


@dataclass(slots=True)
class World:
    """The state of a simulation. `at` is the true time, in seconds since 1970."""

    at: int
    random: Random
    client: Client  # the manager's
    operator: Operator
    ledger: Ledger
    radio: Radio
    boxes: dict[int, VirtualBox] = field(default_factory=dict[int, VirtualBox])  # by product
    cars: list[int] = field(default_factory=list[int])
    users: list[int] = field(default_factory=list[int])
    issued: dict[bytes, IssuedPhoneKey] = field(default_factory=dict[bytes, IssuedPhoneKey])
    heard: list[tuple[int, Open]] = field(default_factory=list[tuple[int, Open]])  # messages recorded by attackers
    expected: Counter[str] = field(default_factory=Counter[str])  # reports on logs
    poisoned: set[int] = field(default_factory=set[int])  # products of boxes that accepted a thief's list
    # Recent openers, by product
    visitors: dict[int, list[tuple[VirtualPhone, HeldPhoneKey]]] = field(
        default_factory=dict[int, list[tuple[VirtualPhone, HeldPhoneKey]]]
    )
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1_000_000))  # numbers of later users
    lists: list[tuple[int, bytes]] = field(default_factory=list[tuple[int, bytes]])  # lists in phones, with the box

    @property
    def summary(self) -> ScenarioSummary:
        return self.ledger.summary

    def clock(self) -> datetime:
        return datetime.fromtimestamp(self.at, UTC)

    def happens(self, event: str) -> None:
        self.summary.happened[event] += 1

    # A phone with a network

    async def new_phone(self, user: int) -> VirtualPhone:
        """Register a new phone of the user. Raises `ApiError`."""
        phone = VirtualPhone(self.client, self.operator.customer, user)
        await phone.register(self.operator.sdk_key)
        self.ledger.books.phones[phone.id] = user
        return phone

    async def meet(self, phone: VirtualPhone) -> None:
        """Fetch the phone's keys, and compare them with the expected ones. Raises `ApiError`."""
        response = await phone.fetch()
        meeting = self.ledger.books.fetch(phone.id, self.at)
        phone_keys = {key["assignmentId"]: _shown(key) for key in response["keys"]}
        wanted = {grant: (key.box, key.issued, key.begins, key.expires) for grant, (key, _) in meeting.keys.items()}
        if phone_keys != wanted:
            self.summary.disagreements.append(f"a phone got {phone_keys}, expected were {wanted}")
        self.issued |= {held_key.raw: meeting.keys[id][0] for id, held_key in phone.keys.items() if id in meeting.keys}
        for box in response["boxes"]:
            self.lists += [(box["productId"], each) for each in phone.carried[box["box"]][:1]]

    # A phone at a box

    def hello(self, product: int) -> bytes:
        """The box's challenge as raw bytes."""
        while True:
            try:
                message = self.boxes[product].hello(self.at, radio=self.radio)
            except TransportLost as lost:
                self._lose(lost)
            else:
                self.ledger.record_time(product, link_messages.read(message, Challenge).time, self.at)
                return message

    def _lose(self, lost: TransportLost) -> None:
        """Count a lost connection. A link that has ended before the message was idle."""
        if lost.sent is not Sent.NONE:
            self.happens("connections lost")

    def challenge(self, product: int) -> Challenge:
        return link_messages.read(self.hello(product), Challenge)

    def carry(self, product: int, said: CarryMessage) -> bool:
        """Carry an artefact to a box; returns whether it was accepted.

        A lost connection is made again.
        """
        box, has_arrived = self.boxes[product], False
        while not has_arrived:
            try:
                box.carry(said, self.at, self.radio)
            except TransportLost as lost:
                self._lose(lost)
                has_arrived = lost.has_arrived
            else:
                has_arrived = True
        artefact = cose.read(said.artefact, KEY_SET, ROOT, STATUS_LIST, TIME, RECEIPT)
        self.ledger.carried(product, artefact, self.at, box.code)
        return box.code is BoxRefusalCode.GOOD

    def bring(self, phone: VirtualPhone, product: int) -> None:
        """Carry what an app carries to a box before it opens."""
        for said in phone.brought(self.challenge(product)):
            self.carry(product, said)

    def show(
        self, phone: VirtualPhone, product: int, raw: bytes, command: int, by: str = OWNER, *, count: int | None = None
    ) -> tuple[BoxRefusalCode, Challenge, Result]:
        """Show a key, and answer with the phone's private key; `count` replaces the usual counter.

        Without a result the user tries again, although the box may have opened.
        """
        while True:
            message = self.hello(product)
            challenge = link_messages.read(message, Challenge)
            if count is not None:
                phone.count = count - 1
            said = phone.answer(message, raw, command, self.at * 1000 if count is None else 0)
            if by == OWNER and self.random.random() < RECORDED:
                self.heard.append((product, said))
            outcome = self.say(product, said, phone, command, by)
            if outcome is not None:
                code, result = outcome
                return code, challenge, result

    def say(
        self, product: int, said: Open, phone: VirtualPhone, command: int, by: str, *, is_answer: bool = True
    ) -> tuple[BoxRefusalCode, Result] | None:
        """Send an opening message to a box.

        Returns the exact code and the result, or None if the result was lost.
        """
        box = self.boxes[product]
        key = self.issued.get(said.key)
        attempt = OpenAttempt(self.at, by, phone.id, product, key, command, phone.count, is_answer, by == MADE_KEY)
        verdict = self.ledger.expect(attempt)
        is_lost = False
        try:
            box.open(said, self.at, self.radio)
        except TransportLost as lost:
            self._lose(lost)
            if not lost.has_arrived:
                return None
            is_lost = True
        assert box.last is not None  # noqa: S101 - the message has arrived
        result = link_messages.read(box.last.reply, Result)
        if box.last.effect is not LockAction.NONE and key is None:
            self.expected["UnknownKey"] += 1
        if is_lost and box.last.effect is not LockAction.NONE:
            self.happens("results lost, the box had moved its lock")
        self.ledger.note(attempt, verdict, box.code, _done(box.last.effect, key, result))
        return None if is_lost else (box.code, result)


def _done(effect: LockAction, key: IssuedPhoneKey | None, result: Result) -> BoxAction | None:
    """The action of the lock, and whose right it used."""
    if effect is LockAction.NONE:
        return None
    entry = cose.read(result.entry, ENTRY).claims
    user, car = (0, 0) if key is None else (key.grant.user, key.grant.car)
    return BoxAction(int(effect), user, car, entry["iat"], bool(entry["certain"]))


def _shown(key: dict[str, Any]) -> tuple[str, int, int, int]:
    issued, begins, expires = (seconds(key[name]) for name in ("issued", "begins", "expires"))
    return key["box"], issued, begins, expires


def seconds(text: str) -> int:
    """Seconds since 1970 of a time of the API."""
    return int(datetime.fromisoformat(text).timestamp())


def written(at: int) -> str:
    """The time of the API for seconds since 1970."""
    return datetime.fromtimestamp(at, UTC).isoformat().replace("+00:00", "Z")
