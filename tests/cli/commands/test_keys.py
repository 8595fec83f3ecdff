"""`keyrack keys`: who signs, what a customer wants of keys, and changing either."""

from __future__ import annotations

import re

import pytest

from keyrack.offline_keys import cose
from keyrack.offline_keys.message_fields import KEY, KEY_SET
from keyrack.offline_keys.refusal_codes import BoxRefusalCode
from tests.cli.test_operator_commands import Operator
from tests.offline_keys.inspection import is_revoked, listed, one_key
from tests.offline_keys.offline_world import Phone, driver, garage, raw, visited
from tests.support.people import Person


@pytest.fixture(scope="module")
def operator(dsn: str) -> Operator:
    return Operator(dsn)


@pytest.fixture(scope="module")
def enrolled(alice: Person) -> Person:
    """Somebody whose customer has an authority."""
    garage(alice)
    return alice


def key_set(kim: Phone) -> list[bytes]:
    """Which issuing keys the phone carries to boxes, the one that signs last."""
    return [key.kid for key in cose.read(raw(kim.fetch()["keySet"]), KEY_SET).claims["keys"]]


def test_who_has_no_authority(carol: Person, operator: Operator) -> None:
    none = f"keyrack: Customer {carol.customer} has no authority yet: it is made when the first box is enrolled.\n"
    of = ("--customer", carol.customer)
    assert operator.refused("keys", "show", *of) == none
    assert operator.refused("keys", "policy", *of, "--limit", "2d") == none
    assert operator.refused("keys", "rotate", *of) == none
    assert operator.value("keys", "list", *of) == []
    assert "There is no customer called" in operator.refused("keys", "show", "--customer", "Nobody's fleet")
    assert operator.refused("keys", "show", "--customer", "2147483647") != ""


def test_what_is_shown(carol: Person, operator: Operator) -> None:
    box, kim = visited(carol)
    of = ("--customer", carol.customer)
    shown = operator.value("keys", "show", *of)
    assert shown | {"root": "", "sequence": 0} == {
        "customer": carol.customer, "root": "", "sequence": 0, "limit": None, "uncertain": "refuse",
        "secondPerson": "off", "approvePhones": "off", "boxes": 1, "pendingEnrolments": 0, "devices": 1,
        "waitingDevices": 0, "keys": 1,
    }  # fmt: skip
    assert re.fullmatch("[0-9a-f]{64}", shown["root"])
    (only,) = operator.value("keys", "list", *of)
    assert (only["signs"], only["revokedAt"]) == (True, None)
    assert only["kid"] == cose.read(kim.keys(box)[0], KEY).kid.hex()
    said = operator.run("keys", "show", *of).stdout
    assert "Limit               off: a key's whole life\n" in said
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
    assert "it is off, or a time from 300s to 28d" in " ".join(re.sub("[│|]", " ", said).split()), said


def test_a_policy_changes_what_it_names(carol: Person, operator: Operator) -> None:
    visited(carol)
    of = ("keys", "policy", "--customer", carol.customer)
    first = {
        "customer": carol.customer, "limit": 86_400, "uncertain": "refuse", "secondPerson": "off",
        "approvePhones": "off", "waitingDevices": 0,
    }  # fmt: skip
    assert operator.value(*of, "--limit", "1d") == first
    assert operator.value(*of, "--uncertain", "open") == first | {"uncertain": "open"}
    assert operator.value(*of, "--second-person", "on") == first | {"uncertain": "open", "secondPerson": "on"}
    both = first | {"uncertain": "open", "secondPerson": "off", "approvePhones": "on"}
    assert operator.value(*of, "--second-person", "off", "--approve-phones", "on") == both
    said = operator.run(*of, "--second-person", "on").stdout
    assert "The enrolment that replaces a box at work needs the approval of another manager." in said
    assert "A new phone needs the approval of a manager." in said
    assert operator.value(*of, "--limit", "off")["uncertain"] == "open"
    assert "--limit, --uncertain, --second-person and" in operator.refused(*of, status=2)
    assert operator.refused(*of, "--uncertain", "maybe", status=2)


def test_another_key_signs(carol: Person, operator: Operator) -> None:
    box, kim = visited(carol)
    first = kim.keys(box)[0]
    of = ("--customer", carol.customer)
    sequence = operator.value("keys", "show", *of)["sequence"]
    told = operator.value("keys", "rotate", *of)
    assert operator.value("keys", "show", *of)["sequence"] > sequence
    newest, before = operator.value("keys", "list", *of)
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
    # A box holds two: as long as keys of the older one open, there is no third
    said = operator.refused("keys", "rotate", *of)
    assert said.startswith("keyrack: Keys that the issuing key before the newest one has signed may open until 20")
    assert len(operator.value("keys", "list", *of)) == 2
    carol.sql.execute("update box_key set is_placed = false where customer_id = $1 and issuing_key_id = $2",
                      carol.customer, before["id"])  # fmt: skip
    operator.value("keys", "rotate", *of)
    third = operator.value("keys", "list", *of)
    assert [one["revokedAt"] is None for one in third] == [True, True, False]
    assert key_set(lee) == [bytes.fromhex(newest["kid"]), bytes.fromhex(third[0]["kid"])]
    # What the one that has gone signed is not told any more: a box that has the new set would not take it
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
    assert len(operator.value("keys", "list", "--customer", carol.customer)) == 1
    assert not is_revoked(carol, first)
    operator.value(*rotate, "--yes")
    assert is_revoked(carol, first)
    newest, before = operator.value("keys", "list", "--customer", carol.customer)
    assert (newest["revokedAt"], before["revokedAt"] is None) == (None, False)
    assert key_set(kim) == [bytes.fromhex(newest["kid"])]
    assert one_key(kim, box) != first
    assert kim.visit(box) is BoxRefusalCode.GOOD
    assert kim.open(box, key=first) is BoxRefusalCode.REFUSED
    assert box.code is BoxRefusalCode.ISSUING_KEY


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
