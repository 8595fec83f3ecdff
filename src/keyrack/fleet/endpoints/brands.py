"""Brands: the keyfob tool, which lists the key forms of a car brand and the boxes that press them."""

from __future__ import annotations

from typing import LiteralString

from keyrack.api import conditional_requests
from keyrack.api.auth_schemes import AccountAuth, PublicAuth
from keyrack.api.endpoint import TAGGED, Doc, Responses, Tag
from keyrack.api.endpoint_registry import Endpoints
from keyrack.api.exchange import Request, Response
from keyrack.api.permissions import Permission
from keyrack.api.services import ReadServices
from keyrack.core.error_codes import ErrorCode
from keyrack.core.errors import BadRequest, NotFound
from keyrack.fleet.schema import BRAND, KEY

endpoints = Endpoints[ReadServices](
    Tag("Keyfob", "The keys of car brands, and the key box for each key."), AccountAuth(Permission.KEYS_READ)
)

INVALID_BRAND = ErrorCode(
    "invalid-brand", "Invalid brand provided.", "Send a name that `GET /brands` returns, percent-encoded."
)
NO_BRAND = ErrorCode("brand-not-found", "Unable to find the given brand.", "Send a name that `GET /brands` returns.")
NO_DRAWING = ErrorCode(
    "drawing-not-found",
    "Unable to find a drawing for the given keyFormId.",
    "Use the address in the key form.",
)

DRAWING: LiteralString = "select drawing from key_form where key_form_id = $1"


def brand(text: str) -> str:
    """The brand name in the path. Raises `BadRequest` if no brand can have this name."""
    text = text.replace("%2F", "/")  # `http.base_path` keeps an encoded slash encoded
    if not text.strip() or len(text) > 250 or not text.isprintable() or "\ufffd" in text:
        raise BadRequest(INVALID_BRAND)
    return text.strip()


endpoints.read(
    "/brands",
    BRAND,
    Doc(
        "listBrands",
        "List brands",
        "Returns the names for `GET /brands/{brand}/keys`. The list is the same for all customers.",
    ),
)
endpoints.read(
    "/keys",
    KEY,
    Doc(
        "listKeys",
        "List the keys of all brands",
        "The list is the same for all customers.",
        is_extension=True,
    ),
)
endpoints.read(
    "/brands/{brand}/keys",
    KEY,
    Doc(
        "listKeysOfBrand",
        "List the keys of a brand",
        "Returns the keys for cars of a brand, with the key box that fits each key. The name is case-insensitive.",
    ),
    order_by="lower({t}.brand) = lower(:id0)",
    empty_error=NO_BRAND,
    errors={400: (INVALID_BRAND,)},
    converters={"brand": brand},
)


@endpoints.get(
    "/key-forms/{keyFormId}.svg",
    Doc(
        "getKeyFormDrawing",
        "Get the drawing of a key form",
        "Returns an SVG image. `keyForm.imageUrl` of a key is its address.",
        is_extension=True,
    ),
    auth=PublicAuth(),
    responses=Responses(200, headers=TAGGED, errors={404: (NO_DRAWING,)}, media_type="image/svg+xml"),
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
