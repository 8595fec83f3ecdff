"""Documents: what this server is, whether it is well, its OpenAPI document and its reference page. All ours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import LiteralString

from keyrack import __version__
from keyrack.api.endpoint import PUBLIC, Answer, Endpoints, Request, answer
from keyrack.settings import Settings

endpoints = Endpoints("Documents")

ALIVE: LiteralString = "select 1"


@dataclass(frozen=True, slots=True)
class Documents:
    """What is made from the table of endpoints, of which these endpoints are a part."""

    openapi: Callable[[], bytes]
    page: Callable[[], bytes]


@endpoints.write("GET", "/", "What this server is", **PUBLIC)
async def about(_request: Request, settings: Settings) -> Answer:
    base = settings.public_url
    return answer(
        {
            "name": "Keyrack",
            "version": __version__,
            "apiVersion": "3",
            "baseUrl": f"{base}/v3",
            "documentation": f"{base}/docs",
            "openapi": f"{base}/openapi.json",
        }
    )


@endpoints.write("GET", "/health", "Whether the server and its database are well", **PUBLIC)
async def health(request: Request) -> Answer:
    await request.db.fetchval(ALIVE)
    return answer({"status": "ok"}, headers={"Cache-Control": "no-store"})


@endpoints.write("GET", "/openapi.json", "This interface as OpenAPI 3.1", **PUBLIC)
async def openapi(_request: Request, documents: Documents) -> Answer:
    return Answer(200, documents.openapi(), {"Access-Control-Allow-Origin": "*"})


@endpoints.write("GET", "/docs", "This interface as a page to read", media_type="text/html; charset=utf-8", **PUBLIC)
async def docs(_request: Request, documents: Documents) -> Answer:
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    return Answer(200, documents.page(), {"Content-Security-Policy": policy}, "text/html; charset=utf-8")
