"""The account pages of the drivers' app in Chromium."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from playwright.sync_api import expect

from keyrack.core.settings import Settings
from tests.drivers.app_browser import AppPage, Gate, app_context, booking, opened
from tests.support import browser
from tests.support.drivers import PASSWORD, driver_address, driver_browser, signed_in_driver
from tests.support.people import Person, done
from tests.support.servers import RunningServer, eventually

pytestmark = browser.needed


@pytest.fixture
def gate(server: RunningServer) -> Iterator[Gate]:
    gate = Gate(server.port)
    yield gate
    gate.close()


def invitation(person: Person, user: int) -> str:
    """The path and the fragment of an invitation's link."""
    answer = person.post(f"/users/{user}/app-invitation", {"mail": False})
    assert answer.status_code in (200, 201), answer.text
    return "/drive/" + answer.json()["link"].partition("/drive/")[2]


def new_user(person: Person) -> tuple[int, str]:
    address = driver_address()
    return person.user(address, type="Normal", password="the start password"), address


def test_a_driver_signs_in_with_a_password(alice: Person, gate: Gate) -> None:
    known = signed_in_driver(alice)
    with app_context(gate) as context:
        app = AppPage(context.new_page())
        app.start()
        app.sees("Sign in")
        app.page.get_by_label("E-mail address").fill(known.address)
        app.page.get_by_label("Password", exact=True).fill("wrong password")
        app.tap("Sign in")
        expect(app.page.get_by_role("alert")).to_contain_text("The sign-in is not right")
        app.page.get_by_label("Password", exact=True).fill(PASSWORD)
        app.tap("Sign in")
        app.sees("No car for you now")
        app.page.get_by_role("link", name="Account").click()
        expect(app.page.get_by_text(known.address)).to_be_visible()
        app.tap("Sign out")
        app.sees("Sign in")
        app.check(gate)


def test_an_invitation_becomes_an_account_with_a_password(alice: Person, gate: Gate) -> None:
    user, address = new_user(alice)
    with app_context(gate) as context:
        app = AppPage(context.new_page())
        app.start(invitation(alice, user))
        expect(app.page.get_by_role("heading")).to_contain_text("gives you its car keys")
        assert "link=" not in app.page.url  # the secret has left the address
        app.page.reload()
        expect(app.page.get_by_role("heading")).to_contain_text("gives you its car keys")
        app.page.get_by_label("New password").fill("a password of my own")
        app.tap("Use a password")
        app.sees("No car for you now")
        app.check(gate)
    assert signed_in_with(alice, address, "a password of my own")


def signed_in_with(person: Person, address: str, password: str) -> bool:
    return driver_browser(person).sign_in(address, password).status_code == 201


def test_an_invitation_becomes_an_account_with_a_passkey(alice: Person, settings: Settings, dsn: str) -> None:
    """The address of the app has a host name, which passkeys need."""
    user, _ = new_user(alice)
    with (
        RunningServer(settings, dsn, public_url="http://localhost:{port}") as local,
        app_context(SimpleNamespace(url=local.settings.public_url)) as context,
    ):
        page = context.new_page()
        add_authenticator(context.new_cdp_session(page))
        app = AppPage(page)
        app.start(invitation(alice, user))
        app.tap("Use a passkey")
        app.sees("No car for you now")
        page.get_by_role("link", name="Account").click()
        app.tap("Sign out")
        app.sees("No car for you now")  # the authenticator answers the offer in the address field at once
        assert app.problems == []


def add_authenticator(cdp: Any) -> None:
    """An authenticator that verifies its user at once."""
    cdp.send("WebAuthn.enable")
    options = {
        "protocol": "ctap2", "transport": "internal", "hasResidentKey": True, "hasUserVerification": True,
        "isUserVerified": True, "automaticPresenceSimulation": True,
    }  # fmt: skip
    cdp.send("WebAuthn.addVirtualAuthenticator", {"options": options})


