"""Keys that open boxes without a network: on a car's page, on a person's page, and in the history of changes."""

from __future__ import annotations

import copy
import re
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import Locator, Page, expect

from keyrack.api.permissions import Role
from keyrack.offline_keys.p256 import PrivateKey
from keyrack.offline_keys.refusal_codes import BoxRefusalCode
from tests.console import axe
from tests.console.conftest import Desk
from tests.console.test_changes import sentences
from tests.console.test_roles import joined
from tests.offline_keys.offline_world import Firmware, Phone, b64, confirm, driver, garage
from tests.support.people import Person, Town
from tests.support.servers import Sql, eventually

GERMAN = {"Accept-Language": "de"}
# More phones of the same user, each with a key of its own
MANY = """
insert into box_key (customer_id, key_id, product_id, epoch, generation, place, is_placed, assignment_id, car_id,
  user_id, device_id, issuing_key_id, rights, freshness, lifetime, issued_at, begins_at, expires_at, token)
select customer_id, gen_random_uuid(), product_id, epoch, generation, 0, false, assignment_id, car_id, user_id,
  decode(md5(n::text), 'hex'), issuing_key_id, rights, freshness, lifetime, issued_at, begins_at, expires_at, token
from box_key, generate_series(1, $2) n where customer_id = $1
"""
EARLIER = "update box_key set issued_at = issued_at - interval '5 days' where customer_id = $1"
OVER = """
update box_key set issued_at = issued_at - interval '30 days', begins_at = begins_at - interval '30 days',
  expires_at = expires_at - interval '30 days'
where customer_id = $1
"""
REPORT = """
insert into box_report (customer_id, product_id, epoch, kind, number, hash)
select $1, $2, epoch, unnest(array['Fork', 'Break', 'Forgery', 'UnknownKey', 'GivenUp']), 1, '\\x00'
from box_epoch where customer_id = $1 and product_id = $2
"""


def called(person: Person, first: str, last: str, phone: str) -> Phone:
    """A person with a phone of this name."""
    found = driver(person, person.user(userData={"firstName": first, "lastName": last}))
    found.register(phone)
    return found


def keyed(person: Person, car: int, phone: Phone, start: str = "2026-01-01T08:00:00Z") -> int:
    """An assignment for which the phone has a key."""
    assignment = person.assignment(car, phone.user, start)
    phone.fetch()
    return assignment


def ended(person: Person, car: int, assignment: int) -> None:
    assert person.delete(f"/assignments/{assignment}").status_code == 204
    eventually(
        lambda: assignment not in [one["id"] for one in person.get(f"/cars/{car}/assignments").json()], "the end"
    )


def news(person: Person, phone: Phone, box: Firmware, since: datetime) -> None:
    """The phone brings news to the box, and uploads its log.

    A list has whole seconds, so its time is later than that of its content.
    """
    eventually(lambda: datetime.now(UTC) > since + timedelta(seconds=2), "the next second")
    phone.fetch()
    assert phone.visit(box) is BoxRefusalCode.GOOD
    assert phone.home()["refused"] == []


def keys(page: Page) -> Locator:
    return page.get_by_role("region", name="Keys", exact=True)


def row(page: Page, text: str) -> Locator:
    return keys(page).get_by_role("row").filter(has_text=text)


@pytest.fixture
def pixel(carol: Person) -> Phone:
    return called(carol, "Kim", "Lee", "Pixel 9")


