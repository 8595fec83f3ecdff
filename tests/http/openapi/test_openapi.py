"""The OpenAPI document matches the server, and `/docs` shows it completely."""

from __future__ import annotations

import copy
import os
import re
from collections.abc import Callable
from typing import Any

import hypothesis
import jsonschema
import pytest
import schemathesis
from openapi_spec_validator import OpenAPIV31SpecValidator
from schemathesis import GenerationMode
from schemathesis.checks import CHECKS, load_all_checks

from keyrack.api.auth_schemes import AppAuth, DeviceAuth, DriverAuth
from keyrack.api.endpoint import Endpoint, FormBody
from keyrack.api.event_stream import EVENTS
from keyrack.api.schema.fields import RESOURCES
from keyrack.http.openapi.descriptions.fleet import EVERYWHERE
from keyrack.http.openapi.descriptions.fleet import OF as MEANINGS
from keyrack.http.openapi.member_schemas import SUBJECTS
from keyrack.http.openapi.shared_components import whole
from keyrack.http.routes import ALL
from tests.http.openapi.document_reader import Json, inlined, objects, resolved, strict
from tests.http.test_contract import ENDLESS, calling, name, over, query_of
from tests.http.test_tenant_isolation import ask, slots, world
from tests.support.browser import launched, needed
from tests.support.people import PASSWORD, Person, Town, web
from tests.support.servers import DEADLINE, RunningServer

pytestmark = pytest.mark.cluster

# The spec's statuses by endpoint. Each endpoint also has 401 and 500
STATUSES = """
POST /oauth2/token 200 415
GET /customers 200 404
GET /cars 200 404
GET /cars/{carId} 200 404
PUT /cars 201 400 404 415
PATCH /cars/{carId} 204 400 404 415
DELETE /cars/{carId} 204 404
GET /cars/{carId}/products 200 404
GET /cars/{carId}/telemetry 200 404
GET /cars/{carId}/location 200 404
GET /cars/{carId}/location/{searchDate} 200 400 404
GET /cars/{carId}/assignments 200 404
GET /cars/{carId}/events 200 404
GET /users 200 404
GET /users/{userId} 200 404
PUT /users 201 400 404 409 415
PUT /users/assignments/customers 204 400 404 409 415
DELETE /users/assignments/customers 204 400 404 415
GET /users/{userId}/assignments 200 404
GET /assignments/{assignmentId} 200 404
PUT /assignments 204 404 415 429
PATCH /assignments/{assignmentId} 204 404 415
DELETE /assignments/{assignmentId} 204 404
GET /groups 200 404
GET /groups/{groupId}/cars 200 404
GET /groups/{groupId}/users 200 404
GET /groups/{groupId}/services 200 404
GET /groups/{groupId}/products 200 404
PUT /groups 201 400 404 409 415
PUT /groups/{groupId}/cars 204 404 409 415
PUT /groups/{groupId}/users 204 404 409 415
PUT /groups/{groupId}/services 204 404 409 415
PUT /groups/{groupId}/products 204 404 409 415
PATCH /groups/{groupId} 204 400 404 415
DELETE /groups/{groupId} 204 404 409
DELETE /groups/{groupId}/users/{userId} 204 404
DELETE /groups/{groupId}/cars/{carId} 204 404
DELETE /groups/{groupId}/services/{serviceId} 204 404
DELETE /groups/{groupId}/products/{productId} 204 404
GET /products 200 404
GET /products/{productId} 200 404
GET /products/{productId}/services 200 404
GET /products/{productId}/cars 200 404
GET /services 200 404
GET /services/{serviceId} 200 404
GET /services/{serviceId}/products 200 404
GET /services/{serviceId}/contracts 200 404
PUT /installations 204 400 404 409 415
DELETE /installations 204 400 404 409 415
PUT /pairings 204
DELETE /pairings 204
GET /brands 200
GET /brands/{brand}/keys 200 400 404
POST /sdk/token 200 400 415
GET /events/{eventId} 200 404
PUT /events 201 400 404 415
""".strip().splitlines()


@pytest.fixture(scope="module")
def told(server: RunningServer) -> Json:
    return web().get(server.url + "/openapi.json").json()


@pytest.fixture(scope="module")
def document(told: Json) -> Json:
    """The document with resolved references to headers, parameters and error responses."""
    return inlined(told)


