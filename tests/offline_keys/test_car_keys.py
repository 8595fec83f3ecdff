"""The issued keys of a car.

`opensUntil` is the formula of docs/keys.md, to the second.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from keyrack.api.permissions import Role
from keyrack.offline_keys import cose
from keyrack.offline_keys.box import firmware
from keyrack.offline_keys.message_fields import KEY
from keyrack.offline_keys.refusal_codes import BoxRefusalCode
from tests.auth.group_scope import limited, put
from tests.cli.test_operator_commands import Operator
from tests.offline_keys.inspection import Logbook, changed, clock, is_revoked, listed, one_key, text
from tests.offline_keys.offline_world import DAY, Firmware, Phone, driver, garage
from tests.support.log_lines import captured_events
from tests.support.people import JOIN, Person, Town, done, refused
from tests.support.servers import eventually

__all__ = ["clock"]
NO_CAR = "Unable to find a car for the given carId which is assigned to the given customerId."
TOLERANCE = 300


@dataclass
class Keyed:
    car: int
    box: Firmware
    kim: Phone
    assignment: int
    key: bytes


@pytest.fixture
def keyed(alice: Person) -> Keyed:
    car, box = garage(alice)
    kim = driver(alice)
    assignment = alice.assignment(car, kim.user)
    return Keyed(car, box, kim, assignment, one_key(kim, box))


@pytest.fixture(scope="module")
def operator(dsn: str) -> Operator:
    return Operator(dsn)


def shown(person: Person, car: int) -> dict[str, Any]:
    (row,) = person.get(f"/cars/{car}/keys").json()
    return row


def seconds(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp()


def test_an_issued_key_is_listed_with_its_car(alice: Person, keyed: Keyed) -> None:
    claims = cose.read(keyed.key, KEY).claims
    row = shown(alice, keyed.car)
    assert row | dict.fromkeys(("issued", "begins", "expires", "opensUntil"), 0) == {
        "id": str(UUID(bytes=claims["cti"])), "assignmentId": keyed.assignment, "userId": keyed.kim.user,
        "deviceId": keyed.kim.id, "deviceName": "Phone", "productId": keyed.box.product,
        "epoch": int(claims["aud"].split(":")[2]),
        "issued": 0, "begins": 0, "expires": 0, "revoked": None, "isKnownToBox": False, "opensUntil": 0,
        "canPowerLossExtend": False,
    }  # fmt: skip
    times = [seconds(row[name]) for name in ("issued", "begins", "expires", "opensUntil")]
    assert times == [claims["iat"], claims["nbf"], claims["exp"], claims["exp"] + TOLERANCE]


def test_a_revoked_key_opens_until_its_limit(carol: Person, operator: Operator) -> None:
    car, box = garage(carol)
    operator.value("keys", "policy", "--customer", carol.customer, "--limit", "2d")
    kim = driver(carol)
    assignment = carol.assignment(car, kim.user)
    key = one_key(kim, box)
    assert kim.visit(box) is BoxRefusalCode.GOOD
    done(carol.delete(f"/users/{kim.user}/devices/{kim.id}"))
    row = shown(carol, car)
    revoked = seconds(row["revoked"])
    assert row["isKnownToBox"] is False
    assert seconds(row["opensUntil"]) == pytest.approx(revoked + 2 * DAY + TOLERANCE)
    # The box does what the answer predicts if its clock is right
    listed_at = box.challenge().listed
    box.tick += int(revoked - box.challenge().time) + 1
    box.tick += int(seconds(row["opensUntil"]) - box.challenge().time) - 2 * TOLERANCE
    assert kim.open(box, key=key) is BoxRefusalCode.GOOD
    box.tick += 2 * TOLERANCE
    assert kim.open(box, key=key) is BoxRefusalCode.STALE
    assert listed_at <= revoked
    # The end of the key counts if it is earlier
    later = driver(carol)
    carol.assignment(car, later.user, end=text(datetime.fromtimestamp(revoked + 3_600).astimezone()))
    ended = one_key(later, box)
    done(carol.delete(f"/users/{later.user}/devices/{later.id}"))
    rows = {row["userId"]: row for row in carol.get(f"/cars/{car}/keys").json()}
    until = cose.read(ended, KEY).claims["exp"] + TOLERANCE
    assert seconds(rows[later.user]["opensUntil"]) == until
    assert assignment == rows[kim.user]["assignmentId"]


def test_the_answer_shows_whether_the_box_knows_a_revocation(alice: Person, keyed: Keyed) -> None:
    lee = driver(alice)
    alice.assignment(keyed.car, lee.user)
    changed(alice, keyed.assignment, end="2026-01-02T00:00:00Z")
    assert is_revoked(alice, keyed.key)
    lee.fetch()
    assert lee.visit(keyed.box) is BoxRefusalCode.GOOD
    rows = {row["userId"]: row for row in alice.get(f"/cars/{keyed.car}/keys").json()}
    assert rows[keyed.kim.user]["isKnownToBox"] is False, "nobody has heard of the box yet"
    lee.home()
    rows = {row["userId"]: row for row in alice.get(f"/cars/{keyed.car}/keys").json()}
    held = listed(alice, keyed.box.product).claims["iat"]
    assert rows[keyed.kim.user]["isKnownToBox"] is True
    assert seconds(rows[keyed.kim.user]["opensUntil"]) == held
    assert rows[lee.user]["isKnownToBox"] is False
    assert keyed.kim.open(keyed.box, key=keyed.key) is BoxRefusalCode.REVOKED


def test_a_list_from_before_the_revocation_does_not_show_it(alice: Person, keyed: Keyed) -> None:
    """Lists get ahead of the clock if much is revoked within a second.

    A list from before a revocation never counts as one that shows it.
    """
    phones = [driver(alice) for _ in range(4)]
    for one in phones:
        alice.assignment(keyed.car, one.user)
        one.fetch()
    before = [listed(alice, keyed.box.product)]
    for one in phones[:3]:
        done(one.call("DELETE", f"/sdk/devices/{one.id}"))
        before.append(listed(alice, keyed.box.product))
    assert keyed.box.carry(before[-1].raw) == 0
    done(keyed.kim.call("DELETE", f"/sdk/devices/{keyed.kim.id}"))
    lee = phones[3]
    assert lee.open(keyed.box) is BoxRefusalCode.GOOD
    lee.entries = keyed.box.fetch(1)
    lee.home()
    assert keyed.kim.open(keyed.box, key=keyed.key) is BoxRefusalCode.GOOD
    rows = {row["userId"]: row for row in alice.get(f"/cars/{keyed.car}/keys").json()}
    assert rows[keyed.kim.user]["isKnownToBox"] is False


def test_a_power_loss_can_extend_a_key_for_an_uncertain_clock(carol: Person, operator: Operator) -> None:
    car, box = garage(carol)
    operator.value("keys", "policy", "--customer", carol.customer, "--uncertain", "open")
    kim, lee = driver(carol), driver(carol)
    for phone in (kim, lee):
        carol.assignment(car, phone.user)
        phone.fetch()
    assert {row["canPowerLossExtend"] for row in carol.get(f"/cars/{car}/keys").json()} == {True}
    done(carol.delete(f"/users/{kim.user}/devices/{kim.id}"))
    key = kim.keys(box)[0]
    path = f"/cars/{car}/keys?$filter=userId eq {kim.user}"
    (row,) = carol.get(path).json()
    assert (row["isKnownToBox"], row["canPowerLossExtend"]) == (False, True)
    # The power is off until long after the last moment, and the clock stands still
    assert kim.visit(box) is BoxRefusalCode.GOOD
    box.state = firmware.start(box.state.kept, 0, None, box)
    box.tick = 0
    box.come_again()
    assert seconds(row["opensUntil"]) > box.challenge().time
    assert kim.open(box, key=key) is BoxRefusalCode.GOOD
    # A box that knows the revocation refuses the key, whatever its clock is
    eventually(
        lambda: datetime.now(UTC) > datetime.fromisoformat(row["revoked"]) + timedelta(seconds=2), "a later list"
    )
    lee.fetch()
    assert lee.visit(box) is BoxRefusalCode.GOOD
    lee.home()
    (row,) = carol.get(path).json()
    assert (row["isKnownToBox"], row["canPowerLossExtend"]) == (True, False)
    assert (
        carol.get(f"/cars/{car}/keys", params={"$filter": "canPowerLossExtend eq true"}).json()[0]["userId"] == lee.user
    )


FAR = 10_628_000_000  # the year 2306


@pytest.mark.parametrize("claim", ["later", "far", "next generation", "largest generation"])
def test_a_list_that_the_server_never_signed_does_not_count(alice: Person, keyed: Keyed, claim: str) -> None:
    """A thief of an issuing key signs lists of the future, which unmark revocations."""
    book, lee = Logbook(keyed.box), driver(alice)
    done(alice.delete(f"/users/{keyed.kim.user}/devices/{keyed.kim.id}"))
    newest = listed(alice, keyed.box.product).claims["iat"]
    forged = {
        "later": (1, 1, newest + 1), "far": (1, 1, FAR), "next generation": (1, 2, newest),
        "largest generation": (1, (1 << 53) - 1, newest),
    }[claim]  # fmt: skip

    def brought(held: tuple[int, int, int]) -> dict[str, Any]:
        lee.entries = [book.entry(held=held)]
        lee.home()
        return shown(alice, keyed.car)

    before = shown(alice, keyed.car)["opensUntil"]
    assert brought((1, 1, newest))["isKnownToBox"] is True
    with captured_events("box log fault found") as logs:
        row = brought(forged)
    assert (row["isKnownToBox"], row["opensUntil"]) == (False, before)
    assert [(line["kind"], line["alert"]) for line in logs] == [("UnknownList", True)]
    reports = alice.get(f"/boxes/{keyed.box.product}/enrolment").json()["log"]["reports"]
    assert [(report["kind"], report["number"]) for report in reports] == [("UnknownList", 2)]
    alice.sql.execute(  # the claimed time is in the past by then
        "update status_generation set listed_at = '2400-01-01' where customer_id = $1 and product_id = $2",
        alice.customer,
        keyed.box.product,
    )
    assert shown(alice, keyed.car)["isKnownToBox"] is False, "the server's own lists reach the time"
    assert brought((1, 1, newest))["isKnownToBox"] is True, "the box has a list of the server again"


def test_an_entry_may_be_reported_for_its_list_and_for_its_key(alice: Person, keyed: Keyed) -> None:
    keyed.kim.entries = [Logbook(keyed.box).opening(keyed.key, cti=bytes(16), held=((1 << 53) - 1, 1, 1))]
    keyed.kim.home()
    reports = alice.get(f"/boxes/{keyed.box.product}/enrolment").json()["log"]["reports"]
    assert {report["kind"] for report in reports} == {"UnknownKey", "UnknownList"}


def test_permissions_for_the_keys_of_a_car(alice: Person, bob: Person, town: Town, keyed: Keyed) -> None:
    path = f"/cars/{keyed.car}/keys"
    his, nobodys = bob.get(path), bob.get("/cars/2147483647/keys")
    refused(his, 404, NO_CAR)
    assert his.text == nobodys.text
    dispatcher = town.person("dan", Role.DISPATCHER)
    alice.sql.execute(JOIN, dispatcher.username, alice.customer, Role.DISPATCHER)
    dispatcher.headers["Customer-ID"] = str(alice.customer)
    assert len(dispatcher.get(path).json()) == 1
    cars, users = alice.group(), alice.group()
    put(alice, cars, "carId", keyed.car)
    put(alice, users, "userId", keyed.kim.user)
    assert len(limited(town, alice, "both", [cars, users]).get(path).json()) == 1
    only = limited(town, alice, "cars", [cars]).get(path)
    assert [row["userId"] for row in only.json()] in ([], [None], [0]), "a user beyond the limit is not named"
    refused(limited(town, alice, "users", [users]).get(path), 404, NO_CAR)


def test_the_keys_of_a_car_can_be_filtered_and_sorted(alice: Person, keyed: Keyed) -> None:
    path = f"/cars/{keyed.car}/keys"
    assert (
        len(alice.get(path, params={"$filter": "revoked eq null and opensUntil gt 2026-01-01T00:00:00Z"}).json()) == 1
    )
    assert alice.get(path, params={"$filter": "isKnownToBox eq true"}).json() == []
    assert alice.get(path, params={"$filter": f"deviceId eq '{keyed.kim.id}'", "$select": "userId"}).json() == [
        {"userId": keyed.kim.user}
    ]
    answer = alice.get(path, params={"$orderby": "opensUntil desc,issued", "$top": "1", "$count": "true"})
    assert answer.headers["x-total-count"] == "1"
    for query in (
        "?$filter=token eq 'x'",
        "?$select=token",
        "?$orderby=place",
        "?$filter=device_id eq 'x'",
        "?$top=-1",
    ):
        assert alice.get(path + query).status_code == 400, query
    again = alice.get(path, headers={"If-None-Match": alice.get(path).headers["etag"]})
    assert again.status_code == 304


def test_any_claimed_list_of_a_box_gets_an_answer(alice: Person, keyed: Keyed) -> None:
    """A box that was opened by force can claim a list of any time. No answer fails because of that."""
    book = Logbook(keyed.box)
    done(keyed.kim.call("DELETE", f"/sdk/devices/{keyed.kim.id}"))
    lee = driver(alice)
    for held in ((1, 1, 253_402_214_400), (1, (1 << 53) - 1, 1), (1, 1, (1 << 53) - 1)):
        lee.entries = [book.entry(held=held)]
        lee.home()
        assert alice.get(f"/cars/{keyed.car}/keys").status_code == 200
