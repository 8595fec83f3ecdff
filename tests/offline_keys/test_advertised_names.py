"""Day keys: phones get those of the days of their keys."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from keyrack.db.encryption.cipher import CLOSED
from keyrack.offline_keys.p256 import PrivateKey
from keyrack.offline_keys.transports.advertisements import SLOT_SECONDS, day_of, name_at, names_near, slot_at
from tests.offline_keys.inspection import Clock, changed, claims_of, clock, one_key, text
from tests.offline_keys.offline_world import DAY, Firmware, Phone, driver, garage, raw
from tests.support.people import Person, refused

__all__ = ["clock"]
LONGEST = 28 * DAY  # the life of a key is shorter
DAYS_OF_LONGEST = 30  # 28 days that begin and end within a day, and the margin before and after
SECRET: str = "update box_epoch set advertising = {} where customer_id = $1 and product_id = $2"


def midnight(days: int = 1) -> datetime:
    """The beginning of a later day in UTC."""
    return datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=days)


def day(moment: datetime) -> int:
    return day_of(slot_at(int(moment.timestamp())))


def names_by_box(phone: Phone) -> dict[str, dict[int, bytes]]:
    """The day keys of the phone, by the name of the box."""
    return {each["box"]: {one["day"]: raw(one["key"]) for one in each["names"]} for each in phone.held["boxes"]}


def names(phone: Phone) -> dict[int, bytes]:
    """The day keys of the phone's only box."""
    (found,) = names_by_box(phone).values()
    return found


def advertised(box: Firmware, moment: datetime) -> str:
    """The advertised name at a time of the box's clock."""
    return name_at(box.state.authority.advertising, int(moment.timestamp()))


def finds(keys: dict[int, bytes], box: Firmware, moment: datetime, *, box_is_ahead: int = 0) -> bool:
    """Whether a phone with these day keys finds the box now."""
    shown = advertised(box, moment + timedelta(seconds=box_is_ahead))
    return shown in names_near(keys, int(moment.timestamp()))


def test_a_phone_finds_the_box_while_its_key_is_valid(alice: Person) -> None:
    """From beginning to end, across midnight, with a clock one slot off."""
    car, box = garage(alice)
    kim = driver(alice)
    begin, end = midnight() + timedelta(hours=22), midnight(2) + timedelta(hours=2)
    alice.assignment(car, kim.user, text(begin), end=text(end))
    kim.fetch()
    keys = names(kim)
    assert list(keys) == [day(begin), day(end)]
    assert {len(key) for key in keys.values()} == {16}
    for moment in (begin, midnight(2) - timedelta(seconds=1), midnight(2), end):
        for ahead in (-SLOT_SECONDS, 0, SLOT_SECONDS):
            assert finds(keys, box, moment, box_is_ahead=ahead), (moment, ahead)
    for moment in (begin - timedelta(days=1), end + timedelta(days=1)):
        assert not finds(keys, box, moment)
        assert names_near(keys, int(moment.timestamp())) == []


@pytest.mark.parametrize(
    ("begin", "end", "before", "after"),
    [
        (900, DAY - 901, 0, 0), (899, DAY - 901, 1, 0), (900, DAY - 900, 0, 1), (0, DAY - 1, 1, 1),
    ],
)  # fmt: skip
def test_the_margin_is_a_slot(alice: Person, begin: int, end: int, before: int, after: int) -> None:
    car, _ = garage(alice)
    kim = driver(alice)
    first, last = midnight() + timedelta(seconds=begin), midnight() + timedelta(seconds=end)
    alice.assignment(car, kim.user, text(first), end=text(last))
    kim.fetch()
    assert list(names(kim)) == list(range(day(first) - before, day(last) + after + 1))


def test_the_longest_key_has_a_bounded_number_of_days(alice: Person, clock: Clock) -> None:
    car, box = garage(alice)
    kim = driver(alice)
    start = midnight() + timedelta(seconds=899)
    alice.assignment(car, kim.user, text(start), lifetime=LONGEST - 1, renewableAfter=LONGEST - 2)
    clock.ahead = (start - clock.began).total_seconds()
    claims = claims_of(one_key(kim, box))
    assert (claims["nbf"], claims["exp"]) == (start.timestamp(), start.timestamp() + LONGEST - 1)
    keys = names(kim)
    assert list(keys) == list(range(day(start) - 1, day_of(slot_at(claims["exp"] + SLOT_SECONDS)) + 1))
    assert len(keys) == DAYS_OF_LONGEST
    clock.ahead += 20 * DAY
    assert claims_of(one_key(kim, box)) == claims
    assert names(kim) == keys, "the same key has the same days"