# The document


def test_the_document_is_valid(told: Json) -> None:
    assert list(OpenAPIV31SpecValidator(told).iter_errors()) == []


def test_the_document_is_built_once_and_has_a_reasonable_size(server: RunningServer) -> None:
    first, second = (web().get(server.url + "/openapi.json") for _ in range(2))
    assert first.content == second.content
    assert len(first.content) < 950_000
    assert first.headers["content-encoding"] == "gzip"
    assert int(first.headers["content-length"]) < 100_000


def test_the_document_has_exactly_the_server_s_endpoints(document: Json) -> None:
    found = {f"{method.upper()} {path}" for path, methods in document["paths"].items() for method in methods}
    assert found == {name(endpoint) for endpoint in ALL}


def test_operation_ids_are_unique(document: Json) -> None:
    names = [operation["operationId"] for methods in document["paths"].values() for operation in methods.values()]
    assert len(names) == len(set(names))


def test_operation_ids_read_like_function_names(document: Json) -> None:
    for endpoint in ALL:
        operation = document["paths"][endpoint.path][endpoint.method.lower()]
        assert re.fullmatch(r"[a-z]+([A-Z][a-z]+)+", operation["operationId"]), operation["operationId"]
        assert operation["summary"].strip()
        assert operation["description"].endswith((".", "`")), operation["operationId"]
        assert operation["description"] != operation["summary"]


@pytest.mark.parametrize("line", STATUSES)
def test_each_operation_has_the_statuses_of_the_spec(document: Json, line: str) -> None:
    method, path, *statuses = line.split()
    responses = document["paths"][path][method.lower()]["responses"]
    assert {*statuses, "401", "500"} <= set(responses)
    (row,) = [row for row in ALL if (row.method, row.path) == (method, path)]
    shown = {str(row.representation_status)} if row.responses.representation is not None else set()
    if row.awaited is not None:
        shown |= {"200", "202"}
    assert next(status for status in responses if status.startswith("2")) == statuses[0]
    assert {status for status in responses if status.startswith("2")} == {statuses[0], *shown}


def test_the_table_of_statuses_covers_the_spec() -> None:
    assert sorted(" ".join(line.split()[:2]) for line in STATUSES) == sorted(
        name(endpoint) for endpoint in ALL if not endpoint.doc.is_extension
    )


@over(list(ALL))
def test_each_operation_documents_its_credentials_and_parameters(document: Json, endpoint: Endpoint) -> None:
    operation = document["paths"][endpoint.path][endpoint.method.lower()]
    needed = [
        scheme
        for scheme, wanted in (("apiKey", endpoint.auth.has_api_key), ("oauth2", endpoint.auth.has_token))
        if wanted
    ]
    needed += [
        scheme
        for scheme, wanted in (
            ("device", isinstance(endpoint.auth, DeviceAuth)),
            ("sdkToken", isinstance(endpoint.auth, AppAuth)),
            ("driverSession", isinstance(endpoint.auth, DriverAuth)),
        )
        if wanted
    ]
    ways = [list(map(str, endpoint.permissions))] if needed else []
    if endpoint.read is not None and endpoint.read.own_rows is not None:
        ways.append([])  # the caller's own rows need no permission
    assert operation["security"] == [
        {scheme: scopes if scheme == "oauth2" else [] for scheme in needed} for scopes in ways
    ]
    parameters = {(parameter["in"], parameter["name"]): parameter for parameter in operation["parameters"]}
    assert [where_name[1] for where_name in parameters if where_name[0] == "path"] == endpoint.parameters
    assert {key[1] for key in parameters if key[0] == "query" and parameters[key]["required"]} == {
        option.name for option in endpoint.query_parameters if option.is_required
    }
    assert (("header", "Customer-ID") in parameters) == endpoint.auth.has_customer
    assert all(parameters[key]["required"] for key in parameters if key[0] == "path" or key[1] == "Customer-ID")
    if endpoint.body_adapter is not None:
        media_type = "application/x-www-form-urlencoded" if isinstance(endpoint.body, FormBody) else "application/json"
        schema = resolved(document, operation["requestBody"]["content"][media_type]["schema"])
        wanted = endpoint.body_adapter.json_schema()
        assert list(schema.get("properties", ())) == list(wanted.get("properties", ()))
        assert schema.get("required") == wanted.get("required")