def test_a_revoked_key_is_told_until_the_box_knows(carol: Person, pixel: Phone, desk: Desk) -> None:
    car, box = garage(carol)
    other = called(carol, "Robin", "Berg", "Fairphone 5")
    keyed(carol, car, pixel)
    assignment = keyed(carol, car, other)
    page = desk(carol)
    page.goto(f"/console/{carol.customer}/cars/{car}")
    for name, phone in (("Kim Lee", "Pixel 9"), ("Robin Berg", "Fairphone 5")):
        expect(row(page, name)).to_contain_text(phone)
        expect(row(page, name)).to_contain_text("Valid now")
    expect(row(page, "Kim Lee").get_by_role("link")).to_have_attribute(
        "href", f"/console/{carol.customer}/users/{pixel.user}"
    )
    (key,) = carol.get(f"/cars/{car}/keys", params={"$filter": f"userId eq {pixel.user}"}).json()
    expect(row(page, "Kim Lee").locator("time").last).to_have_attribute("datetime", key["opensUntil"])
    expect(page.get_by_text("A revoked key may still open")).to_have_count(0)
    revoked = datetime.now(UTC)
    ended(carol, car, assignment)
    expect(row(page, "Robin Berg")).to_contain_text("Revoked, may still open")  # by itself
    expect(row(page, "Robin Berg")).to_contain_text("The box does not have the news yet.")
    expect(keys(page)).to_contain_text("A box without a network gets the news from the next phone")
    expect(keys(page)).to_contain_text("To make it faster, let a person with another key open the box")
    assert (
        keys(page).get_by_role("row").nth(1).inner_text().startswith("Robin Berg")
    )  # rows that need attention come first
    news(carol, pixel, box, revoked)
    expect(row(page, "Robin Berg")).to_contain_text("The box has the news.")
    expect(row(page, "Robin Berg")).to_contain_text("No longer opens")
    expect(page.get_by_text("A revoked key may still open")).to_have_count(0)
    expect(page.locator("body")).to_be_focused()  # nothing takes the focus


def test_a_phone_that_has_fetched_again_is_one_line(carol: Person, pixel: Phone) -> None:
    car, _ = garage(carol)
    keyed(carol, car, pixel)
    carol.sql.execute(EARLIER, carol.customer)
    pixel.fetch()
    issued = carol.get(f"/cars/{car}/keys", params={"$orderby": "issued"}).json()
    assert len(issued) == 2
    with carol.browser() as browser:
        shown = browser.get(f"/{carol.customer}/cars/{car}").text
        assert shown.count("Pixel 9") == 1
        (line,) = re.findall(r"<tr>(?:(?!</tr>).)*Pixel 9.*?</tr>", shown, re.DOTALL)
        assert re.findall('datetime="([^"]+)"', line) == [issued[0]["issued"], issued[1]["opensUntil"]]


def test_a_key_that_a_loss_of_power_extends_says_so(carol: Person, pixel: Phone) -> None:
    car, _ = garage(carol)
    carol.sql.execute("update key_authority set opens_uncertain = true where customer_id = $1", carol.customer)
    keyed(carol, car, pixel)
    with carol.browser() as browser:
        address = f"/{carol.customer}/cars/{car}"
        assert "Longer if the box loses power, because its clock may stop." in browser.get(address).text
        assert "Länger, wenn die Box keinen Strom hat" in browser.get(address, headers=GERMAN).text


def test_a_key_to_come_says_from_when_on(carol: Person, pixel: Phone) -> None:
    car, _ = garage(carol)
    start = (datetime.now(UTC) + timedelta(days=2)).strftime("%Y-%m-%dT%H:%M:%SZ")
    keyed(carol, car, pixel, start)
    with carol.browser() as browser:
        shown = browser.get(f"/{carol.customer}/cars/{car}", headers=GERMAN).text
        assert re.search(f'Bevorstehend.*ab <time datetime="{start}"', shown)


def test_what_is_over_is_not_shown_and_what_is_much_is_bounded(carol: Person, pixel: Phone, desk: Desk) -> None:
    car, _ = garage(carol)
    keyed(carol, car, pixel)
    carol.sql.execute(MANY, carol.customer, 24)
    page = desk(carol)
    page.goto(f"/console/{carol.customer}/cars/{car}")
    expect(keys(page).get_by_role("row")).to_have_count(1 + 20)
    expect(keys(page)).to_contain_text("5 more are not shown.")
    expect(row(page, "A removed phone").first).to_be_visible()
    keys(page).get_by_role("link", name="Show all keys to this car").click()
    expect(keys(page).get_by_role("row")).to_have_count(1 + 25)
    page.wait_for_url("**/cars/*?keys=all#keys-title")
    expect(keys(page).get_by_text("not shown")).to_have_count(0)
    carol.sql.execute(OVER, carol.customer)
    page.reload()
    expect(keys(page)).to_contain_text("No keys yet.")


