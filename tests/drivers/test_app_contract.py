"""An app of the previous build works with the present server: `app-contract.json` has what it sends and reads."""

from __future__ import annotations

import os
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import jsonschema
import pytest

from tests.drivers import app_contract
from tests.drivers.app_contract import Json
from tests.drivers.test_data_export import used
from tests.support.drivers import SignedInDriver, signed_in_driver
from tests.support.people import Person

SESSION = "GET /drive/api/session"


def test_an_app_of_the_previous_build_finds_all_that_it_uses() -> None:
    if os.environ.get("KEYRACK_CONTRACT") == "write":
        app_contract.write()
    assert app_contract.broken(app_contract.recorded(), app_contract.present()) == []


def test_every_call_of_the_app_is_an_operation_of_the_server() -> None:
    assert app_contract.calls() - app_contract.present().keys() == set()


def renamed(operation: Json) -> None:
    members = operation["reads"]["200"]["properties"]
    members["signInId"] = members.pop("sessionId")


def nullable(operation: Json) -> None:
    operation["reads"]["200"]["properties"]["hasPassword"] = {"anyOf": [{"type": "boolean"}, {"type": "null"}]}


def without_name(operation: Json) -> None:
    del operation["reads"]["200"]["properties"]["customers"]["items"]["properties"]["name"]


def optional(operation: Json) -> None:
    operation["reads"]["200"]["required"].remove("customers")


def another_status(operation: Json) -> None:
    operation["reads"]["203"] = operation["reads"].pop("200")


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (renamed, "reads sessionId: removed"), (nullable, "reads hasPassword: may be null now"),
        (without_name, "reads customers.[].name: removed"), (optional, "reads customers: may be absent now"),
        (another_status, "no longer answers 200"),
    ],
)  # fmt: skip
def test_a_response_with_another_form_breaks_the_contract(change: Callable[[Json], None], found: str) -> None:
    new = deepcopy(app_contract.recorded())
    change(new[SESSION])
    assert app_contract.broken(app_contract.recorded(), new) == [f"{SESSION}: {found}"]


def test_a_request_that_is_rejected_breaks_the_contract() -> None:
    old, call = app_contract.recorded(), "POST /drive/api/session"
    new = deepcopy(old)
    body = new[call]["sends"]
    del body["properties"]["password"]
    body["required"] = ["emailAddress", "device"]
    assert app_contract.broken(old, new) == [
        f"{call}: sends device: newly required", f"{call}: sends password: no longer accepted",
    ]  # fmt: skip
    del new[call]
    assert app_contract.broken(old, new) == [f"{call}: removed"]


def test_more_members_break_nothing() -> None:
    new = deepcopy(app_contract.recorded())
    new[SESSION]["reads"]["200"]["properties"]["theme"] = {"type": "string"}
    new["POST /drive/api/session"]["sends"]["properties"]["theme"] = {"type": "string"}
    assert app_contract.broken(app_contract.recorded(), new) == []


def answers(driver: SignedInDriver, customer: int) -> dict[str, Any]:
    """The server's responses to calls without a body."""
    found = {
        call: driver.get(path.removeprefix("/drive/api")).json()
        for call in app_contract.recorded()
        for method, _, path in [call.partition(" ")]
        if method == "GET" and path.startswith("/drive/api/") and "{}" not in path and "radio" not in path
    }
    token = driver.post("/token", customer=customer)
    return found | {"POST /drive/api/token": token.json()}


def test_real_responses_have_the_recorded_form(alice: Person) -> None:
    driver = signed_in_driver(alice)
    used(alice, driver.user, "Phone")
    seen = answers(driver, alice.customer)
    assert seen.keys() >= {SESSION, "GET /drive/api/cars", "GET /drive/api/phones", "GET /drive/api/requests"}
    assert seen["GET /drive/api/cars"] and seen["GET /drive/api/phones"] and seen["GET /drive/api/requests"]
    for call, value in seen.items():
        schema = open_objects(app_contract.recorded()[call]["reads"]["200"])
        errors = [error.message for error in jsonschema.Draft202012Validator(schema).iter_errors(value)]
        assert errors == [], call


def open_objects(schema: Any) -> Any:
    """The schema, which allows members that a newer server has added."""
    if isinstance(schema, list):
        return [open_objects(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: open_objects(part) for key, part in schema.items() if key != "additionalProperties"}
