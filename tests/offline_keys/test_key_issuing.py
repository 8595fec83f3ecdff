"""The keys of a phone: validity, renewal, and places in status lists."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime, timedelta

import pytest

from keyrack.offline_keys.key_issuing import INSERT, NewKeyRow
from keyrack.offline_keys.message_fields import CLOSE, OPEN, UNCERTAIN
from keyrack.offline_keys.refusal_codes import BoxRefusalCode
from tests.cli.test_operator_commands import Operator
from tests.offline_keys.inspection import Clock, changed, claims_of, clock, is_revoked, one_key, revocations, text
from tests.offline_keys.offline_world import DAY, driver, garage, raw
from tests.support.people import Person, refused

__all__ = ["clock"]
WEEK = 7 * DAY
DEVICE = "The query parameter device is not valid. "


@pytest.fixture(scope="module")
def operator(dsn: str) -> Operator:
    return Operator(dsn)


def test_the_columns_of_a_new_key_have_the_order_of_the_statement() -> None:
    columns = re.findall(r"\w+", INSERT.sql.partition("(")[2].partition(")")[0])
    count = len(NewKeyRow._fields)
    assert tuple(columns[-count:]) == INSERT.names[-count:] == NewKeyRow._fields


def test_a_key_has_the_values_of_its_assignment(alice: Person) -> None:
    car, box = garage(alice)
    kim = driver(alice)
    before = int(time.time())
    assignment = alice.assignment(car, kim.user)
    kim.fetch()
    (told,) = kim.held["keys"]
    claims = claims_of(raw(told["key"]))
    assert before <= claims["iat"] <= time.time()
    assert (claims["nbf"], claims["exp"]) == (claims["iat"], claims["iat"] + WEEK)
    assert claims["aud"] == told["box"] == box.challenge().name
    assert (claims["iss"], claims["sub"]) == (f"customer:{alice.customer}", kim.subject)
    assert (claims["assignment"], claims["rights"], claims["limit"]) == (assignment, [OPEN, CLOSE], 3 * DAY)
    assert claims["cnf"] == kim.key.public
    moments = {name: datetime.fromisoformat(told[name]).timestamp() for name in ("issued", "begins", "expires")}
    assert moments == {"issued": claims["iat"], "begins": claims["nbf"], "expires": claims["exp"]}
    assert datetime.fromisoformat(told["renewAfter"]).timestamp() == claims["iat"] + WEEK // 2
    assert (kim.held["withheld"], kim.held["isComplete"]) == ([], True)


def test_a_phone_gets_the_public_keys_of_its_boxes(alice: Person) -> None:
    """It uploads only entries that they have signed."""
    kim = driver(alice)
    boxes: dict[int, bytes] = {}
    for _ in range(2):
        car, box = garage(alice)
        alice.assignment(car, kim.user)
        boxes[box.product] = box.key.public.encoded
    assert {each["productId"]: raw(each["boxKey"]) for each in kim.fetch()["boxes"]} == boxes


def test_the_key_is_valid_within_the_assignment(alice: Person) -> None:
    car, box = garage(alice)
    now = datetime.now(UTC).replace(microsecond=0)
    kim = driver(alice)
    cases = {
        "begins later": (now + timedelta(hours=2), None, 8 * DAY),
        "ends before": (now - timedelta(days=3), now + timedelta(hours=5), 8 * DAY),
        "both": (now + timedelta(days=6), now + timedelta(days=7), 8 * DAY),
        "long": (now - timedelta(days=3), None, 28 * DAY - 1),
        "just long enough": (now + timedelta(days=8, minutes=-5), None, 8 * DAY),
        "too far away": (now + timedelta(days=8, minutes=5), None, 8 * DAY),
        "over": (now - timedelta(days=3), now - timedelta(seconds=1), 8 * DAY),
    }
    found: dict[str, int] = {}
    for name, (start, end, lifetime) in cases.items():
        members = {"end": text(end)} if end else {}
        found[name] = alice.assignment(car, kim.user, text(start), lifetime=lifetime, **members)
    kim.fetch()
    keys = {claims["assignment"]: claims for claims in map(claims_of, kim.keys(box))}
    assert found["too far away"] not in keys
    assert found["over"] not in keys
    assert len(keys) == 5
    for name, assignment in found.items():
        if (claims := keys.get(assignment)) is not None:
            start, end, lifetime = cases[name]
            assert claims["nbf"] == max(claims["iat"], start.timestamp()), name
            over = claims["iat"] + lifetime
            assert claims["exp"] == (min(over, end.timestamp()) if end else over), name


def test_the_same_key_until_it_is_renewed(alice: Person, clock: Clock) -> None:
    car, box = garage(alice)
    kim = driver(alice)
    alice.assignment(car, kim.user, lifetime=8 * DAY, renewableAfter=3_600)
    first = one_key(kim, box)
    clock.ahead = 3_599
    assert one_key(kim, box) == first
    clock.ahead = 3_600
    second = one_key(kim, box)
    assert second != first
    assert one_key(kim, box) == second
    assert claims_of(second)["exp"] - claims_of(first)["exp"] == claims_of(second)["iat"] - claims_of(first)["iat"]
    assert not is_revoked(alice, first), "it is what the phone has until it hears of the other one"
    assert kim.visit(box) is BoxRefusalCode.GOOD
    assert kim.open(box, key=first) is BoxRefusalCode.GOOD


def test_an_assignment_that_is_extended_has_a_new_key_at_once(alice: Person) -> None:
    car, box = garage(alice)
    kim = driver(alice)
    soon = datetime.now(UTC) + timedelta(days=1)
    assignment = alice.assignment(car, kim.user, end=text(soon))
    first = one_key(kim, box)
    changed(alice, assignment, end=text(soon + timedelta(days=2)))
    second = one_key(kim, box)
    assert claims_of(second)["exp"] - claims_of(first)["exp"] == 2 * DAY
    changed(alice, assignment, end=None)
    third = one_key(kim, box)
    assert claims_of(third)["exp"] == claims_of(third)["iat"] + WEEK
    changed(alice, assignment, lifetime=20 * DAY)
    fourth = one_key(kim, box)
    assert claims_of(fourth)["exp"] == claims_of(fourth)["iat"] + 20 * DAY
    assert [is_revoked(alice, one) for one in (first, second, third, fourth)] == [False] * 4
    assert revocations(alice, first) == []
    kim.bring(box)
    assert [kim.open(box, key=one) for one in (first, second, third, fourth)] == [BoxRefusalCode.GOOD] * 4
    changed(alice, assignment, renewableAfter=60)
    assert one_key(kim, box) == fourth, "it is not older than that"


def test_a_changed_policy_leads_to_new_keys(alice: Person, carol: Person, operator: Operator) -> None:
    car, box = garage(carol)
    kim = driver(carol)
    carol.assignment(car, kim.user)
    keys = [one_key(kim, box)]
    for words, limit, rights in (
        (("--limit", "96h"), 345_600, [OPEN, CLOSE]),
        (("--uncertain", "open"), 345_600, [OPEN, CLOSE, UNCERTAIN]),
        (("--limit", "off"), WEEK, [OPEN, CLOSE, UNCERTAIN]),
    ):
        operator.value("keys", "policy", "--customer", carol.customer, *words)
        keys.append(one_key(kim, box))
        assert (claims_of(keys[-1])["limit"], claims_of(keys[-1])["rights"]) == (limit, rights)
        assert one_key(kim, box) == keys[-1]
    assert len(set(keys)) == 4
    assert not any(is_revoked(carol, key) for key in keys)


def test_no_key_is_issued_without_an_enrolled_box(alice: Person, bob: Person) -> None:
    """There is no key for a car without a box, a box without enrolment, an IQ unit, or others' assignments."""
    kim, lee = driver(alice), driver(alice)
    unenrolled = alice.car()
    alice.box_in(unenrolled)
    unit = alice.car_with_box()
    alice.box_in(unit, "IQ")
    car, _ = garage(alice)
    for one in (unenrolled, unit):
        alice.assignment(one, kim.user)
    alice.assignment(car, lee.user)
    held = kim.fetch()
    assert (held["keys"], held["boxes"], held["withheld"]) == ([], [], [])
    his = driver(bob)
    bob.assignment(bob.car_with_box(), his.user)
    assert his.fetch() == {"keySet": None, "roots": [], "keys": [], "boxes": [], "withheld": [], "isComplete": True}


