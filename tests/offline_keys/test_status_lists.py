"""Status lists of boxes: one length, increasing times, prompt revocations."""

from __future__ import annotations

import itertools
import threading
from datetime import UTC, datetime, timedelta

from keyrack.offline_keys import cose, status_list_bits, status_lists, timestamps
from keyrack.offline_keys.cose import SignedMessage
from keyrack.offline_keys.message_fields import STATUS_LIST
from keyrack.offline_keys.p256 import PrivateKey
from keyrack.offline_keys.refusal_codes import BoxRefusalCode
from tests.offline_keys.inspection import LIST_TYPE, Clock, changed, clock, is_revoked, listed, one_key, places, text
from tests.offline_keys.offline_world import confirm, driver, garage, raw
from tests.support.people import Person, done, refused

__all__ = ["clock"]
NO_LIST = "The box has no such status list."
OUTDATE = "update status_generation set is_outdated = true where customer_id = $1 and product_id = $2"


def bits(found: SignedMessage) -> bytes:
    return status_list_bits.unpack(found.claims["status_list"])


def test_a_list(alice: Person) -> None:
    _, box = garage(alice)
    found = listed(alice, box.product)
    told = alice.get(f"/boxes/{box.product}/status").json()
    assert told["uri"] == found.claims["sub"]
    assert told["uri"].endswith(f"/v3/boxes/{box.product}/status?epoch={told['epoch']}&generation=1")
    assert alice.client.get(told["uri"], headers=alice.headers | {"Accept": LIST_TYPE}).content == found.raw
    assert (found.claims["iss"], found.claims["aud"]) == (f"customer:{alice.customer}", box.challenge().name)
    assert (found.claims["ttl"], found.claims["generation"]) == (300, 1)
    assert bits(found) == bytes(256)


def test_each_revocation_is_one_bit(alice: Person) -> None:
    car, box = garage(alice)
    keys = []
    for _ in range(11):
        kim = driver(alice)
        alice.assignment(car, kim.user)
        keys.append(one_key(kim, box))
        if len(keys) in (1, 9, 11):
            done(alice.delete(f"/users/{kim.user}/devices/{kim.id}"))
    assert places(*keys) == [(1, place) for place in range(11)]
    assert bits(listed(alice, box.product)) == bytes([0b1, 0b101]) + bytes(254)


def test_a_later_time_for_each_list(alice: Person, clock: Clock) -> None:
    car, box = garage(alice)
    kim = driver(alice)
    first = listed(alice, box.product)
    assert listed(alice, box.product).raw == first.raw
    clock.ahead = 299
    assert listed(alice, box.product).raw == first.raw
    clock.ahead = 300
    second = listed(alice, box.product)
    assert second.claims["iat"] == first.claims["iat"] + 300
    assert bits(second) == bits(first)
    alice.assignment(car, kim.user)
    one_key(kim, box)
    assert listed(alice, box.product).raw == second.raw, "a key that was issued changes nothing"
    done(kim.call("DELETE", f"/sdk/devices/{kim.id}"))
    third = listed(alice, box.product)
    assert third.claims["iat"] > second.claims["iat"]
    assert third.claims["exp"] == third.claims["iat"] + 28 * 86_400
    for one in (first, second, third):
        box.carry(one.raw)
    assert (box.code, box.challenge().listed) == (BoxRefusalCode.GOOD, third.claims["iat"])


