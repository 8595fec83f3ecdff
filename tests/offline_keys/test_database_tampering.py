"""Attackers with write access to the database cannot issue keys.

They have no master key.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from keyrack.offline_keys import cose
from keyrack.offline_keys.issuing_keys import issuer, load_authority
from keyrack.offline_keys.message_fields import KEY_SET, ROOT
from keyrack.offline_keys.p256 import PrivateKey
from keyrack.offline_keys.refusal_codes import BoxRefusalCode
from tests.cli.test_operator_commands import Operator
from tests.offline_keys.inspection import Logbook, listed
from tests.offline_keys.offline_world import Phone, b64, visited
from tests.offline_keys.test_pending_enrolments import enrolled_from_afar
from tests.support.people import NUMBERS, Person, Town, refused
from tests.support.servers import eventually

INCONSISTENT = "The box keys in the database do not match the sealed keys."
ATTACKER = PrivateKey.generate()
NONCE = b64(bytes(16))


def change_issuing_key(person: Person) -> None:
    person.sql.execute(
        "update issuing_key set public_key = $2 where customer_id = $1 and revoked_at is null",
        person.customer, load_authority(ATTACKER.public),
    )  # fmt: skip


def change_service_key(person: Person) -> None:
    person.sql.execute(
        "update service_key set public_key = $2 where customer_id = $1 and revoked_at is null",
        person.customer, load_authority(ATTACKER.public),
    )  # fmt: skip


def add_service_key(person: Person) -> None:
    """A service key of the attacker, with the sealed private key of another one."""
    person.sql.execute(
        "insert into service_key (customer_id, private_key, public_key)"
        " select customer_id, private_key, $2 from service_key where customer_id = $1",
        person.customer, load_authority(ATTACKER.public),
    )  # fmt: skip


def add_new_root(person: Person) -> None:
    """A new root of the attacker, signed by the attacker."""
    claims = {"iss": issuer(person.customer), "iat": 1_800_000_000, "sequence": 999_999, "root": ATTACKER.public}
    person.sql.execute(
        "insert into new_root (customer_id, sequence, message) values ($1, 999999, $2)",
        person.customer, cose.sign(ROOT, ATTACKER.public.kid, claims, ATTACKER.sign),
    )  # fmt: skip


def change_root(person: Person) -> None:
    person.sql.execute(
        "update key_authority set public_key = $2 where customer_id = $1",
        person.customer, load_authority(ATTACKER.public),
    )  # fmt: skip


def change_key_set(person: Person) -> None:
    """A key set with the attacker's key, signed as by a second root."""
    claims: dict[str, Any] = {
        "iss": issuer(person.customer),
        "iat": 1_800_000_000,
        "sequence": 1_000_000,
        "keys": [ATTACKER.public],
    }
    claims["service-keys"] = [ATTACKER.public]
    person.sql.execute(
        "update key_authority set sequence = 1000000, key_set = $2 where customer_id = $1",
        person.customer, cose.sign(KEY_SET, ATTACKER.public.kid, claims, ATTACKER.sign),
    )  # fmt: skip


def change_root_and_key_set(person: Person) -> None:
    change_root(person)
    change_key_set(person)


def restore_first_key_set(person: Person) -> None:
    """A true key set from before a rotation."""
    person.sql.execute("update key_authority set key_set = '\\x00' where customer_id = $1", person.customer)


CHANGES = (
    change_issuing_key,
    change_service_key,
    add_new_root,
    change_root,
    change_key_set,
    change_root_and_key_set,
    restore_first_key_set,
)


def findings(operator: Operator, person: Person) -> list[str]:
    """The faults that doctor finds in the customer's keys."""
    _, output, errors = operator.quick("doctor", "--json")
    assert errors == ""
    checks: list[dict[str, Any]] = json.loads(output)["checks"]
    texts = [check["text"] for check in checks if check["check"] == "box-keys" and check["result"] == "fault"]
    return [text for text in texts if f"customer {person.customer}" in text]


@pytest.fixture
def operator(dsn: str) -> Operator:
    return Operator(dsn)


@pytest.fixture
def person(town: Town) -> Person:
    """A manager of a separate customer."""
    return town.person(f"tampering{next(NUMBERS)}")


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_changed_keys_are_refused_reported_and_repaired(
    person: Person, operator: Operator, change: Callable[[Person], None]
) -> None:
    box, phone = visited(person)
    assert findings(operator, person) == []
    change(person)
    assert len(findings(operator, person)) == 1
    refused(person.get(f"/boxes/{box.product}/provisioning", params={"nonce": NONCE}), 503, INCONSISTENT)
    refused(phone.call("GET", "/sdk/keys", params={"device": phone.id}), 503, INCONSISTENT)
    of = ("--customer", person.customer)
    assert INCONSISTENT in operator.refused("keys", "rotate", *of)

    operator.value("keys", "rotate", *of, "--revoke", "--yes")
    assert findings(operator, person) == []
    phone.fetch()
    assert phone.visit(box) is BoxRefusalCode.GOOD
    shown = phone.held["keySet"] + phone.held["keys"][0]["key"]
    assert b64(ATTACKER.public.x) not in shown
    box.provision(person)


