"""This server's responses against the OpenAPI document of an earlier commit.

Clients that were generated from the older document keep working.
"""

from __future__ import annotations

import json
import os
from typing import Any

import jsonschema
import pytest

from tests.clients_python.support import SCOPES
from tests.support.people import Person, Town, done, web
from tests.upgrades import releases

# Before strict mode, references and exclusive bookings
COMMIT = "26c5fa8fae8d73734aaa88c1c911ec56cdefdbfa"
READS = (
    "/cars", "/cars/{carId}", "/cars/{carId}/products", "/cars/{carId}/assignments", "/users", "/products", "/services",
    "/assignments", "/assignments/{assignmentId}", "/groups", "/events", "/customers", "/operations", "/changes",
    "/webhooks",
)  # fmt: skip


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    source = releases.earlier(tmp_path_factory.mktemp("earlier"), COMMIT)
    env = {name: value for name, value in os.environ.items() if not name.startswith("KEYRACK_")}
    output, errors = releases.command(source, "openapi", "--json", env=env).communicate(timeout=300)
    assert output, errors
    return json.loads(output)


@pytest.fixture(scope="module")
def fleet(town: Town) -> tuple[Person, dict[str, int]]:
    """A person with rows in each list, and ids for paths.

    Some rows have also the newer properties.
    """
    person = town.person("earlier")
    car = person.car_with_box("Golf")
    done(person.patch(f"/cars/{car}", [{"op": "replace", "path": "/externalId", "value": "V-1"}]))
    user = person.user()
    person.group("North")
    person.event(car, user)
    person.put("/webhooks", {"url": "https://hooks.example.org/"})
    assignment = person.assignment(car, user, exclusive=True, externalId="B-1")
    return person, {"carId": car, "assignmentId": assignment}


def token_of_machine(person: Person) -> dict[str, str]:
    """The headers of a machine client, whose responses have the newer properties."""
    made = person.put("/clients", {"name": "earlier", "scopes": list(SCOPES)}).json()
    answer = web().post(
        person.client.base_url.join("/v3/oauth2/token"),
        data={"grant_type": "client_credentials"},
        auth=(made["clientId"], made["clientSecret"]),
        headers={"vendor-API-Key": person.api_key},
    )
    return {"Authorization": f"Bearer {answer.json()['access_token']}"}


@pytest.mark.parametrize("path", READS)
@pytest.mark.parametrize("caller", ["person", "machine"])
def test_responses_are_valid_against_the_earlier_document(
    caller: str, path: str, document: dict[str, Any], fleet: tuple[Person, dict[str, int]]
) -> None:
    person, ids = fleet
    headers = token_of_machine(person) if caller == "machine" else {}
    answer = person.get(path.format(**ids), headers=headers)
    assert answer.status_code == 200, answer.text
    schema = document["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
    rows = answer.json()
    assert rows, "nothing to check"
    jsonschema.validate(rows, {**schema, "components": document["components"]})
    if caller == "machine" and path == "/cars":
        assert rows[0]["externalId"] == "V-1"


def test_no_operation_and_no_required_property_of_the_earlier_document_is_gone(
    document: dict[str, Any], server: Any
) -> None:
    """A request of the older client is still valid.

    So no body needs a property that it did not need.
    """
    now = web().get(server.url + "/openapi.json").json()
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            if not isinstance(operation, dict) or "operationId" not in operation:
                continue
            found = now["paths"].get(path, {}).get(method)
            assert found is not None, (method, path)
            assert found["operationId"] == operation["operationId"]
    schemas = now["components"]["schemas"]
    for name, schema in document["components"]["schemas"].items():
        if name.startswith("New") and name in schemas:
            assert set(schemas[name].get("required", [])) <= set(schema.get("required", [])), name
