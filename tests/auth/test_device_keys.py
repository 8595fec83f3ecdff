"""B6: a device key opens one unit within its scopes.

A gateway's key opens all units of a customer.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from keyrack.core import secret_hashes
from keyrack.core.error_codes import NO_SCOPE
from keyrack.core.settings import Settings
from keyrack.db.connection import Database
from keyrack.db.group_commit import GroupCommitter
from keyrack.fleet.endpoints.cars import NO_CAR
from keyrack.telemetry.endpoints.events import TOO_EARLY
from keyrack.telemetry.endpoints.events import TOO_LATE as EVENT_TOO_LATE
from keyrack.telemetry.ingest import TOO_LATE, UNKNOWN_UNIT, Telemetry
from tests.cli.test_operator_commands import Operator
from tests.support.people import Person, refused
from tests.support.servers import eventually
from tests.telemetry.endpoints.test_ingest import ACCEPTED, Unit, ago, device_key, refusal, unit_of

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def operator(dsn: str) -> Operator:
    return Operator(dsn)


@pytest.fixture
def unit(alice: Person) -> Unit:
    """A unit with its own key, which has both scopes."""
    unit = unit_of(alice)
    unit.key = device_key(alice, unit.serial)
    return unit


@pytest.fixture
def other(alice: Person) -> Unit:
    return unit_of(alice)


def ahead(**how: float) -> str:
    """A time that is so far from now."""
    return (datetime.now(UTC) + timedelta(**how)).isoformat()


def event(car: int, user: int, at: str, **members: Any) -> dict[str, Any]:
    happened = {
        "dateTime": "2026-05-01T10:00:00",
        "utcDateTime": at,
        "carId": car,
        "userId": user,
        "userAgent": "tests",
    }
    return happened | {"clientId": f"e{next(_numbers)}"} | members


def deliver(person: Person, key: str, *events: Any, path: str = "events", **headers: str) -> httpx.Response:
    sent = {"Device-Key": key, "Content-Type": "application/x-ndjson"} | headers
    return person.client.post(f"/ingest/{path}", content="\n".join(map(json.dumps, events)), headers=sent)


# One unit


def test_the_key_of_a_unit_opens_that_unit_alone(unit: Unit, other: Unit) -> None:
    """B6: another unit of the customer is answered like one that does not exist."""
    assert unit.tell(3, oilLevel=1) == ACCEPTED
    by_id = {"uniqueId": f"unique-{unit.serial}", "carDataReadTime": ago(2), "oilLevel": 2}
    assert unit.deliver(by_id).json() == ACCEPTED
    theirs = unit.sample(1, oilLevel=9)
    answers = [
        unit.deliver(theirs | {"serialNumber": serial}).content
        for serial in (other.serial, "nobody", unit.serial + "x")
    ]
    assert [json.loads(answer) for answer in answers] == [refusal(UNKNOWN_UNIT)] * 3
    assert len(set(answers)) == 1
    unique = {"uniqueId": f"unique-{other.serial}", "carDataReadTime": ago(1), "oilLevel": 9}
    assert unit.deliver(unique).json() == refusal(UNKNOWN_UNIT)
    mixed = unit.deliver(theirs, theirs | {"serialNumber": other.serial}).json()
    assert mixed == {"accepted": 1, "duplicates": 0, "refused": [{"line": 2, "reason": UNKNOWN_UNIT}]}
    assert other.told("oilLevel") is None
    assert other.tell(1, oilLevel=4) == ACCEPTED, "a gateway's key opens all units"


def test_a_unit_with_another_number_keeps_its_key(unit: Unit, operator: Operator) -> None:
    """B6: the unit's names are cached with its key, and dropped when they change."""
    assert unit.tell(3, rpm=1) == ACCEPTED
    old, unit.serial = unit.serial, f"{unit.serial}-new"
    id = unit.person.sql.value("select product_id from product where serial_number = $1", old)
    unit.person.sql.execute("update product set serial_number = $2 where product_id = $1", id, unit.serial)
    eventually(lambda: unit.tell(2, rpm=2) == ACCEPTED, "the new number")
    assert unit.deliver(unit.sample(1) | {"serialNumber": old}).json() == refusal(UNKNOWN_UNIT)