def test_unchanged_keys_are_answered_with_304(alice: Person, clock: Clock) -> None:
    car, box = garage(alice)
    kim = driver(alice)
    alice.assignment(car, kim.user)
    kim.fetch()
    first = kim.call("GET", "/sdk/keys", params={"device": kim.id})
    again = kim.call("GET", "/sdk/keys", params={"device": kim.id}, headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert first.headers["cache-control"] == "private, no-cache"
    clock.ahead = 300
    later = kim.call("GET", "/sdk/keys", params={"device": kim.id}, headers={"If-None-Match": first.headers["etag"]})
    assert later.status_code == 200
    assert later.json()["keys"] == first.json()["keys"]
    assert later.json()["boxes"] != first.json()["boxes"]  # of a later time
    assert box.product


BASE64URL = "The value must be base64url (RFC 4648, section 5) without padding, but "


@pytest.mark.parametrize(
    ("query", "hint"),
    [
        ("", "The parameter is missing."),
        ("?device=", "The value must be a device id from `PUT /sdk/devices`, which has 32 bytes."),
        ("?device=AA", "The value must be a device id from `PUT /sdk/devices`, which has 32 bytes."),
        ("?device=%FF", None),
        ("?device=" + "A" * 42 + "B", BASE64URL + "ends with a character whose unused bits are not zero."),
        ("?device=" + "A" * 43 + "=", BASE64URL + "contains '='."),
        ("?device=" + "A" * 43 + "&device=" + "A" * 43, "The parameter is given more than once."),
        ("?device=" + "A" * 5_000, BASE64URL + "has 5000 characters, and 2000 are the maximum."),
        ("?Device=" + "A" * 43, None),
        ("?device=" + "A" * 43 + "&$top=1", None),
    ],
)
def test_an_invalid_phone_id_is_refused(alice: Person, query: str, hint: str | None) -> None:
    kim = driver(alice)
    answer = kim.call("GET", "/sdk/keys" + query)
    assert answer.status_code == 400, answer.text
    if hint is not None:
        refused(answer, 400, DEVICE + hint)
