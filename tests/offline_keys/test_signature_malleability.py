"""Entries of boxes whose signatures were turned on their way: s as n - s, which is as good and has another SHA-256."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from keyrack.offline_keys import cose
from keyrack.offline_keys.log_chain import twin
from keyrack.offline_keys.message_fields import ENTRY, RECEIPT
from keyrack.offline_keys.p256 import PrivateKey, turned, verify
from keyrack.offline_keys.refusal_codes import BoxRefusalCode
from tests.offline_keys.offline_world import Firmware, Phone, b64, driver, garage, raw
from tests.support.people import Person


class Drive:
    """A box in a garage, with whoever opens it."""

    def __init__(self, person: Person) -> None:
        self.person = person
        self.car, self.box = garage(person)
        self.kim = driver(person)
        person.assignment(self.car, self.kim.user)
        self.kim.fetch()

    def opened(self) -> list[bytes]:
        """All entries of the box after it was opened once more."""
        assert self.kim.open(self.box) is BoxRefusalCode.GOOD
        return self.box.fetch(1)

    def brought(self, *entries: bytes) -> list[dict[str, Any]]:
        """The receipts of a delivery."""
        answer = self.kim.call("PUT", "/sdk/boxlog", {"entries": [b64(entry) for entry in entries]})
        assert (answer.status_code, answer.json()["refused"]) == (200, []), answer.text
        return answer.json()["receipts"]

    def reports(self) -> list[dict[str, Any]]:
        return self.person.get(f"/boxes/{self.box.product}/enrolment").json()["log"]["reports"]

    def events(self) -> Counter[str]:
        return Counter(row["type"] for row in self.person.get(f"/cars/{self.car}/events?$top=100").json())


@pytest.fixture
def drive(alice: Person) -> Drive:
    return Drive(alice)


def test_a_turned_signature_is_as_good() -> None:
    key = PrivateKey.generate()
    signature = key.sign(b"this")
    assert turned(turned(signature)) == signature != turned(signature)
    assert verify(key.public, b"this", turned(signature))
    assert not verify(key.public, b"that", turned(signature))


def test_a_twin_is_no_fork(drive: Drive) -> None:
    entries = drive.opened()
    drive.brought(*entries)
    drive.brought(*map(twin, entries))
    drive.brought(*entries, *map(twin, entries))
    assert drive.reports() == []
    assert drive.events() == Counter(CarOpened=1)


def test_whoever_turns_them_breaks_no_chain(drive: Drive) -> None:
    """Somebody who is always first, and turns what he carries: the log is whole, and receipts are the box's."""
    entries: list[bytes] = []
    for number in range(1, 4):
        entries = drive.opened()
        drive.brought(*map(twin, entries))
        assert drive.events() == Counter(CarOpened=number)
    assert drive.reports() == []
    (receipt,) = drive.brought(*entries)
    number, named = cose.read(raw(receipt["receipt"]), RECEIPT).claims["upto"]
    assert number == cose.read(entries[-1], ENTRY).claims["number"]
    drive.box.challenge()
    assert drive.box.carry(raw(receipt["receipt"])) == 0, drive.box.code
    assert drive.box.challenge().first == number + 1
    assert drive.box.challenge().newest == named


def test_the_next_entry_says_which_one_the_box_has(drive: Drive) -> None:
    first = drive.opened()
    (wrong,) = drive.brought(*first[:-1], twin(first[-1]))
    drive.box.challenge()
    assert drive.box.carry(raw(wrong["receipt"])) == 1
    assert drive.box.code is BoxRefusalCode.RECEIPT
    later = drive.opened()
    (right,) = drive.brought(later[-1])
    drive.box.challenge()
    assert drive.box.carry(raw(right["receipt"])) == 0
    kept = drive.person.sql.rows(
        "select entry from box_entry where customer_id = $1 and product_id = $2 order by number",
        drive.person.customer, drive.box.product,
    )  # fmt: skip
    assert [row["entry"] for row in kept] == later
    assert drive.reports() == []


def test_a_real_fork_is_one_all_the_same(drive: Drive) -> None:
    entries = drive.opened()
    copy = Phone(drive.person, drive.kim.user, drive.kim.key, drive.kim.token, drive.kim.count, drive.kim.held)
    other = Firmware(drive.box.product, drive.box.key)
    other.state = drive.box.state
    assert copy.open(other) is BoxRefusalCode.GOOD
    drive.brought(*entries)
    drive.brought(*drive.opened())
    assert drive.reports() == []
    drive.brought(twin(copy.entries[-1]))
    assert [(one["kind"], one["number"]) for one in drive.reports()] == [("Fork", len(entries) + 1)]
