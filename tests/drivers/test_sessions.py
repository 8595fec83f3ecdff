"""Sessions of drivers in the app at `/drive`."""

from __future__ import annotations

from tests.support.drivers import driver_browser, signed_in_driver
from tests.support.people import Person, done


def test_a_driver_signs_in_and_out_with_a_password(alice: Person) -> None:
    known = signed_in_driver(alice)
    browser = driver_browser(alice)
    assert not browser.is_in
    answer = browser.sign_in(known.address)
    assert answer.status_code == 201, answer.text
    assert answer.json()["user"]["emailAddress"] == known.address
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    shown = browser.get("/session").json()
    assert [customer["id"] for customer in shown["customers"]] == [alice.customer]
    assert (shown["user"]["id"], shown["hasPassword"], shown["passkeys"]) == (known.user, True, 0)
    secret = browser.cookie
    done(browser.delete("/session"))
    browser.http.cookies.set("keyrack-drive", secret or "")
    assert not browser.is_in
    assert known.is_in


def test_a_token_is_that_of_an_app(alice: Person, bob: Person) -> None:
    driver = signed_in_driver(alice)
    token = driver.post("/token", customer=alice.customer).json()["idToken"]
    devices = alice.client.get("/sdk/devices", headers={"Authorization": f"Bearer {token}"})
    assert (devices.status_code, devices.json()) == (200, [])
    assert driver.post("/token", customer=bob.customer).status_code == 404
    assert driver.post("/token").status_code == 400


def test_the_app_gets_its_settings_without_a_session(alice: Person) -> None:
    settings = driver_browser(alice).get("/settings").json()
    assert settings["radio"] == "bluetooth"
    assert settings["hasPasskeys"] is False  # the server of the tests has an IP address
