"""Phones with keys, for pages that show them."""

from __future__ import annotations

from tests.offline_keys.offline_world import Firmware, Phone, driver
from tests.support.people import Person


def phone_with_key(person: Person, car: int, user: int) -> Phone:
    """The user's phone with a key to the car, whose box is enrolled. The user has the car already."""
    (product,) = person.get(f"/cars/{car}/products").json()
    Firmware(product["id"]).enrol(person)
    phone = driver(person, user)
    assert phone.fetch()["keys"]
    return phone


def pending_enrolment(person: Person, product: int) -> None:
    """Enrol another key for a box at work, so that the enrolment is pending."""
    Firmware(product).enrol(person)
