"""Enrolment of boxes: nonces, keys, provisioning and permissions."""

from __future__ import annotations

import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import pytest

from keyrack.api.permissions import Role
from keyrack.offline_keys import cose, link_messages
from keyrack.offline_keys.link_messages import AcceptedMessage, Enrol, EnrolledMessage, Provision
from keyrack.offline_keys.message_fields import ENROLMENT, PROVISIONING
from keyrack.offline_keys.p256 import PrivateKey
from keyrack.offline_keys.phone import registration
from keyrack.offline_keys.refusal_codes import BoxRefusalCode
from tests.auth.group_scope import limited, put
from tests.offline_keys.inspection import Clock, clock
from tests.offline_keys.offline_world import Firmware, b64, confirm, garage, raw
from tests.support.people import JOIN, NUMBERS, Person, Town, refused

__all__ = ["clock"]
NO_PRODUCT = "Unable to find a product for the given productId which is assigned to the given customerId."
NO_BOX = "The product is not a key box."
NOT_ENROLLED = "The box is not enrolled."
NO_NONCE = "The enrolment names a nonce that was never issued, was used, or has expired."
USED_KEY = "The box had this key in an earlier epoch."
WRONG = "Couldn't enrol box. No valid enrolment provided."
NONCE = "The query parameter nonce is not valid. "


def path(product: int, what: str = "enrolment") -> str:
    return f"/boxes/{product}/{what}"


def nonce_of(person: Person, product: int) -> bytes:
    answer = person.post(path(product))
    assert answer.status_code == 200, answer.text
    assert answer.headers["cache-control"] == "no-store"
    return raw(answer.json()["nonce"])


def enrolment(nonce: bytes, key: PrivateKey, signer: PrivateKey | None = None) -> dict[str, str]:
    data = cose.sign(ENROLMENT, key.public.kid, {"cnf": key.public, "nonce": nonce}, (signer or key).sign)
    return {"enrolment": b64(data)}


@pytest.fixture
def box(alice: Person) -> Firmware:
    """A box that is not enrolled yet."""
    return Firmware(alice.box_in(alice.car()))


def test_a_box_is_enrolled(alice: Person, box: Firmware) -> None:
    refused(alice.get(path(box.product)), 404, NOT_ENROLLED)
    refused(alice.get(path(box.product, "status")), 404, NOT_ENROLLED)
    given = alice.post(path(box.product)).json()
    lasts = datetime.fromisoformat(given["expires"]) - datetime.now(UTC)
    assert 590 < lasts.total_seconds() <= 600
    made = link_messages.read(box.say(link_messages.write(Enrol(raw(given["nonce"])))), EnrolledMessage)
    told = alice.put(path(box.product), {"enrolment": b64(made.enrolment)})
    assert told.json() == {
        "productId": box.product, "epoch": told.json()["epoch"], "name": f"box:{box.product}:{told.json()['epoch']}",
        "thumbprint": b64(box.key.public.thumbprint), "isPending": False,
    }  # fmt: skip
    box.provision(alice)
    assert box.challenge().name == told.json()["name"]
    state = alice.get(path(box.product)).json()
    assert {name: state.get(name, False) for name in told.json()} == told.json()
    assert state["pending"] is None
    assert state["log"] == {"upTo": 0, "newest": 0, "givenUp": 0, "reports": []}


def test_the_same_key_again_is_the_same_epoch(alice: Person, box: Firmware) -> None:
    first = box.enrol(alice)
    body = enrolment(os.urandom(16), box.key)
    for _ in range(2):
        again = alice.put(path(box.product), body)
        assert (again.status_code, again.json()) == (200, first)
    assert alice.sql.value("select count(*) from box_epoch where customer_id = $1 and product_id = $2",
                           alice.customer, box.product) == 1  # fmt: skip


def test_a_nonce_is_valid_once_for_one_box_and_ten_minutes(alice: Person, box: Firmware, clock: Clock) -> None:
    other = Firmware(alice.box_in(alice.car()))
    key = PrivateKey.generate
    refused(alice.put(path(box.product), enrolment(os.urandom(16), key())), 409, NO_NONCE)
    theirs = nonce_of(alice, other.product)
    refused(alice.put(path(box.product), enrolment(theirs, key())), 409, NO_NONCE)
    old, new = nonce_of(alice, box.product), nonce_of(alice, box.product)
    refused(alice.put(path(box.product), enrolment(old, key())), 409, NO_NONCE)
    assert alice.put(path(box.product), enrolment(new, key())).status_code == 200
    refused(alice.put(path(box.product), enrolment(new, key())), 409, NO_NONCE)
    late, just = nonce_of(alice, box.product), nonce_of(alice, other.product)
    clock.ahead = 601
    refused(alice.put(path(box.product), enrolment(late, key())), 409, NO_NONCE)
    clock.ahead = 600
    assert alice.put(path(other.product), enrolment(just, key())).status_code == 200


