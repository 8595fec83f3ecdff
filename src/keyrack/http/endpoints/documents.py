"""Documents: what this server is, its OpenAPI document and its reference page. All ours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

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
    """What is made from the table of endpoints, of which these endpoints are a part."""

    openapi: Callable[[], bytes]
    page: Callable[[], bytes]
    errors: Callable[[], bytes]
    preview: tuple[str, ...]  # ids of the operations that may still change


class DocumentServices(Protocol):
    """The documents, and the settings that name the server."""

    @property
    def settings(self) -> Settings: ...
    @property
    def documents(self) -> Documents: ...


endpoints = Endpoints[DocumentServices](
    Tag("Documents", "What this server is, and this interface as documents."), PublicAuth(), is_extension=True
)


ABOUT = NamedSchema(
    "About",
    object_schema(
        "What this server is.",
        {
            "name": text_schema("Always `Keyrack`.", const="Keyrack"),
            "version": text_schema("The version of the server.", examples=[__version__]),
            "apiVersion": text_schema("The version of the interface.", examples=["3"]),
            "baseUrl": uri_schema("Where the interface begins.", "/v3"),
            "documentation": uri_schema("Where the interface is explained.", "/docs"),
            "openapi": uri_schema("Where its OpenAPI document is.", "/openapi.json"),
            "preview": {
                "type": "array",
                "items": {"type": "string"},
                "description": "The ids of the operations that may still change in a minor release; all others are"
                " stable.",
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
    Doc("getAbout", "What this server is", "Name, version, and where the interface and its documents are."),
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
        headers={"Cache-Control": "no-cache"},  # whoever asks whether the process lives is not to hear it from a cache
    )
    return conditional_requests.document(request, response)


@endpoints.get(
    "/openapi.json",
    Doc(
        "getOpenApi",
        "This interface as OpenAPI 3.1",
        "The document that this is part of. Clients can be generated from it.",
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
        "getReference", "This interface as a page to read", "One page without scripts, made from the OpenAPI document."
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
        "All error codes as a page",
        "Each code with its texts, where it comes from, and what to do about it.",
    ),
    responses=Responses(200, headers=TAGGED, media_type=HTML),
)
async def errors(request: Request, services: DocumentServices) -> Response:
    return conditional_requests.document(
        request, Response(200, services.documents.errors(), POLICY, HTML, is_constant=True)
    )
