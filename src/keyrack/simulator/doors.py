"""Doors opened by keys: virtual boxes of a fleet's cars, and phones of their drivers."""

from __future__ import annotations

import base64
import hashlib
import hmac
from random import Random
from typing import Any

from keyrack.core.api_client.responses import ApiError
from keyrack.offline_keys import cose, link_messages
from keyrack.offline_keys.link_messages import Challenge
from keyrack.offline_keys.message_fields import CLOSE, ENTRY, OPEN
from keyrack.offline_keys.p256 import PrivateKey
from keyrack.offline_keys.refusal_codes import BoxRefusalCode
from keyrack.simulator.car import stamp_of
from keyrack.simulator.client import FleetClient, SimulatorCredentials
from keyrack.simulator.offline.box import VirtualBox
from keyrack.simulator.offline.phone import VirtualPhone
from keyrack.simulator.offline.provisioning_tool import enrol, octets

KINDS = {OPEN: "CarOpened", CLOSE: "CarClosed"}
TRIED = 1_000  # epochs in which an earlier run may have enrolled a box


class Door:
    """The box of one car, and the phones of its drivers."""

    def __init__(
        self, client: FleetClient, car: int, name: str, box: VirtualBox, phones: dict[int, VirtualPhone]
    ) -> None:
        self._client, self._car, self._name, self._box, self._phones = client, car, name, box, phones
        self._done: list[dict[str, Any]] = []  # events that the server should record
        self._met: set[int] = set()  # users whose phones have data for the server
        self._last = 0  # the newest known event

    def use(self, user: int, command: int, at: int) -> bool:
        """Open or close with this user's phone, offline. Returns whether the box did it."""
        phone, box = self._phones.get(user), self._box
        self._met.add(user)
        key = None if phone is None else next((item for item in phone.keys.values() if item.box == self._name), None)
        if phone is None or key is None:
            return False
        for said in phone.brought(box.challenge(at)):
            box.carry(said, at)
        message = box.hello(at)
        challenge = link_messages.read(message, Challenge)
        result = box.open(phone.answer(message, key.raw, command, at * 1_000), at)
        is_done = box.code is BoxRefusalCode.GOOD
        if result.entry:
            phone.keep(box, challenge, result, at)
        if is_done:
            time = stamp_of(cose.read(result.entry, ENTRY).claims["iat"])
            self._done.append({"carId": self._car, "userId": user, "type": KINDS[command], "utcDateTime": time})
        return is_done

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
        return events

    def missing(self) -> list[str]:
        """Errors for delivered openings without an event."""
        missing, self._done = self._done, []
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

    def __init__(self, client: FleetClient, access: SimulatorCredentials) -> None:
        self._client, self._access = client, access
        self._phones: dict[int, VirtualPhone] = {}

    async def of(self, car: int, at: int) -> Door | None:
        """The door of a car with its enrolled box.

        None without a box or permission, or if a box outside the simulator is enrolled.
        """
        if not self._access.sdk_key:
            return None
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
        if box is None:
            return None
        name = await enrol(self._client, box, at)
        for row in await self._client.get(f"/cars/{car}/assignments", missing=[]):
            await self._phone(row["userId"])
        return Door(self._client, car, name, box, self._phones)

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