def test_each_list_has_its_own_time_after_many_revocations_in_a_second(alice: Person) -> None:
    """Each returned list has its own time. There are so many that the last ones wait for the clock."""
    car, box = garage(alice)
    phones = [driver(alice) for _ in range(8)]
    for one in phones:
        alice.assignment(car, one.user)
        one.fetch()
    keys = [one.keys(box)[0] for one in phones]
    told, shown = [listed(alice, box.product)], list[int]()
    still = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=10)
    with timestamps.shown(lambda: still):
        for one in phones:
            done(one.call("DELETE", f"/sdk/devices/{one.id}"))
            told.append(listed(alice, box.product))
            shown.append(sum(is_revoked(alice, key) for key in keys))
    assert len({one.claims["iat"] for one in told}) == len({one.raw for one in told}), "two lists of one time"
    assert told[-1].claims["iat"] == still.timestamp() + status_lists.AHEAD.total_seconds()
    assert shown == [1, 2, 3, 4, 5, 6, 6, 6]
    with timestamps.shown(lambda: still + timedelta(seconds=1)):
        assert all(is_revoked(alice, key) for key in keys)


def test_revocations_are_published_after_a_clock_was_ahead(alice: Person, clock: Clock) -> None:
    """A revocation after the correction is still published at once, and the box accepts it."""
    car, box = garage(alice)
    kim, lee = driver(alice), driver(alice)
    for one in (kim, lee):
        alice.assignment(car, one.user)
        one.fetch()
    clock.ahead = 86_400
    wrong = listed(alice, box.product)
    assert box.carry(wrong.raw) == 0
    clock.ahead = 0
    done(kim.call("DELETE", f"/sdk/devices/{kim.id}"))
    right = listed(alice, box.product)
    assert right.claims["iat"] == wrong.claims["iat"] + 1
    assert box.carry(right.raw) == 0
    assert kim.open(box) is BoxRefusalCode.REVOKED
    assert lee.open(box) is BoxRefusalCode.GOOD
    done(lee.call("DELETE", f"/sdk/devices/{lee.id}"))
    assert listed(alice, box.product).claims["iat"] == wrong.claims["iat"] + 2
    assert box.carry(listed(alice, box.product).raw) == 0
    assert lee.open(box) is BoxRefusalCode.REVOKED


def test_a_list_is_signed_again_after_a_clock_was_far_ahead(alice: Person, clock: Clock) -> None:
    """Boxes refuse a list of its time for as long as it was ahead. They get one of the right time once it is right."""
    car, box = garage(alice)
    kim, lee = driver(alice), driver(alice)
    for one in (kim, lee):
        alice.assignment(car, one.user)
        one.fetch()
    clock.ahead = 400 * 86_400
    done(kim.call("DELETE", f"/sdk/devices/{kim.id}"))
    wrong = listed(alice, box.product)
    assert (box.carry(wrong.raw), box.code) == (1, BoxRefusalCode.FUTURE)
    clock.ahead = 0
    right = listed(alice, box.product)
    assert right.claims["iat"] == clock.began.timestamp()
    assert bits(right) == bits(wrong)
    shown = "select shown_at from box_key where customer_id = $1 and token = $2"
    assert alice.sql.value(shown, alice.customer, kim.keys(box)[0]) == clock.began
    box.provision(alice)
    assert box.challenge().listed == right.claims["iat"]
    assert lee.open(box) is BoxRefusalCode.GOOD
    assert kim.open(box) is BoxRefusalCode.REVOKED
    clock.ahead = 86_400 * 6
    assert listed(alice, box.product).claims["iat"] == right.claims["iat"] + 6 * 86_400
    clock.ahead = 0
    assert listed(alice, box.product).claims["iat"] == right.claims["iat"] + 6 * 86_400, "boxes may have taken that one"


