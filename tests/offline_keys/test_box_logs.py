"""The logs of boxes on the server: openings and faults.

Each opening is published once, in order.
"""

from __future__ import annotations

import os
import random
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from keyrack.api.permissions import Role
from keyrack.core.settings import Settings
from keyrack.offline_keys import cose
from keyrack.offline_keys.message_fields import KEY, RECEIPT
from keyrack.offline_keys.p256 import PrivateKey
from keyrack.offline_keys.refusal_codes import BoxRefusalCode
from tests.auth.group_scope import limited, put
from tests.offline_keys.inspection import Logbook, changed, one_key
from tests.offline_keys.offline_world import Firmware, Phone, b64, driver, garage, raw
from tests.support.log_lines import captured_events
from tests.support.people import JOIN, Person, Town, done, refused
from tests.support.servers import RunningServer

PATH = "/sdk/boxlog"
NO_BOX = "There is no box with this name and epoch."
TOO_LARGE = "The number of the entry is greater than 2,147,483,647."
NO_ENTRY = "The entry is not valid (claims)."
FORGED = "The entry is not signed by the box."
WRONG = "Couldn't deliver the log of a box. No valid entries provided."


def brought(phone: Phone, *entries: bytes) -> dict[str, Any]:
    answer = phone.call("PUT", PATH, {"entries": [b64(entry) for entry in entries]})
    assert answer.status_code == 200, answer.text
    return answer.json()


def events(person: Person, car: int) -> list[tuple[str, int]]:
    """Type and user of each event, in order."""
    rows = person.get(f"/cars/{car}/events?$orderby=id&$top=1000").json()
    assert [row["id"] for row in rows] == sorted({row["id"] for row in rows})
    return [(row["type"], row["userId"]) for row in rows]


def state(person: Person, box: Firmware) -> tuple[int, int, int]:
    """The last number without a gap, the newest, and the given up."""
    log = person.get(f"/boxes/{box.product}/enrolment").json()["log"]
    return log["upTo"], log["newest"], log["givenUp"]


def reports(person: Person, box: Firmware) -> Counter[tuple[str, int]]:
    log = person.get(f"/boxes/{box.product}/enrolment").json()["log"]
    return Counter((one["kind"], one["number"]) for one in log["reports"])


class Drive:
    """A box, its driver, and a box opened by force that writes any entry."""

    def __init__(self, person: Person) -> None:
        self.car, self.box = garage(person)
        self.kim = driver(person)
        self.assignment = person.assignment(self.car, self.kim.user)
        self.key = one_key(self.kim, self.box)
        self.book = Logbook(self.box)


@pytest.fixture
def drive(alice: Person) -> Drive:
    return Drive(alice)


def test_each_opening_is_published_once_in_any_order_of_uploads(alice: Person, drive: Drive) -> None:
    book, kim = drive.book, drive.kim
    entries = [book.entry(event=4), book.opening(drive.key), book.entry(event=3, code=14, **_of(drive.key)),
               book.opening(drive.key, event=2, command=2), book.entry(event=5), book.opening(drive.key)]  # fmt: skip
    opened = [("CarOpened", kim.user), ("CarClosed", kim.user), ("CarOpened", kim.user)]
    assert brought(kim, entries[5], entries[3])["receipts"] == []
    assert (events(alice, drive.car), state(alice, drive.box)) == ([], (0, 6, 0))
    (receipt,) = brought(kim, entries[1], entries[0], entries[1])["receipts"]
    assert (receipt["box"], receipt["upTo"]) == (book.name, 2)
    assert (events(alice, drive.car), state(alice, drive.box)) == (opened[:1], (2, 6, 0))
    (receipt,) = brought(kim, entries[2])["receipts"]
    assert receipt["upTo"] == 4
    assert events(alice, drive.car) == opened[:2]
    (receipt,) = brought(kim, *entries)["receipts"]
    assert cose.read(raw(receipt["receipt"]), RECEIPT).claims["upto"] == (6, book.hashes[6])
    assert (events(alice, drive.car), state(alice, drive.box)) == (opened, (6, 6, 0))
    assert brought(kim, *entries) == {"receipts": [], "refused": []}
    assert events(alice, drive.car) == opened
    assert reports(alice, drive.box) == Counter()