def test_a_key_of_an_earlier_epoch_is_refused(alice: Person, box: Firmware) -> None:
    epochs = [box.enrol(alice)["epoch"]]
    first = box.key
    box.key = PrivateKey.generate()
    box.reset()
    epochs.append(box.enrol(alice)["epoch"])
    confirm(alice, box)
    assert epochs == sorted(set(epochs))
    nonce = nonce_of(alice, box.product)
    refused(alice.put(path(box.product), enrolment(nonce, first)), 409, USED_KEY)
    assert alice.put(path(box.product), enrolment(nonce, PrivateKey.generate())).status_code == 200, "it is still good"


def test_an_invalid_enrolment_is_refused(alice: Person, box: Firmware) -> None:
    nonce, key = nonce_of(alice, box.product), PrivateKey.generate()
    good = raw(enrolment(nonce, key)["enrolment"])
    cases = {
        "signature": enrolment(nonce, key, PrivateKey.generate())["enrolment"],
        "encoding": b64(b"\xd2" + b"\x81" * 200),
        "too-long": b64(bytes(401)),
        "structure": b64(good[1:]),
        "typ": b64(registration("x", key.public, nonce, key.sign)),
    }
    for code, text in cases.items():
        refused(
            alice.put(path(box.product), {"enrolment": text}),
            400,
            f"{WRONG} A box would reject the message with the code `{code}`.",
        )
    bodies: list[Any] = [{}, {"enrolment": None}, {"enrolment": 7}, {"enrolment": b64(good) + "="}, [], "x"]
    for body in bodies:
        assert alice.put(path(box.product), body).status_code == 400, body
    answer = alice.put(path(box.product), content=good, headers={"Content-Type": "application/cbor"})
    assert answer.status_code == 415
    refused(alice.get(path(box.product)), 404, NOT_ENROLLED)


def test_a_product_that_is_no_box_is_refused(alice: Person, bob: Person) -> None:
    unit = alice.box_in(alice.car(), "IQ")
    body = enrolment(os.urandom(16), PrivateKey.generate())
    hers = Firmware(alice.box_in(alice.car()))
    hers.enrol(alice)
    nonce = b64(bytes(16))
    for method, what, json in (
        ("POST", "enrolment", None), ("PUT", "enrolment", body), ("GET", "enrolment", None),
        ("GET", f"provisioning?nonce={nonce}", None), ("GET", "status", None),
    ):  # fmt: skip
        refused(alice.call(method, path(unit, what), json), 409, NO_BOX)
        there, nowhere = (bob.call(method, path(product, what), json) for product in (hers.product, 2_147_483_647))
        refused(there, 404, NO_PRODUCT)
        assert (there.text, there.headers["content-type"]) == (nowhere.text, nowhere.headers["content-type"])
        assert alice.call(method, path(0, what), json).status_code == 404


@pytest.mark.parametrize(
    ("role", "reads", "writes"),
    [(Role.TECHNICIAN, True, True), (Role.DISPATCHER, True, False), (Role.VIEWER, True, False),
     (Role.AUDITOR, True, False), (Role.MANAGER, True, True)],
)  # fmt: skip
def test_permissions_for_enrolments(
    alice: Person, town: Town, box: Firmware, role: Role, reads: bool, writes: bool
) -> None:
    box.enrol(alice)
    somebody = town.person(f"some-{role}", role)
    alice.sql.execute(JOIN, somebody.username, alice.customer, role)
    somebody.headers["Customer-ID"] = str(alice.customer)
    nonce = b64(box.challenge().nonce)
    answers = [somebody.get(path(box.product, what)).status_code for what in ("enrolment", "status")]
    assert answers == [200 if reads else 403] * 2
    writing = [
        somebody.post(path(box.product)), somebody.put(path(box.product), enrolment(bytes(16), box.key)),
        somebody.get(path(box.product, f"provisioning?nonce={nonce}")),
    ]  # fmt: skip
    assert [one.status_code for one in writing] == [200 if writes else 403] * 3


def test_a_group_limited_manager_enrols_boxes_of_the_groups(alice: Person, town: Town, box: Firmware) -> None:
    box.enrol(alice)
    group, other = alice.group(), alice.group()
    put(alice, group, "productId", box.product)
    inside, outside = (limited(town, alice, name, [one]) for name, one in (("ina", group), ("ole", other)))
    assert inside.get(path(box.product)).status_code == 200
    assert inside.post(path(box.product)).status_code == 200
    for method, what in (("GET", "enrolment"), ("GET", "status"), ("POST", "enrolment")):
        refused(outside.call(method, path(box.product, what)), 404, NO_PRODUCT)