def test_where_there_is_no_key_it_says_what_to_do(carol: Person) -> None:
    empty, closed, (enrolled, _) = carol.car(), carol.car_with_box(), garage(carol)
    with carol.browser() as browser:

        def says(car: int, text: str, **headers: str) -> bool:
            return text in browser.get(f"/{carol.customer}/cars/{car}", headers=headers).text

        assert says(empty, "This car has no key box, so there are no keys. Put in a key box first.")
        assert says(
            closed, "The key box is not enrolled, so it accepts no keys that open without a network. Have it enrolled"
        )
        assert says(closed, "Not enrolled")
        assert says(enrolled, "No keys yet. Book the car for a person. Shortly before the booking starts")
        assert says(enrolled, "Enrolled")
        assert says(closed, "Die Schlüsselbox ist nicht registriert", **GERMAN)


def test_a_copied_box_is_told_with_what_to_do(carol: Person, pixel: Phone, desk: Desk) -> None:
    car, box = garage(carol)
    keyed(carol, car, pixel)
    page = desk(carol)
    page.goto(f"/console/{carol.customer}/cars/{car}")
    there = page.get_by_role("region", name="Key box and tracker")
    expect(there).to_contain_text("Enrolled")
    expect(there.get_by_text("has a problem")).to_have_count(0)
    twin = copy.deepcopy(box)
    for one in (box, twin):
        assert pixel.visit(one) is BoxRefusalCode.GOOD
        pixel.home()
    expect(there).to_contain_text("The log of this key box has a problem")  # by itself
    expect(there).to_contain_text("Two entries have the same number.")
    expect(there).to_contain_text("The key box may have been copied. Check it in the car")
    there.get_by_role("link", name="Show the reports in the history of changes").click()
    serial = carol.get(f"/products/{box.product}").json()["serialNumber"]
    expect(page.get_by_text(f"uploaded an invalid log of Key box {serial}").first).to_be_visible()


def test_each_kind_of_report_has_words(carol: Person) -> None:
    car, box = garage(carol)
    carol.sql.execute(REPORT, carol.customer, box.product)
    kinds = carol.get(f"/boxes/{box.product}/enrolment").json()["log"]["reports"]
    assert len({one["kind"] for one in kinds}) == 5
    with carol.browser() as browser:
        shown = browser.get(f"/{carol.customer}/cars/{car}").text
        assert shown.count("1 report, ") == 5
        assert "keyrack keys rotate --revoke" in shown
        assert browser.get(f"/{carol.customer}/cars/{car}", headers=GERMAN).text.count("1 Meldung, ") == 5


def test_the_overview_counts_the_reports_of_a_week(carol: Person, desk: Desk) -> None:
    _, box = garage(carol)
    page = desk(carol)
    page.goto(f"/console/{carol.customer}")
    expect(page.get_by_role("link", name="Boxes without a service")).to_be_visible()
    expect(page.get_by_role("link", name="Invalid logs of key boxes")).to_have_count(0)  # it is rare
    carol.sql.execute(REPORT, carol.customer, box.product)
    eventually(lambda: len(carol.get("/changes?$filter=kind eq 'boxReport.created'").json()) == 5, "the changes")
    page.reload()
    figure = page.get_by_role("link", name="Invalid logs of key boxes")
    expect(figure).to_contain_text("5")
    figure.click()
    expect(page.get_by_role("table").get_by_role("row")).to_have_count(1 + 5)


# Phones of a user