def test_a_sealed_key_of_another_row_does_not_open(person: Person, operator: Operator) -> None:
    box, phone = visited(person)
    add_service_key(person)
    assert len(findings(operator, person)) == 1
    for answer in (
        person.get(f"/boxes/{box.product}/provisioning", params={"nonce": NONCE}),
        phone.call("GET", "/sdk/keys", params={"device": phone.id}),
    ):
        assert answer.status_code == 503
    operator.value("keys", "rotate", "--customer", person.customer, "--revoke", "--yes")
    assert findings(operator, person) == []
    phone.fetch()
    assert phone.visit(box) is BoxRefusalCode.GOOD


def test_another_public_key_of_a_phone_gets_no_key(person: Person, operator: Operator) -> None:
    box, phone = visited(person)
    person.sql.execute(
        "update app_device set public_key = $2 where customer_id = $1", person.customer, load_authority(ATTACKER.public)
    )
    refused(phone.call("GET", "/sdk/keys", params={"device": phone.id}), 503, INCONSISTENT)
    assert len(findings(operator, person)) == 1
    assert phone.open(box) is BoxRefusalCode.GOOD
    changes = eventually(lambda: changes_of(person, phone), "the change of its key")
    assert changes[-1]["after"] == {"otherPublicKey": load_authority(ATTACKER.public).hex()}


def changes_of(person: Person, phone: Phone) -> list[dict[str, Any]]:
    """The recorded changes of a phone, without its registration."""
    query = f"/changes?$filter=resource eq 'device' and resourceId eq '{phone.id}'&$orderby=id"
    return person.get(query).json()[1:]


def test_lists_from_the_future_and_shared_uris_are_found(person: Person, operator: Operator) -> None:
    visited(person)
    assert findings(operator, person) == []
    person.sql.execute(
        "update box_epoch set held_at = now() + interval '1 day' where customer_id = $1", person.customer
    )
    person.sql.execute(
        "insert into status_generation (customer_id, product_id, epoch, generation, uri)"
        " select customer_id, product_id, epoch, generation + 1, uri from status_generation where customer_id = $1",
        person.customer,
    )
    assert len(findings(operator, person)) == 2


@pytest.mark.parametrize(
    "claim",
    [
        "held_sequence = 2147483647",
        "held_generation = held_generation + 1",
        "held_at = held_at + interval '10 minutes'",
    ],
)
def test_claims_that_the_server_has_not_signed_are_found(person: Person, operator: Operator, claim: str) -> None:
    """A box in an existing database claims more than the server has."""
    box, phone = visited(person)
    phone.home()
    assert findings(operator, person) == []
    person.sql.execute(f"update box_epoch set {claim} where customer_id = $1", person.customer)
    (text,) = findings(operator, person)
    assert f"box {box.product} in epoch" in text
    phone.visit(box)
    phone.home()
    assert findings(operator, person) == [], "the box has said since what it has"


def test_a_claim_stays_found_when_the_lists_of_the_server_reach_it(person: Person, operator: Operator) -> None:
    box, phone = visited(person)
    newest = listed(person, box.product).claims["iat"]
    phone.entries = [Logbook(box).entry(held=(1, 1, newest + 60))]
    phone.home()
    person.sql.execute(
        "update status_generation set listed_at = listed_at + interval '120 s' where customer_id = $1", person.customer
    )
    (text,) = findings(operator, person)
    assert f"box {box.product} in epoch" in text


def test_a_box_in_use_is_checked_during_a_pending_enrolment(person: Person, operator: Operator) -> None:
    box, phone = visited(person)
    phone.home()
    person.sql.execute("update box_key set is_placed = false where customer_id = $1", person.customer)
    person.sql.execute("update box_epoch set held_sequence = 2147483647 where customer_id = $1", person.customer)
    assert enrolled_from_afar(person, box.product, ATTACKER).json()["isPending"] is True
    (text,) = findings(operator, person)
    assert f"box {box.product} in epoch" in text


def test_other_customers_still_get_keys(town: Town, person: Person, operator: Operator) -> None:
    other = town.person(f"tampering{next(NUMBERS)}")
    box, phone = visited(other)
    visited(person)
    change_root(person)
    phone.fetch()
    box.provision(other)
    assert findings(operator, other) == []
