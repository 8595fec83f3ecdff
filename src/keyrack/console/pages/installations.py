"""Dialogs that put a product into a car and take it out."""

from __future__ import annotations

import json
from typing import Any
from uuid import uuid4

from keyrack.api.exchange import Response
from keyrack.api.permissions import Permission
from keyrack.console.hidden_assignments import RemovedAssignments, removed_with_car
from keyrack.console.pages.car import SECTION, gone_on
from keyrack.console.product_names import kind, named
from keyrack.console.rendering import base, page
from keyrack.core.errors import BadRequest, Conflict, NotFound, Refusal
from keyrack.http.page_router import ConsolePages, Visit

pages = ConsolePages()

MOST = 20  # options of a chooser; it shows the total as well
LONGEST = 200  # characters of a search
INSTALLABLE = "car/id eq null and service/id ne null and service/isTerminated eq false"
SHOWN = "id,type,serialNumber,uniqueId"


@pages.get("/{customer}/choices/products", permission=Permission.PRODUCTS_READ)
async def products(visit: Visit) -> Response:
    """The free products that match the typed text, for a chooser."""
    options, total = await _find_products(visit, visit.query_value("q"))
    return Response(200, json.dumps({"options": options, "total": total}).encode())


async def _find_products(visit: Visit, text: str) -> tuple[list[dict[str, Any]], int]:
    """The free products with a service that have the text in the serial number or unique id, and their total."""
    filter_text = INSTALLABLE
    if text := text.strip()[:LONGEST].lower().replace("'", "''"):
        filter_text += f" and (contains(tolower(serialNumber),'{text}') or contains(tolower(uniqueId),'{text}'))"
    query = {
        "$filter": filter_text,
        "$select": SHOWN,
        "$orderby": "serialNumber,id",
        "$top": str(MOST),
        "$count": "true",
    }
    response = await visit.call("GET", "/products", query=query)
    return [_option(visit, product) for product in response.json], response.total


def _option(visit: Visit, product: dict[str, Any]) -> dict[str, Any]:
    name = named(visit, product)
    return {"value": product["id"], "label": name, "detail": product["uniqueId"], "chosen": name}


@pages.get("/{customer}/cars/{carId}/install", permission=Permission.INSTALLATIONS_WRITE)
async def ask_to_install(visit: Visit) -> Response:
    return await _install(visit)


@pages.post("/{customer}/cars/{carId}/install", permission=Permission.INSTALLATIONS_WRITE)
async def install(visit: Visit) -> Response:
    if visit.form_value("find"):  # the search without a script
        return await _install(visit)
    product = visit.form_value("product")
    if not product.isascii() or not product.isdigit() or len(product) > 9:
        return await _install(visit, wrong="choose")
    car = (await visit.call("GET", "/cars/{carId}", visit.ids["carId"])).json
    body = {"carId": car["id"], "productId": int(product)}
    try:
        await visit.call("PUT", "/installations", body=body, key=visit.form_value("key") or None)
    except (BadRequest, Conflict, NotFound) as refusal:
        return await _install(visit, refusal)
    return gone_on(visit, f"{_car(visit)}?installed={product}")


async def _install(visit: Visit, refusal: Refusal | None = None, wrong: str = "") -> Response:
    car = (await visit.call("GET", "/cars/{carId}", visit.ids["carId"])).json
    chosen = visit.form_value("product")
    options, total = await _find_products(visit, visit.form_value("search_product"))
    context = {
        "car": car,
        "options": options,
        "total": total,
        "chosen": chosen,
        "search": visit.form_value("search_product"),
    }
    if refusal is not None:
        wrong = refusal.reason.code
        context |= await _in_the_way(visit, car["id"], chosen)
    status = refusal.status if refusal else 400 if wrong else 200
    return await page(
        visit, "install.html", status=status, section=SECTION, back=_car(visit), key=str(uuid4()), wrong=wrong,
        said=refusal.text if refusal else "", **{"product": None, "there": None} | context,
    )  # fmt: skip


async def _in_the_way(visit: Visit, car: int, chosen: str) -> dict[str, Any]:
    """The product of a conflict with its car, and the car's product of that type."""
    product_rows = (await visit.call("GET", "/products", query={"$filter": f"id eq {chosen}", "$expand": "car"})).json
    if not product_rows:
        return {}
    (product,) = product_rows
    kind = product["type"].replace("'", "''")
    there = await visit.call("GET", "/products", query={"$filter": f"car/id eq {car} and type eq '{kind}'"})
    return {"product": product, "there": there.json[0] if there.json else None}


@pages.get("/{customer}/cars/{carId}/products/{productId}/uninstall", permission=Permission.INSTALLATIONS_WRITE)
async def ask_to_uninstall(visit: Visit) -> Response:
    return await _uninstall(visit)


@pages.post("/{customer}/cars/{carId}/products/{productId}/uninstall", permission=Permission.INSTALLATIONS_WRITE)
async def uninstall(visit: Visit) -> Response:
    product = (await visit.call("GET", "/products/{productId}", visit.ids["productId"])).json
    car = (await visit.call("GET", "/cars/{carId}", visit.ids["carId"])).json
    body = {"carId": car["id"], "productId": product["id"]}
    try:
        await visit.call("DELETE", "/installations", body=body, key=visit.form_value("key") or None)
    except Conflict as refusal:
        return await _uninstall(visit, refusal)
    return gone_on(visit, f"{_car(visit)}?uninstalled={product['id']}")


async def _uninstall(visit: Visit, refusal: Refusal | None = None) -> Response:
    """The confirmation, with the number of bookings that end if the visit has the permission."""
    car = (await visit.call("GET", "/cars/{carId}", visit.ids["carId"])).json
    expand = {"$expand": "car($select=id,name)"}
    product = (await visit.call("GET", "/products/{productId}", visit.ids["productId"], query=expand)).json
    is_box = kind(product) == "box"
    may_know = visit.may(Permission.ASSIGNMENTS_READ)
    removed = await removed_with_car(visit, car["id"]) if is_box and may_know else RemovedAssignments(0, 0)
    return await page(
        visit, "uninstall.html", status=refusal.status if refusal else 200, section=SECTION, back=_car(visit),
        key=str(uuid4()), car=car, product=product, is_box=is_box, removed=removed,
        wrong=refusal.reason.code if refusal else "",
    )  # fmt: skip


def _car(visit: Visit) -> str:
    return f"{base(visit)}/cars/{visit.ids['carId']}"
