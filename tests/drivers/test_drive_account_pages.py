"""The account pages of the drivers' app in Chromium."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Locator, Route, expect

from keyrack.core.settings import Settings
from tests.drivers.app_browser import AppPage, Gate, app_context, at, booking, gate_of_own_server, invitation, opened
from tests.offline_keys.peripheral import Peripheral, emulated
from tests.support import browser
from tests.support.drivers import PASSWORD, driver_address, driver_browser, signed_in_driver
from tests.support.people import Person, done
from tests.support.servers import eventually

pytestmark = browser.needed


@pytest.fixture(scope="module")
def gate(dsn: str, settings: Settings) -> Iterator[Gate]:
    with gate_of_own_server(settings, dsn) as gate:
        yield gate


def new_user(person: Person) -> tuple[int, str]:
    address = driver_address()
    return person.user(address, type="Normal", password="the start password"), address


def test_a_driver_signs_in_with_a_password(alice: Person, gate: Gate) -> None:
    known = signed_in_driver(alice)
    with app_context(gate) as context:
        app = AppPage(context.new_page())
        app.start()
        app.sees("Sign in")
        fill_in(app, known.address, "wrong password")
        app.tap("Sign in")
        expect(app.page.get_by_role("alert").filter(has_text="The sign-in is not right")).to_be_visible()
        app.page.get_by_label("Password", exact=True).fill(PASSWORD)
        app.tap("Sign in")
        app.sees("No car for you now")
        app.start("/drive/#sign-in")  # as the back button does
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
        app.start()
        app.start(invitation(alice, user))
        expect(app.page.get_by_role("heading")).to_contain_text("gives you its car keys")
        assert app.page.evaluate("location.hash") == "#link"  # the secret has left the address
        app.page.reload()
        expect(app.page.get_by_role("heading")).to_contain_text("gives you its car keys")
        app.page.get_by_label("New password").fill("a password of my own")
        app.tap("Use a password")
        app.sees("No car for you now")
        app.page.go_back()  # skips the used link
        app.page.wait_for_url("**/drive/")
        app.sees("No car for you now")
        app.check(gate)
    assert signed_in_with(alice, address, "a password of my own")


def signed_in_with(person: Person, address: str, password: str) -> bool:
    return driver_browser(person).sign_in(address, password).status_code == 201


def test_an_invitation_becomes_an_account_with_a_passkey(alice: Person, gate: Gate) -> None:
    user, _ = new_user(alice)
    with app_context(gate) as context:
        page = context.new_page()
        add_authenticator(context.new_cdp_session(page))
        app = AppPage(page)
        app.start(invitation(alice, user))
        app.tap("Use a passkey")
        app.sees("No car for you now")
        page.get_by_role("link", name="Account").click()
        app.tap("Sign out")
        app.sees("No car for you now")  # the authenticator has answered the offer in the address field
        app.check(gate)


def test_a_passkey_signs_in_by_its_button(alice: Person, gate: Gate) -> None:
    booked = booking(alice)
    with app_context(gate) as context:
        context.add_init_script("PublicKeyCredential.isConditionalMediationAvailable = async () => false")
        page = context.new_page()
        add_authenticator(context.new_cdp_session(page))
        app = opened(context, booked, gate, page)
        app.start("/drive/#security")
        app.tap("Add a passkey")
        app.sees("The passkey was added")
        app.start("/drive/#account")
        app.tap("Sign out")
        app.tap("Sign in with a passkey")
        app.sees("Ready")
        app.start("/drive/#security")
        app.tap("Remove")
        app.page.get_by_role("dialog").get_by_role("button", name="Remove").click()
        app.sees("The passkey was removed")
        app.check(gate)
    assert signed_in_driver(alice, booked.driver.user).get("/passkeys").json() == []


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
        fill_in(app, address, "the start password")
        app.tap("Sign in")
        app.page.get_by_label("New password").fill("a password of my own")
        app.tap("Use a password")
        app.sees("No car for you now")
        app.check(gate)
    assert not signed_in_with(alice, address, "the start password")


def test_a_link_that_is_no_longer_valid_says_so(alice: Person, gate: Gate) -> None:
    known = signed_in_driver(alice)
    with app_context(gate) as context:
        app = AppPage(context.new_page())
        app.start("/drive/#link=unknown")
        app.sees("This link is no longer valid")
        app.page.get_by_role("link", name="Sign in", exact=True).click()
        fill_in(app, known.address, PASSWORD)
        app.tap("Sign in")
        app.sees("No car for you now")  # the link does not come again
        app.check(gate)


def fill_in(app: AppPage, address: str, password: str) -> None:
    app.page.get_by_label("E-mail address").fill(address)
    app.page.get_by_label("Password", exact=True).fill(password)


def test_an_account_begins_anew_only_after_a_warning(alice: Person, gate: Gate) -> None:
    known = signed_in_driver(alice)
    with app_context(gate) as context:
        app = AppPage(context.new_page())
        app.start(invitation(alice, known.user))
        app.tap("I cannot sign in any more")
        app.sees("Begin anew")
        app.page.get_by_label("New password").fill("a password of my own")
        app.tap("Use a password")
        app.sees("No car for you now")
        app.check(gate)
    assert not known.is_in
    assert signed_in_with(alice, known.address, "a password of my own")


def test_an_invitation_of_another_fleet_ends_no_account(alice: Person, bob: Person, gate: Gate) -> None:
    known = signed_in_driver(alice)
    done(bob.put("/users/assignments/customers", {"emailAddress": known.address}))
    with app_context(gate) as context:
        app = AppPage(context.new_page())
        app.start(invitation(bob, known.user))
        app.page.get_by_text("Your account opens cars of other fleets.").wait_for()
        app.check(gate)
        app.page.get_by_role("link", name="Sign in", exact=True).click()
        fill_in(app, known.address, PASSWORD)
        app.tap("Sign in")
        app.tap("Add this fleet")
        app.sees("No car for you now")
    assert {row["id"] for row in known.get("/session").json()["customers"]} == {alice.customer, bob.customer}


def test_a_link_of_another_driver_signs_the_present_one_out(alice: Person, gate: Gate) -> None:
    booked = booking(alice)
    user, address = new_user(alice)
    with app_context(gate) as context:
        app = opened(context, booked, gate)
        app.start(invitation(alice, user))
        app.sees("Another driver is signed in here")
        app.page.get_by_label("New password").fill("a password of my own")
        app.tap("Use a password")
        app.sees("No car for you now")
        app.page.get_by_role("link", name="Account").click()
        expect(app.page.get_by_text(address)).to_be_visible()
        app.check(gate)
    assert not booked.driver.is_in
    assert alice.get(f"/users/{booked.driver.user}/devices").json() == []


def test_a_sign_out_removes_the_phone_and_all_that_it_stores(alice: Person, gate: Gate) -> None:
    booked = booking(alice)
    with app_context(gate) as context:
        app = opened(context, booked, gate)
        app.worker_is_ready()
        assert len(alice.get(f"/users/{booked.driver.user}/devices").json()) == 1
        app.start("/drive/#account")
        gate.shut()
        app.tap("Sign out")
        expect(app.page.get_by_role("alert").filter(has_text="No network")).to_be_visible()
        assert stored(app) > 0
        gate.open()
        app.tap("Sign out")
        app.sees("Sign in")
        assert stored(app) == 0
        app.check(gate)
    assert alice.get(f"/users/{booked.driver.user}/devices").json() == []
    assert not booked.driver.is_in


# The browser of the tests has no push service, so it gets a subscription without one
SUBSCRIBED = """
PushManager.prototype.getSubscription = async () => ({ unsubscribe: async () => reportUnsubscribed() });
"""


def test_a_sign_out_ends_the_push_subscription_of_the_browser(alice: Person, gate: Gate) -> None:
    booked = booking(alice)
    ended: list[str] = []
    with app_context(gate) as context:
        context.add_init_script(SUBSCRIBED)
        context.expose_function("reportUnsubscribed", lambda: ended.append("the subscription"))
        app = opened(context, booked, gate)
        app.worker_is_ready()
        app.start("/drive/#account")
        app.tap("Sign out")
        app.sees("Sign in")
        assert ended == ["the subscription"]
        app.check(gate)


STORED = """new Promise((done) => {
  indexedDB.open('keyrack-drive').onsuccess = ({ target: { result: database } }) => {
    const [name] = database.objectStoreNames;
    database.transaction(name).objectStore(name).count().onsuccess = ({ target }) => done(target.result);
  };
})"""


def stored(app: AppPage) -> int:
    """The number of records of the app in the browser."""
    count: int = app.page.evaluate(STORED)
    return count


def test_an_ended_session_leads_to_the_sign_in_and_back(alice: Person, gate: Gate) -> None:
    booked = booking(alice)
    with app_context(gate) as context:
        app = opened(context, booked, gate)
        booked.driver.delete("/session")
        app.start("/drive/#phones")
        app.sees("You are signed out")
        app.page.get_by_role("link", name="Sign in", exact=True).click()
        fill_in(app, booked.driver.address, PASSWORD)
        app.tap("Sign in")
        app.sees("Ready")
        app.check(gate)


def test_a_deleted_account_leaves_nothing_on_the_phone(alice: Person, gate: Gate) -> None:
    booked = booking(alice)
    with app_context(gate) as context:
        app = opened(context, booked, gate)
        app.start("/drive/#security")
        app.page.get_by_text("Delete the account", exact=True).click()
        app.tap("Delete my account")
        app.sees("Your account is deleted")
        assert stored(app) == 0
        app.check(gate)
    assert not signed_in_with(alice, booked.driver.address, PASSWORD)


def test_the_language_is_that_of_the_account(alice: Person, gate: Gate) -> None:
    booked = booking(alice)
    with app_context(gate) as context:
        app = opened(context, booked, gate)
        app.start("/drive/#account")
        app.page.get_by_label("Language").select_option("Deutsch")
        expect(app.page.get_by_role("heading", name="Konto")).to_be_visible()
        expect(app.page.get_by_role("navigation", name="Seiten")).to_contain_text("Buchung")
        app.check(gate)


def test_a_new_passkey_takes_a_recent_sign_in(alice: Person, gate: Gate) -> None:
    booked = booking(alice)
    alice.sql.execute(
        "update driver_session set created_at = now() - interval '1 day' where user_id = $1", booked.driver.user
    )
    with app_context(gate) as context:
        context.add_init_script("PublicKeyCredential.isConditionalMediationAvailable = async () => false")
        page = context.new_page()
        add_authenticator(context.new_cdp_session(page))
        app = opened(context, booked, gate, page)
        app.start("/drive/#security")
        app.tap("Add a passkey")
        app.sees("Sign in")
        fill_in(app, booked.driver.address, PASSWORD)
        app.tap("Sign in")
        app.sees("Sign-in and security")
        app.tap("Add a passkey")
        app.sees("The passkey was added")
        app.check(gate)


def test_another_session_is_signed_out(alice: Person, gate: Gate) -> None:
    booked = booking(alice)
    other = signed_in_driver(alice, booked.driver.user)
    with app_context(gate) as context:
        app = opened(context, booked, gate)
        app.start("/drive/#security")
        app.page.get_by_role("listitem").filter(has_text="last used").get_by_role("button", name="Sign out").click()
        app.sees("Signed out there")
        app.check(gate)
    assert not other.is_in
    assert booked.driver.is_in


def test_a_known_driver_adds_a_fleet_after_the_sign_in(alice: Person, bob: Person, gate: Gate) -> None:
    known = signed_in_driver(alice)
    done(bob.put("/users/assignments/customers", {"emailAddress": known.address}))
    with app_context(gate) as context:
        app = AppPage(context.new_page())
        app.start(invitation(bob, known.user))
        app.page.get_by_role("link", name="Sign in", exact=True).click()
        fill_in(app, known.address, PASSWORD)
        app.tap("Sign in")
        app.tap("Add this fleet")
        app.sees("No car for you now")
        app.check(gate)
    assert {customer["id"] for customer in known.get("/session").json()["customers"]} == {alice.customer, bob.customer}


def test_a_lost_phone_is_reported_from_another_device(alice: Person, gate: Gate) -> None:
    booked = booking(alice)
    with app_context(gate) as lost:
        opened(lost, booked, gate)
    (phone,) = alice.get(f"/users/{booked.driver.user}/devices").json()
    with app_context(gate) as context:
        app = AppPage(context.new_page())
        app.start("/drive/")
        app.page.get_by_role("link", name="I have lost my phone").click()
        fill_in(app, booked.driver.address, PASSWORD)
        app.tap("Sign in")
        app.sees("I have lost my phone")
        other = app.page.locator("label.check").filter(has_not_text="this phone")
        expect(other.get_by_role("checkbox")).to_be_checked()
        app.tap("End the keys of these phones")
        app.sees("The keys of the lost phones have ended")
        app.sees("A lost phone may still open these cars")
        app.check(gate)
    assert not booked.driver.is_in
    assert phone["id"] not in {row["id"] for row in alice.get(f"/users/{booked.driver.user}/devices").json()}


def test_a_lost_phone_in_the_hand_takes_a_confirmation(alice: Person, gate: Gate) -> None:
    booked = booking(alice)
    with app_context(gate) as context:
        app = opened(context, booked, gate)
        app.page.get_by_role("link", name="Account").click()
        app.page.get_by_role("link", name="I have lost my phone").click()
        app.tap("End the keys of these phones")
        expect(app.page.get_by_role("alert").filter(has_text="Choose at least one phone.")).to_be_visible()
        app.page.get_by_role("checkbox").check()
        app.tap("End the keys of these phones")
        dialog = app.page.get_by_role("dialog", name="This phone is one of them")
        dialog.get_by_role("button", name="Cancel").click()
        assert len(alice.get(f"/users/{booked.driver.user}/devices").json()) == 1
        app.tap("End the keys of these phones")
        dialog.get_by_role("button", name="End the keys of these phones").click()
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


def test_a_decision_appears_with_the_new_end(alice: Person, gate: Gate) -> None:
    booked = booking(alice)
    with app_context(gate) as context:
        app = opened(context, booked, gate)
        app.start("/drive/#requests")
        end = app.page.get_by_text("Your booking ends")
        before = end.inner_text()
        app.tap("Ask for more time")
        app.sees("Your fleet has your request")
        (row,) = alice.get("/assignment-requests", params={"$filter": f"userId eq {booked.driver.user}"}).json()
        done(alice.put(f"/assignment-requests/{row['id']}/decision", {"decision": "grant"}))
        eventually(
            lambda: alice.get(f"/assignments/{booked.assignment}").json()["end"] == row["end"], "the extended booking"
        )
        app.page.evaluate("dispatchEvent(new Event('online'))")
        expect(app.page.get_by_text("Granted", exact=True)).to_be_visible()
        expect(end).not_to_have_text(before)
        app.check(gate)


def test_a_session_that_ends_meanwhile_leads_to_the_sign_in(alice: Person, gate: Gate) -> None:
    booked = booking(alice)
    with app_context(gate) as context:
        app = opened(context, booked, gate)
        app.start("/drive/#requests")
        expect(app.page.get_by_text("Your booking ends")).to_be_visible()
        assert booked.driver.delete("/session").status_code == 204
        app.tap("Ask for more time")
        app.sees("You are signed out")
        app.page.get_by_role("link", name="Sign in", exact=True).click()
        app.sees("Sign in")
        app.check(gate)


def test_a_slow_server_leaves_no_page_of_before(alice: Person, gate: Gate) -> None:
    booked = booking(alice)
    with app_context(gate) as context:
        app = opened(context, booked, gate)
        held: list[Route] = []
        app.page.route("**/drive/api/phones", lambda route: held.append(route))
        app.start("/drive/#phones")
        expect(app.page.get_by_role("main")).to_have_text("Loading …")
        held[0].continue_()
        app.sees("Your phones")
        app.check(gate)


def test_a_rejection_says_what_is_possible(alice: Person, gate: Gate) -> None:
    booked = booking(alice)
    with app_context(gate) as context:
        app = opened(context, booked, gate)
        app.start("/drive/#requests")
        app.page.get_by_label("How much longer?").select_option("Another time")
        app.page.get_by_label("New end").fill("2099-01-01T00:00")
        app.tap("Ask for more time")
        app.sees("The new end does not fit")
        expect(app.page.get_by_role("alert")).to_contain_text("at most 31 days later")
        app.check(gate)


def test_a_return_ends_the_booking(alice: Person, gate: Gate) -> None:
    booked = booking(alice)
    with app_context(gate) as context:
        app = opened(context, booked, gate)
        app.start("/drive/#requests")
        app.page.get_by_role("link", name="Return the car").click()
        expect(app.page.get_by_role("listitem")).to_have_count(3)
        app.tap("End the booking")
        app.tap("End anyway")  # the car was not closed
        app.sees("This booking has ended")
        app.page.get_by_role("link", name="Done").click()
        app.sees("No car for you now")
        app.check(gate)
    eventually(lambda: alice.get(f"/assignments/{booked.assignment}").status_code == 404, "the end of the booking")


def test_a_return_goes_step_by_step_also_without_a_network(alice: Person, gate: Gate) -> None:
    booked = booking(alice)
    with app_context(gate) as context, emulated(context) as radio:
        page = context.new_page()
        radio.answer_choosers(context, page)
        Peripheral(radio, booked.box)
        app = opened(context, booked, gate, page)
        app.worker_is_ready()
        app.page.get_by_role("link", name="Booking").click()
        app.page.get_by_role("link", name="Return the car").click()
        expect(step(app)).to_contain_text("close the car")
        gate.shut()
        app.tap("Close")
        expect(step(app)).to_contain_text("Deliver the log")
        expect(step(app)).to_contain_text("We deliver the log when you have network")
        gate.open()
        app.tap("Deliver now")
        expect(step(app)).to_contain_text("End the booking")
        app.tap("End the booking")
        app.sees("This booking has ended")
        app.check(gate)
    assert booked.box.effects == ["CLOSE"]
    eventually(lambda: alice.get(f"/assignments/{booked.assignment}").status_code == 404, "the end of the booking")


def step(app: AppPage) -> Locator:
    """The next step of a return."""
    return app.page.locator("[aria-current=step]")


def test_a_passkey_is_offered_after_the_first_opening(alice: Person, gate: Gate) -> None:
    booked = booking(alice)
    with app_context(gate) as context, emulated(context) as radio:
        page = context.new_page()
        add_authenticator(context.new_cdp_session(page))
        radio.answer_choosers(context, page)
        Peripheral(radio, booked.box)
        app = opened(context, booked, gate, page)
        expect(app.page.get_by_role("heading", name="Sign in without a password")).to_have_count(0)
        app.tap("Open")
        app.sees("Sign in without a password")
        app.tap("Add a passkey")
        expect(app.page.get_by_role("heading", name="Sign in without a password")).to_have_count(0)
        app.check(gate)
    assert len(booked.driver.get("/passkeys").json()) == 1


def test_more_time_within_the_rule_of_the_fleet_is_granted_at_once(alice: Person, gate: Gate) -> None:
    booked = booking(alice)
    done(alice.put("/driver-settings", {"phone": None, "showsPlace": False, "extensionHours": 4}))
    with app_context(gate) as context:
        app = opened(context, booked, gate)
        app.start("/drive/#requests")
        app.page.get_by_label("How much longer?").select_option("Another time")
        app.page.get_by_label("New end").fill("2020-01-01T10:00")
        app.tap("Ask for more time")
        expect(app.page.get_by_role("alert").filter(has_text="Choose a time after")).to_be_visible()
        app.page.get_by_label("How much longer?").select_option("3")
        app.tap("Ask for more time")
        app.sees("Granted: your booking is extended")
        expect(app.page.get_by_role("listitem").filter(has_text="Granted")).to_be_visible()
        app.check(gate)
    done(alice.put("/driver-settings", {"phone": None, "showsPlace": False, "extensionHours": 0}))


def test_a_rejected_request_says_why(alice: Person, gate: Gate) -> None:
    booked = booking(alice)
    wish = {"assignmentId": booked.assignment, "kind": "extend", "end": at(9), "comment": None}
    made = booked.driver.put("/requests", wish, customer=alice.customer)
    assert made.status_code < 300, made.text
    decision = {"decision": "reject", "comment": "It is needed at 8"}
    assert alice.put(f"/assignment-requests/{made.json()['id']}/decision", decision).status_code < 300
    with app_context(gate) as context:
        app = opened(context, booked, gate)
        app.start("/drive/#requests")
        row = app.page.get_by_role("listitem").filter(has_text="Not granted")
        expect(row).to_contain_text("Fleet: It is needed at 8")
        app.check(gate)


def test_an_unused_phone_is_removed(alice: Person, gate: Gate) -> None:
    booked = booking(alice)
    with app_context(gate) as other:
        opened(other, booked, gate)
    with app_context(gate) as context:
        app = opened(context, booked, gate)
        app.start("/drive/#phones")
        app.tap("Remove")
        app.page.get_by_role("dialog").get_by_role("button", name="Remove").click()
        app.sees("The phone was removed")
        expect(app.page.get_by_role("listitem")).to_contain_text(["this phone"])
        app.check(gate)
    assert len(alice.get(f"/users/{booked.driver.user}/devices").json()) == 1


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
