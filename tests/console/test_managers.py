"""The console's accounts: group scopes, and the form that grants nothing by mistake."""

from __future__ import annotations

from html import unescape

import httpx
import pytest

from keyrack.api.permissions import ROLES, Role
from keyrack.console.languages import DEFAULT, LANGUAGES, translations
from tests.auth.group_scope import limited, number, put, seen
from tests.support.people import Person, Town


@pytest.fixture(scope="module")
def visitor(alice: Person) -> httpx.Client:
    return alice.browser()


def test_a_manager_is_limited_and_gets_the_whole_fleet_again(alice: Person, town: Town, visitor: httpx.Client) -> None:
    north, south = alice.group("North"), alice.group("South")
    kim = limited(town, alice, "kim", [north], Role.DISPATCHER)
    here = f"/{alice.customer}/settings/managers"
    page = f"{here}/{number(kim)}/groups"
    assert "North" in visitor.get(here).text
    form = visitor.get(page).text
    assert f'value="{north}" checked' in form and f'value="{south}" checked' not in form
    both = {"part": "groups", "groups": [str(north), str(south)]}
    assert visitor.post(page, data=both).status_code == 303
    seen(kim, [north, south])
    assert "North, South" in visitor.get(f"{here}?done=groups").text
    # A form without a complete choice changes nothing
    for sent in (
        {},
        {"part": "groups"},
        {"part": "all"},
        {"groups": [str(north)]},
        {"part": "whole", "groups": [str(north)]},
        {"part": "groups", "groups": "x"},
    ):
        answer = visitor.post(page, data=sent)
        assert answer.status_code == 422, sent
        assert alice.get(f"/managers/{number(kim)}").json()["groups"] == [north, south]
    assert visitor.post(page, data={"part": "groups", "groups": "2147483647"}).status_code == 404
    assert visitor.post(page, data={"part": "whole"}).status_code == 303
    assert alice.get(f"/managers/{number(kim)}").json()["groups"] is None
    kim.client.close()


@pytest.mark.parametrize("language", LANGUAGES)
def test_each_role_is_described_in_each_language(alice: Person, visitor: httpx.Client, language: str) -> None:
    path = f"/{alice.customer}/settings/managers/invite"
    page = unescape(visitor.get(path, headers={"Accept-Language": language}).text)
    for role in Role:
        description = translations(language).gettext(ROLES[role])
        assert f": {description}" in page
        assert (description == ROLES[role]) == (language == DEFAULT)


def test_somebody_is_invited_to_groups(alice: Person, visitor: httpx.Client) -> None:
    group = alice.group("West")
    here, address = f"/{alice.customer}/settings/managers", f"lee.{alice.customer}@example.com"
    form = {"address": address, "role": "Viewer", "key": "by-gina"}
    assert visitor.post(f"{here}/invite", data=form).status_code == 422
    assert visitor.post(f"{here}/invite", data={**form, "part": "groups"}).status_code == 422
    assert alice.get("/invitations").json() == []
    assert visitor.post(f"{here}/invite", data={**form, "part": "groups", "groups": str(group)}).status_code == 201
    (invitation,) = alice.get("/invitations").json()
    assert (invitation["emailAddress"], invitation["groups"]) == (address, [group])
    assert "West" in visitor.get(here).text


def test_pages_show_what_is_in_the_groups_and_offer_nothing_else(alice: Person, town: Town) -> None:
    group = alice.group("East")
    mine, hidden = alice.car("Seen"), alice.car("Hidden")
    put(alice, group, "carId", mine)
    gina = limited(town, alice, "gina", [group])
    root = f"/{alice.customer}"
    with gina.browser() as browser:
        cars = browser.get(f"{root}/cars").text
        assert "Seen" in cars and "Hidden" not in cars
        assert browser.get(f"{root}/cars/{mine}").status_code == 200
        assert browser.get(f"{root}/cars/{hidden}").status_code == 404
        assert "Hidden" not in browser.get(root).text
        groups = browser.get(f"{root}/groups").text
        assert "East" in groups and "Add group" not in groups
        for path in ("/operations", "/webhooks", "/settings/managers", "/settings/clients", "/groups/new"):
            answer = browser.get(root + path)
            assert answer.status_code == 403, path
            assert f'href="/console{root}{path}"' not in cars
        made = browser.post(f"{root}/cars/new", data={"name": "Made by hand", "key": "by-gina"})
        assert made.status_code == 303
    assert [row["name"] for row in alice.get(f"/groups/{group}/cars?$orderby=id").json()] == ["Seen", "Made by hand"]
    gina.client.close()
