"""The page of a car: facts, bookings, position, telemetry, and its deletion.

Each part of the page can be fetched on its own: `part` of the address names it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from keyrack.api.exchange import Response
from keyrack.api.permissions import Permission
from keyrack.console.booking_policies import car_policy, customer_policy, minutes
from keyrack.console.field_errors import words
from keyrack.console.hidden_assignments import hidden_assignments, removed_with_car
from keyrack.console.local_times import instant, utc
from keyrack.console.map_tiles import streets
from keyrack.console.paged_fetch import count_of
from keyrack.console.pages import car_telemetry, telemetry_charts, timeline, tracks
from keyrack.console.pages.add_forms import CAR
from keyrack.console.pages.boxes import boxes_of
from keyrack.console.pages.car_keys import keys_of
from keyrack.console.product_names import kind
from keyrack.console.rendering import base, live_id, page, redirect, translate_error
from keyrack.core.errors import BadRequest, NotFound, PreconditionFailed, Refusal
from keyrack.http.page_router import ConsolePages, Visit

pages = ConsolePages()

SECTION = "cars"
FIELDS = {field.name: field for field in CAR.fields if field.name != "externalId"}  # it has a form with the metadata
DIGITS = 9  # of an id in the address
EVENTS = 20  # newest openings of a car on its page
SOON = 20  # current and upcoming assignments that are read to find the next one

Known = dict[str, Any]


@dataclass(frozen=True)
class CarView:
    """The car of a visit: its fields from `GET /cars/{carId}`, and their tag."""

    facts: Mapping[str, Any]
    tag: str

    @property
    def id(self) -> int:
        return self.facts["id"]


@dataclass(frozen=True)
class FactEdit:
    """A fact that is being edited: the typed text, and its error.

    `wrong` is a code: `blank`; `refused`, with `reason`; `changed` if another person was faster; or "".
    """

    fact: str
    value: str
    wrong: str = ""
    reason: str = ""


@pages.get("/{customer}/cars/{carId}", permission=Permission.CARS_READ)
async def car(visit: Visit) -> Response:
    if by_script(visit) and (named := visit.query_value("part")) in PARTS:
        visit.require(PARTS[named].permission)
        shown = await _car(visit)
        return await page(visit, f"car/{named}.html", **_whole(shown), **await PARTS[named].gather(visit, shown))
    return await _page(visit)


async def _page(visit: Visit, changing: FactEdit | None = None, status: int = 200) -> Response:
    since = await live_id(visit)
    shown = await _car(visit)
    parts = [part for part in PARTS.values() if part.gather is not _where and visit.may(part.permission)]
    gathered = await asyncio.gather(*(part.gather(visit, shown) for part in parts))
    context = {name: value for part in gathered for name, value in part.items()}
    if changing:
        context["changing"] = changing
    return await page(
        visit, "car.html", status=status, section=SECTION, since=since, **await _done(visit), **_whole(shown), **context
    )


async def _done(visit: Visit) -> Known:
    """The result of the previous action, from the address. `product` was put in or taken out."""
    if "added" in visit.query:
        return {"done": "added", "product": None}
    for name in ("installed", "uninstalled"):
        id = visit.query_value(name)
        if id.isascii() and id.isdigit() and len(id) <= DIGITS:
            with suppress(NotFound):
                return {"done": name, "product": (await visit.call("GET", "/products/{productId}", id)).json}
    return {"done": "", "product": None}


async def _car(visit: Visit) -> CarView:
    """Raises `NotFound`."""
    reply = await visit.call("GET", "/cars/{carId}", visit.ids["carId"])
    return CarView(reply.json, reply.tag)


def _whole(shown: CarView) -> Known:
    """The data of every part."""
    return {"car": shown.facts, "tag": shown.tag}


async def _where(visit: Visit, shown: CarView) -> Known:
    """The last position of the car, with its time."""
    query = {"$filter": f"carId eq {shown.id}", "$select": "latitude,longitude,lastSeen,isDriving"}
    (place,) = (await visit.call("GET", "/positions", query=query)).json
    return {"place": place}


async def _holders(visit: Visit, shown: CarView) -> Known:
    """The current booking, the next one, the number of open requests, and the position.

    Data for which the visit lacks the permission is None.
    """
    where = await _where(visit, shown) if visit.may(Permission.POSITIONS_READ) else {"place": None}
    if not visit.may(Permission.ASSIGNMENTS_READ):
        return {"holders": None, "next": None, "waiting": 0, **where}
    now = utc(datetime.now(UTC))
    query = {
        "$filter": f"carId eq {shown.id} and (end eq null or end gt {now})", "$orderby": "start", "$top": str(SOON),
        "$expand": timeline.USER,
    }  # fmt: skip
    there: list[dict[str, Any]] = (await visit.call("GET", "/assignments", query=query)).json
    there += await hidden_assignments(visit, [shown.id], f"(end eq null or end gt {now})", SOON)
    there.sort(key=lambda assignment: instant(assignment["start"]))
    return {
        "holders": [assignment for assignment in there if assignment["start"] <= now],
        "next": next((assignment for assignment in there if assignment["start"] > now), None),
        "waiting": await _waiting(visit, shown) if visit.may(Permission.OPERATIONS_READ) else 0,
        **where,
    }


async def _waiting(visit: Visit, shown: CarView) -> int:
    return await count_of(visit, "/operations", f"carId eq {shown.id} and state eq 'Pending'")


async def _facts(visit: Visit, shown: CarView) -> Known:
    edit = visit.query_value("edit") if visit.may(Permission.CARS_WRITE) else ""
    changing = FactEdit(edit, shown.facts[edit] or "") if edit in FIELDS else None
    return {"fields": FIELDS, "changing": changing}


async def _bookings(visit: Visit, shown: CarView) -> Known:
    """The settings for new bookings of the car."""
    own, policy = await car_policy(visit, shown.id), await customer_policy(visit)
    is_exclusive = policy.is_exclusive if own.is_exclusive is None else own.is_exclusive
    return {"is_exclusive": is_exclusive, "gap": minutes(policy.gap if own.gap is None else own.gap)}


async def _products(visit: Visit, shown: CarView) -> Known:
    query = {
        "$filter": f"car/id eq {shown.id}", "$orderby": "type,id",
        "$expand": "service($select=name,isTerminated,terminationDate;$expand=contract($select=end))",
    }  # fmt: skip
    return {"products": (await visit.call("GET", "/products", query=query)).json, "now": utc(datetime.now(UTC))}


async def _built_in(visit: Visit, shown: CarView) -> Known:
    """The products with the state of the box, if the visit has the permission."""
    context = await _products(visit, shown)
    return {**context, "boxes": await boxes_of(visit, context["products"]) if visit.may(Permission.BOXES_READ) else {}}


async def _keys(visit: Visit, shown: CarView) -> Known:
    return {"keys": await keys_of(visit, shown.id)}


async def _events(visit: Visit, shown: CarView) -> Known:
    query = {
        "$filter": f"carId eq {shown.id}", "$orderby": "utcDateTime desc", "$top": str(EVENTS),
        "$expand": timeline.USER,
    }  # fmt: skip
    return {"events": (await visit.call("GET", "/events", query=query)).json}


async def _timeline(visit: Visit, shown: CarView) -> Known:
    return {"line": await timeline.timeline(visit, shown.id)}


async def _telemetry(visit: Visit, shown: CarView) -> Known:
    return {"telemetry": await car_telemetry.telemetry(visit, shown.id)}


async def _chart(visit: Visit, shown: CarView) -> Known:
    return {"chart": await car_telemetry.chart(visit, shown.id)}


async def _levels(visit: Visit, shown: CarView) -> Known:
    return {"over": await telemetry_charts.levels(visit, shown.id)}


async def _track(visit: Visit, shown: CarView) -> Known:
    return {"track": await tracks.track_of(visit, shown.id), "streets": await streets(visit)}


@dataclass(frozen=True, slots=True)
class Part:
    """The data of a part of the page, and its permission."""

    gather: Callable[[Visit, CarView], Awaitable[Known]]
    permission: Permission = Permission.POSITIONS_READ


# The parts of the page: templates/car
PARTS: Mapping[str, Part] = {
    "who": Part(_holders, Permission.CARS_READ),
    "where": Part(_where),  # within `who`
    "facts": Part(_facts, Permission.CARS_READ),
    "bookings": Part(_bookings, Permission.ASSIGNMENTS_READ),
    "products": Part(_built_in, Permission.PRODUCTS_READ),
    "keys": Part(_keys, Permission.ACCESS_READ),
    "timeline": Part(_timeline, Permission.ASSIGNMENTS_READ),
    "track": Part(_track),
    "telemetry": Part(_telemetry),
    "levels": Part(_levels),
    "chart": Part(_chart),
    "events": Part(_events, Permission.EVENTS_READ),
}


@pages.post("/{customer}/cars/{carId}/facts/{fact}", permission=Permission.CARS_WRITE)
async def change(visit: Visit) -> Response:
    """Change one fact, if the car has not changed since the form was drawn."""
    fact, value = visit.ids["fact"], visit.form_value("value")
    if fact not in FIELDS:
        return redirect(_here(visit))
    if not value and fact == "name":
        return await _changing(visit, FactEdit(fact, value, "blank"), 400)
    step = {"op": "replace", "path": f"/{fact}", "value": value} if value else {"op": "remove", "path": f"/{fact}"}
    try:
        await visit.call(
            "PATCH", "/cars/{carId}", visit.ids["carId"], body=[step], if_match=visit.form_value("tag") or None
        )
    except PreconditionFailed as refusal:
        return await _changing(visit, FactEdit(fact, value, "changed"), refusal.status)
    except BadRequest as refusal:
        messages = [words(visit, fault, FIELDS[fact].longest) for fault in refusal.errors if fault.pointer]
        text = messages[0] if messages else translate_error(visit, refusal.reason)
        return await _changing(visit, FactEdit(fact, value, "refused", text), refusal.status)
    if not by_script(visit):
        return redirect(f"{_here(visit)}#fact-{fact}")
    shown = await _car(visit)
    return await page(
        visit, "car/changed.html", **_whole(shown), fields=FIELDS, changing=None, **await _holders(visit, shown)
    )


async def _changing(visit: Visit, changing: FactEdit, status: int) -> Response:
    if not by_script(visit):
        return await _page(visit, changing, status)
    shown = await _car(visit)
    return await page(visit, "car/facts.html", status=status, **_whole(shown), fields=FIELDS, changing=changing)


@pages.get("/{customer}/cars/{carId}/delete", permission=Permission.CARS_WRITE)
async def ask_to_delete(visit: Visit) -> Response:
    return await _delete(visit)


@pages.post("/{customer}/cars/{carId}/delete", permission=Permission.CARS_WRITE)
async def delete(visit: Visit) -> Response:
    try:
        await visit.call(
            "DELETE",
            "/cars/{carId}",
            visit.ids["carId"],
            if_match=visit.form_value("tag") or None,
            key=visit.form_value("key") or None,
        )
    except PreconditionFailed as refusal:
        return await _delete(visit, refusal)
    return gone_on(visit, f"{base(visit)}/cars")


async def _delete(visit: Visit, refusal: Refusal | None = None) -> Response:
    """The confirmation, with the bookings that end."""
    shown = await _car(visit)
    there = await _products(visit, shown)
    return await page(
        visit, "car_delete.html", status=refusal.status if refusal else 200, section=SECTION, back=_here(visit),
        key=str(uuid4()), removed=await removed_with_car(visit, shown.id), changed=refusal is not None,
        has_hidden_unit=await _has_hidden_unit(visit, shown.id, there["products"]), **_whole(shown), **there,
    )  # fmt: skip


async def _has_hidden_unit(visit: Visit, car: int, products: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the car has a tracker outside the groups of a group-limited visit."""
    may_know = visit.is_limited and visit.may(Permission.POSITIONS_READ)
    if not may_know or any(kind(product) == "unit" for product in products):
        return False
    query = {"$filter": f"carId eq {car}", "$select": "hasUnit"}
    return any(row["hasUnit"] for row in (await visit.call("GET", "/positions", query=query)).json)


def by_script(visit: Visit) -> bool:
    """Whether a script made the request. It selects from the answer, and does not say that it wants a part."""
    return visit.headers("HX-Request") == "true"


def gone_on(visit: Visit, address: str) -> Response:
    """Redirect to another page. A script that sent a dialog's form needs its own header for that."""
    return Response(204, headers={"HX-Redirect": address}) if by_script(visit) else redirect(address)


def _here(visit: Visit) -> str:
    return f"{base(visit)}/cars/{visit.ids['carId']}"
