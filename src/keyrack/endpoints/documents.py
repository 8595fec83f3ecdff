"""Documents: what this server is, whether it is well, its OpenAPI document and its reference page. All ours."""

from __future__ import annotations

from typing import LiteralString

from keyrack import __version__
from keyrack.api.endpoint import PUBLIC, Answer, Endpoints, Request, answer

endpoints = Endpoints("Documents")

ALIVE: LiteralString = "select 1"


@endpoints.write("GET", "/", "What this server is", **PUBLIC)
async def about(request: Request) -> Answer:
    base = request.service.settings.public_url
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
async def openapi(request: Request) -> Answer:
    return Answer(200, request.service.document("openapi"), {"Access-Control-Allow-Origin": "*"})


@endpoints.write("GET", "/docs", "This interface as a page to read", media_type="text/html; charset=utf-8", **PUBLIC)
async def docs(request: Request) -> Answer:
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    page = request.service.document("page")
    return Answer(200, page, {"Content-Security-Policy": policy}, "text/html; charset=utf-8")
