"""Webhooks in a browser: adding one, the secret, a test, errors, and sending again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape

import pytest
from playwright.sync_api import Page, expect

from keyrack.console.pages.webhook_forms import ascii_url
from keyrack.webhooks.delivery_errors import NOT_PULLED
from keyrack.webhooks.dialects import DEFAULT, DIALECTS
from tests.console import axe
from tests.console.conftest import Desk
from tests.support.people import Person, refused
from tests.support.servers import DEADLINE, eventually
from tests.webhooks.receiver import Receiver

expect.set_options(timeout=DEADLINE * 1000)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as receiver:
        yield receiver


def registered(person: Person, url: str) -> int:
    return person.put("/webhooks", {"url": url}).json()["id"]


def at(page: Page, person: Person, path: str) -> None:
    page.goto(f"/console/{person.customer}/webhooks{path}")


def test_a_webhook_is_registered_tested_and_mended(alice: Person, desk: Desk, receiver: Receiver) -> None:
    page = desk(alice)
    at(page, alice, "")
    expect(page.get_by_role("heading", level=1)).to_have_text("Webhooks")
    page.get_by_role("button", name="Add webhook").click()
    dialog = page.get_by_role("dialog", name="Add webhook")
    dialog.get_by_label("Address").fill(f"{receiver.url}/outcomes")
    dialog.get_by_label("Ended bookings").uncheck()
    dialog.get_by_role("button", name="Add").click()

    # The secret is on this page alone
    expect(page.get_by_role("heading", level=1)).to_have_text("Signing secret")
    shown = page.get_by_role("region", name="Signing secret")
    secret = shown.inner_text()
    assert re.fullmatch(r"whsec_[A-Za-z0-9+/]{43}=", secret) and secret not in page.url
    page.get_by_role("link", name="Continue to the webhook").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Webhook")
    assert secret not in page.content()
    expect(page.get_by_text("New bookings, Changed bookings", exact=True)).to_be_visible()

    # The receiver has an error: the result appears by itself, with the cause
    receiver.answer = lambda _: (500, b"no database", {"Content-Type": "text/plain"})
    page.get_by_role("button", name="Send test").click()
    test = page.get_by_role("status").filter(has_text="Test")
    expect(test).to_contain_text("The receiver answered 500.")
    expect(test).to_contain_text("Check its log")
    test.get_by_role("link", name="Messages and answers").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Delivery")
    expect(page.get_by_role("region", name="Body of the answer")).to_have_text("no database")
    expect(page.get_by_role("region", name="Body of the HTTP request")).to_contain_text('"type": "webhook.test"')
    expect(page.get_by_role("region", name="Headers of the HTTP request")).to_contain_text(
        "webhook-signature: created for each attempt"
    )

    receiver.answer = lambda _: (204, b"", {})
    page.get_by_role("button", name="Send again").click()
    expect(page.get_by_role("status").filter(has_text="Delivered")).to_be_visible()
    page.get_by_role("link", name="Webhook", exact=True).click()
    expect(page.get_by_role("row").filter(has_text="Test")).to_contain_text("Delivered")
    webhook = next(row for row in alice.get("/webhooks").json() if row["url"].startswith(receiver.url))
    assert webhook["kinds"] == ["assignment.created", "assignment.updated"]
    done = alice.delete(f"/webhooks/{webhook['id']}")
    assert done.status_code == 204


@pytest.mark.parametrize(
    ("typed", "sent"),
    [
        ("https://m\u00fcnchen.example/", "https://xn--mnchen-3ya.example/"),
        (" https://M\u00dcNCHEN.example:8443/x ", "https://xn--mnchen-3ya.example:8443/x"),
        ("https://example.org/b\u00fccher?q=\u00fc", "https://example.org/b%C3%BCcher?q=%C3%BC"),
        ("https://user:word@m\u00fcnchen.example/", "https://user:word@xn--mnchen-3ya.example/"),  # still refused
        ("https://example.org/a b#part", "https://example.org/a b#part"),
        ("http://[2001:db8::1]:8080/\u00fc", "http://[2001:db8::1]:8080/%C3%BC"),
        ("https://\u200b.example/", "https://\u200b.example/"),
        ("https://[::1", "https://[::1"),
        ("", ""),
    ],
)
def test_a_typed_address_is_sent_in_ascii(typed: str, sent: str) -> None:
    assert ascii_url(typed) == sent


def test_a_host_with_umlauts_is_an_address_in_both_forms(alice: Person, desk: Desk) -> None:
    page = desk(alice)
    at(page, alice, "/new")
    page.get_by_label("Address").fill("https://m\u00fcnchen.example/keyrack")
    page.get_by_role("button", name="Add").click()
    page.get_by_role("link", name="Continue to the webhook").click()
    id = max(row["id"] for row in alice.get("/webhooks").json())
    assert alice.get(f"/webhooks/{id}").json()["url"] == "https://xn--mnchen-3ya.example/keyrack"
    at(page, alice, f"/{id}/change/url")
    page.get_by_label("Address").fill("https://b\u00fccher.example/")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("https://xn--bcher-kva.example/")).to_be_visible()
    assert alice.get(f"/webhooks/{id}").json()["url"] == "https://xn--bcher-kva.example/"
    alice.delete(f"/webhooks/{id}")


def test_what_cannot_be_an_address_is_told_at_the_field(alice: Person, desk: Desk) -> None:
    page = desk(alice)
    at(page, alice, "/new")
    for name in ("New bookings", "Changed bookings", "Ended bookings"):
        page.get_by_label(name).uncheck()
    page.get_by_label("Address").fill("https://user:word@example.org/")
    page.get_by_label("Static secret").fill("of nobody else")
    kept = page.evaluate(
        "document.forms['new-webhook'].dispatchEvent(new Event('submit', {bubbles: true})),"
        " sessionStorage.getItem('keyrack-draft')"
    )  # entries stay in the tab if the session has expired, except secrets
    assert "user:word" in kept and "nobody else" not in kept
    page.get_by_role("button", name="Add").click()
    expect(page.get_by_role("alert", name="There is a problem")).to_contain_text("This is not a valid webhook address")
    expect(page.get_by_role("alert", name="There is a problem")).to_contain_text("Choose at least one")
    expect(page.get_by_label("Address")).to_have_value("https://user:word@example.org/")
    page.get_by_label("Address").fill("https://example.org:99999/")
    page.get_by_role("button", name="Add").click()
    expect(page.get_by_role("alert", name="There is a problem")).to_contain_text("A port must be from 1 to 65535")
    assert axe.faults(page) == []


def test_a_secret_is_rotated_and_the_old_one_has_its_time(alice: Person, desk: Desk, receiver: Receiver) -> None:
    id = registered(alice, receiver.url)
    page = desk(alice)
    at(page, alice, f"/{id}")
    page.get_by_role("button", name="Rotate secret").click()
    expect(page.get_by_role("status").filter(has_text="not shown again")).to_contain_text(
        "Messages are also signed with the old secret until"
    )
    assert page.get_by_role("region", name="Signing secret").inner_text().startswith("whsec_")
    page.get_by_role("link", name="Continue to the webhook").click()
    expect(page.get_by_text("Messages are also signed with the old secret until")).to_be_visible()
    with alice.browser() as browser:
        answer = browser.post(
            f"/{alice.customer}/webhooks/{id}/rotate", headers={"Accept-Encoding": "gzip"}, data={"a": "b"}
        )
        assert (answer.status_code, answer.headers.get("content-encoding")) == (200, None)
        assert answer.headers["cache-control"] == "no-store"
    alice.delete(f"/webhooks/{id}")


def test_facts_are_changed_where_they_stand(alice: Person, desk: Desk, receiver: Receiver) -> None:
    id = registered(alice, receiver.url)
    page = desk(alice)
    at(page, alice, f"/{id}")
    page.get_by_role("link", name="Change Address").click()
    page.get_by_role("textbox", name="Address").fill("https://example.org/other")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("definition").filter(has_text="https://example.org/other")).to_be_visible()

    page.get_by_role("link", name="Change Address").click()
    expect(page.get_by_role("textbox", name="Address")).to_be_visible()
    assert alice.patch(
        f"/webhooks/{id}", [{"op": "replace", "path": "/url", "value": "https://example.org/third"}]
    ).is_success
    page.get_by_role("textbox", name="Address").fill("https://example.org/mine")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Another person changed the webhook in the meantime")).to_be_visible()
    expect(page.get_by_text("Current value: https://example.org/third")).to_be_visible()
    expect(page.get_by_role("textbox", name="Address")).to_have_value("https://example.org/mine")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("definition").filter(has_text="https://example.org/mine")).to_be_visible()

    page.get_by_role("link", name="Change Static secret").click()
    page.get_by_role("textbox", name="Static secret").fill("open sesame")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Set, and never shown")).to_be_visible()
    page.get_by_role("button", name="Disable").click()
    expect(page.get_by_role("button", name="Enable")).to_be_visible()
    expect(page.get_by_role("button", name="Send test")).to_have_count(0)
    page.get_by_role("button", name="Enable").click()
    expect(page.get_by_role("button", name="Send test")).to_be_visible()

    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog", name="Delete webhook").get_by_role("button", name="Delete").click()
    expect(page.get_by_role("status").filter(has_text="are deleted")).to_be_visible()
    assert alice.get(f"/webhooks/{id}").status_code == 404


def test_what_did_not_arrive_of_a_time_is_sent_again(alice: Person, desk: Desk, receiver: Receiver) -> None:
    id = registered(alice, receiver.url)
    alice.patch(f"/webhooks/{id}", [{"op": "replace", "path": "/enabled", "value": False}])
    car, user = alice.car_with_box(), alice.user()
    alice.assignment(car, user)
    alice.patch(f"/webhooks/{id}", [{"op": "replace", "path": "/enabled", "value": True}])
    page = desk(alice, timezone_id="UTC")
    at(page, alice, f"/{id}")
    page.get_by_role("button", name="Send again").click()
    dialog = page.get_by_role("dialog", name="Send deliveries again")
    dialog.get_by_label("From").fill("2026-02-01T00:00")
    dialog.get_by_label("To").fill("2026-01-01T00:00")
    dialog.get_by_role("button", name="Send again").click()
    expect(page.get_by_role("alert", name="There is a problem")).to_contain_text(
        "The end must be later than the start."
    )
    page.get_by_label("From").fill("2020-01-01T00:00")
    page.get_by_label("To").fill("2099-01-01T00:00")
    page.get_by_role("button", name="Send again").click()
    expect(page.get_by_role("status").filter(has_text="again.")).to_be_visible()
    expect(page.get_by_role("row").filter(has_text="New bookings").first).to_contain_text("Delivered")
    assert receiver.got[0].payload["type"] == "assignment.created"
    alice.delete(f"/webhooks/{id}")


def test_kinds_of_changes_are_chosen_by_resource(alice: Person, desk: Desk, receiver: Receiver) -> None:
    page = desk(alice, timezone_id="UTC")
    at(page, alice, "/new")
    page.get_by_label("Address").fill(f"{receiver.url}/changes")
    for name in ("New bookings", "Changed bookings", "Ended bookings"):
        page.get_by_label(name).uncheck()
    expect(page.get_by_label("Everything about cars")).to_be_hidden()
    page.get_by_text("Changes to cars, people, key boxes and other objects").click()
    page.get_by_label("Car added", exact=True).check()
    page.get_by_label("Everything about cars").check()
    expect(page.get_by_label("Car added", exact=True)).to_be_hidden()
    page.get_by_label("Key box put in", exact=True).check()
    page.get_by_role("button", name="Add").click()
    page.get_by_role("link", name="Continue to the webhook").click()
    expect(page.get_by_text("Key box put in, Everything about cars", exact=True)).to_be_visible()
    webhook = next(row for row in alice.get("/webhooks").json() if row["url"] == f"{receiver.url}/changes")
    assert webhook["kinds"] == ["box.installed", "car.*"], "what everything takes is not named beside it"

    receiver.answer = lambda one: (500, b"", {})
    alice.car("Told")
    expect(page.get_by_role("row").filter(has_text="Car added")).to_contain_text("Failed, will be retried")
    receiver.answer = lambda _: (204, b"", {})
    page.get_by_role("row").filter(has_text="Car added").get_by_role("link").click()
    expect(page.get_by_role("region", name="Body of the HTTP request")).to_contain_text('"type": "car.created"')
    page.get_by_role("button", name="Send again").click()
    expect(page.get_by_role("status").filter(has_text="Delivered")).to_be_visible()

    # Event types chosen by programs stay chosen
    patch = [{"op": "replace", "path": "/kinds", "value": ["iq.*", "changes.*", "user.created"]}]
    assert alice.patch(f"/webhooks/{webhook['id']}", patch).is_success
    at(page, alice, f"/{webhook['id']}")
    page.get_by_role("link", name="Change Sends").click()
    expect(page.get_by_label("Trackers put in and taken out")).to_be_checked()
    page.get_by_label("New bookings").check()
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("button", name="Save")).to_have_count(0)
    kinds = alice.get(f"/webhooks/{webhook['id']}").json()["kinds"]
    assert kinds == ["assignment.created", "changes.*", "iq.*", "user.created"]
    alice.delete(f"/webhooks/{webhook['id']}")


@axe.each_look
def test_the_pages_are_for_everybody(alice: Person, desk: Desk, receiver: Receiver, theme: str, width: int) -> None:
    receiver.answer = lambda _: (410, b"gone", {})
    id = registered(alice, receiver.url)
    test = alice.post(f"/webhooks/{id}/test").json()["id"]
    eventually(lambda: alice.get(f"/webhooks/{id}").json()["disabledReason"], "the end of the webhook")
    page = desk(alice, color_scheme=theme, viewport={"width": width, "height": 800})
    for path in (
        "",
        "/new",
        f"/{id}",
        f"/{id}/change/kinds",
        f"/{id}/replay",
        f"/{id}/delete",
        f"/{id}/deliveries/{test}",
    ):
        at(page, alice, path)
        assert axe.faults(page) == [], path
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
    at(page, alice, f"/{id}")
    expect(page.get_by_text("it is gone for good").first).to_be_visible()
    expect(page.get_by_text("Disabled by Keyrack")).to_be_visible()
    alice.delete(f"/webhooks/{id}")


def test_a_neighbours_webhook_is_nobodys(alice: Person, bob: Person) -> None:
    id = registered(alice, "https://example.org/")
    test = alice.post(f"/webhooks/{id}/test").json()["id"]
    with bob.browser() as browser:
        for path in (f"/{id}", f"/{id}/change/url", f"/{id}/delete", f"/{id}/replay", f"/{id}/deliveries/{test}"):
            assert browser.get(f"/{bob.customer}/webhooks{path}").status_code == 404, path
            assert browser.get(f"/{alice.customer}/webhooks{path}").status_code == 404, path
        for path in ("test", "rotate", "delete", "enabled"):
            answer = browser.post(f"/{bob.customer}/webhooks/{id}/{path}", data={"enabled": "true"})
            assert answer.status_code == 404, path
    assert alice.delete(f"/webhooks/{id}").status_code == 204


def test_what_has_just_been_said_stays_when_the_page_is_looked_at_again(alice: Person) -> None:
    id = registered(alice, "https://example.org/keyrack")
    path = f"/{alice.customer}/webhooks/{id}"
    with alice.browser() as browser:
        page = browser.get(f"{path}?replayed=3&more=2031-11-24T08:00&show=dead").text
        again = unescape(re.findall(r'id="webhook"[^>]* hx-get="/console([^"]+)"', page)[0])
        looked = browser.get(again).text
        for said in ("Sending 3 deliveries again.", "There are more of that time", "No such delivery"):
            assert said in page and said in looked
        user = f"/{alice.customer}/users/{alice.user()}"
        page = browser.get(f"{user}?added").text
        assert "is added." in page and f'hx-get="/console{user}?added"' in page


def test_an_address_says_itself_that_it_is_not_public(alice: Person) -> None:
    id = registered(alice, "http://127.0.0.1:9/hook")
    assert alice.post(f"/webhooks/{id}/test").status_code == 201
    with alice.browser() as browser:
        shown = f"/{alice.customer}/webhooks/{id}"
        eventually(lambda: "The address is not public." in browser.get(shown).text, "the failure")
        assert "The name is unknown" not in browser.get(shown).text
    alice.delete(f"/webhooks/{id}")


def test_what_is_no_webhook_and_no_delivery(alice: Person) -> None:
    id = registered(alice, "https://example.org/")
    with alice.browser() as browser:
        for path in ("/x", "/99999999999", f"/{id}/change/id", f"/{id}/deliveries/x", f"/{id}/deliveries/99"):
            answer = browser.get(f"/{alice.customer}/webhooks{path}")
            assert answer.status_code in (400, 404), path
        alice.patch(f"/webhooks/{id}", [{"op": "replace", "path": "/enabled", "value": False}])
        answer = browser.post(f"/{alice.customer}/webhooks/{id}/test", data={"key": ""})
        assert (answer.status_code, "The webhook is disabled" in answer.text) == (409, True)
        west = {"language": "system", "time_zone": "America/New_York", "theme": "system"}
        browser.post(f"/{alice.customer}/settings/preferences", data=west)
        over = {"start": "2026-11-22T08:00", "end": "9999-12-31T23:59"}  # in UTC it is in the year 10000
        answer = browser.post(f"/{alice.customer}/webhooks/{id}/replay", data=over)
        assert (answer.status_code, "Enter a day and a time." in answer.text) == (400, True)
        browser.post(f"/{alice.customer}/settings/preferences", data=west | {"time_zone": "system"})
    refused(alice.post(f"/webhooks/{id}/test"), 409, "The webhook is disabled. Enable it first.")
    alice.delete(f"/webhooks/{id}")


def test_a_format_is_chosen_shown_and_changed(alice: Person, desk: Desk, receiver: Receiver) -> None:
    page = desk(alice)
    at(page, alice, "/new")
    form = page.get_by_role("group", name="Format of the messages")
    for dialect in DIALECTS.values():
        expect(form.get_by_role("radio", name=dialect.label, exact=True)).to_have_accessible_description(dialect.hint)
    expect(form.get_by_role("radio", name=DIALECTS[DEFAULT].label, exact=True)).to_be_checked()
    page.get_by_label("Address").fill(receiver.url)
    form.get_by_role("radio", name="Standard Webhooks").check()
    page.get_by_role("button", name="Add").click()
    page.get_by_role("link", name="Continue to the webhook").click()
    expect(page.locator("#fact-dialect")).to_contain_text("Standard Webhooks")
    page.get_by_role("link", name="Change Format").click()
    page.get_by_role("radio", name="CloudEvents 1.0").check()
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#fact-dialect")).to_contain_text("CloudEvents 1.0")
    page.get_by_role("button", name="Send test").click()
    page.get_by_role("link", name="Messages and answers").click()
    headers = page.get_by_role("region", name="Headers of the HTTP request")
    expect(headers).to_contain_text("Content-Type: application/cloudevents+json")
    expect(page.get_by_role("region", name="Body of the HTTP request")).to_contain_text('"specversion": "1.0"')
    eventually(lambda: receiver.got, "the test")
    id = next(row["id"] for row in alice.get("/webhooks").json() if row["url"] == receiver.url)
    alice.delete(f"/webhooks/{id}")


def test_a_pull_webhook_is_added_in_the_console(alice: Person, desk: Desk) -> None:
    page = desk(alice)
    at(page, alice, "/new")
    expect(page.get_by_label("Address")).to_be_visible()
    page.get_by_label("The other program fetches the messages").check()
    expect(page.get_by_label("Address")).to_be_hidden()
    page.get_by_label("Name").fill("Billing")
    page.get_by_role("button", name="Add").click()
    expect(page.get_by_role("region", name="Signing secret")).to_contain_text("whsec_")
    webhook = next(row for row in alice.get("/webhooks").json() if row["name"] == "Billing")
    assert (webhook["pull"], webhook["url"]) == (True, None)
    call = page.get_by_role("region", name="Request that fetches messages")
    expect(call).to_contain_text(f"/v3/webhooks/{webhook['id']}/messages?wait=30")
    page.get_by_role("link", name="Continue to the webhook").click()
    expect(page.get_by_text("Not fetched yet")).to_be_visible()

    alice.post(f"/webhooks/{webhook['id']}/test")
    (message,) = alice.get(f"/webhooks/{webhook['id']}/messages").json()
    alice.post(f"/webhooks/{webhook['id']}/messages/ack", {"upto": message["number"]}).raise_for_status()
    at(page, alice, f"/{webhook['id']}")
    status = page.get_by_role("region", name="Status", exact=True)
    for fact in ("Last fetched", "Last acknowledged"):
        expect(status.locator("div").filter(has=page.get_by_text(fact, exact=True))).not_to_contain_text("Never")
    page.get_by_role("link", name="Change Name").click()
    page.get_by_role("textbox", name="Name").fill("Invoices")
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".lead")).to_have_text("Invoices")
    alice.delete(f"/webhooks/{webhook['id']}")


def test_pages_of_a_pull_webhook_show_its_name_and_its_waiting_messages(alice: Person) -> None:
    made = alice.put("/webhooks", {"pull": True, "name": "listen: kim@laptop"}).json()["id"]
    delivery = alice.post(f"/webhooks/{made}/test").json()["id"]
    root = f"/{alice.customer}"
    at, browser = f"{root}/webhooks/{made}", alice.browser()
    pages = {
        path: browser.get(path)
        for path in (
            f"{root}/webhooks", at, f"{at}/deliveries/{delivery}", f"{at}/delete", f"{at}/replay", f"{at}/change/url",
            f"{at}/change/kinds", f"{root}/deliveries", f"{root}/deliveries?webhook={made}",
            f"{root}/changes?resource=webhook&thing={made}", root,
        )
    }  # fmt: skip
    assert {path: answer.status_code for path, answer in pages.items() if answer.status_code != 200} == {}
    for path in (f"{root}/webhooks", at, f"{at}/deliveries/{delivery}", f"{at}/delete"):
        assert "listen: kim@laptop" in unescape(pages[path].text), path
    assert "Oldest waiting message" in pages[at].text and "Last fetched" in pages[at].text
    assert f"{at}/change/url" not in pages[at].text
    assert "As soon as a client fetches it" in pages[f"{at}/deliveries/{delivery}"].text
    assert f"Webhook {made}" in pages[f"{root}/deliveries"].text
    assert not any("POST None" in answer.text for answer in pages.values())
    alice.sql.execute("update delivery set state = 'Dead', error = $1, attempted_at = now()", NOT_PULLED.text)
    assert "No client fetched the message in time." in browser.get(at).text
    alice.delete(f"/webhooks/{made}")