def _of(key: bytes) -> dict[str, Any]:
    told = cose.read(key, KEY).claims
    return {"cti": told["cti"], "device": told["cnf"].thumbprint, "command": 1, "counter": 1}


def test_the_log_of_a_real_box_from_opening_to_receipt(alice: Person, drive: Drive) -> None:
    """The box accepts the receipt. It refuses one for another entry than its own."""
    kim, box = drive.kim, drive.box
    assert kim.visit(box) is BoxRefusalCode.GOOD
    assert kim.close(box) is BoxRefusalCode.GOOD
    kim.home()
    kim.receipts.clear()  # the keys also bring it
    kim.fetch()
    assert kim.bring(box) == [0]
    assert box.challenge().first == 4
    assert kim.home()["refused"] == []
    assert events(alice, drive.car) == [("CarOpened", kim.user), ("CarClosed", kim.user)]
    (told,) = alice.get(f"/cars/{drive.car}/events?$top=1").json()
    assert told["userAgent"] == f"Keyrack key, {box.challenge().name}"


def test_a_gap_that_the_box_has_dropped_is_given_up(alice: Person, drive: Drive) -> None:
    book, kim = drive.book, drive.kim
    for _ in range(4):
        book.entry()
    fifth = book.opening(drive.key, first=4)
    sixth = book.opening(drive.key, first=6)
    assert brought(kim, fifth)["receipts"] == []
    assert state(alice, drive.box) == (3, 5, 3)
    (receipt,) = brought(kim, sixth)["receipts"]
    assert receipt["upTo"] == 6
    assert state(alice, drive.box) == (6, 6, 4)
    assert events(alice, drive.car) == [("CarOpened", kim.user)] * 2
    assert reports(alice, drive.box) == Counter({("GivenUp", 3): 1, ("GivenUp", 4): 1})


def test_every_kind_of_report_causes_an_alert(alice: Person, drive: Drive) -> None:
    book, kim, box = drive.book, drive.kim, drive.box
    stranger = Logbook(box, key=PrivateKey.generate())
    for _ in range(4):
        book.entry()
    forgeries = [stranger.entry(number) for number in range(1, 40)]
    with captured_events("box log fault found") as logs:
        brought(kim, *forgeries, book.entry(first=5))
    assert {line["kind"] for line in logs} == {"Forgery", "GivenUp"}
    assert {(line["log_level"], line["alert"]) for line in logs} == {("error", True)}
    assert len(logs) < 20, "not one line for each"


def test_two_entries_with_one_number_are_a_fork(alice: Person, drive: Drive) -> None:
    kim, box = drive.kim, drive.box
    one, other, third = (Logbook(box) for _ in range(3))
    entries = [book.opening(drive.key, counter=number) for number, book in enumerate((one, other, third))]
    brought(kim, *entries[:2])
    assert reports(alice, box) == Counter({("Fork", 1): 1})
    assert len(events(alice, drive.car)) == 1
    brought(kim, *entries)
    assert reports(alice, box) == Counter({("Fork", 1): 2})
    assert len(events(alice, drive.car)) == 1


def test_an_entry_that_does_not_name_the_previous_one_is_a_break(alice: Person, drive: Drive) -> None:
    book, kim = drive.book, drive.kim
    brought(kim, book.opening(drive.key), book.opening(drive.key, previous=os.urandom(32)))
    assert reports(alice, drive.box) == Counter({("Break", 2): 1})
    brought(kim, book.opening(drive.key))
    assert reports(alice, drive.box) == Counter({("Break", 2): 1})
    assert len(events(alice, drive.car)) == 3
    fresh = Drive(alice)
    brought(fresh.kim, fresh.book.opening(fresh.key, previous=os.urandom(32)))
    assert reports(alice, fresh.box) == Counter({("Break", 1): 1})


