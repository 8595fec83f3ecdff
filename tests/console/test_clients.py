"""The console's clients: creating, changing, replacing secrets, removing, and missing permissions."""

from __future__ import annotations

import re

import httpx
import pytest

from keyrack.api.permissions import Role
from tests.support.people import Person, Town


def posted(visitor: httpx.Client, path: str, **form: str | list[str]) -> httpx.Response:
    return visitor.post(path, data=form)


def secret_of(answer: httpx.Response) -> str:
    found = re.search(r'<code id="secret">(?:<bdi[^>]*>)?([^<]+)', answer.text)
    assert found is not None, answer.text
    return found[1]


@pytest.fixture(scope="module")
def visitor(alice: Person) -> httpx.Client:
    return alice.browser()


def test_one_is_made_changed_and_removed(alice: Person, visitor: httpx.Client) -> None:
    here = f"/{alice.customer}/settings/clients"
    assert "No clients yet" in visitor.get(here).text
    form = visitor.get(f"{here}/new").text
    assert "cars:write" in form and "clients:write" not in form and "managers:write" not in form
    wanted: dict[str, str | list[str]] = {"name": "Booking", "scopes": ["cars:read", "users:write"]}
    made = posted(visitor, f"{here}/new", **wanted, last="2090-01-31", key="1")
    assert made.status_code == 201
    (client,) = alice.get("/clients").json()
    assert (client["name"], client["scopes"]) == ("Booking", ["cars:read", "users:write"])
    assert client["expires"].startswith(("2090-01-31", "2090-02-01"))
    auth, key = (client["clientId"], secret_of(made)), {"vendor-API-Key": alice.api_key}
    grant = {"grant_type": "client_credentials"}
    assert alice.client.post("/oauth2/token", data=grant, auth=auth, headers=key).status_code == 200

    page = f"{here}/{client['id']}"
    assert 'value="2090-01-31"' in visitor.get(f"{page}/change").text
    tag = alice.get(f"/clients/{client['id']}").headers["etag"]
    assert client["mode"] == "strict" and "Strict: what is unknown is rejected" in visitor.get(page).text
    changed = posted(visitor, f"{page}/change", name="Other", scopes=["keys:read"], last="", mode="spec", tag=tag)
    assert changed.status_code == 303
    client = alice.get(f"/clients/{client['id']}").json()
    assert client["mode"] == "spec" and "By the specification" in visitor.get(page).text
    assert (client["name"], client["scopes"], client["expires"]) == ("Other", ["keys:read"], None)
    stale = posted(visitor, f"{page}/change", name="Late", scopes=["keys:read"], last="", tag=tag)
    assert stale.status_code == 412

    assert posted(visitor, f"{page}/enabled", enabled="false").status_code == 303
    assert "Disabled" in visitor.get(page).text
    assert posted(visitor, f"{page}/enabled", enabled="true").status_code == 303
    second = secret_of(posted(visitor, f"{page}/secrets"))
    assert second != auth[1] and second not in visitor.get(page).text
    assert posted(visitor, f"{page}/secrets").status_code == 409
    first = alice.get(f"/clients/{client['id']}/secrets").json()[0]["id"]
    assert posted(visitor, f"{page}/secrets", secret=str(first)).status_code == 303
    assert alice.client.post("/oauth2/token", data=grant, auth=auth, headers=key).status_code == 401
    assert "Other" in visitor.get(f"{page}/delete").text
    assert posted(visitor, f"{page}/delete").status_code == 303
    assert visitor.get(page).status_code == 404


@pytest.mark.parametrize(
    ("form", "told"),
    [
        ({"name": "", "scopes": ["cars:read"]}, "Enter the program"),
        ({"name": "X"}, "Choose at least one."),
        ({"name": "X", "scopes": ["cars:read"], "last": "2020-01-01"}, "Choose a day in the future."),
        ({"name": "X", "scopes": ["cars:read"], "last": "nonsense"}, "Choose a day in the future."),
    ],
)
def test_what_is_wrong_is_said_at_its_field(
    alice: Person, visitor: httpx.Client, form: dict[str, str | list[str]], told: str
) -> None:
    before = alice.get("/clients").json()
    answer = posted(visitor, f"/{alice.customer}/settings/clients/new", **form)
    assert answer.status_code == 422 and told in answer.text
    assert alice.get("/clients").json() == before


def test_one_that_is_managed_elsewhere(alice: Person, visitor: httpx.Client) -> None:
    number = alice.put("/clients", {"name": "Elsewhere", "scopes": ["cars:read"]}).json()["id"]
    alice.sql.execute("update client set managed_by = null where client_id = $1", number)
    page = f"/{alice.customer}/settings/clients/{number}"
    shown = visitor.get(page).text
    assert "The client is managed elsewhere." in shown and "Create another secret" not in shown
    assert 'name="name"' not in visitor.get(f"{page}/change").text
    assert posted(visitor, f"{page}/change", scopes=["keys:read"]).status_code == 303
    assert alice.get(f"/clients/{number}").json()["scopes"] == ["keys:read"]
    assert posted(visitor, f"{page}/enabled", enabled="false").status_code == 409


def test_who_may_not_see_them_finds_no_way_there(town: Town) -> None:
    manager = town.person("a manager", Role.MANAGER)
    visitor = manager.browser()
    assert "settings/clients" not in visitor.get(f"/{manager.customer}/settings").text
    assert visitor.get(f"/{manager.customer}/settings/clients").status_code == 403
    assert posted(visitor, f"/{manager.customer}/settings/clients/new", name="X").status_code == 403
    visitor.close()
    manager.client.close()