def test_an_operation_names_the_permissions_of_parents_and_parts(document: Json) -> None:
    def operation(path: str, method: str = "get") -> Json:
        return document["paths"][path][method]

    assert operation("/cars/{carId}/products")["security"][0]["oauth2"] == ["products:read", "cars:read"]
    assert operation("/cars/{carId}/keys")["security"][0]["oauth2"] == ["access:read", "cars:read"]
    for path, method, part in (
        ("/cars", "get", "the relation `assignments` requires `assignments:read`"),
        ("/cars/{carId}/access", "get", "`events` requires `changes:read`"),
        ("/batch", "post", "the kind `cars` requires `cars:write`"),
        ("/live", "get", "the topic `users` requires `users:read`"),
    ):
        assert part in operation(path, method)["description"], (path, part)
    # A caller needs no permission for its own operation, neither in the response nor in a later read
    assert "operations:read" not in operation("/assignments", "put")["description"]
    scopes = [way["oauth2"] for way in operation("/operations/{operationId}")["security"]]
    assert scopes == [["operations:read"], []]


def test_header_names_have_the_brand(document: Json) -> None:
    schemes = document["components"]["securitySchemes"]
    assert (schemes["apiKey"]["in"], schemes["apiKey"]["name"]) == ("header", "vendor-API-Key")


def test_tokens_are_issued_by_the_documented_flows(document: Json, alice: Person) -> None:
    flows = document["components"]["securitySchemes"]["oauth2"]["flows"]
    flow = flows["password"]
    form = {"username": alice.username, "password": PASSWORD, "grant_type": "password"}
    answer = web().post(flow["tokenUrl"], data=form, headers={"vendor-API-Key": alice.api_key})
    assert answer.status_code == 200
    assert "refresh_token" not in answer.json()
    scopes = flows["clientCredentials"]["scopes"]
    made = alice.put("/clients", {"name": "Told", "scopes": list(scopes)}).json()
    form = {"grant_type": "client_credentials", "scope": "cars:read"}
    answer = web().post(
        flows["clientCredentials"]["tokenUrl"], data=form, auth=(made["clientId"], made["clientSecret"]),
        headers={"vendor-API-Key": alice.api_key},
    )  # fmt: skip
    assert (answer.status_code, answer.json()["scope"]) == (200, "cars:read")


def success(document: Json, endpoint: Endpoint) -> Json:
    response = document["paths"][endpoint.path][endpoint.method.lower()]["responses"][str(endpoint.responses.status)]
    first, *others = response["content"].items()
    assert first[0] == endpoint.responses.media_type.split(";")[0]
    assert [media_type for media_type, _ in others] == (
        [EVENTS]
        if endpoint.has_long_poll
        else [endpoint.responses.alternative.split(";")[0]]
        if endpoint.responses.alternative
        else []
    )
    content = first[1]
    return content["schema"]


@over([endpoint for endpoint in ALL if endpoint.read is not None])
def test_schemas_of_reads_have_the_members_of_their_resource(document: Json, endpoint: Endpoint) -> None:
    assert endpoint.read is not None
    schema = success(document, endpoint)
    if not endpoint.read.select.is_single:
        assert schema["type"] == "array"
        schema = schema["items"]
    resource = endpoint.read.select.resource
    if resource.scalar is None:
        members = [*resource.fields]
        for relation, found in resource.relations.items():
            members += [f"{relation}@odata.count", relation] if found.is_collection else [relation]
        assert list(resolved(document, schema)["properties"]) == members
    else:
        assert schema == {"type": "string"}


