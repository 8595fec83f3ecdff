"""`keyrack keys`: signing keys, the policy of a customer, and changes of both."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from keyrack.offline_keys import cose
from keyrack.offline_keys.message_fields import KEY, KEY_SET, STATUS_LIST
from keyrack.offline_keys.refusal_codes import BoxRefusalCode
from tests.cli.test_operator_commands import Operator
from tests.offline_keys.inspection import is_revoked, listed, one_key, revocations
from tests.offline_keys.offline_world import Firmware, Phone, driver, garage, raw, visited
from tests.support.people import Person
from tests.support.servers import eventually


@pytest.fixture(scope="module")
def operator(dsn: str) -> Operator:
    return Operator(dsn)


@pytest.fixture(scope="module")
def enrolled(alice: Person) -> Person:
    """A manager whose customer has a key authority."""
    garage(alice)
    return alice


def key_set(kim: Phone) -> list[bytes]:
    """The issuing keys that the phone carries to boxes; the newest one is last."""
    return [key.kid for key in cose.read(raw(kim.fetch()["keySet"]), KEY_SET).claims["keys"]]


def keys_of(operator: Operator, person: Person, kind: str = "issuing") -> list[dict[str, Any]]:
    """The keys of this kind, newest first."""
    return [key for key in operator.value("keys", "list", "--customer", person.customer) if key["kind"] == kind]


def test_who_has_no_authority(carol: Person, operator: Operator) -> None:
    none = f"keyrack: Customer {carol.customer} has no key authority yet. Enrolling the first box creates it.\n"
    of = ("--customer", carol.customer)
    assert operator.refused("keys", "show", *of) == none
    assert operator.refused("keys", "policy", *of, "--limit", "2d") == none
    assert operator.refused("keys", "rotate", *of) == none
    assert operator.value("keys", "list", *of) == []
    assert operator.refused("keys", "root", "replace", *of, "--yes") == none
    assert "There is no customer called" in operator.refused("keys", "show", "--customer", "Nobody's fleet")
    assert operator.refused("keys", "show", "--customer", "2147483647") != ""


def test_what_is_shown(carol: Person, operator: Operator) -> None:
    box, kim = visited(carol)
    of = ("--customer", carol.customer)
    shown = operator.value("keys", "show", *of)
    assert shown | {"root": "", "sequence": 0} == {
        "customer": carol.customer, "root": "", "sequence": 0, "limit": 259_200, "uncertain": "refuse", "boxes": 1,
        "devices": 1, "keys": 1, "secondPerson": "off", "approvePhones": "off", "pendingEnrolments": 0,
        "waitingDevices": 0,
    }  # fmt: skip
    assert re.fullmatch("[0-9a-f]{64}", shown["root"])
    (only,) = keys_of(operator, carol)
    assert (only["signs"], only["revokedAt"]) == (True, None)
    assert only["kid"] == cose.read(kim.keys(box)[0], KEY).kid.hex()
    said = operator.run("keys", "show", *of).stdout
    assert "Limit               259,200 s\n" in said
    for secret in ("private", "scalar"):
        assert secret not in said


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("300s", 300),
        ("300", 300),
        ("5m", 300),
        ("48h", 172_800),
        ("2d", 172_800),
        ("28d", 2_419_200),
        ("672h", 2_419_200),
    ],
)
def test_limits(enrolled: Person, operator: Operator, text: str, seconds: int) -> None:
    told = operator.value("keys", "policy", "--customer", enrolled.customer, "--limit", text)
    assert (told["limit"], told["uncertain"]) == (seconds, "refuse")
    assert operator.value("keys", "show", "--customer", enrolled.customer)["limit"] == seconds


@pytest.mark.parametrize("text", ["299s", "4m", "29d", "2419201", "-1h", "1.5h", "h", "", "2w", "1 d", "٣d", "On"])
def test_what_is_no_limit(enrolled: Person, operator: Operator, text: str) -> None:
    said = operator.refused("keys", "policy", "--customer", enrolled.customer, f"--limit={text}", status=2)
    assert "must be off, or a time from 300s to 28d" in " ".join(re.sub("[│|]", " ", said).split()), said


def test_a_policy_changes_what_it_names(carol: Person, operator: Operator) -> None:
    visited(carol)
    of = ("keys", "policy", "--customer", carol.customer)
    policy = {
        "customer": carol.customer, "limit": 86_400, "uncertain": "open", "secondPerson": "off",
        "approvePhones": "off", "waitingDevices": 0, "revokedKeys": 0,
    }  # fmt: skip
    assert operator.value(*of, "--limit", "1d", "--yes") == policy | {"uncertain": "refuse", "revokedKeys": 1}
    assert operator.value(*of, "--uncertain", "open") == policy
    assert operator.value(*of, "--second-person", "on") == policy | {"secondPerson": "on"}
    both = policy | {"approvePhones": "on"}
    assert operator.value(*of, "--second-person", "off", "--approve-phones", "on") == both
    said = operator.run(*of, "--second-person", "on").stdout
    assert "An enrolment that replaces a box in use needs the approval of another manager." in said
    assert "A new phone needs the approval of a manager." in said
    assert operator.value(*of, "--limit", "off")["uncertain"] == "open"
    assert "--limit, --uncertain, --second-person or" in operator.refused(*of, status=2)
    assert operator.refused(*of, "--uncertain", "maybe", status=2)


def test_a_narrower_policy_revokes_what_gives_more(carol: Person, bob: Person, operator: Operator) -> None:
    of = ("keys", "policy", "--customer", carol.customer)
    garage(carol)  # the customer has an authority
    garage(bob)
    operator.value(*of, "--limit", "off", "--uncertain", "open")
    operator.value("keys", "policy", "--customer", bob.customer, "--limit", "off", "--uncertain", "open")
    (box, kim), (his_box, ben) = visited(carol), visited(bob)
    key, his = kim.keys(box)[0], ben.keys(his_box)[0]
    would = "This would change the policy of customer"
    assert would in operator.refused(*of, "--limit", "2d")
    assert would in operator.run(*of, "--limit", "2d", "--dry-run").stdout
    assert not is_revoked(carol, key), "neither without consent nor for show"
    assert operator.value(*of, "--limit", "2d", "--yes")["revokedKeys"] == 1
    assert is_revoked(carol, key)
    (revocation,) = eventually(lambda: revocations(carol, key), "the change")
    assert revocation["after"]["revoked"]
    second = one_key(kim, box)
    assert cose.read(second, KEY).claims["limit"] == 172_800
    said = operator.run(*of, "--uncertain", "refuse", "--yes").stdout
    assert "With an uncertain clock, boxes refuse. Keys revoked: 1.\n" in said
    assert is_revoked(carol, second)
    third = one_key(kim, box)
    assert operator.value(*of, "--limit", "2d", "--uncertain", "refuse")["revokedKeys"] == 0
    assert not is_revoked(carol, third)
    assert not is_revoked(bob, his), "another customer's"


def test_a_repeated_policy_revokes_what_an_older_release_left(carol: Person, operator: Operator) -> None:
    box, kim = visited(carol)
    key = kim.keys(box)[0]
    carol.sql.execute("update key_authority set freshness = 3600 where customer_id = $1", carol.customer)
    of = ("keys", "policy", "--customer", carol.customer)
    assert operator.value(*of, "--limit", "1h", "--yes")["revokedKeys"] == 1
    assert is_revoked(carol, key)


def test_a_wider_policy_revokes_nothing(carol: Person, operator: Operator) -> None:
    box, kim = visited(carol)
    of = ("keys", "policy", "--customer", carol.customer)
    carol.sql.execute("update key_authority set freshness = 3600 where customer_id = $1", carol.customer)
    for words in (("--limit", "2h"), ("--limit", "4d"), ("--limit", "off"), ("--uncertain", "open")):
        assert operator.value(*of, *words)["revokedKeys"] == 0
    assert not is_revoked(carol, kim.keys(box)[0])


def test_customers_of_before_keep_their_limit_and_are_named(carol: Person, operator: Operator) -> None:
    visited(carol)

    def found() -> list[str]:
        _, output, _ = operator.quick("doctor", "--json")
        return [check["text"] for check in json.loads(output)["checks"] if check["check"] == "box-key-limit"]

    assert not any(f"customer {carol.customer}" in text for text in found())
    operator.value("keys", "policy", "--customer", carol.customer, "--limit", "off")
    (text,) = found()
    assert re.search(rf"customer {carol.customer}\b", text)


def test_another_key_signs(carol: Person, operator: Operator) -> None:
    box, kim = visited(carol)
    first = kim.keys(box)[0]
    of = ("--customer", carol.customer)
    sequence = operator.value("keys", "show", *of)["sequence"]
    told = operator.value("keys", "rotate", *of)
    assert operator.value("keys", "show", *of)["sequence"] > sequence
    newest, before = keys_of(operator, carol)
    assert [key["signs"] for key in keys_of(operator, carol, "service")] == [True, False]
    assert (newest["id"], newest["signs"], before["signs"]) == (told["issuingKey"], True, False)
    assert key_set(kim) == [bytes.fromhex(before["kid"]), bytes.fromhex(newest["kid"])]
    assert one_key(kim, box) == first, "what the one before signed stays good"
    assert not is_revoked(carol, first)
    assert kim.visit(box) is BoxRefusalCode.GOOD
    kim.home()
    lee = driver(carol)
    carol.assignment(carol.sql.value("select car_id from product where product_id = $1", box.product), lee.user)
    assert cose.read(one_key(lee, box), KEY).kid.hex() == newest["kid"]
    assert lee.visit(box) is BoxRefusalCode.GOOD
    # A box knows two issuing keys, so a third one waits until keys of the older one have expired
    said = operator.refused("keys", "rotate", *of)
    assert said.startswith("keyrack: A box knows two issuing keys, and keys signed by the older one are valid until 20")
    assert len(keys_of(operator, carol)) == 2
    carol.sql.execute("update box_key set is_placed = false where customer_id = $1 and issuing_key_id = $2",
                      carol.customer, before["id"])  # fmt: skip
    operator.value("keys", "rotate", *of)
    third = keys_of(operator, carol)
    assert [key["revokedAt"] is None for key in keys_of(operator, carol, "service")] == [True, True, False]
    assert [one["revokedAt"] is None for one in third] == [True, True, False]
    assert key_set(lee) == [bytes.fromhex(newest["kid"]), bytes.fromhex(third[0]["kid"])]
    # Lists signed by the removed key are no longer served, because a box with the new set would reject them
    assert listed(carol, box.product).kid == bytes.fromhex(third[0]["kid"])
    assert lee.visit(box) is BoxRefusalCode.GOOD
    box.provision(carol)
    sealed = "select private_key is null from issuing_key where customer_id = $1 and issuing_key_id = $2"
    assert carol.sql.value(sealed, carol.customer, before["id"]) is True


def test_all_are_revoked_with_consent_alone(carol: Person, operator: Operator) -> None:
    box, kim = visited(carol)
    first = kim.keys(box)[0]
    rotate = ("keys", "rotate", "--customer", carol.customer, "--revoke")
    said = operator.refused(*rotate)
    assert "--yes" in said
    operator.run(*rotate, "--dry-run")
    assert len(keys_of(operator, carol)) == 1
    assert not is_revoked(carol, first)
    operator.value(*rotate, "--yes")
    assert is_revoked(carol, first)
    newest, before = keys_of(operator, carol)
    assert len(keys_of(operator, carol, "service")) == 2
    assert (newest["revokedAt"], before["revokedAt"] is None) == (None, False)
    assert key_set(kim) == [bytes.fromhex(newest["kid"])]
    assert one_key(kim, box) != first
    assert kim.visit(box) is BoxRefusalCode.GOOD
    assert kim.open(box, key=first) is BoxRefusalCode.REFUSED
    assert box.code is BoxRefusalCode.ISSUING_KEY


def test_a_stolen_issuing_key_ends_with_its_revocation(carol: Person, operator: Operator) -> None:
    """Lists signed by the thief end with the key: each box gets a new generation, and learns of revocations."""
    box, kim = visited(carol)
    of = ("--customer", carol.customer)
    generation = box.challenge().generation
    operator.value("keys", "rotate", *of, "--revoke", "--yes")
    kim.fetch()
    assert kim.visit(box) is BoxRefusalCode.GOOD
    assert box.challenge().generation == generation + 1
    status = cose.read(kim.keys(box)[0], KEY).claims["status"]
    assert status.uri.endswith(f"generation={generation + 1}")
    (listed_now,) = [raw(each["statusList"]) for each in kim.held["boxes"][0]["statusLists"]]
    assert cose.read(listed_now, STATUS_LIST).claims["sub"] == status.uri
    carol.delete(f"/users/{kim.user}/devices/{kim.id}")
    lee = driver(carol)
    carol.assignment(carol.sql.value("select car_id from product where product_id = $1", box.product), lee.user)
    lee.fetch()
    assert lee.visit(box) is BoxRefusalCode.GOOD
    assert kim.open(box) is BoxRefusalCode.REVOKED


def test_another_root_signs(carol: Person, operator: Operator) -> None:
    """Phones carry new roots and key sets, even to a box that missed two."""
    box, kim = visited(carol)
    late = Firmware(carol.box_in(carol.car()))
    late.enrol(carol)
    of = ("--customer", carol.customer)
    roots = [operator.value("keys", "show", *of)["root"]]
    for number in (1, 2):
        replaced = operator.value("keys", "root", "replace", *of, "--yes")
        roots.append(replaced["root"])
        assert operator.value("keys", "show", *of)["root"] == roots[-1]
        kim.fetch()
        assert len(kim.held["roots"]) == number
        assert kim.visit(box) is BoxRefusalCode.GOOD
        assert box.challenge().root == bytes.fromhex(roots[-1])[:8]
    assert len(set(roots)) == 3
    late.provision(carol)
    assert late.challenge().root == bytes.fromhex(roots[-1])[:8]
    operator.value("keys", "rotate", *of)
    kim.fetch()
    assert kim.visit(box) is BoxRefusalCode.GOOD
    fresh = Firmware(carol.box_in(carol.car()))
    fresh.enrol(carol)
    assert fresh.challenge().root == bytes.fromhex(roots[-1])[:8]


def test_receipts_of_a_key_that_went(carol: Person, operator: Operator) -> None:
    box, kim = visited(carol)
    kim.home()
    before = box.challenge().first
    operator.value("keys", "rotate", "--customer", carol.customer, "--revoke", "--yes")
    kim.receipts.clear()
    assert [one["receipt"] for one in kim.fetch()["boxes"]] == [None], "it is made anew at the next delivery"
    assert kim.visit(box) is BoxRefusalCode.GOOD
    kim.home()
    kim.fetch()
    assert kim.bring(box)[0] == 0
    assert box.challenge().first > before
