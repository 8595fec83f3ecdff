"""Log entries that arrive after their numbers were given up.

They are published once, marked, and checked.
"""

from __future__ import annotations

import os
import random
import threading
from collections import Counter
from collections.abc import Sequence

import pytest

from keyrack.core.settings import Settings
from keyrack.offline_keys import box_logs, cose
from keyrack.offline_keys.message_fields import RECEIPT
from tests.offline_keys.fixed_keys import with_high_s
from tests.offline_keys.inspection import Clock, clock, one_key, tended
from tests.offline_keys.offline_world import DAY, Phone, b64, driver, raw
from tests.offline_keys.test_box_logs import Drive, brought, drive, events, reports, state
from tests.support.people import Person
from tests.support.servers import eventually

__all__ = ["clock", "drive"]


def given_up(drive: Drive, count: int) -> list[bytes]:
    """Openings that were given up: `count` of them, before an uploaded one."""
    openings = [drive.book.opening(drive.key, counter=number + 1) for number in range(count)]
    brought(drive.kim, drive.book.opening(drive.key, first=count + 1))
    return openings


def agents(person: Person, car: int) -> list[str]:
    rows = person.get(f"/cars/{car}/events?$orderby=id").json()
    return [row["userAgent"].partition(", ")[2].partition(", ")[2] for row in rows]


def late_reports(person: Person, drive: Drive) -> Counter[tuple[str, int]]:
    return Counter({key: count for key, count in reports(person, drive.box).items() if key[0] != "GivenUp"})


def test_a_given_up_entry_is_published_when_it_arrives(alice: Person, drive: Drive) -> None:
    openings = given_up(drive, 4)
    assert state(alice, drive.box) == (5, 5, 4)
    assert brought(drive.kim, openings[2], openings[1]) == {"receipts": [], "refused": []}
    assert state(alice, drive.box) == (5, 5, 2)
    rows = alice.get(f"/cars/{drive.car}/events?$orderby=id").json()
    assert [row["userId"] for row in rows] == [drive.kim.user] * 3
    assert agents(alice, drive.car) == ["", "reported late", "reported late"]
    times = [row["utcDateTime"] for row in rows]
    assert times[1] < times[2] < times[0], "newer ids, and the times of the openings"
    assert late_reports(alice, drive) == Counter({("Late", 3): 1})
    brought(drive.kim, *openings)
    assert state(alice, drive.box) == (5, 5, 0)
    assert late_reports(alice, drive) == Counter({("Late", 3): 1, ("Late", 1): 1, ("Late", 4): 1})
    assert len(events(alice, drive.car)) == 5
    brought(drive.kim, *openings)
    assert len(events(alice, drive.car)) == 5

    def recorded() -> Counter[str]:
        changes = alice.get("/changes", params={"$filter": "resource eq 'boxReport'"}).json()
        reported = [change["after"] for change in changes]
        return Counter(report["kind"] for report in reported if report["productId"] == drive.box.product)

    eventually(lambda: recorded() == Counter({"GivenUp": 1, "Late": 3}), "the changes")


def test_other_customers_see_no_late_entries(alice: Person, bob: Person, drive: Drive) -> None:
    his = Drive(bob)
    openings = given_up(drive, 2)
    answer = brought(his.kim, *openings)
    assert [entry["reason"] for entry in answer["refused"]] == ["There is no box with this name and epoch."] * 2
    assert (len(events(alice, drive.car)), events(bob, his.car)) == (1, [])
    assert state(alice, drive.box) == (3, 3, 2)


def test_a_late_entry_that_contradicts_a_neighbour_is_a_break(alice: Person, drive: Drive) -> None:
    """It is published as well: the box has signed it, and the server cannot know which of the two is forged."""
    openings = given_up(drive, 3)
    other = drive.book.entry(3, **drive.book.said(drive.key) | {"previous": drive.book.hashes[2], "counter": 99})
    brought(drive.kim, other)
    assert late_reports(alice, drive) == Counter({("Late", 3): 1, ("Break", 4): 1})
    assert len(events(alice, drive.car)) == 2
    brought(drive.kim, openings[1])
    assert late_reports(alice, drive) == Counter({("Late", 3): 1, ("Break", 4): 1, ("Late", 2): 1})
    brought(drive.kim, drive.book.entry(1, **drive.book.said(drive.key) | {"previous": os.urandom(32)}))
    found = late_reports(alice, drive)
    assert (found["Break", 1], found["Break", 2], found["Late", 1]) == (1, 1, 1)


def test_the_first_of_two_late_entries_with_one_number_stays(alice: Person, drive: Drive) -> None:
    openings = given_up(drive, 2)
    fork = drive.book.entry(2, **drive.book.said(drive.key) | {"previous": drive.book.hashes[1], "counter": 99})
    brought(drive.kim, openings[1])
    brought(drive.kim, fork)
    brought(drive.kim, fork, openings[1])
    assert late_reports(alice, drive) == Counter({("Late", 2): 1, ("Fork", 2): 1})
    assert len(events(alice, drive.car)) == 2


def test_a_late_entry_and_its_neighbours_may_have_a_high_s(alice: Person, drive: Drive) -> None:
    """A carrier may turn s of each signature. This is no break, and no other entry."""
    openings = given_up(drive, 3)
    brought(drive.kim, with_high_s(openings[0]))
    brought(drive.kim, openings[0], with_high_s(openings[2]))
    brought(drive.kim, with_high_s(openings[1]), openings[2])
    assert late_reports(alice, drive) == Counter({("Late", 1): 1, ("Late", 3): 1, ("Late", 2): 1})
    assert len(events(alice, drive.car)) == 4
    stored = alice.sql.rows(
        "select number, hash from box_entry where customer_id = $1 and product_id = $2 and number < 4 order by number",
        alice.customer, drive.box.product,
    )  # fmt: skip
    assert [(row[0], bytes(row[1])) for row in stored] == [(n, drive.book.hashes[n]) for n in (1, 2, 3)]


