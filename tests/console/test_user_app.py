"""App access, lost phones and driver settings in the console."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.auth.group_scope import limited
from tests.console import axe
from tests.console.conftest import Desk
from tests.console.phones import phone_with_key
from tests.support.drivers import driver_address, signed_in_driver
from tests.support.people import Person, Town

NAMES = {"firstName": "Kim", "lastName": "Lee"}


def normal_user(person: Person) -> int:
    return person.user(driver_address(), type="Normal", userData=NAMES)


def test_a_person_is_invited_by_a_code_that_is_shown_once(alice: Person, desk: Desk) -> None:
    user = normal_user(alice)
    page = desk(alice)
    page.goto(f"/console/{alice.customer}/users/{user}")
    app = page.get_by_role("region", name="App")
    expect(app).to_contain_text("Not invited yet.")
    app.get_by_role("button", name="Invite to the app").press("Enter")
    dialog = page.get_by_role("dialog", name="Invite to the app")
    expect(dialog).to_contain_text("This server sends no mail.")
    expect(dialog.get_by_label("By mail")).to_be_disabled()
    assert axe.faults(page) == []
    dialog.get_by_role("button", name="Invite", exact=True).press("Enter")
    expect(dialog).to_contain_text("This code is not shown again.")
    link = dialog.get_by_role("region", name="Link").inner_text()
    assert "/drive/#link=" in link
    expect(dialog.get_by_role("img", name="QR code of the link below")).to_be_visible()
    expect(dialog.get_by_role("button", name="Copy link")).to_be_focused()
    assert axe.faults(page) == []
    dialog.get_by_role("link", name="Done").press("Enter")
    expect(app).to_contain_text("Invited")
    assert link not in page.content()


def test_an_access_is_shown_and_withdrawn(alice: Person, desk: Desk) -> None:
    driver = signed_in_driver(alice)
    page = desk(alice)
    page.goto(f"/console/{alice.customer}/users/{driver.user}")
    app = page.get_by_role("region", name="App")
    expect(app).to_contain_text("Has access")
    expect(app).to_contain_text("Last used")
    app.get_by_role("button", name="Withdraw access").press("Enter")
    dialog = page.get_by_role("dialog", name="Withdraw the access to the app")
    expect(dialog).to_contain_text("A new invitation gives the access back.")
    dialog.get_by_role("button", name="Withdraw access").press("Enter")
    expect(page.get_by_role("status").filter(has_text="The access to the app is withdrawn.")).to_be_visible()
    expect(app).to_contain_text("Access withdrawn")
    assert not driver.is_in


def test_a_person_without_a_password_cannot_be_invited(alice: Person) -> None:
    user = alice.user()
    with alice.browser() as browser:
        shown = browser.get(f"/{alice.customer}/users/{user}").text
        assert "the person cannot sign in to the app of Keyrack" in shown
        assert "Invite to the app" not in shown
        refused = browser.post(f"/{alice.customer}/users/{user}/app/invite", data={"way": "code"})
        assert (refused.status_code, "the user cannot sign in to the app" in refused.text) == (409, True)


def test_a_lost_phone_shows_the_cars_that_it_may_still_open(alice: Person, desk: Desk) -> None:
    driver = signed_in_driver(alice)
    car = alice.car_with_box("Pool 7")
    alice.assignment(car, driver.user)
    phone_with_key(alice, car, driver.user)
    page = desk(alice)
    page.goto(f"/console/{alice.customer}/users/{driver.user}")
    page.get_by_role("button", name="Phone lost").press("Enter")
    dialog = page.get_by_role("dialog", name="Phone lost")
    expect(dialog.get_by_label("Phone", exact=False).first).to_be_checked()
    assert axe.faults(page) == []
    dialog.get_by_role("button", name="Report as lost").press("Enter")
    expect(dialog).to_contain_text("1 car may still be opened")
    expect(dialog.get_by_role("row").filter(has_text="Pool 7")).to_be_visible()
    assert axe.faults(page) == []
    assert alice.get(f"/users/{driver.user}/devices").json() == []
    assert not driver.is_in
    page.goto(f"/console/{alice.customer}")
    expect(page.get_by_role("link", name="Lost phones")).to_be_visible()


def test_no_chosen_phone_is_an_error_of_the_form(alice: Person) -> None:
    driver = signed_in_driver(alice)
    car = alice.car_with_box()
    alice.assignment(car, driver.user)
    phone_with_key(alice, car, driver.user)
    with alice.browser() as browser:
        refused = browser.post(f"/{alice.customer}/users/{driver.user}/lost", data={"sessions": "true"})
        assert (refused.status_code, "Choose the lost phone." in refused.text) == (422, True)
    assert len(alice.get(f"/users/{driver.user}/devices").json()) == 1
    assert driver.is_in


def test_the_settings_for_drivers_are_saved(alice: Person, desk: Desk) -> None:
    page = desk(alice)
    page.goto(f"/console/{alice.customer}/settings/drivers")
    page.get_by_label("Phone number for help").fill("call me")
    page.get_by_role("button", name="Save").press("Enter")
    expect(page.get_by_role("alert", name="There is a problem")).to_contain_text("Enter a phone number")
    page.get_by_label("Phone number for help").fill("+49 30 123456")
    page.get_by_label("Show where the car stands").check()
    page.get_by_label("Later end without asking, in hours").fill("4")
    assert axe.faults(page) == []
    page.get_by_role("button", name="Save").press("Enter")
    expect(page.get_by_role("status").filter(has_text="The settings for drivers are saved.")).to_be_visible()
    saved = {"phone": "+49 30 123456", "showsPlace": True, "extensionHours": 4}
    assert alice.get("/driver-settings").json() == saved


def test_managers_without_the_permission_only_see_the_settings(alice: Person, town: Town) -> None:
    for person in (town.colleague(alice, "viewer", "Viewer"), limited(town, alice, "limited", [alice.group()])):
        with person.browser() as browser:
            shown = browser.get(f"/{alice.customer}/settings/drivers")
            assert "Only accounts that may change people of the whole fleet" in shown.text
            assert 'id="drivers"' not in shown.text
            saved = browser.post(f"/{alice.customer}/settings/drivers", data={"phone": "", "hours": "1"})
            assert saved.status_code == 403


def test_the_user_of_another_customer_has_no_such_pages(alice: Person, bob: Person) -> None:
    user = normal_user(alice)
    with bob.browser() as browser:
        for path in ("app/invite", "app/withdraw", "lost"):
            assert browser.get(f"/{bob.customer}/users/{user}/{path}").status_code == 404
            assert browser.post(f"/{bob.customer}/users/{user}/{path}", data={"way": "code"}).status_code == 404
    assert alice.get(f"/users/{user}/app-access").json()["isInvited"] is False