def test_entries_that_no_box_of_the_customer_has_signed_are_refused(alice: Person, bob: Person, drive: Drive) -> None:
    kim, box = drive.kim, drive.box
    his = Drive(bob)
    other = Drive(alice)
    stranger = Logbook(box, key=PrivateKey.generate())
    forged = Logbook(other.box, name=drive.book.name)
    found = brought(kim, stranger.opening(drive.key), drive.book.entry(), forged.entry(2))
    assert found["refused"] == [{"index": 0, "reason": FORGED}, {"index": 2, "reason": FORGED}]
    assert [one["upTo"] for one in found["receipts"]] == [1]
    assert reports(alice, box) == Counter({("Forgery", 1): 1, ("Forgery", 2): 1})
    found = brought(kim, his.book.opening(his.key), Logbook(box, name=f"box:{box.product}:2147483647").entry())
    assert found == {"receipts": [], "refused": [{"index": 0, "reason": NO_BOX}, {"index": 1, "reason": NO_BOX}]}
    assert events(bob, his.car) == []
    assert state(bob, his.box) == (0, 0, 0)


def test_an_opening_by_a_key_that_was_never_issued_is_reported(alice: Person, bob: Person, drive: Drive) -> None:
    book, kim = drive.book, drive.kim
    his = Drive(bob)
    other = Drive(alice)
    told = _of(drive.key)
    made = [
        book.opening(drive.key, cti=os.urandom(16)),
        book.opening(drive.key, device=os.urandom(32)),
        book.opening(his.key),
        book.opening(other.key),  # of another box: an attacker with one box cannot report for others
        book.entry(event=1, command=1),
        book.entry(**told | {"event": 1, "device": b""}),
        book.opening(drive.key),
    ]
    brought(kim, *made)
    assert reports(alice, drive.box) == Counter({("UnknownKey", number): 1 for number in range(1, 7)})
    assert events(alice, drive.car) == [("CarOpened", kim.user)]
    assert (events(alice, other.car), events(bob, his.car)) == ([], [])


def test_an_opening_names_a_car_and_a_user_that_no_longer_exist(alice: Person, drive: Drive) -> None:
    """Car, user and assignment are those of the issued key."""
    book, kim = drive.book, drive.kim
    lee = driver(alice)
    first, second = book.opening(drive.key), book.opening(drive.key)
    changed(alice, drive.assignment, end="2026-01-02T00:00:00Z")
    done(alice.delete(f"/assignments/{drive.assignment}"))
    done(alice.delete("/users/assignments/customers", {"userId": kim.user}))
    brought(lee, first)
    assert events(alice, drive.car) == [("CarOpened", kim.user)]
    done(alice.delete(f"/cars/{drive.car}"))
    brought(lee, second)
    rows = alice.sql.rows("select car_id, user_id from event where customer_id = $1 and client_id like $2",
                          alice.customer, book.name + "%")  # fmt: skip
    assert [tuple(row) for row in rows] == [(drive.car, kim.user)] * 2


def test_an_opening_does_not_name_an_erased_user(alice: Person, drive: Drive) -> None:
    book, lee = drive.book, driver(alice)
    done(alice.post(f"/users/{drive.kim.user}/erase"))
    brought(lee, book.opening(drive.key))
    assert events(alice, drive.car) == [("CarOpened", 0)]
    assert reports(alice, drive.box) == Counter()


def test_times_beyond_the_year_9999_become_its_last_second(alice: Person, drive: Drive) -> None:
    book, kim = drive.book, drive.kim
    brought(kim, *(book.opening(drive.key, iat=iat, certain=0) for iat in (1, (1 << 53) - 1, 253_402_300_800)))
    brought(kim, book.entry(held=((1 << 53) - 1, (1 << 53) - 1, (1 << 53) - 1)))
    rows = alice.get(f"/cars/{drive.car}/events?$orderby=id").json()
    assert [row["utcDateTime"][:10] for row in rows] == ["1970-01-01", "9999-12-31", "9999-12-31"]
    assert {row["userAgent"] for row in rows} == {f"Keyrack key, {book.name}, clock uncertain"}


def test_entry_numbers_beyond_the_column_are_refused(alice: Person, drive: Drive) -> None:
    book, kim = drive.book, drive.kim
    found = brought(kim, book.entry((1 << 31) - 1), book.entry(1 << 31), book.entry(1 << 40, first=1 << 40))
    assert [one["reason"] for one in found["refused"]] == [TOO_LARGE, TOO_LARGE]
    assert state(alice, drive.box) == (0, (1 << 31) - 1, 0)
    brought(kim, book.entry((1 << 31) - 2, first=(1 << 31) - 2))
    assert state(alice, drive.box) == ((1 << 31) - 1, (1 << 31) - 1, (1 << 31) - 3)
    for name in ("box:1", "box:0:1", "box:01:1", "box:1:1:1", "box:9999999999:1", "x", "box:-1:1", "box:1: 1"):
        odd = Logbook(drive.box, name=name)
        assert brought(kim, odd.entry())["refused"] == [{"index": 0, "reason": NO_BOX}]