def test_a_unit_reports_events_of_its_own_car_only(unit: Unit, other: Unit) -> None:
    """B6: another car of the customer is answered like one that does not exist; so is its own after the removal."""
    alice = unit.person
    user, at = alice.user(), ahead(hours=-1)
    mine, theirs, nobodys = (event(car, user, at) for car in (unit.car, other.car, 2**31 - 1))
    report = deliver(alice, unit.key, mine, theirs, nobodys).json()
    assert (report["accepted"], [entry["line"] for entry in report["events"]]) == (1, [1])
    assert report["refused"] == [{"line": 2, "reason": NO_CAR.text}, {"line": 3, "reason": NO_CAR.text}]
    assert deliver(alice, other.key, theirs).json()["accepted"] == 1, "a gateway tells of all cars"
    product = alice.get(f"/cars/{unit.car}/products").json()[0]["id"]
    alice.delete("/installations", {"carId": unit.car, "productId": product})
    assert deliver(alice, unit.key, mine).json()["duplicates"] == 1, "a repeat is harmless"
    assert deliver(alice, unit.key, event(unit.car, user, at)).json()["refused"] == [{"line": 1, "reason": NO_CAR.text}]


def test_units_may_use_the_same_client_id_for_events(unit: Unit, other: Unit) -> None:
    """B6: the same `clientId` of two units, or of a unit and a gateway, is two events."""
    alice = unit.person
    user, at = alice.user(), ahead(hours=-1)
    keys = (unit.key, device_key(alice, other.serial), other.key)
    events = [event(car, user, at, clientId="same") for car in (unit.car, other.car, other.car)]
    reports = [deliver(alice, key, happened).json() for key, happened in zip(keys, events, strict=True)]
    assert [(report["accepted"], report["duplicates"]) for report in reports] == [(1, 0)] * 3
    assert len({report["events"][0]["id"] for report in reports}) == 3
    assert deliver(alice, unit.key, events[0]).json()["events"] == reports[0]["events"]
    answer = deliver(alice, other.key, event(unit.car, user, at, clientId="1\x1fsame")).json()
    assert answer["refused"][0]["reason"].startswith("`clientId` contains")


# Scopes


def test_a_key_delivers_only_within_its_scopes(unit: Unit) -> None:
    """B6: 403 names the missing scope, after 401 and before anything is read."""
    alice = unit.person
    told, happened = unit.sample(1), event(unit.car, alice.user(), ahead(hours=-1))
    telemetry, events = device_key(alice, unit.serial, "telemetry"), device_key(alice, unit.serial, "events")
    assert deliver(alice, telemetry, told, path="telemetry").json() == ACCEPTED
    assert deliver(alice, events, happened).json()["accepted"] == 1
    refused(deliver(alice, telemetry, happened), 403, NO_SCOPE.format(scope="events"))
    refused(deliver(alice, events, told, path="telemetry"), 403, "The device key does not have the scope telemetry.")
    refused(deliver(alice, telemetry, "{", **{"Content-Type": "text/plain"}), 403, NO_SCOPE.format(scope="events"))
    assert deliver(alice, "wrong", told).status_code == 401


# Times


def test_the_time_of_delivered_events_is_limited(unit: Unit) -> None:
    """B6: at most five minutes ahead; events at most 90 days back. `PUT /events` of a manager has no such limits."""
    alice = unit.person
    user = alice.user()
    for at, reason in (
        (ahead(minutes=4), None),
        (ahead(minutes=6), EVENT_TOO_LATE),
        (ahead(days=-89), None),
        (ahead(days=-91), TOO_EARLY.format(days=90)),
    ):
        report = deliver(alice, unit.key, event(unit.car, user, at)).json()
        assert report["refused"] == ([{"line": 1, "reason": reason}] if reason else [])
        alice.event(unit.car, user, utcDateTime=at)
    sample = {"serialNumber": unit.serial, "rpm": 1}
    assert unit.deliver(sample | {"carDataReadTime": ahead(minutes=6)}).json() == refusal(TOO_LATE)
    assert unit.deliver(sample | {"carDataReadTime": ahead(minutes=4)}).json() == ACCEPTED


# The operator's commands