def test_a_phone_is_removed_and_its_keys_are_revoked(carol: Person, pixel: Phone, desk: Desk) -> None:
    car, _ = garage(carol)
    keyed(carol, car, pixel)
    page = desk(carol)
    page.goto(f"/console/{carol.customer}/users/{pixel.user}")
    phones = page.get_by_role("region", name="Phones")
    expect(phones.get_by_role("listitem")).to_contain_text("Pixel 9")
    expect(phones.get_by_role("listitem")).to_contain_text("According to the app, only software protects the key.")
    second = Phone(carol, pixel.user)
    second.sign_in()
    second.register("Tablet")
    expect(phones.get_by_role("listitem")).to_have_count(2)  # by itself
    phones.get_by_role("button", name="Remove phone Pixel 9").press("Enter")
    dialog = page.get_by_role("dialog", name="Remove phone Pixel 9")
    expect(dialog).to_contain_text("Its keys are revoked at once, and Kim Lee gets no new keys on this phone.")
    expect(dialog).to_contain_text("A box without a network gets the news from the next phone that comes to it.")
    expect(dialog).to_contain_text("1 other phone of Kim Lee still opens cars.")
    assert axe.faults(page) == []
    dialog.get_by_role("button", name="Remove phone").press("Enter")
    expect(page.get_by_role("status").filter(has_text="The phone is removed.")).to_be_visible()
    expect(phones.get_by_role("listitem")).to_have_count(1)
    assert [one["name"] for one in carol.get(f"/users/{pixel.user}/devices").json()] == ["Tablet"]
    (key,) = carol.get(f"/cars/{car}/keys").json()
    assert key["revoked"] is not None
    page.goto(f"/console/{carol.customer}/cars/{car}")
    expect(row(page, "Kim Lee")).to_contain_text("A removed phone")


def test_without_a_script_and_without_a_phone(carol: Person, pixel: Phone) -> None:
    protection = {"registration": b64(pixel.registration()), "name": "Pixel 9", "claimedProtection": "SecureElement"}
    assert pixel.call("PUT", "/sdk/devices", protection).status_code == 200
    there = f"/{carol.customer}/users/{pixel.user}"
    with carol.browser() as browser:
        assert "According to the app, a chip of its own protects the key." in browser.get(there).text
        asked = browser.get(f"{there}/phones/{pixel.id}/remove")
        assert "It is the only phone of Kim Lee." in asked.text
        for _ in range(2):  # the second request finds it done
            done = browser.post(f"{there}/phones/{pixel.id}/remove")
            assert (done.status_code, done.headers["Location"]) == (303, f"/console{there}?phone-removed")
        assert browser.get(f"{there}/phones/{pixel.id}/remove").status_code == 404
        assert "No phone is registered." in browser.get(there).text
        assert "Kein Telefon ist registriert." in browser.get(there, headers=GERMAN).text


def test_a_neighbour_sees_and_removes_nothing(alice: Person, bob: Person) -> None:
    car, _ = garage(alice)
    phone = called(alice, "Kim", "Lee", "Secret phone")
    keyed(alice, car, phone)
    with bob.browser() as browser:
        for path in (f"cars/{car}?part=keys", f"users/{phone.user}", f"users/{phone.user}/phones/{phone.id}/remove"):
            for customer in (alice.customer, bob.customer):
                assert browser.get(f"/{customer}/{path}").status_code == 404
        own = bob.user()
        assert browser.get(f"/{bob.customer}/users/{own}/phones/{phone.id}/remove").status_code == 404
        browser.post(f"/{bob.customer}/users/{own}/phones/{phone.id}/remove")
    assert len(alice.get(f"/users/{phone.user}/devices").json()) == 1


def test_a_role_sees_what_it_may(town: Town, sql: Sql, carol: Person, pixel: Phone) -> None:
    car, _ = garage(carol)
    keyed(carol, car, pixel)
    car_page, user_page = f"/{carol.customer}/cars/{car}", f"/{carol.customer}/users/{pixel.user}"
    remove = f"{user_page}/phones/{pixel.id}/remove"
    with joined(town, sql, carol, Role.TECHNICIAN) as technician:
        shown = technician.get(car_page).text
        assert "Enrolled" in shown and "keys-title" not in shown and "Pixel 9" not in shown
        part = technician.get(f"{car_page}?part=keys", headers={"HX-Request": "true", "HX-Request-Type": "partial"})
        assert part.status_code == 403 and "Pixel 9" not in part.text
        assert technician.get(remove).status_code == 403
    with joined(town, sql, carol, Role.VIEWER) as viewer:
        assert "Pixel 9" in viewer.get(car_page).text
        shown = viewer.get(user_page).text
        assert "Pixel 9" in shown and "Remove phone" not in shown
        assert (viewer.get(remove).status_code, viewer.post(remove).status_code) == (403, 403)
    with joined(town, sql, carol, Role.DISPATCHER) as dispatcher:
        assert "Remove phone Pixel 9" in dispatcher.get(user_page).text
        assert dispatcher.get(remove).status_code == 200


