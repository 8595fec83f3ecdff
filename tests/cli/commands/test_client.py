"""Machine clients on the command line, and the commands of docs/machine-clients.md."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import httpx
import pytest

from keyrack.core.settings import Settings
from tests.cli.test_operator_commands import Operator
from tests.docs.walkthrough import installed, walk
from tests.support.people import Person, Town
from tests.support.servers import RunningServer, migrated_database

ADD = ("client", "add", "Booking", "--scope", "cars:read,keys:read")


@pytest.fixture(scope="module")
def operator(dsn: str) -> Operator:
    return Operator(dsn)


def token(person: Person, made: Any) -> httpx.Response:
    form = {"grant_type": "client_credentials"}
    auth, headers = (made["clientId"], made["clientSecret"]), {"vendor-API-Key": person.api_key}
    return person.client.post("/oauth2/token", data=form, auth=auth, headers=headers)


def test_a_client_of_several_customers(operator: Operator, alice: Person, bob: Person, town: Town) -> None:
    made = operator.value(*ADD, "--customer", alice.customer, "--customer", bob.customer)
    assert list(made) == ["id", "clientId", "clientSecret"]
    assert token(alice, made).json()["scope"] == "cars:read keys:read"
    headers = {"Authorization": f"Bearer {token(alice, made).json()['access_token']}"}
    assert alice.get("/cars", headers=headers).status_code == bob.get("/cars", headers=headers).status_code == 200
    (listed,) = [row for row in operator.value("client", "list", "--customer", bob.customer) if row["id"] == made["id"]]
    assert listed["customers"] == sorted([alice.customer, bob.customer]) and listed["managedBy"] is None
    assert listed["scopes"][str(alice.customer)] == ["cars:read", "keys:read"]
    assert listed["mode"] == "strict"
    old = operator.value(*ADD, "--customer", alice.customer, "--mode", "spec")
    assert alice.get(f"/clients/{old['id']}").json()["mode"] == "spec"
    # Owners can see it, change its scopes and remove it from their customer; only the operator changes the rest
    path = f"/clients/{made['id']}"
    assert alice.get(path).json()["managedHere"] is False
    for answer in (
        alice.put(path + "/secrets"), alice.delete(path + "/secrets/1"),
        alice.patch(path, [{"op": "replace", "path": "/name", "value": "Mine"}]),
    ):  # fmt: skip
        assert answer.status_code == 409
    step = {"op": "replace", "path": "/scopes", "value": ["keys:read"]}
    assert alice.patch(path, [step]).status_code == 204
    assert alice.delete(path).status_code == 204
    assert alice.get(path).status_code == 404
    assert bob.get(path).json()["scopes"] == ["cars:read", "keys:read"]


def test_what_is_changed(operator: Operator, alice: Person) -> None:
    made = operator.value(*ADD, "--customer", alice.customer, "--managed-by", alice.customer)
    id = made["id"]
    assert alice.get(f"/clients/{id}").json()["managedHere"] is True
    operator.value(
        "client", "change", id, "--name", "Other", "--customer", alice.customer, "--scope", "users:read",
        "--expires", "2090-01-31",
    )  # fmt: skip
    found = alice.get(f"/clients/{id}").json()
    assert (found["name"], found["scopes"], found["expires"]) == ("Other", ["users:read"], "2090-02-01T00:00:00Z")
    operator.value("client", "change", id, "--never-expires", "--disable")
    found = alice.get(f"/clients/{id}").json()
    assert (found["expires"], found["enabled"]) == (None, False)
    assert token(alice, made).status_code == 401
    operator.value("client", "change", id, "--enable", "--mode", "spec")
    assert alice.get(f"/clients/{id}").json()["mode"] == "spec"
    assert "'x' is not one of" in operator.refused("client", "change", id, "--mode", "x", status=2)
    second = operator.value("client", "new-secret", id)
    assert token(alice, made).status_code == 200
    assert "already has two secrets" in operator.refused("client", "new-secret", id)
    first = next(row["id"] for row in alice.get(f"/clients/{id}/secrets").json() if row["id"] != second["secretId"])
    operator.value("client", "remove-secret", id, first)
    assert token(alice, made).status_code == 401
    assert token(alice, {**made, "clientSecret": second["clientSecret"]}).status_code == 200
    operator.value("client", "change", id, "--remove-customer", alice.customer)
    assert alice.get(f"/clients/{id}").status_code == 404
    assert operator.value("client", "remove", id) == {"id": id}


@pytest.mark.parametrize(
    ("arguments", "status", "told"),
    [
        (("add", "X", "--scope", "cars:raed"), 2, "'cars:raed' is not a scope"),
        (("add", "X", "--scope", "clients:write"), 2, "'clients:write' is not a scope"),
        (("add", "X", "--scope", "cars:read", "--expires", "2020-01-01"), 2, "is in the past"),
        (("add", "X", "--scope", "cars:read", "--customer", "2000000000"), 1, "There is no"),
        (("change", "2000000000", "--disable"), 1, "There is no client 2000000000."),
        (("change", "1"), 2, "Nothing to change"),
        (("change", "1", "--scope", "cars:read"), 2, "need each other"),
        (("new-secret", "2000000000"), 1, "There is no client 2000000000."),
        (("remove-secret", "2000000000", "1"), 1, "has no secret 1."),
        (("remove", "2000000000"), 1, "There is no client 2000000000."),
    ],
)
def test_what_is_refused(operator: Operator, alice: Person, arguments: tuple[str, ...], status: int, told: str) -> None:
    customer = ("--customer", str(alice.customer)) if arguments[0] == "add" and "--customer" not in arguments else ()
    assert told in operator.refused("client", *arguments, *customer, status=status)


def test_the_page_leads_to_a_token(database_server: str, settings: Settings, tmp_path: Path) -> None:
    """Run the blocks that are marked client, in order."""
    with migrated_database(database_server) as dsn, RunningServer(settings, dsn) as running:
        same = {"KEYRACK_DATABASE_URL": dsn, "KEYRACK_MASTER_KEY": os.environ["KEYRACK_MASTER_KEY"]}
        operator = Operator(dsn)
        for name in ("Another", "Example Fleet"):
            operator.value("customer", "add", name)
        key = operator.value("api-key", "add", "tests")["apiKey"]
        env = installed(tmp_path) | same | {"URL": f"{running.url}/v3", "KEY": key}
        _, cars, _, rotated = walk("docs/machine-clients.md", env, tmp_path, mark="client")
    assert cars.text.strip() == "[]"
    assert "Secret 1 of client 1 removed." in rotated.text