def test_a_key_is_made_for_one_unit_or_for_all(operator: Operator, unit: Unit) -> None:
    """B6: `device-key add` needs one of --serial-number and --gateway; `list` shows what each key opens."""
    alice = unit.person
    add = ("device-key", "add", "--customer", alice.customer)
    one = operator.value(*add, "--serial-number", unit.serial)
    both = operator.value(*add, "--serial-number", unit.serial, "--scope", "events", "--scope", "telemetry")
    all_ = operator.value(*add, "--gateway", "--scope", "events", "--name", "Depot")
    listed = {row["id"]: row for row in operator.value("device-key", "list", "--customer", alice.customer)}
    shown = [
        (listed[made["id"]]["serialNumber"], listed[made["id"]]["isGateway"], listed[made["id"]]["scopes"])
        for made in (one, both, all_)
    ]
    assert shown == [
        (unit.serial, False, ["telemetry"]),
        (unit.serial, False, ["events", "telemetry"]),
        (None, True, ["events"]),
    ]
    table = operator.quick("device-key", "list", "--customer", alice.customer)[1]
    assert "UNIT" in table and "SCOPES" in table and "all units" in table and "events, telemetry" in table
    assert deliver(alice, one["deviceKey"], unit.sample(2), path="telemetry").json() == ACCEPTED
    assert deliver(alice, all_["deviceKey"], event(unit.car, alice.user(), ahead(hours=-1))).json()["accepted"] == 1
    for wrong in ((), ("--gateway", "--serial-number", unit.serial)):
        assert "Choose either --serial-number" in operator.refused(*add, *wrong, status=2)
    assert "Invalid value for '--scope'" in operator.refused(*add, "--gateway", "--scope", "doors", status=2)
    text = f"keyrack: Customer {alice.customer} has no product with the serial number nobody.\n"
    assert operator.refused(*add, "--serial-number", "nobody") == text


def test_a_unit_of_another_customer_gets_no_key(operator: Operator, unit: Unit, bob: Person) -> None:
    """B6: a serial number is searched in the customer alone."""
    said = operator.refused("device-key", "add", "--customer", bob.customer, "--serial-number", unit.serial)
    assert said == f"keyrack: Customer {bob.customer} has no product with the serial number {unit.serial}.\n"


def test_a_key_of_an_earlier_release_opens_nothing_without_a_unit_and_scopes(operator: Operator, unit: Unit) -> None:
    """B6: as the migration leaves it, without a unit and without scopes."""
    alice, secret = unit.person, secret_hashes.new_secret()
    id = alice.sql.value(
        "insert into device_key (customer_id, hash) values ($1, $2) returning device_key_id",
        alice.customer,
        secret_hashes.digest(secret),
    )

    def told() -> httpx.Response:
        return deliver(alice, secret, unit.sample(1), path="telemetry")

    refused(told(), 403, "The device key does not have the scope telemetry.")
    table = operator.quick("device-key", "list", "--customer", alice.customer)[1]
    assert "none: see device-key change" in table
    assert "Choose either --serial-number" in operator.refused("device-key", "change", id, status=2)
    operator.value("device-key", "change", id, "--serial-number", unit.serial)
    eventually(lambda: told().status_code == 200, "the change")
    refused(deliver(alice, secret), 403, "The device key does not have the scope events.")
    operator.value("device-key", "change", id, "--gateway", "--scope", "events")
    eventually(lambda: told().status_code == 403, "the change")
    operator.value("device-key", "revoke", id)
    assert operator.refused("device-key", "change", id, "--gateway") == f"keyrack: device key {id} is revoked.\n"
    missing = operator.refused("device-key", "change", 2**31 - 1, "--gateway")
    assert missing == f"keyrack: There is no device key {2**31 - 1}.\n"


def test_a_key_ends_with_its_unit(operator: Operator, alice: Person) -> None:
    """B6: no key outlives what it opens."""
    product = alice.product("IQ", serial_number="gone")
    key = operator.value("device-key", "add", "--customer", alice.customer, "--serial-number", "gone")["deviceKey"]
    assert deliver(alice, key, path="telemetry").status_code == 200
    operator.value("product", "remove", product, "--yes")
    eventually(lambda: deliver(alice, key, path="telemetry").status_code == 401, "the end of the key")


# A state with readings of a wrong clock or a hostile key


def poison(dsn: str, unit: Unit, *samples: dict[str, Any]) -> None:
    """Store samples as a server did whose setting allowed clocks far ahead."""

    async def run() -> None:
        settings = Settings(max_clock_skew_seconds=10**7)
        database = await Database.connect(dsn, settings)
        try:
            report = await Telemetry(GroupCommitter(database), settings).ingest(
                unit.person.customer, json.dumps(samples).encode()
            )
            assert report.rejections == []
        finally:
            await database.close()

    asyncio.run(run())


def places(unit: Unit) -> tuple[Any, ...]:
    location = unit.get("location")
    return location["latitude"], location["odometer"], unit.told("oilLevel")