def test_the_log_tells_of_them_in_words(carol: Person, pixel: Phone) -> None:
    car, box = garage(carol)
    carol.patch(f"/cars/{car}", [{"op": "replace", "path": "/name", "value": "Golf 7"}])
    ended(carol, car, keyed(carol, car, pixel))
    eventually(lambda: carol.get("/changes?$filter=kind eq 'key.revoked'").json(), "the change")
    serial = carol.get(f"/products/{box.product}").json()["serialNumber"]
    with carol.browser() as browser:

        def told(kind: str, **headers: str) -> list[str]:
            return sentences(browser.get(f"/{carol.customer}/changes?kind={kind}", headers=headers))

        app = r"The app of a person \([0-9a-f]{8}\) "
        assert re.fullmatch(f"{app}registered a phone", told("device.created")[0])
        assert re.fullmatch(f"{app}got a key to Golf 7", told("key.issued")[0])
        assert [text.endswith(" revoked a key to Golf 7") for text in told("key.revoked")] == [True]
        assert told("enrolment.created") == [f"{carol.username} enrolled Key box {serial}"]
        assert told("key.revoked", **GERMAN)[0].endswith(" hat einen Schlüssel für Golf 7 widerrufen")


@axe.each_look
def test_everybody_can_use_it(carol: Person, pixel: Phone, desk: Desk, theme: str, width: int) -> None:
    car, box = garage(carol)
    other = called(carol, "Robin", "Berg-Hohenfels", "Galaxy of somebody with a long name")
    keyed(carol, car, pixel)
    ended(carol, car, keyed(carol, car, other))
    carol.sql.execute(REPORT, carol.customer, box.product)
    page = desk(carol, color_scheme=theme, viewport={"width": width, "height": 900})
    for path in (f"cars/{car}", f"users/{other.user}", f"users/{other.user}/phones/{other.id}/remove"):
        page.goto(f"/console/{carol.customer}/{path}")
        assert (path, axe.faults(page)) == (path, [])
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path


def test_an_older_phone_of_the_same_name_may_be_replaced(carol: Person, pixel: Phone) -> None:
    with carol.browser() as browser:
        path = f"/{carol.customer}/users/{pixel.user}"
        assert "Perhaps replaced" not in browser.get(path).text
        for name, replaced in (("Galaxy", 0), ("Pixel 9", 1)):
            other = driver(carol, pixel.user)
            other.register(name)
            assert browser.get(path).text.count("Perhaps replaced") == replaced
        assert "Vielleicht ersetzt" in browser.get(path, headers=GERMAN).text


def test_a_phone_is_approved(carol: Person, pixel: Phone) -> None:
    waits = "update app_device set is_approved = false where customer_id = $1 and user_id = $2"
    carol.sql.execute(waits, carol.customer, pixel.user)
    there = f"/{carol.customer}/users/{pixel.user}"
    with carol.browser() as browser:
        shown = browser.get(there).text
        assert "Waits for approval" in shown and "Approve phone Pixel 9" in shown
        assert "Wartet auf Freigabe" in browser.get(there, headers=GERMAN).text
        for _ in range(2):
            done = browser.post(f"{there}/phones/{pixel.id}/approve")
            assert (done.status_code, done.headers["Location"]) == (303, f"/console{there}?phone-approved")
        shown = browser.get(f"{there}?phone-approved").text
        assert "The phone is approved." in shown and "Waits for approval" not in shown
        assert browser.post(f"{there}/phones/{'A' * 43}/approve").status_code == 404
    assert carol.get(f"/users/{pixel.user}/devices").json()[0]["isApproved"] is True


def enrolled_anew(person: Person, box: Firmware) -> str:
    """Enrol the box once more; the thumbprint."""
    box.key = PrivateKey.generate()
    box.reset()
    return box.enrol(person)["thumbprint"]


