"""In charge of requests that are refused for what boxes, phones and keys there are: each makes it, and asks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from keyrack.core.base64url import base64url
from keyrack.offline_keys import link_messages, phone
from keyrack.offline_keys.link_messages import Enrol, EnrolledMessage
from keyrack.offline_keys.p256 import PrivateKey
from tests.offline_keys.offline_world import Firmware, Phone, b64, confirm, driver, garage, raw
from tests.support.people import Person

Case = tuple[Any, ...]  # method, path, perhaps a body, perhaps more
NONE = base64url(bytes(32))  # of 32 bytes, and nobody's


def used_key(person: Person) -> Case:
    """A box that is reset twice, and comes back with its first key."""
    box = Firmware(person.product())
    first = box.key
    for key in (first, PrivateKey.generate()):
        box.key = key
        box.reset()
        box.enrol(person)
        confirm(person, box)
    box.key = first
    box.reset()
    nonce = raw(person.post(f"/boxes/{box.product}/enrolment").json()["nonce"])
    answer = link_messages.read(box.say(link_messages.write(Enrol(nonce))), EnrolledMessage)
    return "PUT", f"/boxes/{box.product}/enrolment", {"enrolment": b64(answer.enrolment)}


def unknown_nonce(person: Person) -> Case:
    box = Firmware(person.product())
    answer = link_messages.read(box.say(link_messages.write(Enrol(bytes(16)))), EnrolledMessage)
    return "PUT", f"/boxes/{box.product}/enrolment", {"enrolment": b64(answer.enrolment)}


def replaced(person: Person) -> Firmware:
    """A box at work with a pending enrolment."""
    _, box = garage(person)
    box.key = PrivateKey.generate()
    box.reset()
    box.enrol(person)
    return box


def in_use(person: Person) -> Case:
    """A pending enrolment that came back by an entry of its box."""
    box = replaced(person)
    assert person.delete(f"/boxes/{box.product}/enrolment").status_code == 204
    confirm(person, box)
    return "DELETE", f"/boxes/{box.product}/enrolment"


def other_key(person: Person) -> Case:
    method, path, body = unknown_nonce(person)
    return method, path, body | {"thumbprint": NONE}


def own_approval(person: Person) -> Case:
    box = replaced(person)
    body = {"thumbprint": b64(box.key.public.thumbprint)}
    return "POST", f"/boxes/{box.product}/enrolment/approval", body


def as_app(kim: Phone, method: str, path: str, body: Any = None) -> Case:
    return method, path, body, {"headers": {"Authorization": f"Bearer {kim.token}"}}


def registering(kim: Phone, key: PrivateKey) -> Case:
    signed = phone.registration(kim.subject, key.public, kim.nonce(), key.sign)
    return as_app(kim, "PUT", "/sdk/devices", {"registration": b64(signed), "name": "Phone"})


def others(person: Person) -> Case:
    return registering(driver(person), driver(person).key)


def too_many(person: Person) -> Case:
    kim = driver(person)
    for _ in range(9):
        method, path, body, options = registering(kim, PrivateKey.generate())
        assert person.call(method, path, body, **options).status_code == 200
    return registering(kim, PrivateKey.generate())


def removed(person: Person) -> Case:
    kim = driver(person)
    assert person.delete(f"/users/{kim.user}/devices/{kim.id}").status_code == 204
    return registering(kim, kim.key)


def old_token(person: Person) -> Case:
    kim = driver(person)
    assert person.delete(f"/users/{kim.user}/devices/{kim.id}").status_code == 204
    later = "update removed_device set removed_at = removed_at + interval '2 seconds' where customer_id = $1"
    person.sql.execute(later, person.customer)
    return registering(kim, PrivateKey.generate())


def unknown_registration_nonce(person: Person) -> Case:
    kim, key = driver(person), PrivateKey.generate()
    signed = phone.registration(kim.subject, key.public, bytes(16), key.sign)
    return as_app(kim, "PUT", "/sdk/devices", {"registration": b64(signed), "name": "Phone"})


def unapproved(person: Person) -> Case:
    garage(person)
    kim = driver(person)
    waits = "update app_device set is_approved = false where customer_id = $1 and user_id = $2"
    person.sql.execute(waits, person.customer, kim.user)
    return as_app(kim, "GET", f"/sdk/keys?device={kim.id}")


def keyless(person: Person) -> Case:
    _, box = garage(person)
    body = {"box": f"box:{box.product}:1", "nonce": b64(bytes(16))}
    return as_app(driver(person), "POST", "/sdk/time", body)


CASES: Mapping[str, Callable[[Person], Case]] = {
    "product-takes-no-keys": lambda p: ("POST", f"/boxes/{p.product('IQ')}/enrolment"),
    "box-not-enrolled": lambda p: ("GET", f"/boxes/{p.product()}/enrolment"),
    "enrolment-nonce-unknown": unknown_nonce,
    "box-key-used": used_key,
    "box-key-differs": other_key,
    "enrolment-not-pending": lambda p: ("DELETE", f"/boxes/{garage(p)[1].product}/enrolment"),
    "enrolment-in-use": in_use,
    "second-person-needed": own_approval,
    "status-list-not-found": lambda p: ("GET", f"/boxes/{garage(p)[1].product}/status?generation=2"),
    "device-not-found": lambda p: as_app(driver(p), "GET", f"/sdk/keys?device={NONE}"),
    "device-of-other-user": others,
    "too-many-devices": too_many,
    "no-key-for-box": keyless,
    "device-removed": removed,
    "token-before-removal": old_token,
    "registration-nonce-unknown": unknown_registration_nonce,
    "device-not-approved": unapproved,
}
