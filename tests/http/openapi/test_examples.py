"""The examples of the OpenAPI document match the server's real responses."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, cast

import httpx
import jsonschema
import pytest
from standardwebhooks import Webhook

from keyrack.api.auth_schemes import AppAuth, DeviceAuth, DrivePageAuth, DriverAuth
from keyrack.api.endpoint import Endpoint, FormBody
from keyrack.core.errors import JSON
from keyrack.http.openapi.examples import ANY_STRING
from keyrack.http.routes import ALL
from keyrack.offline_keys.public_key import EXAMPLE_THUMBPRINT
from tests.changelog.transparency.checkpoints import signed
from tests.http.openapi.document_reader import Json, inlined, objects, resolved, strict
from tests.http.test_contract import name, over, query_of
from tests.http.test_tenant_isolation import slots, visitor, world
from tests.offline_keys.offline_world import b64
from tests.support.people import PASSWORD, Person, Town, web
from tests.support.servers import NUMBERS, RunningServer
from tests.telemetry.endpoints.test_ingest import device_key

# Rows for the app's own pages need its session: tests/drivers/test_app_contract.py checks their responses
ASKED = [
    row for row in ALL if row.responses.media_type == JSON and not isinstance(row.auth, DriverAuth | DrivePageAuth)
]
FORM = "application/x-www-form-urlencoded"


@pytest.fixture(scope="module")
def document(server: RunningServer) -> Json:
    return inlined(web().get(server.url + "/openapi.json").json())


@pytest.fixture(scope="module")
def erin(town: Town) -> Person:
    """The manager whose fleet the examples use."""
    return town.person("erin")


def operation(document: Json, endpoint: Endpoint) -> Json:
    return document["paths"][endpoint.path][endpoint.method.lower()]


def answer_of(document: Json, endpoint: Endpoint) -> Json:
    return operation(document, endpoint)["responses"][str(endpoint.responses.status)].get("content", {}).get(JSON, {})


# From ids of an example to ids of this fleet


def ids(endpoint: Endpoint, person: Person) -> dict[str, Any]:
    if isinstance(endpoint.auth, AppAuth):
        kim, _ = visitor(person)
        return {
            "deviceId": kim.id, "registration": b64(kim.registration()), "box": kim.held["boxes"][0]["box"],
            "entries": [b64(entry) for entry in kim.entries], "token": kim.token,
        }  # fmt: skip
    if endpoint.path == "/webhooks/{webhookId}/deliveries/{deliveryId}/replay" or slots(endpoint):
        return world(endpoint, person)
    if endpoint.path == "/changes/checkpoint":
        return {"changeId": signed(person)}
    if isinstance(endpoint.auth, DeviceAuth) or endpoint.path == "/events":
        car, serial = person.car(), f"IQ {next(NUMBERS)}"
        product = person.product("IQ", serial_number=serial)
        person.service(product)
        assert person.put("/installations", {"carId": car, "productId": product}).status_code == 204
        return {"carId": car, "userId": person.user(), "serialNumber": serial}
    return {}


def put(value: Any, ours: Mapping[str, Any]) -> Any:
    """Replace the ids of an example with ids of this fleet. An example without ids is unchanged."""
    if isinstance(value, list):
        return [put(inner, ours) for inner in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    return {key: ours.get(key, put(inner, ours)) for key, inner in cast("Json", value).items()}


def sent(document: Json, endpoint: Endpoint, person: Person) -> httpx.Response:
    """The response to the example request of the endpoint."""
    ours = ids(endpoint, person)
    fixed = {"searchDate": "2026-05-01T08:15:00Z", "keyFormId": 1, "brand": "Demo"}
    path = endpoint.path.format(**fixed | ours) + query_of(endpoint)
    if isinstance(endpoint.auth, AppAuth):
        person = replace(person, headers={"Authorization": f"Bearer {ours['token']}"})
        path = path.replace(EXAMPLE_THUMBPRINT, ours["deviceId"])
    contents = operation(document, endpoint).get("requestBody", {}).get("content", {})
    if isinstance(endpoint.body, FormBody):
        form = contents[FORM]["example"] | {"username": person.username, "password": PASSWORD}
        return person.client.post(path, data=form, headers={"vendor-API-Key": person.api_key})
    if not contents:
        return person.call(endpoint.method, path)
    now = {"carDataReadTime": datetime.now(UTC).isoformat()} if isinstance(endpoint.auth, DeviceAuth) else {}
    address = f"sam.{next(NUMBERS)}@example.com"
    unique = {"emailAddress": ours.get("emailAddress", address), "name": f"Name {next(NUMBERS)}"}
    if endpoint.path == "/managers":
        unique |= {"groups": [person.group()]}
    if endpoint.path == "/batch":
        unique |= {"id": person.car()}
    body = put(contents[JSON]["example"], {**unique, **now, **ours})
    headers = {"Device-Key": device_key(person)} if isinstance(endpoint.auth, DeviceAuth) else {}
    return person.call(endpoint.method, path, body, headers=headers)


def shape(value: Any, free: bool = False) -> Any:
    """The properties of a value at any depth. A list has those of its first element."""
    if isinstance(value, list):
        return [shape(inner) for inner in cast("list[Any]", value)[:1]]
    return {key: shape(inner) for key, inner in cast("Json", value).items()} if isinstance(value, dict) else None


OF_ANYTHING = {"before", "after"}  # a change has the properties of its resource


# Properties of the spec's resources that examples leave out: a caller of the spec gets them only by `$select`
BEYOND_THE_SPEC = {"externalId", "metadata", "exclusive"}


def fits(real: Any, shown: Any) -> bool:
    """Whether both values have the same properties, except where one has no value."""
    if isinstance(real, dict) and isinstance(shown, dict):
        members, given = set(cast("Json", shown)), set(cast("Json", real))
        is_same = members - BEYOND_THE_SPEC == given - BEYOND_THE_SPEC
        return is_same and all(fits(real[key], shown[key]) for key in (members & given) - OF_ANYTHING)
    if isinstance(real, list) and isinstance(shown, list):
        return all(fits(one, other) for one, other in zip(real[:1], shown[:1], strict=False))
    return True


# Objects whose properties differ between servers, keys or requests
OPEN = {"getOpenApi", "getJwks", "getCarSamples", "getCarAccess", "getUserAccess"}
# Endpoints that require a browser session, or data that the suite's database lacks
ELSEWHERE = {
    "GET /brands/{brand}/keys",
    "POST /me/passkeys/options", "PUT /me/passkeys", "PUT /me/totp", "POST /me/recovery-codes", "DELETE /me/totp",
    "DELETE /me/passkeys/{passkeyId}", "PUT /factor-rules", "POST /users/{userId}/lost-phones",
}  # fmt: skip


@over([row for row in ASKED if name(row) not in ELSEWHERE])
def test_example_requests_get_responses_like_their_examples(
    document: Json, endpoint: Endpoint, erin: Person, town: Town
) -> None:
    person = town.person("changer") if endpoint.path == "/me/password" else erin
    answer = sent(document, endpoint, person)
    assert answer.status_code == endpoint.responses.status, answer.text
    told = answer_of(document, endpoint)
    if not told:
        assert answer.content == b""
        return
    jsonschema.validate(answer.json(), {**resolved(document, told["schema"]), "components": document["components"]})
    if operation(document, endpoint)["operationId"] not in OPEN:
        assert fits(answer.json(), told["example"]), answer.text


def test_every_example_is_valid_against_its_schema(document: Json) -> None:
    count = 0
    for content in objects([document["paths"], document["webhooks"]]):
        if "schema" in content and "example" in content:
            schema = {**content["schema"], "components": document["components"]}
            jsonschema.validate(content["example"], schema)
            count += 1
    assert count > 500


@over([row for row in ASKED if row.read is not None])
def test_examples_of_reads_have_exactly_the_documented_members(document: Json, endpoint: Endpoint) -> None:
    told = answer_of(document, endpoint)
    jsonschema.validate(told["example"], strict(document, told["schema"]))


@over(list(ALL))
def test_every_operation_has_examples(document: Json, endpoint: Endpoint) -> None:
    whole = operation(document, endpoint)
    contents = list(whole.get("requestBody", {}).get("content", {}).values())
    for status, response in whole["responses"].items():
        if status.startswith("2") or status in ("400", "401", "404", "409", "415", "429"):
            contents += response.get("content", {}).values()
    assert [content for content in contents if "example" not in content] == []


def test_no_example_is_made_from_a_type_alone(document: Json) -> None:
    assert f'"{ANY_STRING}"' not in json.dumps(
        [value["example"] for value in objects(document["paths"]) if "example" in value]
    )


def test_signatures_of_examples_are_right(document: Json) -> None:
    (created,) = [row for row in ALL if name(row) == "PUT /webhooks"]
    secret = answer_of(document, created)["example"]["signingSecret"]
    assert len(base64.b64decode(secret.removeprefix("whsec_"))) >= 24
    for path in document["webhooks"].values():
        headers = {parameter["name"]: parameter["example"] for parameter in path["post"]["parameters"]}
        body = json.dumps(path["post"]["requestBody"]["content"][JSON]["example"], separators=(",", ":"))
        at = datetime.fromtimestamp(int(headers["webhook-timestamp"]), UTC)
        assert Webhook(secret).sign(headers["webhook-id"], at, body) == headers["webhook-signature"]


def test_error_responses_match_their_examples(document: Json, erin: Person) -> None:
    """Compares the properties of the bodies. tests/http/test_problem_details.py checks messages and codes."""
    paths = document["paths"]
    grants = paths["/oauth2/token"]["post"]["responses"]
    form = {"username": erin.username, "password": "wrong", "grant_type": "password"}
    key = {"vendor-API-Key": erin.api_key}
    refused = [
        (grants["400"], erin.client.post("/oauth2/token", data=form | {"grant_type": "other"}, headers=key)),
        (grants["401"], erin.client.post("/oauth2/token", data=form, headers=key)),
        (paths["/cars"]["get"]["responses"]["401"], erin.get("/cars", headers={"Authorization": None})),
        (paths["/cars"]["put"]["responses"]["415"], erin.put("/cars", content=b"{}")),
    ]
    for told, answer in refused:
        example, real = told["content"][JSON]["example"], answer.json()
        assert real | {"traceId": ""} == example | {"traceId": ""}
    problem = paths["/cars/{carId}"]["get"]["responses"]["404"]["content"]["application/problem+json"]["example"]
    answer = erin.get("/cars/2147483647", headers={"Accept": "application/problem+json"})
    assert answer.json() | {"traceId": ""} == problem | {"traceId": ""}
