"""Sign-in of drivers, and their session."""

from __future__ import annotations

from tests.support.drivers import PASSWORD, new_driver
from tests.support.people import Person


def test_a_driver_signs_in_and_out(alice: Person) -> None:
    driver = new_driver(alice, "dora-session@example.org")
    session = driver.call("GET", "/session").json()
    assert session["user"]["emailAddress"] == "dora-session@example.org"
    assert [customer["id"] for customer in session["customers"]] == [alice.customer]
    assert driver.call("POST", "/token", customer=alice.customer).json()["idToken"].count(".") == 2
    assert driver.call("DELETE", "/session").status_code == 204
    assert driver.call("GET", "/session").status_code == 401


def test_a_wrong_password_is_401(alice: Person) -> None:
    driver = new_driver(alice, "dora-wrong@example.org", is_signed_in=False)
    assert driver.sign_in("no").status_code == 401
    assert driver.sign_in(PASSWORD).status_code == 201
