"""Helpers of tests: status lists, change log, and forged entries."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from keyrack.core.settings import Settings
from keyrack.db.audit_context import acting, system
from keyrack.db.connection import Database
from keyrack.offline_keys import cose, status_list_bits, timestamps
from keyrack.offline_keys.cose import SignedMessage
from keyrack.offline_keys.link_messages import Challenge
from keyrack.offline_keys.message_fields import ENTRY, KEY, STATUS_LIST
from keyrack.offline_keys.p256 import PrivateKey
from keyrack.server.worker import connect
from tests.offline_keys.offline_world import Firmware, Phone, raw
from tests.support.people import Person, done
from tests.support.servers import eventually

LIST_TYPE = "application/statuslist+cwt"
ZEROS = bytes(32)


@dataclass
class Clock:
    """The clock of keys, for all servers in this process.

    It stands still unless a test moves it. So all requests of a test are in one second.
    """

    began: datetime
    ahead: float = 0  # seconds


@pytest.fixture
def clock() -> Iterator[Clock]:
    """A clock that a test sets, for all code that needs the time for keys."""
    clock = Clock(timestamps.now())
    with timestamps.shown(lambda: clock.began + timedelta(seconds=clock.ahead)):
        yield clock


def text(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def claims_of(key: bytes) -> dict[str, Any]:
    return cose.read(key, KEY).claims


def changed(person: Person, assignment: int, **members: Any) -> None:
    """Change an assignment, and wait until that is done."""
    steps = [
        {"op": "remove", "path": f"/{name}"} if value is None else {"op": "replace", "path": f"/{name}", "value": value}
        for name, value in members.items()
    ]
    done(person.patch(f"/assignments/{assignment}", steps))
    eventually(
        lambda: (
            not person.sql.value(
                "select exists (select from operation where customer_id = $1 and state = 'Pending')", person.customer
            )
        ),
        "the change",
    )


def listed(person: Person, product: int, **which: int) -> SignedMessage:
    """The box's status list, which must be the same in both forms."""
    path, now = f"/boxes/{product}/status", timestamps.now()
    with timestamps.shown(lambda: now):
        signed = person.get(path, params=which, headers={"Accept": LIST_TYPE})
        told = person.get(path, params=which)
    assert (signed.status_code, signed.headers["content-type"]) == (200, LIST_TYPE), signed.text
    assert told.status_code == 200, told.text
    assert raw(told.json()["statusList"]) == signed.content
    return cose.read(signed.content, STATUS_LIST)


def is_revoked(person: Person, key: bytes) -> bool:
    """Whether the list that a key names marks it as revoked."""
    claims = cose.read(key, KEY).claims
    _, product, epoch = claims["aud"].split(":")
    place, uri = claims["status"]
    generation = int(uri.rpartition("=")[2])
    found = listed(person, int(product), epoch=int(epoch), generation=generation).claims
    assert (found["sub"], found["generation"]) == (uri, generation)
    return status_list_bits.is_set(status_list_bits.unpack(found["status_list"]), place)


def places(*keys: bytes) -> list[tuple[int, int]]:
    """Generation and place of each key."""
    found = [cose.read(key, KEY).claims["status"] for key in keys]
    return [(int(status.uri.rpartition("=")[2]), status.idx) for status in found]


def revocations(person: Person, key: bytes) -> list[dict[str, Any]]:
    """The recorded ends of the key, with their actors."""
    id = UUID(bytes=cose.read(key, KEY).claims["cti"])
    answer = person.get("/changes", params={"$filter": f"resource eq 'key' and resourceId eq '{id}'"})
    assert answer.status_code == 200, answer.text
    return [change for change in answer.json() if change["kind"] == "key.revoked"]


def one_key(phone: Phone, box: Firmware) -> bytes:
    """The key that the phone fetches now for this box."""
    phone.fetch()
    (key,) = phone.keys(box)
    return key


def tended(dsn: str, settings: Settings, step: Callable[[Database, Settings], Awaitable[None]]) -> None:
    """Run a step of housekeeping."""

    async def run() -> None:
        acting.set(system("housekeeping"))
        db = await connect(dsn, settings)
        try:
            await step(db, settings)
        finally:
            await db.close()

    asyncio.run(run())


class Logbook:
    """A box that an attacker has opened by force.

    It writes any entry, signed by the box's key.
    """

    def __init__(self, box: Firmware, name: str = "", key: PrivateKey | None = None) -> None:
        self.key = key or box.key
        challenge = challenge_of(box)
        self.name = name or challenge.name
        self.root = challenge.root or bytes(8)
        self.hashes = [ZEROS]

    def entry(self, number: int | None = None, **claims: Any) -> bytes:
        """The next entry, or one with another number."""
        if number is None:
            number = len(self.hashes)
        before = self.hashes[number - 1] if number <= len(self.hashes) else os.urandom(32)
        wanted: dict[str, Any] = {
            "aud": self.name, "iat": 1_790_000_000 + number, "cti": b"", "command": 0, "counter": 0, "number": number,
            "previous": before, "first": 1, "event": 4, "code": 0, "certain": 1, "device": b"",
            "held": (1, 1, 1_790_000_000), "refused": (0, 0), "skipped": 0, "root-kid": self.root,
        }  # fmt: skip
        made = cose.sign(ENTRY, self.key.public.kid, wanted | claims, lambda data: cose.with_low_s(self.key.sign(data)))
        if number == len(self.hashes):
            self.hashes.append(hashlib.sha256(made).digest())
        return made

    def opening(self, key: bytes, **claims: Any) -> bytes:
        """The next entry: an opening by this key."""
        return self.entry(**self.said(key) | claims)

    @staticmethod
    def said(key: bytes) -> dict[str, Any]:
        """The claims of an opening by this key."""
        claims = cose.read(key, KEY).claims
        return {"cti": claims["cti"], "device": claims["cnf"].thumbprint, "command": 1, "counter": 1, "event": 1}


def challenge_of(box: Firmware) -> Challenge:
    return box.challenge(2)
