"""Limits on keys per phone, assignment and list, and reuse of places."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from keyrack.api.permissions import Role
from keyrack.core.settings import Settings
from keyrack.fleet.endpoints.users import NO_USER
from keyrack.offline_keys import status_list_slots
from keyrack.offline_keys.p256 import PrivateKey
from keyrack.offline_keys.refusal_codes import BoxRefusalCode
from tests.offline_keys.inspection import Clock, changed, claims_of, clock, is_revoked, one_key, tended, text
from tests.offline_keys.inspection import places as places_of
from tests.offline_keys.offline_world import DAY, Firmware, Phone, b64, driver, garage, raw
from tests.support.log_lines import captured_events
from tests.support.people import JOIN, Person, Town, done, refused
from tests.support.servers import RunningServer, eventually

__all__ = ["clock"]
LIMIT = 3 * DAY  # of a new customer


@pytest.fixture(scope="module")
def small(dsn: str, settings: Settings) -> Iterator[RunningServer]:
    """A server with low limits."""
    low = settings.model_copy(update={"sdk_keys": 3, "keys_per_assignment": 4})
    with RunningServer(low, dsn, worker=False) as running:
        yield running


def at(person: Person, server: RunningServer) -> Person:
    """The person, as a caller of that server."""
    return replace(person, client=person.client.__class__(base_url=server.url + "/v3", timeout=60))


def test_the_number_of_keys_in_an_answer_is_limited(alice: Person, small: RunningServer) -> None:
    kim = Phone(at(alice, small), alice.user())
    kim.sign_in()
    kim.register()
    made = [garage(alice) for _ in range(2)]
    for car, _ in made * 2:
        alice.assignment(car, kim.user)
    held = kim.fetch()
    assert (len(held["keys"]), held["isComplete"], held["withheld"]) == (3, False, [])
    assert {one["productId"] for one in held["boxes"]} == {one["productId"] for one in held["keys"]}
    assert kim.fetch() == held
    assert alice.sql.value("select count(*) from box_key where customer_id = $1 and user_id = $2",
                           alice.customer, kim.user) == 3  # fmt: skip


def test_the_number_of_keys_of_an_assignment_is_limited(alice: Person, small: RunningServer) -> None:
    car, _ = garage(alice)
    kim = Phone(at(alice, small), alice.user())
    kim.sign_in()
    assignment = alice.assignment(car, kim.user)
    phones = [replace(kim, key=Phone(alice, 0).key) for _ in range(5)]
    for one in phones:
        one.register()
    for one in phones[:4]:
        assert one.fetch()["withheld"] == []
    held = phones[4].fetch()
    assert held["keys"] == []
    assert held["withheld"] == [{"assignmentId": assignment, "reason": "too-many-keys"}]
    # A removed phone makes no room: its keys may open until they expire
    done(phones[0].call("DELETE", f"/sdk/devices/{phones[0].id}"))
    assert phones[4].fetch()["withheld"] == held["withheld"]
    alice.sql.execute("update box_key set is_placed = false where customer_id = $1 and device_id = $2",
                      alice.customer, phones[0].key.public.thumbprint)  # fmt: skip
    assert len(phones[4].fetch()["keys"]) == 1
    # A key that is due stays until there is another one
    alice.sql.execute("update box_key set issued_at = issued_at - interval '4 days' where customer_id = $1"
                      " and device_id = $2", alice.customer, phones[1].key.public.thumbprint)  # fmt: skip
    held = phones[1].fetch()
    assert (len(held["keys"]), [one["reason"] for one in held["withheld"]]) == (1, ["too-many-keys"])


def another(phone: Phone) -> Phone:
    """Another phone of the same user, with a new id token."""
    new = replace(phone, key=PrivateKey.generate())
    new.sign_in()
    new.register()
    return new


def test_a_manager_can_discount_keys_of_removed_phones(
    alice: Person, bob: Person, town: Town, small: RunningServer
) -> None:
    """Their keys stay revoked, and keep their places in the status list."""
    person = at(alice, small)
    car, box = garage(person)
    kim = driver(person)
    assignment = person.assignment(car, kim.user)
    thief: list[Phone] = []
    keys: list[bytes] = []
    for _ in range(3):
        phone = another(kim)
        thief.append(phone)
        keys.append(one_key(phone, box))
        done(phone.call("DELETE", f"/sdk/devices/{phone.id}"))
    own = one_key(kim, box)
    new = another(kim)
    assert new.fetch()["withheld"] == [{"assignmentId": assignment, "reason": "too-many-keys"}]
    path = f"/users/{kim.user}/removed-devices"
    refused(bob.delete(path), 404, NO_USER)
    assert kim.call("DELETE", path).status_code == 401, "the user's app is no manager"
    viewer = town.person("vic", Role.VIEWER)
    alice.sql.execute(JOIN, viewer.username, alice.customer, Role.VIEWER)
    viewer.headers["Customer-ID"] = str(alice.customer)
    assert viewer.delete(path).status_code == 403
    assert new.fetch()["withheld"] != []
    done(person.delete(path))
    done(person.delete(path))
    fresh = one_key(new, box)
    assert new.visit(box) is BoxRefusalCode.GOOD
    assert [is_revoked(person, key) for key in (*keys, own, fresh)] == [True, True, True, False, False]
    assert [phone.open(box, key=key) for phone, key in zip(thief, keys, strict=True)] == [BoxRefusalCode.REVOKED] * 3
    assert len(set(places_of(*keys, own, fresh))) == 5, "no place went to another key"
    # Still counted: keys in force, and those of phones that are registered
    for _ in range(2):
        one_key(another(kim), box)
    last = another(kim)
    done(person.delete(path))
    assert last.fetch()["withheld"] == [{"assignmentId": assignment, "reason": "too-many-keys"}]
    query = {"$filter": f"resource eq 'key' and resourceId eq '{UUID(bytes=claims_of(keys[0])['cti'])}'"}
    eventually(
        lambda: {"isCounted": False} in [change["after"] for change in alice.get("/changes", params=query).json()],
        "the change",
    )


FILL = """
insert into box_key (customer_id, key_id, product_id, epoch, generation, place, assignment_id, car_id, user_id,
  device_id, issuing_key_id, rights, freshness, lifetime, issued_at, begins_at, expires_at, token)
