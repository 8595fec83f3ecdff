"""Doors opened by keys: virtual boxes of a fleet's cars, and phones of their drivers.

A phone and a box exchange fragments over the simulated radio. A tool enrols each box by whole messages.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from random import Random
from typing import Any

from keyrack.core.api_client.responses import ApiError
from keyrack.offline_keys import cose, link_messages
from keyrack.offline_keys.box.lock_operation import LockAction
from keyrack.offline_keys.link_messages import Challenge, Result
from keyrack.offline_keys.message_fields import CLOSE, ENTRY, OPEN
from keyrack.offline_keys.p256 import PrivateKey
from keyrack.simulator.car import stamp_of
from keyrack.simulator.client import FleetClient, SimulatorCredentials
from keyrack.simulator.offline.box import VirtualBox
from keyrack.simulator.offline.phone import HeldPhoneKey, VirtualPhone
from keyrack.simulator.offline.provisioning_tool import enrol, octets
from keyrack.simulator.offline.radio import Radio, RadioConditions, TransportLost

KINDS = {OPEN: "CarOpened", CLOSE: "CarClosed"}
TRIED = 1_000  # epochs in which an earlier run may have enrolled a box


class Door:
    """The box of one car, and the phones of its drivers."""

    def __init__(
        self, client: FleetClient, car: int, name: str, box: VirtualBox, phones: dict[int, VirtualPhone], radio: Radio
    ) -> None:
        self._client, self._car, self._name, self._box, self._phones = client, car, name, box, phones
        self._radio = radio
        self._done: list[dict[str, Any]] = []  # events that the server should record, in the order of the box
        self._carried = 0  # number of them whose entries are in a phone
        self._met: set[int] = set()  # users whose phones have data for the server
        self._last = 0  # the newest known event
        self.lost = 0  # connections that ended without a reply

    def use(self, user: int, command: int, at: int) -> bool:
        """Open or close with this user's phone, offline. Returns whether the box did it."""
        phone, box = self._phones.get(user), self._box
        self._met.add(user)
        key = None if phone is None else next((item for item in phone.keys.values() if item.box == self._name), None)
        if phone is None or key is None:
            return False
        box.leave()
        while True:
            try:
                return self._visit(phone, key, command, self._radio.now(at) // 1_000)
            except TransportLost:
                self.lost += 1  # the user tries again, although the box may have opened

    def _visit(self, phone: VirtualPhone, key: HeldPhoneKey, command: int, at: int) -> bool:
        """Bring artefacts, open or close, and take the log. Raises `TransportLost` before there is a result."""
        box, radio = self._box, self._radio
        for said in phone.brought(link_messages.read(box.hello(at, radio=radio), Challenge)):
            box.carry(said, at, radio)
        message = box.hello(at, radio=radio)
        challenge = link_messages.read(message, Challenge)
        said = phone.answer(message, key.raw, command, at * 1_000)
        try:
            result = box.open(said, at, radio)
        except TransportLost as lost:
            if lost.has_arrived:
                self._note(phone, command)
            raise
        is_done = self._note(phone, command)
        if result.entry:
            if phone.keep(box, challenge, result, at, radio):
                self._carried = len(self._done)
            else:
                self.lost += 1  # a later visit takes the rest of the log
        return is_done

    def _note(self, phone: VirtualPhone, command: int) -> bool:
        """Expect the event of the box's last reply. Returns whether the box moved its lock."""
        last = self._box.last
        assert last is not None  # noqa: S101 - the box has processed a message
        if last.effect is LockAction.NONE:
            return False
        time = stamp_of(cose.read(link_messages.read(last.reply, Result).entry, ENTRY).claims["iat"])
        self._done.append({"carId": self._car, "userId": phone.user, "type": KINDS[command], "utcDateTime": time})
        return True

    async def bring_home(self) -> dict[int, dict[str, Any]]:
        """Let the phones deliver their data and fetch keys. Returns the resulting events. Raises `ApiError`."""
        for phone in [self._phones[user] for user in self._met if user in self._phones]:
            await phone.empty_pocket(Random())  # noqa: S311 - the order does not matter
            await _fetch(phone)
        self._met = set()
        if not self._done:
            return {}
        query = {"$filter": f"id gt {self._last} and startswith(userAgent, 'Keyrack key, {self._name}')"}
        rows = [row async for page in self._client.pages(f"/cars/{self._car}/events", query=query) for row in page]
        events = {row["id"]: done for row, done in zip(rows, self._done, strict=False)}
        self._last = max(events, default=self._last)
        del self._done[: len(events)]
        self._carried = max(0, self._carried - len(events))
        return events

    def missing(self) -> list[str]:
        """Errors for delivered openings without an event."""
        missing, self._done, self._carried = self._done[: self._carried], self._done[self._carried :], 0
        return [f"car {self._car}: the event {done} is missing" for done in missing]


async def _fetch(phone: VirtualPhone) -> None:
    """Fetch the keys of a phone; a removed or unapproved phone gets none. Raises `ApiError`."""
    try:
        await phone.fetch()
    except ApiError as error:
        if error.status not in (403, 404):
            raise
        phone.keys = {}


class Doors:
    """All doors of a fleet that keys can open."""

    def __init__(
        self, client: FleetClient, access: SimulatorCredentials, conditions: RadioConditions, seed: int = 1
    ) -> None:
        self._client, self._access, self._conditions, self._seed = client, access, conditions, seed
        self._phones: dict[int, VirtualPhone] = {}

    async def of(self, car: int, at: int) -> Door | None:
        """The door of a car with its enrolled box.

        None without a box or permission, or if a box outside the simulator is enrolled.
        """
        if not self._access.sdk_key or (enrolled := await self.box_of(car, at)) is None:
            return None
        name, box = enrolled
        for row in await self._client.get(f"/cars/{car}/assignments", missing=[]):
            await self._phone(row["userId"])
        random = Random(f"{self._seed}/{car}/radio")  # noqa: S311 - a seed repeats the faults
        return Door(self._client, car, name, box, self._phones, Radio(self._conditions, random))

    async def box_of(self, car: int, at: int) -> tuple[str, VirtualBox] | None:
        """The name of a car's box, and the box after its enrolment. None in the same cases."""
        products = await self._client.get(f"/cars/{car}/products", missing=[])
        product = next((row["id"] for row in products if row["type"].endswith(" Box")), None)
        if product is None:
            return None
        try:
            box = await self._box(product, at)
        except ApiError as error:
            if error.status in (403, 404, 409):  # no permission, or a server without offline keys
                return None
            raise
        return None if box is None else (await enrol(self._client, box, at), box)

    async def _box(self, product: int, at: int) -> VirtualBox | None:
        """A virtual box that replaces the one of an earlier run.

        None if another box is enrolled.
        """
        state = await self._client.get(f"/boxes/{product}/enrolment", missing={})
        epoch = state.get("epoch", 0)
        epochs = range(max(0, epoch - TRIED), epoch)
        if epoch and all(
            self._key("box", product, known_epoch).public.thumbprint != octets(state["thumbprint"])
            for known_epoch in epochs
        ):
            return None
        return VirtualBox(product, 0.0, Random(), at, self._key("box", product, epoch))  # noqa: S311 - not used for secrets

    async def _phone(self, user: int) -> None:
        """Add the phone of a user, the same in each run. Raises `ApiError`."""
        if user not in self._phones:
            self._phones[user] = await self._registered(user)
        await _fetch(self._phones[user])

    async def _registered(self, user: int) -> VirtualPhone:
        """Register a phone of the user with the first key that was not removed. Raises `ApiError`."""
        for number in range(TRIED):
            key = self._key("phone", user, number)
            phone = VirtualPhone(self._client, self._access.customer, user, key)
            try:
                await phone.register(self._access.sdk_key)
            except ApiError as error:
                if error.code != "device-removed" or number == TRIED - 1:
                    raise
            else:
                return phone
        raise AssertionError("the last number returns or raises")

    def _key(self, *of: object) -> PrivateKey:
        """A private key that is the same in each run.

        Only the owner of the device key can derive it.
        """
        secret = hmac.digest(
            self._access.device_key.encode(), repr((self._access.customer, *of)).encode(), hashlib.sha256
        )
        return PrivateKey.from_text(base64.b64encode(secret).decode())
