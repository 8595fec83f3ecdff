"""Documents: information about the server, the OpenAPI document and its reference page. All are extensions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from keyrack import __version__
from keyrack.api import conditional_requests
from keyrack.api.auth_schemes import PublicAuth
from keyrack.api.endpoint import TAGGED, Doc, Responses, Tag
from keyrack.api.endpoint_registry import Endpoints
from keyrack.api.exchange import Request, Response, answer
from keyrack.api.schema.json_schema import NamedSchema, object_schema, text_schema, uri_schema
from keyrack.core.settings import Settings

HTML = "text/html; charset=utf-8"
POLICY = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; img-src data:"}


@dataclass(frozen=True, slots=True)
class Documents:
    """Documents that are generated from the table of endpoints, which includes these endpoints."""

    openapi: Callable[[], bytes]
    page: Callable[[], bytes]
    errors: Callable[[], bytes]
    preview: tuple[str, ...]  # ids of the operations that may change
    message_example: Callable[[str], dict[str, Any]]  # of an event type: the example of its webhook message


class DocumentServices(Protocol):
    """The documents, and the settings of the server."""

    @property
    def settings(self) -> Settings: ...
    @property
    def documents(self) -> Documents: ...


endpoints = Endpoints[DocumentServices](
    Tag("Documents", "Information about the server, and the documentation of the API."), PublicAuth(), is_extension=True
)


ABOUT = NamedSchema(
    "About",
    object_schema(
        "Information about the server.",
        {
            "name": text_schema("Always `Keyrack`.", const="Keyrack"),
            "version": text_schema("The version of the server.", examples=[__version__]),
            "apiVersion": text_schema("The version of the API.", examples=["3"]),
            "baseUrl": uri_schema("The base URL of the API.", "/v3"),
            "documentation": uri_schema("The URL of the API reference.", "/docs"),
            "openapi": uri_schema("The URL of the OpenAPI document.", "/openapi.json"),
            "preview": {
                "type": "array",
                "items": {"type": "string"},
                "description": "The ids of operations that may change in a minor release. All others are stable.",
                "examples": [["enrolBox"]],
            },
        },
    ),
)
OPENAPI = NamedSchema(
    "OpenApiDocument", {"type": "object", "description": "An OpenAPI 3.1 document.", "examples": [{"openapi": "3.1.0"}]}
)


@endpoints.get(
    "/",
    Doc(
        "getAbout",
        "Get information about the server",
        "Returns name, version, and the addresses of the API and its documentation.",
    ),
    responses=Responses(200, schema=ABOUT, headers=TAGGED),
)
async def about(request: Request, services: DocumentServices) -> Response:
    base = services.settings.public_url
    response = answer(
        {
            "name": "Keyrack",
            "version": __version__,
            "apiVersion": "3",
            "baseUrl": f"{base}/v3",
            "documentation": f"{base}/docs",
            "openapi": f"{base}/openapi.json",
            "preview": services.documents.preview,
        },
        headers={"Cache-Control": "no-cache"},  # a check for a running process needs an uncached response
    )
    return conditional_requests.document(request, response)


@endpoints.get(
    "/openapi.json",
    Doc(
        "getOpenApi",
        "Get the OpenAPI document",
        "Returns this OpenAPI 3.1 document, from which clients can be generated.",
    ),
    responses=Responses(200, schema=OPENAPI, headers=TAGGED),
)
async def openapi(request: Request, services: DocumentServices) -> Response:
    headers = {"Access-Control-Allow-Origin": "*"}
    return conditional_requests.document(
        request, Response(200, services.documents.openapi(), headers, is_constant=True)
    )


@endpoints.get(
    "/docs",
    Doc(
        "getReference",
        "Get the API reference as a page",
        "Returns a page without scripts, generated from the OpenAPI document.",
    ),
    responses=Responses(200, headers=TAGGED, media_type=HTML),
)
async def docs(request: Request, services: DocumentServices) -> Response:
    return conditional_requests.document(
        request, Response(200, services.documents.page(), POLICY, HTML, is_constant=True)
    )


@endpoints.get(
    "/docs/errors",
    Doc(
        "getCodes",
        "Get all error codes as a page",
        "Lists each code with its messages, its endpoints and its remedy.",
    ),
    responses=Responses(200, headers=TAGGED, media_type=HTML),
)
async def errors(request: Request, services: DocumentServices) -> Response:
    return conditional_requests.document(
        request, Response(200, services.documents.errors(), POLICY, HTML, is_constant=True)
    )
