"""The external id and the metadata of resources in the console."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import httpx
import pytest
from playwright.sync_api import expect

from keyrack.api.permissions import Role
from tests.auth.group_scope import limited, put
from tests.console import axe
from tests.console.conftest import Desk
from tests.support.people import Person, Town
from tests.support.servers import NUMBERS, eventually

TAG = re.compile(r'name="tag" value="([^"]+)"')
BOTH = "?$select=externalId,metadata"
KINDS = ("cars", "users", "groups", "products", "assignments", "webhooks")
kinds = pytest.mark.parametrize("kind", KINDS)


def new(person: Person, kind: str) -> int:
    """A new resource of this type."""
    if kind == "webhooks":
        return person.put("/webhooks", {"url": "http://127.0.0.1:9/hook"}).json()["id"]
    if kind == "assignments":
        return person.assignment(person.car_with_box(), person.user(), end="2031-01-01T08:00:00Z")
    if kind == "products":
        return person.box_in(person.car())
    return {"cars": person.car, "users": person.user, "groups": person.group}[kind]()


def page_of(person: Person, kind: str, id: int) -> str:
    """The page that shows the resource. A product is on the page of its car."""
    if kind == "products":
        return f"/{person.customer}/cars/{person.get(f'/products/{id}/cars').json()['id']}"
    return f"/{person.customer}/{kind}/{id}"


def text_of(answer: httpx.Response) -> str:
    return unescape(answer.text)


def save(browser: httpx.Client, address: str, external_id: str = "", metadata: str = "") -> httpx.Response:
    """Open the form and send it with these texts."""
    found = TAG.search(browser.get(address).text)
    assert found
    data = {"tag": unescape(found[1]), "external_id": external_id, "metadata": metadata}
    return browser.post(address, data=data)


def both(person: Person, kind: str, id: int) -> tuple[Any, Any]:
    row = person.get(f"/{kind}/{id}{BOTH}").json()
    return row["externalId"], row["metadata"]


@kinds
def test_both_are_set_changed_and_removed(carol: Person, kind: str) -> None:
    id, reference = new(carol, kind), f"V-{next(NUMBERS)}"
    form = f"/{carol.customer}/{kind}/{id}/references"
    with carol.browser() as browser:
        assert form in browser.get(page_of(carol, kind, id)).text
        assert save(browser, form, f" {reference} ", "plan = gold\r\n\r\nnote=a = b\r\nempty =\r\n").status_code == 303
        eventually(lambda: both(carol, kind, id)[0] == reference, "the external id")
        assert both(carol, kind, id) == (reference, {"plan": "gold", "note": "a = b", "empty": ""})
        shown = browser.get(page_of(carol, kind, id)).text
        assert reference in shown and "<code>plan</code></dt><dd>gold</dd>" in shown
        assert "note = a = b" in text_of(browser.get(form))
        assert save(browser, form, reference, "plan = silver").status_code == 303
        eventually(lambda: both(carol, kind, id) == (reference, {"plan": "silver"}), "the changed metadata")
        assert save(browser, form, reference, "plan = silver").status_code == 303, "nothing changes"
        assert save(browser, form).status_code == 303
        eventually(lambda: both(carol, kind, id) == (None, None), "the removal")
        assert reference not in browser.get(page_of(carol, kind, id)).text


@kinds
def test_a_taken_id_leads_to_its_holder(carol: Person, kind: str) -> None:
    holder, other, reference = new(carol, kind), new(carol, kind), f"V-{next(NUMBERS)}"
    with carol.browser() as browser:
        assert save(browser, f"/{carol.customer}/{kind}/{holder}/references", reference).status_code == 303
        eventually(lambda: both(carol, kind, holder)[0] == reference, "the external id")
        answer = save(browser, f"/{carol.customer}/{kind}/{other}/references", reference, "plan = gold")
        assert answer.status_code == 409
        assert "Another one has this external id already." in answer.text
        link = re.search(r'<a href="/console([^"]+)">Show the one', answer.text)
        assert link and f"/{kind}/{holder}" in link[1]
        assert reference in browser.get(link[1]).text
        assert 'aria-invalid="true"' in answer.text and "plan = gold</textarea>" in answer.text
    assert both(carol, kind, other) == (None, None)


WRONG = [
    ("plan", "Line 1 has no equals sign."),
    ("a = 1\nnot a key = 2", "Line 2: a key has 1 to 40 letters"),
    ("a = 1\n\na = 2", "Line 3: there is already a line with the key a."),
    ("a = " + "x" * 501, "Line 1: a value has at most 500 characters."),
    ("\n".join(f"k{number} = 1" for number in range(21)), "There are at most 20 keys."),
    ("\n".join(f"k{number} = {'x' * 400}" for number in range(11)), "have at most 4096 bytes."),
    ("plan = \u202egold", "plan: An invisible character here changes the direction"),
]


@pytest.mark.parametrize(("metadata", "text"), WRONG)
def test_invalid_metadata_are_explained_at_their_field(carol: Person, metadata: str, text: str) -> None:
    car = carol.car()
    with carol.browser() as browser:
        answer = save(browser, f"/{carol.customer}/cars/{car}/references", "", metadata)
        assert answer.status_code in (400, 422)
        assert re.search(rf'id="error-metadata">.*{re.escape(text)}', text_of(answer)), text_of(answer)
    assert both(carol, "cars", car) == (None, None)


def test_an_invalid_external_id_is_explained_at_its_field(carol: Person) -> None:
    car = carol.car()
    with carol.browser() as browser:
        answer = save(browser, f"/{carol.customer}/cars/{car}/references", "x" * 129)
        assert answer.status_code == 400
        assert re.search(r'id="error-external_id">.*It has at most 128 characters\.', answer.text)
        answer = save(browser, f"/{carol.customer}/cars/{car}/references", "a\x01b")
        assert answer.status_code == 400
        assert re.search(r'id="error-external_id">.*This value is not valid here', answer.text)


def test_a_text_that_no_line_can_show_stays(carol: Person) -> None:
    metadata = {"note": "one\ntwo", "plan": "gold", "edge": " x "}
    car = carol.car(metadata=metadata)
    form = f"/{carol.customer}/cars/{car}/references"
    with carol.browser() as browser:
        assert "only the API changes them: note" in browser.get(form).text
        assert save(browser, form, "", "plan = silver\nedge =  x").status_code == 303
        assert both(carol, "cars", car) == (None, {**metadata, "plan": "silver"})
        assert save(browser, form, "", "note = one line").status_code == 303
        assert both(carol, "cars", car) == (None, {"note": "one line"})


def test_the_slower_one_sees_the_values_of_the_other(carol: Person) -> None:
    car = carol.car(metadata={"plan": "gold"})
    form = f"/{carol.customer}/cars/{car}/references"
    with carol.browser() as browser:
        found = TAG.search(browser.get(form).text)
        assert found
        carol.patch(f"/cars/{car}", [{"op": "replace", "path": "/metadata/site", "value": "7"}])
        data = {"tag": unescape(found[1]), "external_id": "", "metadata": "plan = silver"}
        answer = browser.post(form, data=data)
        assert answer.status_code == 412
        assert "Another person changed this in the meantime." in answer.text
        assert "site = 7" in answer.text and "plan = silver</textarea>" in answer.text
        again = TAG.search(answer.text)
        assert again and again[1] != found[1]
        assert browser.post(form, data={**data, "tag": unescape(again[1])}).status_code == 303
    assert both(carol, "cars", car) == (None, {"plan": "silver"})


def test_a_group_limited_manager_changes_only_the_own_part(town: Town) -> None:
    whole = town.person("references")
    group, seen, hidden = whole.group(), whole.car(), whole.car(externalId="V-hidden")
    put(whole, group, "carId", seen)
    gina = limited(town, whole, "gina.references", [group], Role.MANAGER)
    with gina.browser() as browser:
        assert browser.get(f"/{whole.customer}/cars/{hidden}/references").status_code == 404
        assert (
            browser.post(f"/{whole.customer}/cars/{hidden}/references", data={"external_id": "V-1"}).status_code == 404
        )
        answer = save(browser, f"/{whole.customer}/cars/{seen}/references", "V-hidden")
        assert answer.status_code == 409
        assert "Another one has this external id already." in answer.text
        assert "Show the one" not in answer.text and f"/cars/{hidden}" not in answer.text
        assert save(browser, f"/{whole.customer}/cars/{seen}/references", "V-seen", "plan = gold").status_code == 303
    assert both(whole, "cars", seen) == ("V-seen", {"plan": "gold"})
    assert both(whole, "cars", hidden) == ("V-hidden", None)
    for person in (gina, whole):
        person.client.close()


@kinds
def test_another_customer_sees_nothing(alice: Person, bob: Person, kind: str) -> None:
    id = new(alice, kind)
    with bob.browser() as browser:
        for customer in (alice.customer, bob.customer):
            address = f"/{customer}/{kind}/{id}/references"
            assert browser.get(address).status_code == 404
            assert browser.post(address, data={"external_id": "V-1", "metadata": "plan = gold"}).status_code == 404
    assert both(alice, kind, id) == (None, None)


def test_a_viewer_sees_both_and_changes_nothing(town: Town, carol: Person) -> None:
    car = carol.car(externalId="V-viewed", metadata={"plan": "gold"})
    viewer = town.colleague(carol, "viewer.references", Role.VIEWER)
    with viewer.browser() as browser:
        shown = browser.get(f"/{carol.customer}/cars/{car}").text
        assert "V-viewed" in shown and "gold" in shown and "/references" not in shown
        assert browser.post(f"/{carol.customer}/cars/{car}/references", data={}).status_code == 403
    viewer.client.close()


def test_both_are_changed_in_a_dialog(carol: Person, desk: Desk) -> None:
    taken = f"V-{next(NUMBERS)}"
    carol.car("Holder", externalId=taken)
    car = carol.car("Pool car")
    page = desk(carol)
    page.goto(f"/console/{carol.customer}/cars/{car}")
    page.get_by_role("button", name="External id and metadata").press("Enter")
    dialog = page.get_by_role("dialog", name="External id and metadata")
    expect(dialog).to_be_visible()
    dialog.get_by_label("External id", exact=True).fill(taken)
    dialog.get_by_label("Metadata", exact=True).fill("plan = gold\nsite = 7")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog.get_by_role("alert", name="There is a problem")).to_contain_text("Another one has this external id")
    expect(dialog.get_by_role("link", name="Show the one that has this external id")).to_be_visible()
    assert axe.faults(page) == []
    dialog.get_by_label("External id", exact=True).fill(f"{taken}-2")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog).to_have_count(0)
    facts = page.locator("#facts")
    expect(facts).to_contain_text(f"{taken}-2")
    expect(facts).to_contain_text("plan")
    assert axe.faults(page) == []
    assert both(carol, "cars", car) == (f"{taken}-2", {"plan": "gold", "site": "7"})


@pytest.mark.parametrize("kind", ["cars", "groups"])
def test_a_new_one_has_an_external_id_and_leads_to_the_holder(carol: Person, kind: str) -> None:
    reference = f"V-{next(NUMBERS)}"
    names = [f"Added {next(NUMBERS)}" for _ in range(2)]
    with carol.browser() as browser:
        address = f"/{carol.customer}/{kind}/new"
        made = browser.post(address, data={"name": names[0], "externalId": reference})
        assert made.status_code == 303
        id = int(made.headers["Location"].rpartition("/")[2].partition("?")[0])
        assert both(carol, kind, id) == (reference, None)
        answer = browser.post(address, data={"name": names[1], "externalId": reference})
        assert answer.status_code == 409
        assert re.search(r'id="error-externalId">.*This value is already taken\.', answer.text)
        assert f'<a href="/console/{carol.customer}/{kind}/{id}">Show the one' in answer.text


@pytest.mark.parametrize(("kind", "path"), [("cars", "/cars"), ("groups", "/groups"), ("products", "/boxes")])
def test_the_search_of_a_list_finds_it(carol: Person, kind: str, path: str) -> None:
    id, reference = new(carol, kind), f"V-{next(NUMBERS)}"
    carol.patch(f"/{kind}/{id}", [{"op": "replace", "path": "/externalId", "value": reference}])
    with carol.browser() as browser:
        found = browser.get(f"/{carol.customer}{path}", params={"q": reference})
        assert found.status_code == 200
        assert found.text.count("<tr id=") == 1, found.text


def test_searches_find_a_person_and_a_booking_by_it(carol: Person) -> None:
    person, booking = f"V-{next(NUMBERS)}", f"V-{next(NUMBERS)}"
    user = carol.user(externalId=person)
    carol.assignment(carol.car_with_box(), user, externalId=booking)
    carol.assignment(carol.car_with_box(), carol.user())
    with carol.browser() as browser:
        for path, reference in (("/users", person), ("/assignments/list", booking)):
            found = browser.get(f"/{carol.customer}{path}", params={"q": reference})
            assert found.status_code == 200
            assert found.text.count("<tr id=") == 1, found.text


def test_the_list_of_cars_has_a_column_for_it(town: Town, carol: Person) -> None:
    reference = f"V-{next(NUMBERS)}"
    carol.car(externalId=reference)
    person = town.colleague(carol, "columns.references", Role.TECHNICIAN)  # without positions: another list of cars
    for caller in (carol, person):
        with caller.browser() as browser:
            shown = browser.get(f"/{carol.customer}/cars", params={"columns": "name,externalId", "q": reference})
            assert shown.status_code == 200 and reference in shown.text
    person.client.close()
