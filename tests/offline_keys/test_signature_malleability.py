"""Entries with turned signatures: n - s in place of s.

A turned signature is equally valid, but the entry has another SHA-256.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import Any

import pytest

from keyrack.offline_keys import cose
from keyrack.offline_keys.message_fields import ENTRY, RECEIPT
from keyrack.offline_keys.p256 import PrivateKey
from keyrack.offline_keys.public_key import ORDER
from keyrack.offline_keys.refusal_codes import BoxRefusalCode
from tests.offline_keys.fixed_keys import with_high_s
from tests.offline_keys.inspection import Logbook
from tests.offline_keys.offline_world import Firmware, Phone, b64, driver, garage, raw
from tests.support.people import Person


class Drive:
    """A box in a garage, with its driver."""

    def __init__(self, person: Person) -> None:
        self.person = person
        self.car, self.box = garage(person)
        self.kim = driver(person)
        person.assignment(self.car, self.kim.user)
        self.kim.fetch()

    def opened(self) -> list[bytes]:
        """All entries of the box after one more opening."""
        assert self.kim.open(self.box) is BoxRefusalCode.GOOD
        return self.box.fetch(1)

    def deliver(self, *entries: bytes) -> dict[str, Any]:
        answer = self.kim.call("PUT", "/sdk/boxlog", {"entries": [b64(entry) for entry in entries]})
        assert answer.status_code == 200, answer.text
        return answer.json()

    def brought(self, *entries: bytes) -> list[dict[str, Any]]:
        """The receipts of an upload."""
        answer = self.deliver(*entries)
        assert answer["refused"] == []
        return answer["receipts"]

    def stored(self) -> list[bytes]:
        rows = self.person.sql.rows(
            "select entry from box_entry where customer_id = $1 and product_id = $2 order by number",
            self.person.customer, self.box.product,
        )  # fmt: skip
        return [row["entry"] for row in rows]

    def reports(self) -> list[dict[str, Any]]:
        return self.person.get(f"/boxes/{self.box.product}/enrolment").json()["log"]["reports"]

    def events(self) -> Counter[str]:
        return Counter(row["type"] for row in self.person.get(f"/cars/{self.car}/events?$top=100").json())


@pytest.fixture
def drive(alice: Person) -> Drive:
    return Drive(alice)


def test_an_entry_with_a_high_s_is_the_same_entry(drive: Drive) -> None:
    entries = drive.opened()
    drive.brought(*entries)
    drive.brought(*map(with_high_s, entries))
    drive.brought(*entries, *map(with_high_s, entries))
    assert drive.reports() == []
    assert drive.events() == Counter(CarOpened=1)
    assert drive.stored() == entries


def test_a_carrier_that_turns_signatures_cannot_block_receipts(drive: Drive) -> None:
    """It turns all signatures that it carries. Each receipt names the entries as the box has them."""
    for number in range(1, 4):
        entries = drive.opened()
        (receipt,) = drive.brought(*map(with_high_s, entries))
        assert drive.events() == Counter(CarOpened=number)
        newest = cose.read(entries[-1], ENTRY).claims["number"]
        upto = newest, hashlib.sha256(entries[-1]).digest()
        assert cose.read(raw(receipt["receipt"]), RECEIPT).claims["upto"] == upto
        drive.box.challenge()
        assert drive.box.carry(raw(receipt["receipt"])) == 0, drive.box.code
        assert drive.box.challenge().first == newest + 1
    assert drive.reports() == []


def test_a_forgery_with_a_high_s_is_the_same_forgery(drive: Drive) -> None:
    forged = Logbook(drive.box, key=PrivateKey.generate()).entry()
    refused = [{"index": 0, "reason": "The entry is not signed by the box."}]
    for entry in (forged, with_high_s(forged), forged):
        assert drive.deliver(entry)["refused"] == refused
    assert [(one["kind"], one["times"]) for one in drive.reports()] == [("Forgery", 1)]


def test_a_number_outside_of_the_scalars_is_no_signature(drive: Drive) -> None:
    (entry, *_) = drive.opened()
    for s in (0, ORDER, 2**256 - 1):
        answer = drive.deliver(entry[:-32] + s.to_bytes(32, "big"))
        assert [one["reason"] for one in answer["refused"]] == ["The entry is not signed by the box."]
    assert drive.events() == Counter()


def test_a_box_that_signs_with_a_high_s_is_reported(drive: Drive) -> None:
    """Its next entry has the SHA-256 of the high-s form, which the server does not store."""
    faulty = Logbook(drive.box)
    first = with_high_s(faulty.entry(1))
    faulty.hashes[1] = hashlib.sha256(first).digest()
    (receipt,) = drive.deliver(first)["receipts"]
    assert cose.read(raw(receipt["receipt"]), RECEIPT).claims["upto"][1] != faulty.hashes[1]
    drive.deliver(faulty.entry(2))
    assert [(one["kind"], one["number"]) for one in drive.reports()] == [("Break", 2)]


@pytest.mark.parametrize("is_turned", [True, False])
def test_stored_entries_with_a_high_s_still_count(drive: Drive, is_turned: bool) -> None:
    """A carrier had replaced s with n - s, or the box had signed with a high s."""
    book = Logbook(drive.box)
    first, second = book.entry(), with_high_s(book.entry())
    drive.deliver(first, second)
    stored = "update box_entry set entry = $3, hash = $4 where customer_id = $1 and product_id = $2 and number = 2"
    hash = hashlib.sha256(second).digest()
    drive.person.sql.execute(stored, drive.person.customer, drive.box.product, second, hash)
    if not is_turned:
        book.hashes[2] = hash
    drive.deliver(second, *([cose.read_entry(second).raw] if is_turned else []))
    (receipt,) = drive.deliver(book.entry())["receipts"]
    assert cose.read(raw(receipt["receipt"]), RECEIPT).claims["upto"] == (3, book.hashes[3])
    assert drive.reports() == []


def test_a_real_fork_is_still_reported(drive: Drive) -> None:
    entries = drive.opened()
    copy = Phone(drive.person, drive.kim.user, drive.kim.key, drive.kim.token, drive.kim.count, drive.kim.held)
    other = Firmware(drive.box.product, drive.box.key)
    other.state = drive.box.state
    assert copy.open(other) is BoxRefusalCode.GOOD
    drive.brought(*entries)
    drive.brought(*drive.opened())
    assert drive.reports() == []
    drive.brought(with_high_s(copy.entries[-1]))
    assert [(one["kind"], one["number"]) for one in drive.reports()] == [("Fork", len(entries) + 1)]