def test_each_phone_has_the_days_of_its_own_keys(alice: Person) -> None:
    """Two assignments of one driver and one of another, for one box."""
    car, box = garage(alice)
    kim, lee = driver(alice), driver(alice)
    noon = timedelta(hours=12)
    days: list[tuple[Phone, int]] = [(kim, 1), (lee, 3), (kim, 5)]
    for phone, number in days:
        start = midnight(number) + noon
        alice.assignment(car, phone.user, text(start), end=text(start + timedelta(hours=1)))
    for phone, own in ((kim, (1, 5)), (lee, (3,))):
        phone.fetch()
        keys = names(phone)
        assert list(keys) == [day(midnight(number)) for number in own]
        found = [number for number in range(1, 7) if finds(keys, box, midnight(number) + noon)]
        assert found == list(own)


def test_a_former_driver_does_not_know_later_names(alice: Person) -> None:
    car, box = garage(alice)
    kim = driver(alice)
    start, end = midnight() + timedelta(hours=8), midnight(4) + timedelta(hours=8)
    assignment = alice.assignment(car, kim.user, text(start), end=text(end))
    kim.fetch()
    assert list(names(kim)) == list(range(day(start), day(end) + 1))
    earlier = midnight(2) + timedelta(hours=8)
    changed(alice, assignment, end=text(earlier))
    kim.fetch()
    keys = names(kim)
    assert list(keys) == list(range(day(start), day(earlier) + 1))
    assert finds(keys, box, earlier)
    assert not finds(keys, box, midnight(3))
    changed(alice, assignment, start="2026-01-01T08:00:00Z", end="2026-01-02T08:00:00Z")
    assert kim.fetch()["boxes"] == []


def test_a_box_without_a_secret_has_no_names(alice: Person) -> None:
    car, box = garage(alice)
    kim = driver(alice)
    alice.assignment(car, kim.user)
    key = one_key(kim, box)
    assert names(kim)
    alice.sql.execute(SECRET.format("null"), alice.customer, box.product)
    assert one_key(kim, box) == key
    assert names(kim) == {}


def test_an_etag_changes_with_the_names(alice: Person, clock: Clock) -> None:
    """A box gets its secret after phones have keys for it."""
    car, box = garage(alice)
    kim = driver(alice)
    alice.assignment(car, kim.user)
    kim.fetch()
    alice.sql.execute(SECRET.format("null"), alice.customer, box.product)

    def call(etag: str = "") -> Any:
        return kim.call("GET", "/sdk/keys", params={"device": kim.id}, headers={"If-None-Match": etag} if etag else {})

    without = call()
    assert call(without.headers["etag"]).status_code == 304
    box.provision(alice)
    told = call(without.headers["etag"])
    assert told.status_code == 200
    (before,), (after,) = without.json()["boxes"], told.json()["boxes"]
    assert before["names"] == []
    assert after == before | {"names": after["names"]}
    assert finds({one["day"]: raw(one["key"]) for one in after["names"]}, box, clock.began)
    assert call(told.headers["etag"]).status_code == 304


def test_a_pending_enrolment_has_names_of_its_own(alice: Person) -> None:
    """The phone finds the box in use, and its replacement."""
    car, old = garage(alice)
    kim = driver(alice)
    alice.assignment(car, kim.user)
    new = Firmware(old.product, key=PrivateKey.generate())
    new.enrol(alice)
    kim.fetch()
    keys, now = names_by_box(kim), datetime.now(UTC)
    for box, other in ((old, new), (new, old)):
        own = keys[box.challenge().name]
        assert finds(own, box, now)
        assert not finds(own, other, now)


def test_the_secret_of_another_row_names_no_box(alice: Person) -> None:
    """Write access to the database reveals no names of other boxes."""
    (car, box), (_, other) = garage(alice), garage(alice)
    kim = driver(alice)
    alice.assignment(car, kim.user)
    kim.fetch()
    moved = "(select advertising from box_epoch where customer_id = $1 and product_id = $3)"
    alice.sql.execute(SECRET.format(moved), alice.customer, box.product, other.product)
    refused(kim.call("GET", "/sdk/keys", params={"device": kim.id}), 503, CLOSED.text)