def test_lists_are_consistent_during_concurrent_revocations(alice: Person) -> None:
    car, box = garage(alice)
    phones = [driver(alice) for _ in range(12)]
    for one in phones:
        alice.assignment(car, one.user)
        one.fetch()
    told: list[bytes] = []
    failures: list[str] = []

    def ask() -> None:
        for _ in range(25):
            answer = alice.get(f"/boxes/{box.product}/status")
            if answer.status_code == 200:
                told.append(raw(answer.json()["statusList"]))
            else:
                failures.append(answer.text)

    def remove(part: int) -> None:
        for one in phones[part::3]:
            answer = one.call("DELETE", f"/sdk/devices/{one.id}")
            if answer.status_code != 204:
                failures.append(answer.text)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    threads += [threading.Thread(target=remove, args=(part,)) for part in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    known: dict[int, bytes] = {}
    for one in {*told}:
        found = cose.read(one, STATUS_LIST)
        assert known.setdefault(found.claims["iat"], one) == one
    revoked = [int.from_bytes(bits(cose.read(known[at], STATUS_LIST)), "little") for at in sorted(known)]
    assert all(one & ~after == 0 for one, after in itertools.pairwise(revoked)), "what was revoked stays so"


def test_epochs_and_generations(alice: Person) -> None:
    car, box = garage(alice)
    kim = driver(alice)
    alice.assignment(car, kim.user)
    old = one_key(kim, box)
    epoch = alice.get(f"/boxes/{box.product}/status").json()["epoch"]
    box.key = PrivateKey.generate()
    box.reset()
    later = box.enrol(alice)["epoch"]
    assert listed(alice, box.product).claims["aud"] == f"box:{box.product}:{epoch}", "the one in force"
    confirm(alice, box)
    assert is_revoked(alice, old), "the list of before is still told"
    assert listed(alice, box.product).claims["aud"] == f"box:{box.product}:{later}"
    assert bits(listed(alice, box.product, epoch=epoch))[0] == 1
    assert bits(listed(alice, box.product)) == bytes(256)
    assert listed(alice, box.product, generation=1).claims["aud"] == f"box:{box.product}:{later}"
    path = f"/boxes/{box.product}/status"
    for query in ("?generation=2", "?epoch=999999999", f"?epoch={epoch}&generation=2"):
        refused(alice.get(path + query), 404, NO_LIST)
    for query in ("?epoch=0", "?epoch=x", "?epoch=", "?generation=-1", "?generation=1&generation=1", "?other=1",
                  "?epoch=9999999999", "?epoch=1.0", "?epoch=%00", "?epoch=%ff", "?$top=1"):  # fmt: skip
        answer = alice.get(path + query)
        assert (answer.status_code, answer.text[:19]) == (400, "The query parameter"), (query, answer.text)


def test_an_unchanged_list_is_answered_with_304(alice: Person) -> None:
    _, box = garage(alice)
    path = f"/boxes/{box.product}/status"
    for accept in ("application/json", LIST_TYPE):
        first = alice.get(path, headers={"Accept": accept})
        assert first.headers["vary"] == "Accept"
        again = alice.get(path, headers={"Accept": accept, "If-None-Match": first.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
    for accept in ("*/*", "", "text/html, */*;q=0.1", f"{LIST_TYPE};q=0.1, application/json", f"{LIST_TYPE};q=0, */*"):
        answer = alice.get(path, headers={"Accept": accept})
        assert answer.headers["content-type"].startswith("application/json"), accept
    answer = alice.get(path, headers={"Accept": f"application/json;q=0.1, {LIST_TYPE}"})
    assert answer.headers["content-type"] == LIST_TYPE


def test_a_revoked_key_stays_revoked_after_a_change_is_undone(alice: Person) -> None:
    """A revoked key stays revoked. An assignment that gives more again gets another key."""
    car, box = garage(alice)
    kim = driver(alice)
    end = datetime.now(UTC) + timedelta(days=2)
    assignment = alice.assignment(car, kim.user, end=text(end))
    first = one_key(kim, box)
    changed(alice, assignment, end=text(end - timedelta(days=1)))
    changed(alice, assignment, end=text(end))
    second = one_key(kim, box)
    assert (is_revoked(alice, first), is_revoked(alice, second)) == (True, False)
    kim.bring(box)
    assert [kim.open(box, key=one) for one in (first, second)] == [BoxRefusalCode.REVOKED, BoxRefusalCode.GOOD]