def test_product_types_are_an_enum(document: Json) -> None:
    for path in ("/products", "/products/{productId}"):
        schema = document["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
        schema = resolved(document, schema.get("items", schema))
        assert resolved(document, schema["properties"]["type"])["enum"] == ["vendor Box", "vendor IQ"]


@over([endpoint for endpoint in ALL if endpoint.read is not None and endpoint.auth.has_customer])
def test_responses_are_valid_against_their_schemas(document: Json, endpoint: Endpoint, alice: Person) -> None:
    answer = ask(alice, endpoint, world(endpoint, alice) if slots(endpoint) else {})
    assert answer.status_code == 200
    jsonschema.validate(answer.json(), strict(document, success(document, endpoint)))


@over([endpoint for endpoint in ALL if endpoint.read is not None and endpoint.read.select.resource.relations])
def test_expanded_responses_are_valid_against_their_schemas(document: Json, endpoint: Endpoint, alice: Person) -> None:
    assert endpoint.read is not None
    there = world(endpoint, alice) if slots(endpoint) else {}
    relations = endpoint.read.select.resource.relations
    for options in ("$count=true", "$count=true;$top=1"):
        items = [f"{relation}({options})" if found.is_collection else relation for relation, found in relations.items()]
        needed = query_of(endpoint)
        path = endpoint.path.format(**there) + needed + ("&" if needed else "?")
        answer = alice.get(f"{path}$expand={','.join(items)}")
        assert answer.status_code == 200
        jsonschema.validate(answer.json(), strict(document, success(document, endpoint), 1))


def test_documents_of_another_brand_have_its_names(dsn: str, settings: Any) -> None:
    with RunningServer(settings.model_copy(update={"brand": "acme"}), dsn, worker=False) as acme:
        document = web().get(acme.url + "/openapi.json").json()
        assert document["components"]["securitySchemes"]["apiKey"]["name"] == "acme-API-Key"
        assert "vendor" not in str(document)
        assert document["servers"] == [{"url": acme.url + "/v3"}]
        assert "acme-API-Key" in web().get(acme.url + "/docs").text


def test_every_schema_has_only_keywords_of_json_schema(document: Json) -> None:
    """An unknown keyword is a limit that no client would see."""
    known = {
        "$ref", "additionalProperties", "allOf", "anyOf", "const", "default", "deprecated", "description",
        "discriminator", "enum", "example", "examples", "exclusiveMaximum", "exclusiveMinimum", "format",
        "items", "maxItems", "maxLength", "maxProperties", "maximum", "minItems", "minLength", "minProperties",
        "minimum", "multipleOf", "not", "oneOf", "pattern", "patternProperties", "prefixItems", "properties",
        "propertyNames", "readOnly", "required", "title", "type", "uniqueItems", "writeOnly",
    }  # fmt: skip
    seen = 0

    def walk(schema: Any, place: str) -> None:
        nonlocal seen
        if not isinstance(schema, dict):
            return
        seen += 1
        assert schema.keys() <= known, (place, schema.keys() - known)
        for keyword in ("properties", "patternProperties"):
            for member, part in schema.get(keyword, {}).items():
                walk(part, f"{place}/{member}")
        for keyword in ("allOf", "anyOf", "oneOf", "prefixItems"):
            for part in schema.get(keyword, []):
                walk(part, place)
        for keyword in ("items", "additionalProperties", "not", "propertyNames"):
            walk(schema.get(keyword), f"{place}/{keyword}")

    def find(part: Any, place: str) -> None:
        if isinstance(part, dict):
            for key, value in part.items():
                if key == "schema":
                    walk(value, place)
                elif key not in ("example", "examples"):
                    find(value, f"{place}/{key}")
        elif isinstance(part, list):
            for value in part:
                find(value, place)

    for title, schema in document["components"]["schemas"].items():
        walk(schema, title)
    find(document, "")
    assert seen > 1_000


def test_every_member_parameter_and_header_has_a_description(document: Json) -> None:
    mute: list[str] = []
    for schema in objects(document):
        members = schema.get("properties")
        if isinstance(members, dict) and schema.get("type") == "object":
            mute += [member for member, inner in members.items() if not inner.get("description", "").strip()]
        if schema.get("in") in ("path", "query", "header") and not schema.get("description", "").strip():
            mute.append(schema["name"])
        headers = schema.get("headers")
        is_of_response = isinstance(headers, dict) and all(isinstance(header, dict) for header in headers.values())
        if is_of_response and "additionalProperties" not in headers:
            mute += [name for name, header in headers.items() if not header.get("description", "").strip()]
    assert mute == []


def test_descriptions_refer_to_existing_members(document: Json) -> None:
    """The description of a removed property must be removed, too."""
    schemas = document["components"]["schemas"]
    shown: dict[str, set[str]] = {}
    for schema_name, schema in schemas.items():
        shown.setdefault(SUBJECTS.get(schema_name, schema_name), set()).update(schema.get("properties", ()))
    assert set(SUBJECTS) <= set(schemas)
    for about, members in MEANINGS.items():
        assert set(members) <= shown[about], about
    everywhere = set[str]().union(*shown.values()) | {name for row in ALL for name in row.parameters}
    assert set(EVERYWHERE) <= everywhere


def test_no_schema_has_the_name_of_a_class_in_generated_clients(document: Json) -> None:
    """A schema `Client` once hid the class of the Python client that sends requests."""
    taken = {"Client", "AuthenticatedClient", "Configuration", "Error", "File", "Request", "Response", "Unset"}
    assert taken & set(document["components"]["schemas"]) == set()


def test_no_schema_has_a_default(document: Json) -> None:
    """Generators make a property with a default required."""
    assert [schema for schema in objects(document) if "default" in schema and "2XX" not in schema] == []


def test_schemas_of_responses_list_required_members(document: Json) -> None:
    car = document["components"]["schemas"]["Car"]
    assert car["required"] == ["id", "name", "description", "vin", "licensePlate", "brand", "model"]
    assert car["properties"]["vin"]["type"] == ["string", "null"]
    assert car["properties"]["products"]["items"] == {"$ref": "#/components/schemas/Product"}
    for endpoint in ALL:
        if endpoint.read is not None and endpoint.read.select.resource.scalar is None:
            schema = success(document, endpoint)
            row = resolved(document, schema.get("items", schema))
            fields = endpoint.read.select.resource.fields
            spec = [member for member, field in fields.items() if not getattr(field, "is_extension", False)]
            assert row["required"] == spec


def test_opaque_members_have_a_type(document: Json) -> None:
    schemas = document["components"]["schemas"]
    assert schemas["Telemetry"]["properties"]["dtc"]["items"] == {"$ref": "#/components/schemas/Trouble"}
    assert schemas["Webhook"]["properties"]["kinds"]["items"] == {"$ref": "#/components/schemas/OutcomeKind"}
    bodies = [one["$ref"].rpartition("/")[2] for one in schemas["Delivery"]["properties"]["payload"]["anyOf"]]
    assert bodies == ["Outcome", "ChangeTold", "CheckpointTold", "EventTold"]
    assert schemas["ChangeTold"]["properties"]["data"]["$ref"] == "#/components/schemas/Change"


# Valid and invalid requests to the server

load_all_checks()
CHECKED = CHECKS.get_by_names(
    [
        "status_code_conformance",
        "content_type_conformance",
        "response_schema_conformance",
        "response_headers_conformance",
    ]
)


@pytest.fixture(scope="module")
def api(document: Json, server: RunningServer) -> Any:
    """The document without required members where `$select` and similar options can drop them."""
    relaxed = copy.deepcopy(document)
    for endpoint in ALL:
        if endpoint.read is not None and endpoint.read.select.resource.scalar is None:
            schema = success(relaxed, endpoint)
            resolved(relaxed, schema.get("items", schema)).pop("required", None)
    for part in ("PersonName", "KeyForm", *RESOURCES):
        relaxed["components"]["schemas"][part].pop("required", None)
    return schemathesis.openapi.from_dict(relaxed)


EXAMPLES = 100 if os.environ.get("KEYRACK_LONG") else 4  # per endpoint; make test-openapi-long
RIGHT, WRONG = GenerationMode.POSITIVE, GenerationMode.NEGATIVE
ASKED = [row for row in ALL if row not in ENDLESS]
HAS_INPUT = [row for row in ALL if row.parameters or row.body_adapter or row.read or row.auth.has_customer]


@pytest.mark.filterwarnings("ignore::hypothesis.errors.HypothesisDeprecationWarning")  # schemathesis causes it
@pytest.mark.parametrize(
    ("mode", "endpoint"),
    [(RIGHT, endpoint) for endpoint in ALL if endpoint not in ENDLESS]
    + [(WRONG, endpoint) for endpoint in HAS_INPUT if endpoint not in ENDLESS],
    ids=lambda value: name(value) if isinstance(value, Endpoint) else value.value,
)
def test_generated_requests_get_documented_responses(
    endpoint: Endpoint, mode: GenerationMode, api: Any, asking: Callable[[Endpoint], Person], server: RunningServer
) -> None:
    person = calling(endpoint, asking(endpoint))
    operation = api[endpoint.path][endpoint.method]
    there = world(endpoint, person) if mode is RIGHT and endpoint.read is not None and slots(endpoint) else {}

    @hypothesis.given(case=operation.as_strategy(generation_mode=mode))
    @hypothesis.settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    def run(case: Any) -> None:
        case.path_parameters.update(there)  # an existing row lets reads evaluate their query options
        answer = case.call(base_url=server.url + "/v3", headers=person.headers, timeout=DEADLINE)
        assert answer.status_code != 500, answer.text
        case.validate_response(answer, checks=CHECKED)

    run()


@pytest.fixture(scope="module")
def asking(town: Town) -> Callable[[Endpoint], Person]:
    """One person per endpoint, so that webhooks get only events of their endpoint."""
    people: dict[str, Person] = {}

    def find(endpoint: Endpoint) -> Person:
        key = "webhooks" if endpoint.path.startswith("/webhooks") else "others"
        if key not in people:
            people[key] = town.person(key)
        return people[key]

    return find


# The page


@pytest.fixture(scope="module")
def page(server: RunningServer) -> str:
    answer = web().get(server.url + "/docs")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["content-security-policy"] == "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    return answer.text


@over(list(ALL))
def test_the_page_shows_every_endpoint(page: str, document: Json, endpoint: Endpoint) -> None:
    operation = document["paths"][endpoint.path][endpoint.method.lower()]
    (section,) = re.findall(rf'<details id="{operation["operationId"]}">.*?</details>', page, re.DOTALL)
    assert f">{endpoint.method}</span>" in section
    assert f"<code>{endpoint.path}</code>" in section
    for parameter in operation["parameters"]:
        assert f"<code>{parameter['name']}</code>" in section
    for status in operation["responses"]:
        assert f"<code>{status}</code>" in section


@over(list(ALL))
def test_the_page_shows_the_headers_of_the_response(page: str, document: Json, endpoint: Endpoint) -> None:
    operation = document["paths"][endpoint.path][endpoint.method.lower()]
    (section,) = re.findall(rf'<details id="{operation["operationId"]}">.*?</details>', page, re.DOTALL)
    usual = whole(document, operation["responses"][str(endpoint.responses.status)])
    for header in usual.get("headers", {}):
        assert f"<code>{header}</code>" in section


def test_asynchronous_writes_are_documented_as_accepted(page: str, document: Json) -> None:
    """The 204 of each asynchronous request refers to its operation."""
    asynchronous = [row for row in ALL if "Operation-Id" in row.responses.headers]
    assert {row.method for row in asynchronous if row.path.startswith("/assignments")} == {"PUT", "PATCH", "DELETE"}
    for row in asynchronous:
        operation = document["paths"][row.path][row.method.lower()]
        described = whole(document, operation["responses"]["204"])["description"]
        assert described.startswith("Accepted: the outcome comes by `Operation-Id`")
        (section,) = re.findall(rf'<details id="{operation["operationId"]}">.*?</details>', page, re.DOTALL)
        assert "Response headers (204)" in section
        assert "Response (202)" not in section


def test_the_page_refers_to_no_other_site(page: str, server: RunningServer) -> None:
    without_examples = re.sub(r"<pre>.*?</pre>", "", page, flags=re.DOTALL)
    assert set(re.findall(r"https?://[^\s<\"'/]+", without_examples)) <= {server.url}
    assert set(re.findall(r'(?:src|href|action)="([^"#]+)', page)) == {"data:,", "openapi.json", "docs/errors"}
    assert "<script" not in page


@needed
def test_a_browser_loads_the_page_from_the_server_alone(server: RunningServer, document: Json) -> None:
    with launched() as browser:
        tab = browser.new_page()
        asked: list[str] = []
        complaints: list[str] = []
        tab.on("request", lambda request: asked.append(request.url))
        tab.on("console", lambda message: complaints.append(message.text))
        tab.goto(server.url + "/docs", wait_until="networkidle")
        assert tab.title() == document["info"]["title"]
        section = tab.locator("#getCar")
        answers = section.get_by_text("Statuses")
        assert not answers.is_visible()
        section.locator("summary").click()
        assert answers.is_visible()
        assert section.get_by_text("licensePlate*").is_visible()
        assert complaints == []
        tab.get_by_role("link", name="openapi.json").click()
        tab.wait_for_url(server.url + "/openapi.json")
    assert {url for url in asked if not url.startswith(("data:", server.url + "/"))} == set()
    assert server.url + "/docs" in asked