select k.customer_id, gen_random_uuid(), k.product_id, k.epoch, $3, i, 0, k.car_id, k.user_id, '\\x00'::bytea,
  k.issuing_key_id, k.rights, k.freshness, k.lifetime, k.issued_at, k.begins_at, k.expires_at, ''::bytea
from (select * from box_key where customer_id = $1 and product_id = $2 limit 1) k, generate_series($4::integer, 2047) i
where not exists (select from box_key b where b.customer_id = k.customer_id and b.product_id = k.product_id
  and b.epoch = k.epoch and b.generation = $3 and b.place = i and b.is_placed)
"""


def fill(person: Person, box: Firmware, generation: int, first: int) -> None:
    """Take all places of a list from `first` on, without entries in the change log."""

    async def without_triggers(raw: Any) -> None:
        # The setting ends with the transaction, also if the statement fails, because other tests share the session
        async with raw.transaction():
            await raw.execute("set local session_replication_role to replica")
            await raw.execute(FILL, person.customer, box.product, generation, first)

    person.sql.run(without_triggers(person.sql.raw))


def test_a_full_list_is_followed_by_another(alice: Person) -> None:
    car, box = garage(alice)
    kim, lee, max_, ina = (driver(alice) for _ in range(4))
    for one in (kim, lee, max_, ina):
        alice.assignment(car, one.user)
    first = one_key(kim, box)
    assert places_of(first) == [(1, 0)]
    fill(alice, box, 1, 2)
    assert places_of(one_key(lee, box)) == [(1, 1)]
    second = one_key(max_, box)
    assert places_of(second) == [(2, 0)]
    held = max_.fetch()
    (carried,) = held["boxes"]
    assert [one["generation"] for one in carried["statusLists"]] == [2], "its key stands there"
    (carried,) = kim.fetch()["boxes"]
    assert [one["generation"] for one in carried["statusLists"]] == [1, 2], "the box has to have both"
    assert kim.visit(box) is BoxRefusalCode.GOOD
    assert max_.visit(box) is BoxRefusalCode.GOOD
    assert max_.open(box) is BoxRefusalCode.GOOD
    assert kim.open(box) is BoxRefusalCode.GOOD
    fill(alice, box, 2, 1)
    held = ina.fetch()
    assert (held["keys"], [one["reason"] for one in held["withheld"]]) == ([], ["status-list-full"])
    # The older list is free again when its last key has expired: then a third list begins
    alice.sql.execute("update box_key set is_placed = false where customer_id = $1 and product_id = $2"
                      " and generation = 1", alice.customer, box.product)  # fmt: skip
    third = one_key(ina, box)
    assert places_of(third) == [(3, 0)]
    assert ina.visit(box) is BoxRefusalCode.GOOD
    assert max_.visit(box) is BoxRefusalCode.GOOD


def test_a_place_is_released_when_its_key_can_open_nothing(
    alice: Person, clock: Clock, dsn: str, settings: Settings
) -> None:
    car, box = garage(alice)
    kim, lee = driver(alice), driver(alice)
    assignment = alice.assignment(car, kim.user, end=text(datetime.now(UTC) + timedelta(hours=1)))
    first = one_key(kim, box)
    changed(alice, assignment, end=text(datetime.now(UTC) + timedelta(minutes=1)))
    assert is_revoked(alice, first)
    alice.assignment(car, lee.user)
    placed = "select is_placed from box_key where customer_id = $1 and key_id = $2::uuid"
    id = claims_of(first)["cti"].hex()
    for ahead, stays in ((0, True), (LIMIT + 3_590, True), (LIMIT + 3_660, False)):
        clock.ahead = ahead
        tended(dsn, settings, status_list_slots.recycle_slots)
        assert alice.sql.value(placed, alice.customer, id) is stays, ahead
    clock.ahead = 0
    second = one_key(lee, box)
    assert places_of(second) == places_of(first)
    assert not is_revoked(alice, second)
    assert lee.visit(box) is BoxRefusalCode.GOOD


def test_a_clock_that_was_ahead_revives_no_key(alice: Person, clock: Clock, dsn: str, settings: Settings) -> None:
    """A phone was removed. Places are released while the clock is ahead, and one of them gets another key."""
    car, box = garage(alice)
    kim, lee, max_ = driver(alice), driver(alice), driver(alice)
    for phone in (kim, lee, max_):
        alice.assignment(car, phone.user)
    removed, other = one_key(kim, box), one_key(lee, box)
    done(alice.delete(f"/users/{kim.user}/devices/{kim.id}"))
    clock.ahead = 20 * DAY
    tended(dsn, settings, status_list_slots.recycle_slots)
    clock.ahead = 0
    assert not is_revoked(alice, removed), "the revocation is lost"
    shared = one_key(max_, box)
    assert places_of(shared) == places_of(removed)
    with captured_events("status list slots released too early") as alerts:
        for _ in range(2):
            tended(dsn, settings, status_list_slots.recycle_slots)
    assert [line["alert"] for line in alerts] == [True]
    assert is_revoked(alice, removed) and not is_revoked(alice, other)
    done(alice.delete(f"/users/{lee.user}/devices/{lee.id}"))
    assert is_revoked(alice, other), "a key that has got its place back can be revoked"
    fresh = one_key(max_, box)
    assert not is_revoked(alice, fresh), "the place that two keys have is for neither of them"
    assert max_.visit(box) is BoxRefusalCode.GOOD
    assert kim.open(box, key=removed) is BoxRefusalCode.REVOKED
    clock.ahead = 30 * DAY
    tended(dsn, settings, status_list_slots.recycle_slots)
    assert alice.sql.value("select count(*) from box_key where customer_id = $1 and is_placed and product_id = $2",
                           alice.customer, box.product) == 0  # fmt: skip


def test_a_key_of_the_future_is_replaced(alice: Person, clock: Clock) -> None:
    """The clock was ahead when a phone fetched its key."""
    car, box = garage(alice)
    kim = driver(alice)
    alice.assignment(car, kim.user)
    clock.ahead = 20 * DAY
    wrong = one_key(kim, box)
    clock.ahead = 0
    assert kim.open(box) is BoxRefusalCode.FUTURE
    right = one_key(kim, box)
    assert claims_of(right)["iat"] == claims_of(wrong)["iat"] - 20 * DAY
    assert kim.visit(box) is BoxRefusalCode.GOOD


def test_old_keys_are_deleted(alice: Person, clock: Clock, dsn: str, settings: Settings) -> None:
    car, box = garage(alice)
    kim = driver(alice)
    alice.assignment(car, kim.user)
    one_key(kim, box)
    count = "select count(*) from box_key where customer_id = $1 and user_id = $2"
    for days, left in ((399, 1), (401, 0)):
        clock.ahead = days * DAY
        tended(dsn, settings, status_list_slots.recycle_slots)
        assert alice.sql.value(count, alice.customer, kim.user) == left


def test_the_time_for_a_box(alice: Person, bob: Person) -> None:
    car, box = garage(alice)
    kim, lee = driver(alice), driver(alice)
    alice.assignment(car, kim.user)
    kim.fetch()
    name = box.challenge().name
    body = {"box": name, "nonce": "A" * 21 + "A"}
    assert kim.call("POST", "/sdk/time", body).status_code == 200
    no_keys = "The user has no valid key for this box."
    refused(lee.call("POST", "/sdk/time", body), 404, no_keys)
    refused(driver(bob).call("POST", "/sdk/time", body), 404, no_keys)
    for other in (f"box:{box.product}:2147483647", "box:1:1", "x", "box:%:1", "box:1' or '1'='1:1"):
        refused(kim.call("POST", "/sdk/time", body | {"box": other}), 404, no_keys)
    for member, values in {
        "box": ["", "ä", "x" * 41, None, 1],
        "nonce": ["", "AA", "A" * 43, "A" * 21 + "B", None],
    }.items():
        for value in values:
            answer = kim.call("POST", "/sdk/time", body | {member: value})
            assert answer.status_code == 400, answer.text
            assert answer.text.startswith(f"Couldn't sign the time. No valid {member} provided."), answer.text


@pytest.fixture
def strict(dsn: str, settings: Settings) -> Iterator[RunningServer]:
    """A server with low limits on signed times."""
    low = {"box_times_per_hour": 1, "box_time_burst": 5, "box_times_per_hour_per_user": 1, "box_time_burst_per_user": 3}
    with RunningServer(settings.model_copy(update=low), dsn, worker=False) as running:
        yield running


def test_signed_times_are_limited_per_user_and_per_box(alice: Person, strict: RunningServer) -> None:
    """A box may log each time, so unlimited times would push out openings."""
    person = at(alice, strict)
    car, box = garage(person)
    kim, lee = driver(person), driver(person)
    other_car, other_box = garage(person)
    for phone in (kim, lee):
        person.assignment(car, phone.user)
        person.assignment(other_car, phone.user)
        phone.fetch()

    def statuses(phone: Phone, at_box: Firmware, count: int) -> list[int]:
        body = {"box": at_box.challenge().name, "nonce": "A" * 22}
        answers = [phone.call("POST", "/sdk/time", body) for _ in range(count)]
        for answer in answers:
            if answer.status_code == 429:
                assert answer.json()["status"] == "429"
                assert 0 < int(answer.headers["retry-after"]) <= 3_600
        return [answer.status_code for answer in answers]

    stranger = driver(person)
    assert statuses(stranger, box, 8) == [404] * 8, "a user without a key takes nothing from a box"
    assert statuses(kim, box, 5) == [200] * 3 + [429] * 2
    kim.key = PrivateKey.generate()
    kim.register()
    assert statuses(kim, box, 1) == [429], "another phone of the user"
    assert statuses(lee, box, 4) == [200] * 2 + [429] * 2, "the box's own limit"
    assert statuses(lee, other_box, 4) == [200] * 3 + [429]


def test_the_default_limit_on_times_is_far_below_the_log_of_a_box(settings: Settings) -> None:
    for burst, rate in (
        (settings.box_time_burst, settings.box_times_per_hour),
        (settings.box_time_burst_per_user, settings.box_times_per_hour_per_user),
    ):
        assert burst >= 50, "every phone of a car that many drivers share asks at each visit"
        assert burst + 8 * rate < 1_024, "entries that a box holds: docs/key-log.md, The log of a box"


def test_the_clock_of_a_box_is_set(alice: Person) -> None:
    car, box = garage(alice)
    kim = driver(alice)
    alice.assignment(car, kim.user)
    kim.fetch()
    asked = box.challenge()
    answer = kim.call("POST", "/sdk/time", {"box": asked.name, "nonce": b64(asked.nonce)})
    assert answer.headers["cache-control"] == "no-store"
    assert box.carry(raw(answer.json()["time"])) == 0
    assert box.challenge().certain == 1