def test_provisioning(alice: Person, box: Firmware) -> None:
    for query, hint in (
        ("", "The parameter is missing."), ("?nonce=", "The value must have 16 bytes, but has 0."),
        ("?nonce=" + "A" * 43, "The value must have 16 bytes, but has 32."),
        ("?nonce=" + "A" * 21 + "B", "The value must be base64url (RFC 4648, section 5) without padding, but ends with"
         " a character whose unused bits are not zero."),
        ("?nonce=" + "A" * 22 + "&nonce=" + "A" * 22, "The parameter is given more than once."),
    ):  # fmt: skip
        refused(alice.get(path(box.product, f"provisioning{query}")), 400, NONCE + hint)
    refused(alice.get(path(box.product, "provisioning?nonce=" + "A" * 22)), 404, NOT_ENROLLED)
    nonce = nonce_of(alice, box.product)
    made = link_messages.read(box.say(link_messages.write(Enrol(nonce))), EnrolledMessage)
    alice.put(path(box.product), {"enrolment": b64(made.enrolment)})
    other = alice.get(path(box.product, "provisioning?nonce=" + "A" * 22)).json()
    messages = [raw(other[name]) for name in ("provisioning", "keySet", "statusList")]
    assert cose.read(messages[0], PROVISIONING).claims["nonce"] == bytes(16)
    box.challenge()
    assert link_messages.read(box.say(link_messages.write(Provision(*messages))), AcceptedMessage).refused == 1
    assert box.code is BoxRefusalCode.NONCE
    box.provision(alice)
    box.tick += 3_600
    before = box.challenge().time
    box.provision(alice)
    assert box.challenge().time < before, "the same call sets its clock"


def test_a_provisioning_names_its_parts_and_a_secret(alice: Person, box: Firmware) -> None:
    """It is bound to its list and its key set. The secret of advertisements belongs to the epoch, and is sealed."""
    epochs = [box.enrol(alice)["epoch"]]
    secrets = []
    for _ in range(2):
        told = alice.get(path(box.product, "provisioning?nonce=" + "A" * 22)).json()
        claims = cose.read(raw(told["provisioning"]), PROVISIONING).claims
        assert claims["list"] == hashlib.sha256(raw(told["statusList"])).digest()
        assert claims["keyset"] == hashlib.sha256(raw(told["keySet"])).digest()
        secrets.append(claims["advertising"])
    assert secrets[0] == secrets[1] == box.state.authority.advertising
    query = "select advertising from box_epoch where product_id = $1 and epoch = $2"
    assert secrets[0] not in alice.sql.value(query, box.product, epochs[0])
    box.key = PrivateKey.generate()
    box.reset()
    box.enrol(alice)
    assert box.state.authority.advertising != secrets[0]


def test_an_authority_of_version_1_gets_new_keys(town: Town) -> None:
    """Once, with concurrent requests: it has no service key, and no box could read its signatures."""
    person = town.person(f"version{next(NUMBERS)}")
    boxes = [Firmware(person.box_in(person.car())) for _ in range(2)]
    for box in boxes:
        made = link_messages.read(box.say(link_messages.write(Enrol(nonce_of(person, box.product)))), EnrolledMessage)
        assert person.put(path(box.product), {"enrolment": b64(made.enrolment)}).status_code == 200
    person.sql.execute("delete from service_key where customer_id = $1", person.customer)
    person.sql.execute("update key_authority set key_set = '\\x00' where customer_id = $1", person.customer)
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda box: box.provision(person), boxes))
    for table in ("issuing_key", "service_key"):
        query = f"select count(*) from {table} where customer_id = $1 and revoked_at is null"
        assert person.sql.value(query, person.customer) == 1
    assert boxes[0].state.authority.keys == boxes[1].state.authority.keys


def test_an_enrolled_box_cannot_be_taken_over_by_another_customer(alice: Person, bob: Person) -> None:
    car, box = garage(alice)
    his = Firmware(bob.box_in(bob.car()), key=box.key)
    his.enrol(bob)
    nonce = b64(box.challenge().nonce)
    told = bob.get(path(his.product, f"provisioning?nonce={nonce}")).json()
    messages = [raw(told[name]) for name in ("provisioning", "keySet", "statusList")]
    assert link_messages.read(box.say(link_messages.write(Provision(*messages))), AcceptedMessage).refused == 1
    assert box.code is BoxRefusalCode.NOT_NOW
    assert box.challenge().name.startswith(f"box:{box.product}:")
    assert alice.get(f"/cars/{car}/keys").json() == []


def test_a_repeated_enrolment_gets_the_same_answer(alice: Person, box: Firmware) -> None:
    """An enrolment with `Idempotency-Key` gets the same answer, although the nonce is used by then."""
    body = enrolment(nonce_of(alice, box.product), PrivateKey.generate())
    first, again = (alice.put(path(box.product), body, headers={"Idempotency-Key": "enrol-1"}) for _ in range(2))
    assert (first.status_code, first.json()) == (again.status_code, again.json())
    for method, what in (("PUT", "enrolment"), ("POST", "enrolment")):
        answer = alice.call(method, path(box.product, what), body if method == "PUT" else None,
                            headers={"If-Match": '"abc"'})  # fmt: skip
        refused(answer, 412, "This endpoint does not support the header If-Match.")
    answer = alice.put(path(box.product), body, headers={"Prefer": "return=representation"})
    assert (answer.status_code, answer.json()) == (200, first.json())
