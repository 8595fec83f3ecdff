"""Documents: what this server is, its OpenAPI document and its reference page. All ours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from keyrack import __version__
from keyrack.api import conditional_requests
from keyrack.api.endpoint import PUBLIC, TAGGED, Endpoints
from keyrack.api.exchange import Request, Response, answer
from keyrack.core.settings import Settings

endpoints = Endpoints("Documents")

HTML = "text/html; charset=utf-8"
POLICY = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; img-src data:"}


@dataclass(frozen=True, slots=True)
class Documents:
    """What is made from the table of endpoints, of which these endpoints are a part."""

    openapi: Callable[[], bytes]
    page: Callable[[], bytes]
    errors: Callable[[], bytes]
    preview: tuple[str, ...]  # ids of the operations that may still change


@endpoints.write("GET", "/", "What this server is", headers=TAGGED, **PUBLIC)
async def about(request: Request, settings: Settings, documents: Documents) -> Response:
    base = settings.public_url
    response = answer(
        {
            "name": "Keyrack",
            "version": __version__,
            "apiVersion": "3",
            "baseUrl": f"{base}/v3",
            "documentation": f"{base}/docs",
            "openapi": f"{base}/openapi.json",
            "preview": documents.preview,
        },
        headers={"Cache-Control": "no-cache"},  # whoever asks whether the process lives is not to hear it from a cache
    )
    return conditional_requests.document(request, response)


@endpoints.write("GET", "/openapi.json", "This interface as OpenAPI 3.1", headers=TAGGED, **PUBLIC)
async def openapi(request: Request, documents: Documents) -> Response:
    headers = {"Access-Control-Allow-Origin": "*"}
    return conditional_requests.document(request, Response(200, documents.openapi(), headers, fixed=True))


@endpoints.write("GET", "/docs", "This interface as a page to read", media_type=HTML, headers=TAGGED, **PUBLIC)
async def docs(request: Request, documents: Documents) -> Response:
    return conditional_requests.document(request, Response(200, documents.page(), POLICY, HTML, fixed=True))


@endpoints.write(
    "GET", "/docs/errors", "The codes of refusals as a page to read", media_type=HTML, headers=TAGGED, **PUBLIC
)
async def errors(request: Request, documents: Documents) -> Response:
    return conditional_requests.document(request, Response(200, documents.errors(), POLICY, HTML, fixed=True))