def test_receipts_continue_after_a_filled_gap(alice: Person, drive: Drive) -> None:
    """The last number that was given up arrives late, before the next entry."""
    book, kim = drive.book, drive.kim
    openings = [book.opening(drive.key) for _ in range(4)]
    fifth = book.opening(drive.key, first=4)
    assert brought(kim, fifth)["receipts"] == []
    assert state(alice, drive.box) == (3, 5, 3)
    brought(kim, openings[2])
    (receipt,) = brought(kim, openings[3])["receipts"]
    assert cose.read(raw(receipt["receipt"]), RECEIPT).claims["upto"] == (5, book.hashes[5])
    assert late_reports(alice, drive) == Counter({("Late", 3): 1})
    assert state(alice, drive.box) == (5, 5, 2)


def test_an_unknown_key_among_late_entries_is_reported(alice: Person, drive: Drive) -> None:
    forged = drive.book.opening(drive.key, cti=os.urandom(16))
    brought(drive.kim, drive.book.opening(drive.key, first=2))
    brought(drive.kim, forged)
    assert late_reports(alice, drive) == Counter({("Late", 1): 1, ("UnknownKey", 1): 1})
    assert len(events(alice, drive.car)) == 1


def test_a_purged_entry_is_not_published_again(
    alice: Person, drive: Drive, clock: Clock, dsn: str, settings: Settings
) -> None:
    """A repeated entry is not late: its number was never given up."""
    openings = given_up(drive, 2)
    brought(drive.kim, openings[1])
    assert len(events(alice, drive.car)) == 2
    clock.ahead = 401 * DAY
    tended(dsn, settings, box_logs.forget)
    count = "select count(*) from box_entry where customer_id = $1 and product_id = $2"
    assert alice.sql.value(count, alice.customer, drive.box.product) == 1
    brought(drive.kim, openings[1])
    assert len(events(alice, drive.car)) == 2
    brought(drive.kim, openings[0])
    assert len(events(alice, drive.car)) == 3


@pytest.mark.parametrize("seed", range(6))
def test_each_delivered_opening_is_published_once(alice: Person, drive: Drive, seed: int) -> None:
    """Parts of a log arrive in any order, repeated, from several phones, with a high s, and late."""
    chance = random.Random(seed)
    keys = {drive.kim.user: drive.key}
    phones = [drive.kim]
    for _ in range(2):
        lee = driver(alice)
        alice.assignment(drive.car, lee.user)
        keys[lee.user] = one_key(lee, drive.box)
        phones.append(lee)
    entries: list[bytes] = []
    openings: dict[int, tuple[str, int]] = {}  # number -> type and user
    first = 1
    for number in range(1, 91):
        first = max(first, number - chance.choice([4, 20, 90]))
        if chance.random() < 0.7:
            user, event = chance.choice(list(keys)), chance.choice([1, 2])
            entries.append(drive.book.opening(keys[user], event=event, first=first))
            openings[number] = ("CarOpened" if event == 1 else "CarClosed", user)
        else:
            entries.append(drive.book.entry(first=first))
    never = set(chance.sample(range(1, 91), 10))  # these never arrive
    delivered = [number for number in range(1, 91) if number not in never]
    for phone in phones:  # each has some parts, and together they have every number
        others = [n for n in delivered if chance.random() < 0.4]
        deliver(phone, entries, others, chance, seed)
    deliver(chance.choice(phones), entries, delivered, chance, seed)
    brought(drive.kim, drive.book.entry(first=91))  # no entry waits any more
    expected = Counter(openings[number] for number in delivered if number in openings)
    assert Counter(events(alice, drive.car)) == expected
    ids = alice.sql.rows(
        "select client_id from event where customer_id = $1 and car_id = $2", alice.customer, drive.car
    )
    numbers = [int(row[0].partition("\x1f")[2]) for row in ids]
    assert sorted(numbers) == sorted(number for number in delivered if number in openings)
    faults = {kind for kind, _ in reports(alice, drive.box)}
    assert faults <= {"GivenUp", "Late"}
    assert state(alice, drive.box) == (91, 91, len(never))


def deliver(phone: Phone, entries: Sequence[bytes], numbers: Sequence[int], chance: random.Random, seed: int) -> None:
    """Upload these entries in shuffled parts: some twice, with a high s, or at the same time."""
    shuffled = [*numbers, *chance.sample(numbers, len(numbers) // 4)]
    chance.shuffle(shuffled)
    parts = [shuffled[begin : begin + 7] for begin in range(0, len(shuffled), 7)]
    bodies = [
        {"entries": [b64(with_high_s(entries[n - 1]) if chance.random() < 0.1 else entries[n - 1]) for n in part]}
        for part in parts
    ]
    answers: list[object] = []

    def bring(some: Sequence[object]) -> None:
        for body in some:
            answer = phone.call("PUT", "/sdk/boxlog", body)
            answers.append((answer.status_code, answer.json()["refused"]))

    at_once = 1 if seed % 2 else 3
    threads = [threading.Thread(target=bring, args=(bodies[start::at_once],)) for start in range(at_once)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [(200, [])] * len(bodies)