def test_a_poisoned_state_is_discarded(operator: Operator, unit: Unit, bob: Person, dsn: str) -> None:
    """B6: right readings appear again, at once and from then on. A neighbour's unit of the same number is untouched."""
    theirs = unit_of(bob)
    bob.sql.execute("update product set serial_number = $2 where serial_number = $1", theirs.serial, unit.serial)
    place = {"currentLatitude": 1, "currentLongitude": 1}
    unit.tell(9, odometer=10, oilLevel=1, **place)
    wrong = {"odometer": 999_999, "oilLevel": 9_999, "currentLatitude": 66, "currentLongitude": 66}
    for poisoned in (unit, theirs):
        poison(dsn, poisoned, {"serialNumber": unit.serial, "carDataReadTime": ahead(days=50), **wrong})
    unit.tell(5, odometer=11, oilLevel=2, currentLatitude=2, currentLongitude=1)
    assert places(unit) == ("66", "999999", 9_999), "nothing that is told now is newer"
    discard = ("telemetry", "discard", "--yes", "--customer", unit.person.customer, "--serial-number", unit.serial)
    said = operator.quick(*discard)[1]
    assert said.startswith(f"The newest state of car {unit.car} is discarded. Discarded readings from ")
    assert places(unit) == (None, None, None)
    assert unit.get(f"location/{ahead(days=60)[:19]}Z")["latitude"] == "2", "history has what was told before"
    unit.tell(4, oilLevel=3)
    unit.tell(3, odometer=12, currentLatitude=3, currentLongitude=1)
    assert places(unit) == ("3", "12", 3)
    theirs.serial = unit.serial
    assert places(theirs) == ("66", "999999", 9_999)
    assert operator.value(*discard) == {"carId": unit.car, "discarded": True, "readings": 0}
    assert operator.value(*discard) == {"carId": unit.car, "discarded": False, "readings": 0}, "there is nothing more"


def test_readings_of_a_hostile_key_are_discarded_from_a_time_on(operator: Operator, unit: Unit) -> None:
    """B6: --from discards readings of the past too."""
    unit.tell(30, odometer=10, currentLatitude=1, currentLongitude=1)
    unit.tell(10, odometer=666, currentLatitude=66, currentLongitude=1)
    discard = ("telemetry", "discard", "--yes", "--customer", unit.person.customer, "--serial-number", unit.serial)
    assert operator.value(*discard, "--from", ago(20))["readings"] == 2
    assert (unit.get(f"location/{ahead()[:19]}Z")["latitude"], places(unit)) == ("1", (None, None, None))
    operator.value(*discard, "--from", "2026-01-01")
    assert unit.get(f"location/{ahead()[:19]}Z")["latitude"] is None
    assert operator.quick(*discard)[1].startswith(f"Car {unit.car} has no newest state to discard. Discarded")
    unit.tell(9, odometer=11, currentLatitude=2, currentLongitude=1)
    assert places(unit) == ("2", "11", None)


def test_equal_readings_before_that_time_are_kept(operator: Operator, unit: Unit) -> None:
    """B6: equal readings are stored together, and still only those from that time on are discarded."""
    for minutes in (50, 40, 30, 20, 10):
        unit.tell(minutes, odometer=7, currentLatitude=1, currentLongitude=1)
    discard = ("telemetry", "discard", "--yes", "--customer", unit.person.customer, "--serial-number", unit.serial)
    assert operator.value(*discard, "--from", ago(25))["readings"] == 4
    told = unit.get(f"location/{ahead()[:19]}Z")
    assert told["date"] == told["odometerDate"] == ago(30)


def test_a_discard_without_a_unit_in_a_car_is_refused(operator: Operator, alice: Person, bob: Person) -> None:
    """B6: refused with a message."""
    box, spare = f"box{next(_numbers)}", f"spare{next(_numbers)}"
    alice.product("Box", serial_number=box)
    alice.product("IQ", serial_number=spare)
    for customer, serial in ((alice.customer, box), (alice.customer, "nobody"), (bob.customer, spare)):
        said = operator.refused("telemetry", "discard", "--customer", customer, "--serial-number", serial)
        assert said == f"keyrack: Customer {customer} has no IQ unit with the serial number {serial}.\n"
    said = operator.refused("telemetry", "discard", "--customer", alice.customer, "--serial-number", spare)
    assert said == f"keyrack: Unit {spare} is not installed in a car, so there is no state to discard.\n"