def test_a_start_password_is_good_for_choosing_one(alice: Person, gate: Gate) -> None:
    _, address = new_user(alice)
    with app_context(gate) as context:
        app = AppPage(context.new_page())
        app.start()
        app.page.get_by_label("E-mail address").fill(address)
        app.page.get_by_label("Password", exact=True).fill("the start password")
        app.tap("Sign in")
        app.page.get_by_label("New password").fill("a password of my own")
        app.tap("Use a password")
        app.sees("No car for you now")
        app.check(gate)
    assert not signed_in_with(alice, address, "the start password")


def test_a_used_link_says_so(alice: Person, gate: Gate) -> None:
    with app_context(gate) as context:
        app = AppPage(context.new_page())
        app.start("/drive/#link=unknown")
        app.sees("This link is no longer valid")
        app.check(gate)


def test_a_known_driver_adds_a_fleet_after_the_sign_in(alice: Person, bob: Person, gate: Gate) -> None:
    known = signed_in_driver(alice)
    done(bob.put("/users/assignments/customers", {"emailAddress": known.address}))
    with app_context(gate) as context:
        app = AppPage(context.new_page())
        app.start(invitation(bob, known.user))
        app.page.get_by_role("link", name="Sign in").click()
        app.page.get_by_label("E-mail address").fill(known.address)
        app.page.get_by_label("Password", exact=True).fill(PASSWORD)
        app.tap("Sign in")
        app.tap("Add this fleet")
        app.sees("No car for you now")
        app.check(gate)
    assert {customer["id"] for customer in known.get("/session").json()["customers"]} == {alice.customer, bob.customer}


def test_a_lost_phone_shows_which_cars_it_may_open(alice: Person, gate: Gate) -> None:
    booked = booking(alice)
    with app_context(gate) as context:
        app = opened(context, booked, gate)
        app.page.get_by_role("link", name="Account").click()
        app.page.get_by_role("link", name="I have lost my phone").click()
        app.page.get_by_role("checkbox").check()
        app.tap("End the keys of these phones")
        app.sees("The keys of the lost phones have ended")
        app.sees("A lost phone may still open these cars")
        app.check(gate)
    assert booked.person.get(f"/users/{booked.driver.user}/devices").json() == []


def test_more_time_is_requested_and_withdrawn(alice: Person, gate: Gate) -> None:
    booked = booking(alice)
    with app_context(gate) as context:
        app = opened(context, booked, gate)
        app.start("/drive/#requests")
        app.page.get_by_label("Note for the fleet (optional)").fill("Train is late")
        app.tap("Ask for more time")
        app.sees("Your fleet has your request")
        rows = booked.person.get("/assignment-requests", params={"$filter": f"userId eq {booked.driver.user}"}).json()
        assert [(row["state"], row["comment"]) for row in rows] == [("open", "Train is late")]
        app.tap("Withdraw")
        app.sees("The request was withdrawn")
        app.check(gate)


def test_a_return_ends_the_booking(alice: Person, gate: Gate) -> None:
    booked = booking(alice)
    with app_context(gate) as context:
        app = opened(context, booked, gate)
        app.start("/drive/#requests")
        app.page.get_by_role("link", name="Return the car").click()
        expect(app.page.get_by_role("listitem")).to_have_count(3)
        app.tap("End the booking")
        app.sees("No car for you now")
        app.check(gate)
    eventually(lambda: alice.get(f"/assignments/{booked.assignment}").status_code == 404, "the end of the booking")


def test_the_password_is_changed_and_other_sessions_end(alice: Person, gate: Gate) -> None:
    booked = booking(alice)
    other = signed_in_driver(alice, booked.driver.user)
    with app_context(gate) as context:
        app = opened(context, booked, gate)
        app.start("/drive/#security")
        app.page.get_by_label("Current password").fill(PASSWORD)
        app.page.get_by_label("New password").fill("another password")
        app.tap("Change the password")
        expect(app.page.get_by_role("heading", name="The password was changed")).to_be_visible()
        app.check(gate)
    assert not other.is_in


def test_privacy_says_what_is_stored(alice: Person, gate: Gate) -> None:
    booked = booking(alice)
    with app_context(gate) as context:
        app = opened(context, booked, gate)
        app.start("/drive/#privacy")
        for title in ("On this phone", "On the server", "What your fleet sees", "What other drivers see"):
            app.sees(title)
        app.check(gate)
