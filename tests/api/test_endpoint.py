"""Endpoints: each declaration is complete, and the error of an inconsistent one names it."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from keyrack.api.auth_schemes import (
    AccountAuth,
    AppAuth,
    ClientSecretAuth,
    CustomerAuth,
    DeviceAuth,
    DrivePageAuth,
    DriverAuth,
    PublicAuth,
)
from keyrack.api.endpoint import Concurrency, Doc, FormBody, JsonBody, RawBody, Responses, Tag
from keyrack.api.endpoint_registry import Endpoints
from keyrack.api.permissions import Permission
from keyrack.api.principals import Scope
from keyrack.api.services import ReadServices
from keyrack.core.settings import Settings
from keyrack.fleet.schema import CAR
from keyrack.http.openapi.document import document
from keyrack.http.routes import ALL

DOC = Doc("doSomething", "A summary", "A description.")
BODY = JsonBody(TypeAdapter(int), "do something")


async def handler(_request: Any, *_: Any) -> Any: ...


async def precheck(*_: Any) -> None: ...


def registry(access: Any = "cars") -> Endpoints[ReadServices]:
    return Endpoints[ReadServices](Tag("Cars", "Cars."), access)


def test_each_row_is_complete(settings: Settings) -> None:
    """The OpenAPI document needs an id, texts, schemas and examples of every endpoint."""
    paths = document(ALL, settings)["paths"]
    operations = [operation for methods in paths.values() for operation in methods.values()]
    assert len(operations) == len(ALL)
    assert all(operation["operationId"] and operation["description"] for operation in operations)
    assert len({row.doc.operation_id for row in ALL}) == len({(row.method, row.path) for row in ALL}) == len(ALL)


def test_tag_names_are_unique() -> None:
    assert len({row.tag for row in ALL}) == len({row.tag.name for row in ALL})


Row = Callable[[Endpoints[ReadServices]], object]
CAR_WRITE = CustomerAuth(Permission.CARS_WRITE)
INVALID: dict[str, tuple[str, str, Row]] = {
    "no description": ("PUT /x", "must not be empty", lambda rows: rows.put("/x", Doc("putX", "x", " "))(handler)),
    "no id": ("PUT /x", "operation id", lambda rows: rows.put("/x", Doc("put x", "x", "x"))(handler)),
    "no model": ("GET /x", "a model or a schema", lambda rows: rows.get("/x", DOC, responses=Responses(200))(handler)),
    "no content": ("GET /x", "status of a GET", lambda rows: rows.get("/x", DOC, responses=Responses())(handler)),
    "a body of a GET": (
        "GET /x", "has no body", lambda rows: rows.get("/x", DOC, body=BODY, responses=Responses(200, int))(handler),
    ),
    "no body of a PATCH": ("PATCH /x", "needs a body", lambda rows: rows.patch("/x", DOC)(handler)),
    "scoped members without a scope": (
        "PUT /x", "group-scoped",
        lambda rows: rows.put("/x", DOC, body=JsonBody(TypeAdapter(int), "x", scoped_members=("carId",)))(handler),
    ),
    "a form of a customer": (
        "POST /x", "client secrets", lambda rows: rows.post("/x", DOC, body=FormBody(TypeAdapter(int), int))(handler),
    ),
    "a raw body of a customer": (
        "POST /x", "for devices", lambda rows: rows.post("/x", DOC, body=RawBody(TypeAdapter(int)))(handler),
    ),
    "serialized without a precheck": (
        "PUT /x", "needs a precheck",
        lambda rows: rows.put("/x", DOC, concurrency=Concurrency(serialized="always"))(handler),
    ),
    "a precheck of no serialized write": (
        "PUT /x", "needs a precheck",
        lambda rows: rows.put("/x", DOC, concurrency=Concurrency(precheck=precheck))(handler),
    ),
    "compared with nothing": (
        "PUT /x", "needs the resource",
        lambda rows: rows.put(
            "/x", DOC, concurrency=Concurrency(serialized="with-if-match", precheck=precheck)
        )(handler),
    ),
    "concurrency of a public row": (
        "PUT /x", "writes of a customer",
        lambda rows: rows.put("/x", DOC, auth=PublicAuth(), concurrency=Concurrency(if_match=CAR))(handler),
    ),
    "a list as a representation": (
        "PUT /x", "the read of one row",
        lambda rows: rows.put("/x", DOC, responses=Responses(representation=rows.read("/cars", CAR, DOC)))(handler),
    ),
    "a representation of an account": (
        "PUT /x", "writes of a customer",
        lambda rows: rows.put(
            "/x", DOC, auth=AccountAuth(),
            responses=Responses(representation=rows.read("/cars/{id}", CAR, DOC, is_single=True)),
        )(handler),
    ),
    "a public read of a resource": (
        "GET /cars", "is not public", lambda rows: rows.read("/cars", CAR, DOC, auth=PublicAuth()),
    ),
    "a write of the primary": ("PUT /x", "for GET", lambda rows: rows.put("/x", DOC, is_primary_only=True)(handler)),
    "a converter of nothing": (
        "PUT /x/{id}", "a converter", lambda rows: rows.put("/x/{id}", DOC, converters={"name": int})(handler),
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", INVALID)
def test_the_error_of_an_invalid_row_names_it(kind: str) -> None:
    name, fault, add = INVALID[kind]
    with pytest.raises(TypeError) as raised:
        add(registry())
    assert str(raised.value).startswith(f"{name}: "), kind
    assert fault in str(raised.value), kind


@pytest.mark.parametrize(
    "auth",
    [
        CAR_WRITE,
        AccountAuth(),
        DeviceAuth(Scope.EVENTS),
        AppAuth(),
        DriverAuth(),
        DrivePageAuth(),
        ClientSecretAuth(),
        PublicAuth(),
    ],
    ids=lambda auth: type(auth).__name__,
)
def test_a_row_may_have_any_auth(auth: Any) -> None:
    rows = registry(auth)
    rows.post("/x", DOC)(handler)
    assert [row.auth for row in rows.rows] == [auth]


def test_a_handler_gets_the_arguments_of_its_signature() -> None:
    """The request, the body if there is one, and the services if required."""
    rows = registry()
    rows.put("/1", DOC)(lambda request: (request,))
    rows.put("/2", DOC)(lambda request, services: (request, services))
    rows.put("/3", DOC, body=BODY)(lambda request, body: (request, body))
    rows.put("/4", DOC, body=BODY)(lambda request, body, services: (request, body, services))
    given: list[Any] = [row.handler("request", "body", "services") for row in rows.rows]
    assert given == [
        ("request",), ("request", "services"), ("request", "body"), ("request", "body", "services"),
    ]  # fmt: skip


WRONG = """
from dataclasses import dataclass
from typing import Protocol

