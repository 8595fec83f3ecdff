"""Personal data of keys and phones: included in exports, deleted by erasure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from uuid import UUID

import pytest

from keyrack.core.settings import Settings
from keyrack.fleet import person_erasure
from keyrack.offline_keys import cose
from keyrack.offline_keys.message_fields import KEY
from tests.cli.test_operator_commands import Operator
from tests.offline_keys.inspection import is_revoked, one_key, tended
from tests.offline_keys.offline_world import Firmware, Phone, driver, garage, raw
from tests.support.people import Person, done
from tests.support.servers import NUMBERS, eventually

NAME = "The phone of Kim Privat"
TABLES = ("change", "change_inbox", "box_key", "app_device", "app_subject")
INBOX = "select exists (select from change_inbox where customer_id = $1)"


@pytest.fixture(scope="module")
def operator(dsn: str) -> Operator:
    return Operator(dsn)


@dataclass
class Somebody:
    person: Person
    email: str
    car: int
    box: Firmware
    phone: Phone
    key: bytes

    def everything(self) -> dict[str, str]:
        """All data of the customer, by its place."""
        customer = self.person.customer
        eventually(lambda: not self.person.sql.value(INBOX, customer), "the numbers of changes")
        found: dict[str, str] = {}
        after = 0
        while True:
            answer = self.person.get("/changes", params={"$filter": f"id gt {after}", "$top": "500", "$orderby": "id"})
            assert answer.status_code == 200, answer.text
            if not answer.json():
                break
            found["changes"] = found.get("changes", "") + answer.text
            after = int(answer.json()[-1]["id"])
        for table in TABLES:
            rows = self.person.sql.rows(f"select t::text as row from {table} t where customer_id = $1", customer)
            found[table] = "\n".join(row["row"] for row in rows)
        return found


@pytest.fixture
def kim(carol: Person) -> Somebody:
    email = f"kim.privat.{next(NUMBERS)}@example.org"
    car, box = garage(carol)
    phone = driver(carol, carol.user(email))
    phone.register(NAME)
    carol.assignment(car, phone.user)
    key = one_key(phone, box)
    phone.register(NAME + " II")
    return Somebody(carol, email, car, box, phone, key)


def test_an_export_has_all_data_of_a_person(kim: Somebody, operator: Operator) -> None:
    told = operator.value("user", "export", kim.email)
    claims = cose.read(kim.key, KEY).claims
    (device,), (key,) = told["devices"], told["keys"]
    thumbprint = kim.phone.key.public.thumbprint.hex()
    assert device | {"registered": ""} == {
        "customerId": kim.person.customer, "thumbprint": thumbprint, "name": NAME + " II",
        "claimedProtection": "Software", "registered": "", "isApproved": True,
    }  # fmt: skip
    assert (key["id"], key["carId"], key["productId"]) == (str(UUID(bytes=claims["cti"])), kim.car, kim.box.product)
    assert (key["assignmentId"], key["thumbprint"], key["revoked"]) == (claims["assignment"], thumbprint, None)
    (customer,) = told["customers"]
    assert customer["subject"] == kim.phone.subject
    text = json.dumps(told)
    assert kim.key.hex() not in text
    (box,) = kim.phone.held["boxes"]
    assert box["names"]
    assert not any(name["key"] in text or raw(name["key"]).hex() in text for name in box["names"])


def test_the_preview_of_an_erasure_counts_keys_and_phones(kim: Somebody) -> None:
    goes = {one["kind"]: one["count"] for one in kim.person.get(f"/users/{kim.phone.user}/erasure").json()["goes"]}
    assert (goes["devices"], goes["keys"]) == (1, 1)


def is_erased(kim: Somebody, dsn: str, settings: Settings) -> bool:
    """Run the step of housekeeping. Returns whether the change log no longer names the person."""
    tended(dsn, settings, person_erasure.finish)
    return kim.email not in kim.everything()["changes"]


@pytest.mark.parametrize("by", ["manager", "operator"])
def test_an_erased_person_is_named_nowhere(
    kim: Somebody, operator: Operator, dsn: str, settings: Settings, by: str
) -> None:
    before = kim.everything()
    assert kim.email in before["changes"], "else this test looks at nothing"
    assert NAME in before["app_device"]
    user = kim.phone.user
    if by == "manager":
        done(kim.person.post(f"/users/{user}/erase"))
    else:
        operator.value("user", "erase", user, "--yes")
    eventually(lambda: kim.person.get(f"/cars/{kim.car}/assignments").json() == [], "the end of the assignment")
    eventually(lambda: is_erased(kim, dsn, settings), "the erasure")  # changes without a number are left for later
    after = kim.everything()
    for where, text in after.items():
        assert kim.email not in text, where
        assert "Privat" not in text, where
    assert (after["app_device"], after["app_subject"]) == ("", "")
    (row,) = kim.person.sql.rows("select * from box_key where customer_id = $1", kim.person.customer)
    assert (row["user_id"], row["token"], row["car_id"]) == (0, b"", kim.car)
    assert row["revoked_at"] is not None
    assert is_revoked(kim.person, kim.key)
    changes = kim.person.get("/changes", params={"$filter": "resource eq 'key' or resource eq 'device'"}).json()
    assert {change["kind"] for change in changes} >= {"key.issued", "key.revoked", "device.created", "device.deleted"}
    for change in changes:
        for side in ("before", "after"):
            assert "userId" not in (change[side] or {})
            assert NAME not in json.dumps(change)
    if by == "manager":  # the person may belong to another customer
        told = operator.value("user", "export", user)
        assert (told["devices"], told["keys"], told["customers"]) == ([], [], [])
    else:
        assert operator.refused("user", "export", user) == f"keyrack: There is no user {user}.\n"
    (told,) = kim.person.get(f"/cars/{kim.car}/keys").json()
    assert told["userId"] in (0, None)


def test_an_erased_person_who_rejoins_has_no_keys(kim: Somebody, dsn: str, settings: Settings) -> None:
    user = kim.phone.user
    done(kim.person.post(f"/users/{user}/erase"))
    tended(dsn, settings, person_erasure.finish)
    if kim.person.put("/users/assignments/customers", {"emailAddress": kim.email}).status_code != 204:
        kim.phone.user = kim.person.user(kim.email)
    kim.phone.sign_in()
    assert kim.phone.call("GET", "/sdk/devices").json() == []
    kim.phone.register("Another")
    assert kim.phone.fetch()["keys"] == []


def test_names_of_phones_are_in_no_log(kim: Somebody) -> None:
    found = kim.everything()
    for where in ("changes", "change", "change_inbox", "box_key", "app_subject"):
        assert NAME not in found[where], where
    assert kim.key.hex() not in found["changes"]