def test_an_entry_gives_up_no_later_number(alice: Person, drive: Drive) -> None:
    """`first` counts the entry itself as stored, so it is at most its number."""
    book, kim = drive.book, drive.kim
    wrong = [book.entry(1, first=first) for first in (2, 100, 1 << 40)]
    assert [one["reason"] for one in brought(kim, *wrong)["refused"]] == [NO_ENTRY] * 3
    assert (state(alice, drive.box), reports(alice, drive.box)) == ((0, 0, 0), Counter())
    book.hashes = book.hashes[:1]
    assert brought(kim, book.opening(drive.key), book.opening(drive.key, first=2))["refused"] == []
    assert (state(alice, drive.box), reports(alice, drive.box)) == ((2, 2, 0), Counter())


def test_a_stored_entry_gives_up_no_later_number(alice: Person, drive: Drive) -> None:
    """Builds before 0.3 stored entries whose `first` is higher than their number."""
    book, kim = drive.book, drive.kim
    brought(kim, book.opening(drive.key))
    stored = "update box_entry set first = 100 where customer_id = $1 and product_id = $2"
    alice.sql.execute(stored, alice.customer, drive.box.product)
    entries = [book.opening(drive.key) for _ in range(2)]
    brought(kim, entries[1])
    assert (state(alice, drive.box), reports(alice, drive.box)) == ((1, 3, 0), Counter())
    brought(kim, entries[0])
    assert (state(alice, drive.box), reports(alice, drive.box)) == ((3, 3, 0), Counter())


@pytest.fixture(scope="module")
def small(dsn: str, settings: Settings) -> Iterator[RunningServer]:
    with RunningServer(
        settings.model_copy(update={"boxlog_entries": 5, "max_box_reports": 3}), dsn, worker=False
    ) as running:
        yield running


def test_entries_and_reports_are_limited(alice: Person, small: RunningServer) -> None:
    there = alice.__class__(**{**vars(alice), "client": type(alice.client)(base_url=small.url + "/v3", timeout=60)})
    drive = Drive(there)
    book, kim, box = drive.book, drive.kim, drive.box
    refused(
        kim.call("PUT", PATH, {"entries": [b64(b"x")] * 6}),
        400,
        f"{WRONG} A request must have at most 5 entries, but has 6.",
    )
    stranger = Logbook(box, key=PrivateKey.generate())
    for _ in range(3):
        brought(kim, *(stranger.entry(number, counter=number) for number in range(1, 6)))
    assert reports(alice, box) == Counter({("Forgery", number): 1 for number in (1, 2, 3)})
    # A flood of forgeries hides nothing that the box itself has done
    brought(kim, book.entry(), Logbook(box).entry(counter=7))
    assert reports(alice, box)["Fork", 1] == 1


def test_forgeries_are_counted_for_each_uploading_user(alice: Person, small: RunningServer, town: Town) -> None:
    """No user hides the reports of others, and reports beyond the limit are counted."""
    there = alice.__class__(**{**vars(alice), "client": type(alice.client)(base_url=small.url + "/v3", timeout=60)})
    drive = Drive(there)
    kim, lee, box = drive.kim, driver(there), drive.box
    stranger = Logbook(box, key=PrivateKey.generate())
    for turn in range(4):
        brought(kim, *(stranger.entry(number, counter=turn) for number in range(1, 6)))
    others = [stranger.entry(number) for number in (77, 78)]
    brought(lee, *others)
    brought(lee, *others)
    path = f"/boxes/{box.product}/enrolment"

    def forgeries(person: Person) -> Counter[int | None]:
        found = Counter[int | None]()
        for report in person.get(path).json()["log"]["reports"]:
            found[report["userId"]] += report["times"]
        return found

    assert forgeries(alice) == Counter({kim.user: 20, lee.user: 2})
    assert reports(alice, box)["Forgery", 78] == 1, "three reports of another user are no bound for this one"
    # Only callers who may see users get the number of a user, within their groups
    technician = town.person("tim", Role.TECHNICIAN)
    alice.sql.execute(JOIN, technician.username, alice.customer, Role.TECHNICIAN)
    technician.headers["Customer-ID"] = str(alice.customer)
    assert forgeries(technician) == Counter({None: 22})
    group = alice.group()
    put(alice, group, "productId", box.product)
    put(alice, group, "userId", lee.user)
    assert forgeries(limited(town, alice, "groups", [group])) == Counter({None: 20, lee.user: 2})
    done(alice.post(f"/users/{kim.user}/erase"))
    assert forgeries(alice) == Counter({None: 20, lee.user: 2})