from pydantic import TypeAdapter

from keyrack.api.auth_schemes import PublicAuth
from keyrack.api.endpoint import Doc, Endpoint, JsonBody, Responses, Tag
from keyrack.api.endpoint_registry import Endpoints
from keyrack.api.exchange import Request, Response


class Needed(Protocol):
    @property
    def telemetry(self) -> int: ...


endpoints = Endpoints[Needed](Tag("Tag", "Description."), PublicAuth())


@endpoints.get("/services", Doc("getServices", "Summary", "Description."), responses=Responses(200, int))
async def services(request: Request, services: Needed) -> Response: ...


@endpoints.put("/body", Doc("putBody", "Summary", "Description."), body=JsonBody(TypeAdapter(int), "put a body"))
async def body(request: Request, body: str) -> Response: ...


@dataclass(frozen=True)
class Lacking:
    settings: int


ALL: tuple[Endpoint[Lacking], ...] = (*endpoints.rows,)
"""


def test_the_type_checker_reports_a_missing_service(tmp_path: Path) -> None:
    """It also reports a handler with a wrong body type."""
    (tmp_path / "wrong.py").write_text(WRONG)
    (tmp_path / "pyrightconfig.json").write_text(json.dumps({"include": ["wrong.py"]}))
    command = [sys.executable, "-m", "pyright", "-p", ".", "--pythonpath", sys.executable, "--outputjson"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    messages = [found["message"] for found in json.loads(ran.stdout)["generalDiagnostics"]]
    assert any('"telemetry" is not present' in message for message in messages), messages
    assert any('"int" is not assignable to "str"' in message for message in messages), messages
