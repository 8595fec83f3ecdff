"""A virtual phone: an app that fetches keys, carries lists to boxes and delivers logs, by the public API."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from keyrack.core.api_client.session import Client
from keyrack.offline_keys import phone
from keyrack.offline_keys.link_messages import CarryMessage, Challenge, Open, Result
from keyrack.offline_keys.p256 import PrivateKey
from keyrack.simulator.offline.box import VirtualBox
from keyrack.simulator.offline.provisioning_tool import octets, text

MOST = 200  # entries per delivery


@dataclass(frozen=True, slots=True)
class HeldPhoneKey:
    """A key in a phone, as fetched from the server; times are seconds since 1970."""

    assignment: int
    product: int
    box: str
    raw: bytes


@dataclass(slots=True)
class VirtualPhone:
    """A user's phone. A thief copies all of it."""

    client: Client
    customer: int
    user: int
    key: PrivateKey = field(default_factory=PrivateKey.generate)
    sdk_key: str = field(default="", repr=False)  # of the app
    token: str = field(default="", repr=False)
    count: int = 0  # of the last answer
    keys: dict[int, HeldPhoneKey] = field(default_factory=dict[int, HeldPhoneKey])  # by assignment
    key_set: bytes = b""
    roots: list[bytes] = field(default_factory=list[bytes])
    carried: dict[str, list[bytes]] = field(default_factory=dict[str, list[bytes]])  # lists and receipts, by box
    names: dict[str, dict[int, bytes]] = field(default_factory=dict[str, dict[int, bytes]])  # day keys by day, by box
    pocket: list[bytes] = field(default_factory=list[bytes])  # log entries to deliver
    seen: dict[str, int] = field(default_factory=dict[str, int])  # highest number fetched from each box

    @property
    def id(self) -> str:
        return text(self.key.public.thumbprint)

    @property
    def authority(self) -> str:
        return f"customer:{self.customer}"

    # At the server

    async def register(self, sdk_key: str) -> None:
        """Sign in, and register the phone. Raises `ApiError`."""
        self.sdk_key = sdk_key
        await self._sign_in()
        subject = json.loads(octets(self.token.split(".")[1]))["sub"]
        nonce = octets((await self._call("POST", "/sdk/devices/nonce"))["nonce"])
        registration = phone.registration(subject, self.key.public, nonce, self.key.sign)
        await self._call("PUT", "/sdk/devices", {"registration": text(registration), "name": f"Phone of {self.user}"})

    async def _sign_in(self) -> None:
        wanted = {"customerId": self.customer, "sdkKey": self.sdk_key, "userId": self.user}
        self.token = (await self.client.write("POST", "/sdk/token", wanted))["id_token"]

    async def fetch(self) -> dict[str, Any]:
        """Fetch the current keys and the artefacts to carry. Returns the response. Raises `ApiError`."""
        response = await self._call("GET", f"/sdk/keys?device={self.id}")
        self.keys = {  # of two keys for an assignment, the one of the newer epoch is last
            key["assignmentId"]: HeldPhoneKey(key["assignmentId"], key["productId"], key["box"], octets(key["key"]))
            for key in response["keys"]
        }
        self.key_set = octets(response["keySet"])
        self.roots = [octets(root) for root in response["roots"]]
        self.names = {box["box"]: _day_keys(box) for box in response["boxes"]}
        for box in response["boxes"]:
            lists = [octets(each["statusList"]) for each in box["statusLists"]]
            self.carried[box["box"]] = [*lists, *([octets(box["receipt"])] if box["receipt"] else [])]
        return response

    async def bring_home(self, entries: list[bytes]) -> None:
        """Deliver log entries. Raises `ApiError`."""
        for first in range(0, len(entries), MOST):
            part = [text(entry) for entry in entries[first : first + MOST]]
            response = await self._call("PUT", "/sdk/boxlog", {"entries": part})
            for receipt in response["receipts"]:
                self.carried.setdefault(receipt["box"], []).append(octets(receipt["receipt"]))

    async def empty_pocket(self, random: Random) -> None:
        """Deliver all log entries in random order. Raises `ApiError`."""
        random.shuffle(self.pocket)
        entries, self.pocket = self.pocket, []
        await self.bring_home(entries)

    async def time_for(self, challenge: Challenge) -> CarryMessage:
        """A signed time for the box with this challenge. Raises `ApiError`."""
        response = await self._call("POST", "/sdk/time", {"box": challenge.name, "nonce": text(challenge.nonce)})
        return CarryMessage(octets(response["time"]))

    async def _call(self, method: str, path: str, value: Any = None) -> Any:
        """The server's response; the app signs in again after its token has expired. Raises `ApiError`."""
        body = None if value is None else json.dumps(value).encode()
        for again in (False, True):
            headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
            answer = await self.client.call(method, path, body, headers, signed_in=False, repeatable=True)
            if answer.status != 401 or again:
                return answer.checked()
            await self._sign_in()
        raise AssertionError("the second attempt always returns")

    # At a box

    def brought(self, challenge: Challenge) -> list[CarryMessage]:
        """The artefacts that this box does not have yet."""
        own = self.carried.get(challenge.name, [])
        return phone.brought(challenge, self.authority, [*self.roots, self.key_set, *own] if self.key_set else own)

    def answer(self, challenge: bytes, key: bytes, command: int, milliseconds: int) -> Open:
        self.count = phone.counter(self.count, milliseconds)
        return phone.answer(challenge, key, command, self.count, self.key.sign)

    def keep(self, box: VirtualBox, challenge: Challenge, result: Result, at: int) -> None:
        """Fetch the new entries of the box's log."""
        if result.entry:
            self.pocket.append(phone.kept(result.entry))
        newest = max(self.seen.get(challenge.name, 0), challenge.first - 1)
        following = challenge.next + bool(result.entry)
        while (wanted := phone.fetch(following, newest)) is not None:
            message = box.fetch(wanted, at)
            if message is None or not message.entries:
                break
            self.pocket += map(phone.kept, message.entries)
            newest, following = newest + len(message.entries), message.next
        self.seen[challenge.name] = newest


def _day_keys(box: Mapping[str, Any]) -> dict[int, bytes]:
    """The day keys of a box in the server's response. An older server sends none."""
    return {each["day"]: octets(each["key"]) for each in box.get("names", ())}
