"""Brands: the keyfob tool, which tells the key forms of a car brand and the boxes that press them."""

from __future__ import annotations

from typing import LiteralString

from keyrack.api import conditional_requests
from keyrack.api.endpoint import PUBLIC, TAGGED, Endpoints
from keyrack.api.exchange import Request, Response
from keyrack.core.error_codes import ErrorCode
from keyrack.core.errors import BadRequest, NotFound
from keyrack.fleet.schema import BRAND, KEY

endpoints = Endpoints("Keyfob", "keys")

INVALID_BRAND = ErrorCode(
    "invalid-brand", "Invalid brand provided.", "Send a name that GET /brands returns, percent-encoded."
)
NO_BRAND = ErrorCode("brand-not-found", "Unable to find the given brand.", "Send a name that GET /brands returns.")
NO_DRAWING = ErrorCode(
    "drawing-not-found",
    "Unable to find a drawing for the given keyFormId.",
    "Use the address that the key form itself names.",
)

DRAWING: LiteralString = "select drawing from key_form where key_form_id = $1"


def brand(text: str) -> str:
    """A brand's name in the path. Raises `BadRequest` for what no brand is called."""
    text = text.replace("%2F", "/")  # the edge left an encoded slash as it was
    if not text.strip() or len(text) > 250 or not text.isprintable() or "\ufffd" in text:
        raise BadRequest(INVALID_BRAND)
    return text.strip()


endpoints.get("/brands", BRAND, "The brands that the keyfob tool knows", customer=False)
endpoints.get("/keys", KEY, "The keys of all brands", customer=False, ours=True)
endpoints.get(
    "/brands/{brand}/keys",
    KEY,
    "The keys of a brand",
    customer=False,
    by="lower({t}.brand) = lower(:id0)",
    empty=NO_BRAND,
    convert={"brand": brand},
    refuses={400: (INVALID_BRAND,)},
)


@endpoints.write(
    "GET",
    "/key-forms/{keyFormId}.svg",
    "The drawing of a key form",
    media_type="image/svg+xml",
    refuses={404: (NO_DRAWING,)},
    headers=TAGGED,
    **PUBLIC,
)
async def drawing(request: Request) -> Response:
    svg = await request.db.fetchval(DRAWING, *request.ids)
    if svg is None:
        raise NotFound(NO_DRAWING)
    headers = {
        "Cache-Control": "public, max-age=86400",
        "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'",
    }
    return conditional_requests.document(request, Response(200, svg.encode(), headers, "image/svg+xml"))