def test_malformed_entries_are_refused(alice: Person, drive: Drive) -> None:
    kim, good = drive.kim, drive.book.entry()
    bodies: list[Any] = [
        {}, {"entries": []}, {"entries": None}, {"entries": "x"}, {"entries": [None]}, {"entries": [["x"]]},
        {"entries": [b64(good) + "="]}, {"entries": [b64(good), 7]}, {"entries": ["A" * 2_001]}, [], "x", 7,
        {"entries": {"0": b64(good)}}, {"entries": [b64(good)] * 2_001}, {"entries": ["AB"]},
    ]  # fmt: skip
    for body in bodies:
        answer = kim.call("PUT", PATH, body)
        assert answer.status_code in (400, 413), (body, answer.text)
    nested = b'{"entries": ' + b"[" * 50_000 + b"]" * 50_000 + b"}"
    for content, type_, statuses in (
        (nested, "application/json", (400,)), (b"{", "application/json", (400,)), (b"", "application/json", (400,)),
        (b"\xff\xfe", "application/json", (400,)), (b'{"entries": ["\\ud800"]}', "application/json", (400,)),
        (b" " * 2_000_000, "application/json", (400, 413)),
        (good, "application/cbor", (415,)), (b'{"entries": []}', "text/plain", (415,)),
    ):  # fmt: skip
        answer = kim.call("PUT", PATH, content=content, headers={"Content-Type": type_})
        assert answer.status_code in statuses, (content[:20], answer.status_code, answer.text)
    hostile = [b"", b"\xd2", b"\x1c" + os.urandom(300), good[:-1], good + b"\0", good[1:],
               b"\xd2" + b"\x81" * 400, bytes(1_000), b"\xd2\xbb" + b"\xff" * 8,
               b"\xd2\x84\x40\xa0\x40\x58\x40" + bytes(64), b"\xd2\x5b" + b"\xff" * 8]  # fmt: skip
    found = brought(kim, *hostile)
    assert [one["index"] for one in found["refused"]] == list(range(len(hostile)))
    assert all(one["reason"].startswith("The entry is not valid (") for one in found["refused"])
    assert state(alice, drive.box) == (0, 0, 0)


def test_many_phones_upload_parts_of_one_log_at_once(alice: Person, drive: Drive) -> None:
    kim, book = drive.kim, drive.book
    keys = {kim.user: drive.key}
    for _ in range(2):
        lee = driver(alice)
        alice.assignment(drive.car, lee.user)
        keys[lee.user] = one_key(lee, drive.box)
    entries, expected = [], []
    for number in range(120):
        user = random.Random(number).choice(list(keys))
        entries.append(book.opening(keys[user], event=1 + number % 2))
        expected.append((("CarOpened", "CarClosed")[number % 2], user))
    failures: list[object] = []

    def bring(seed: int) -> None:
        chance = random.Random(seed)
        parts = [entries[begin : begin + 25] for begin in range(0, 120, 15)]
        chance.shuffle(parts)
        for part in parts:
            chance.shuffle(part)
            answer = kim.call("PUT", PATH, {"entries": [b64(entry) for entry in part]})
            if answer.status_code != 200 or answer.json()["refused"]:
                failures.append(answer.text)

    threads = [threading.Thread(target=bring, args=(seed,)) for seed in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert events(alice, drive.car) == expected
    assert state(alice, drive.box) == (120, 120, 0)
    assert reports(alice, drive.box) == Counter()