def test_a_pending_enrolment_is_shown_and_undone(carol: Person, town: Town, sql: Sql) -> None:
    car, box = garage(carol)
    there = f"/{carol.customer}/cars/{car}"
    dialog = f"{there}/boxes/{box.product}/enrolment"
    with carol.browser() as browser:
        assert "Check the enrolment" not in browser.get(there).text
        assert browser.get(dialog).status_code == 404
        thumbprint = enrolled_anew(carol, box)
        assert f'href="/console{dialog}"' in browser.get(there).text
        shown = browser.get(dialog).text
        assert thumbprint in shown and "Undo enrolment" in shown and "Approve enrolment" not in shown
        assert "Unbestätigte Registrierung der Schlüsselbox" in browser.get(dialog, headers=GERMAN).text
        done = browser.post(f"{dialog}/undo")
        assert (done.status_code, done.headers["Location"]) == (303, f"/console{there}")
        again = browser.post(f"{dialog}/undo")
        assert again.status_code == 409 and "There is no unconfirmed enrolment any more." in again.text
        assert "Check the enrolment" not in browser.get(there).text
    enrolled_anew(carol, box)
    with joined(town, sql, carol, Role.VIEWER) as viewer:
        shown = viewer.get(there).text
        assert "the enrolment is unconfirmed" in shown and "Check the enrolment" not in shown
        assert (viewer.get(dialog).status_code, viewer.post(f"{dialog}/undo").status_code) == (403, 403)


def test_an_enrolment_that_came_back_is_undone_by_its_name_and_approved(carol: Person) -> None:
    car, box = garage(carol)
    there = f"/{carol.customer}/cars/{car}"
    dialog = f"{there}/boxes/{box.product}/enrolment"
    thumbprint = enrolled_anew(carol, box)
    with carol.browser() as browser:
        assert browser.post(f"{dialog}/undo").status_code == 303
        confirm(carol, box)
        came_back = "and returned because its box may be in use"
        assert came_back in browser.get(there).text
        shown = browser.get(dialog).text
        assert came_back in shown and "Approve enrolment" in shown and f'value="{thumbprint}"' in shown
        unnamed = browser.post(f"{dialog}/undo")
        assert unnamed.status_code == 409 and "The pending enrolment is in use" in unnamed.text
        german = browser.post(f"{dialog}/undo", headers=GERMAN).text
        assert "Die ausstehende Registrierung ist in Gebrauch" in german
        other = browser.post(f"{dialog}/undo", data={"thumbprint": another_thumbprint()})
        assert other.status_code == 409 and "key differs from the expected one" in other.text
        assert browser.post(f"{dialog}/undo", data={"thumbprint": thumbprint}).status_code == 303
        confirm(carol, box)
        assert browser.post(f"{dialog}/approve", data={"thumbprint": thumbprint}).status_code == 303
    assert carol.get(f"/boxes/{box.product}/enrolment").json()["pending"] is None


def test_a_second_person_approves_an_enrolment(carol: Person, town: Town, sql: Sql) -> None:
    car, box = garage(carol)
    sql.execute("update key_authority set needs_second_person = true where customer_id = $1", carol.customer)
    thumbprint = enrolled_anew(carol, box)
    there = f"/{carol.customer}/cars/{car}"
    dialog = f"{there}/boxes/{box.product}/enrolment"
    with carol.browser() as browser:
        assert "Another person must approve it than the one who enrolled" in browser.get(there).text
        assert "Approve enrolment" in browser.get(dialog).text
        own = browser.post(f"{dialog}/approve", data={"thumbprint": thumbprint})
        assert own.status_code == 403 and "The manager who began the enrolment cannot approve it" in own.text
        other = browser.post(f"{dialog}/approve", data={"thumbprint": another_thumbprint()})
        assert other.status_code == 409 and "key differs from the expected one" in other.text
    with joined(town, sql, carol, Role.TECHNICIAN) as technician:
        done = technician.post(f"{dialog}/approve", data={"thumbprint": thumbprint})
        assert (done.status_code, done.headers["Location"]) == (303, f"/console{there}")
        assert "Approve enrolment" not in technician.get(dialog).text
    assert carol.get(f"/boxes/{box.product}/enrolment").json()["pending"]["isApproved"] is True


def another_thumbprint() -> str:
    return b64(PrivateKey.generate().public.thumbprint)
