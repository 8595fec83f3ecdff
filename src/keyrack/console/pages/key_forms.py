"""Key shapes: drawings of the keys of a brand, each with the key boxes that fit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode, urlsplit

from keyrack.api.exchange import Response
from keyrack.api.permissions import Permission
from keyrack.console.rendering import base, gettext, page, part
from keyrack.console.searches import ordered_search
from keyrack.core.error_codes import NOTHING_HERE
from keyrack.core.errors import NotFound
from keyrack.http.page_router import BELOW, ConsolePages, Visit

pages = ConsolePages()

SECTION = "key-forms"
BY_BRAND = {"$apply": "groupby((brand),aggregate(keyForm/id with countdistinct as forms))"}


@dataclass(frozen=True)
class FittingBox:
    """A key box that fits."""

    name: str
    number: str


@dataclass
class KeyFormView:
    """A key shape. `drawing` is the address of its picture, "" if the picture is not on this server."""

    id: int
    name: str
    drawing: str
    elsewhere: str  # the address of a picture on another server
    address: str  # of its page
    boxes: list[FittingBox] = field(default_factory=list[FittingBox])


@pages.get("/{customer}/key-forms", permission=Permission.KEYS_READ)
async def key_forms(visit: Visit) -> Response:
    """All brands, the key shapes of one, or one key shape, by the address."""
    brand, q = visit.query_value("brand").strip(), visit.query_value("q").strip()
    if not brand:
        brands = await _brands(visit, q)
        only = brands[0]["brand"] if q and len(brands) == 1 else ""
        return await _page(visit, brands=brands, q=q, brand=only, forms=await _forms(visit, only) if only else [])
    forms = await _forms(visit, brand)
    if not visit.query_value("form"):
        return await _page(visit, brands=[], q="", brand=brand, forms=forms)
    form = next((item for item in forms if str(item.id) == visit.query_value("form")), None)
    if form is None:
        raise NotFound(NOTHING_HERE)
    shared = f"{visit.settings.public_url.rstrip('/')}{BELOW}/{visit.customer}/key-forms"
    return await page(
        visit, "key_form.html", section=SECTION, back=_address(visit, brand), brand=brand, form=form,
        words=_words(visit, form), shared=f"{shared}?{urlencode({'brand': brand, 'form': form.id})}",
    )  # fmt: skip


async def _page(visit: Visit, **context: Any) -> Response:
    forms: list[KeyFormView] = context["forms"]
    words = {form.id: _words(visit, form) for form in forms}
    about: dict[str, Any] = {"address": _address(visit), "count": len(forms), "words": words, **context}
    if visit.is_partial:
        return await part(visit, "key_forms.html", "listing", **about)
    return await page(visit, "key_forms.html", section=SECTION, **about)


def _address(visit: Visit, brand: str = "", form: int = 0) -> str:
    query = {"brand": brand} | ({"form": form} if form else {})
    return f"{base(visit)}/key-forms" + (f"?{urlencode(query)}" if brand else "")


async def _brands(visit: Visit, q: str) -> list[dict[str, Any]]:
    """The brands that match a search, each with its address and number of shapes."""
    search = ordered_search(q, "naturalorder($it),$it")
    brands: list[str] = (await visit.call("GET", "/brands", query=search)).json
    rows = {row["brand"]: row for row in (await visit.call("GET", "/keys", query=BY_BRAND)).json}
    return [{**rows[brand], "address": _address(visit, brand)} for brand in brands if brand in rows]


async def _forms(visit: Visit, brand: str) -> list[KeyFormView]:
    """The shapes of a brand, none for an unknown brand. Several boxes may fit one shape."""
    name = brand.lower().replace("'", "''")
    query = {"$filter": f"tolower(brand) eq '{name}'", "$orderby": "id"}
    return _gathered(visit, brand, (await visit.call("GET", "/keys", query=query)).json)


def _gathered(visit: Visit, brand: str, rows: Iterable[Mapping[str, Any]]) -> list[KeyFormView]:
    forms_by_id: dict[int, KeyFormView] = {}
    own = visit.settings.public_url.rstrip("/") + "/"
    for row in rows:
        key: Mapping[str, Any] = row["keyForm"]
        id, name, picture = int(key["id"]), str(key["name"]), str(key["imageUrl"])
        ours = picture.startswith(own)
        drawing = urlsplit(picture).path if ours else ""
        form = forms_by_id.setdefault(
            id, KeyFormView(id, name, drawing, "" if ours else picture, _address(visit, brand, id))
        )  # fmt: skip
        if row["boxName"]:
            form.boxes.append(FittingBox(row["boxName"], row["boxSapNumber"] or ""))
    return list(forms_by_id.values())


def _words(visit: Visit, form: KeyFormView) -> str:
    """The drawing in words, for screen readers."""
    boxes = ", ".join(box.name for box in form.boxes)
    if boxes:
        return gettext(visit, "Drawing of the key: %(name)s. It fits into: %(boxes)s.", name=form.name, boxes=boxes)
    return gettext(visit, "Drawing of the key: %(name)s. No key box fits.", name=form.name)
