"""Today: the map of the cars, and figures that need attention. Each figure leads to the list of its rows."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from babel.numbers import format_decimal

from keyrack.api.exchange import Response
from keyrack.api.permissions import Permission
from keyrack.console.lists.boxes import BOXES, SERVICES
from keyrack.console.lists.cars import CARS
from keyrack.console.lists.changes import CHANGES
from keyrack.console.lists.definition import List
from keyrack.console.lists.deliveries import DELIVERIES
from keyrack.console.lists.history import OPERATIONS
from keyrack.console.lists.people import ASSIGNMENTS
from keyrack.console.lists.query import condition
from keyrack.console.lists.state import ListState
from keyrack.console.map_tiles import streets
from keyrack.console.pages.assignment_requests import DECIDED, open_requests
from keyrack.console.pages.car_telemetry import is_stale
from keyrack.console.pages.webhooks import count_failing
from keyrack.console.rendering import base, clock, gettext, live_id, page, part
from keyrack.core.text import N_
from keyrack.http.page_router import ConsolePages, Visit

pages = ConsolePages()

UNSEEN_DAYS = 7  # days without a report; the list of cars has the same filter
NUMBER = {"$count": "true", "$top": "0"}  # only the total, without rows
SHOWN = 50  # rows of the table beside the map
PLACES = "carId,name,licensePlate,latitude,longitude,lastSeen,ignition,isDriving,inUse"
ON_MAP = "latitude ne null and longitude ne null"


@dataclass(frozen=True, slots=True)
class Figure:
    """The number of rows of a list, with a link to it.

    `kind` is its severity if there are any rows. A `rare` figure is shown only if there are rows.
    """

    permission: Permission  # of the rows
    count: Callable[[Visit], Awaitable[int]]
    path: str  # of the list, below the customer's pages
    sign: str
    name: str
    detail: str
    kind: str = ""
    rare: bool = False
    is_for_whole: bool = False  # for a group-limited visit, a related row outside the groups looks like a missing one
    is_rare_in_groups: bool = False  # for a group-limited visit, zero may mean that the rows are outside the groups


def _of(
    listing: List, filters: Mapping[str, str], sign: str, name: str, detail: str, kind: str = "", *,
    rare: bool = False, is_for_whole: bool = False, is_rare_in_groups: bool = False,
) -> Figure:  # fmt: skip
    """The figure of a list's rows with these filters."""
    state = ListState(listing, filters=tuple(filters.items()))

    async def count(visit: Visit) -> int:
        query = {**NUMBER, "$filter": condition(clock(visit).zone, state)}
        return (await visit.call("GET", listing.rows, query=query)).total

    path = listing.path.removeprefix("/{customer}") + state.address()
    return Figure(listing.permission, count, path, sign, name, detail, kind, rare, is_for_whole, is_rare_in_groups)


FIGURES = (
    _of(ASSIGNMENTS, {"state": "now"}, "in-force", N_("Bookings now"), N_("With keys that work now")),
    _of(
        OPERATIONS, {"state": "failed", "within": "week"},
        "failed", N_("Failed bookings"), N_("Requested within a week"), "bad",
    ),
    Figure(
        Permission.WEBHOOKS_READ, count_failing, "/webhooks?state=failing",
        "webhooks", N_("Failing webhooks"), N_("Their last delivery failed"), "bad",
    ),
    _of(
        DELIVERIES, {"state": "dead"},
        "webhooks", N_("Failed notifications"), N_("Not accepted by their webhooks"), "bad", rare=True,
    ),
    _of(
        BOXES, {"type": "box", "service": "none"},
        "boxes", N_("Boxes without a service"), N_("They open nothing"), "warn", is_for_whole=True,
    ),
    _of(
        SERVICES, {"contract": "soon"},
        "services", N_("Contracts ending"), N_("Within 30 days"), "warn", is_rare_in_groups=True,
    ),
    _of(CARS, {"seen": "long"}, "offline", N_("Not reporting"), N_("No report for a week"), "warn"),
    _of(
        CHANGES, {"resource": "device", "kind": "device.lost", "within": "week"},
        "phone", N_("Lost phones"), N_("Reported within a week"), "warn", rare=True,
    ),
    _of(  # the index of the log is by resource
        CHANGES, {"resource": "boxReport", "kind": "boxReport.created", "within": "week"},
        "warning", N_("Invalid logs of key boxes"), N_("Reported within a week"), "bad", rare=True,
    ),
)  # fmt: skip


@pages.get("/{customer}", permission=Permission.CARS_READ)
async def overview(visit: Visit) -> Response:
    """The figures, drivers' requests, and the map.

    Without the permission for positions, a table of cars replaces the map. A part of the page has only the figures
    and the requests.
    """
    if visit.is_partial:
        return await part(visit, "overview.html", "tiles", **await _changing(visit))
    since = await live_id(visit)
    if not visit.may(Permission.POSITIONS_READ):
        first = {"$select": "id,name,licensePlate,brand,model", "$orderby": "naturalorder(name)", "$top": str(SHOWN)}
        changing, cars = await asyncio.gather(
            _changing(visit), visit.call("GET", "/cars", query={**first, "$count": "true"})
        )
        return await page(
            visit, "overview.html", **changing, cars=cars.json, all_cars=cars.total, since=since, streets=None
        )
    on_map = {
        "$select": PLACES,
        "$filter": ON_MAP,
        "$orderby": "naturalorder(name)",
        "$top": str(SHOWN),
        "$count": "true",
    }
    changing, all_cars, placed = await asyncio.gather(
        _changing(visit),
        visit.call("GET", "/positions", query=NUMBER),
        visit.call("GET", "/positions", query=on_map),
    )
    return await page(
        visit, "overview.html", **changing, cars=[{**car, "isStale": is_stale(visit, car)} for car in placed.json],
        on_map=placed.total, all_cars=all_cars.total, stale_minutes=visit.settings.telemetry_stale_minutes,
        unseen_days=UNSEEN_DAYS, since=since, streets=await streets(visit),
    )  # fmt: skip


async def _changing(visit: Visit) -> dict[str, Any]:
    """The part of the page that is fetched again when it has changed."""
    tiles, (requests, count) = await asyncio.gather(_tiles(visit), open_requests(visit))
    said = next((word for word in DECIDED if word in visit.query), "")
    return {"tiles": tiles, "requests": requests, "open_count": count, "said": said}


async def _tiles(visit: Visit) -> list[dict[str, Any]]:
    """The figures for macros/facts.html, counted in parallel: those for which the visit has the permission."""
    figures = [
        figure for figure in FIGURES if visit.may(figure.permission) and not (figure.is_for_whole and visit.is_limited)
    ]
    totals = await asyncio.gather(*(figure.count(visit) for figure in figures))
    return [
        {
            "name": gettext(visit, figure.name),
            "figure": format_decimal(total, locale=clock(visit).locale),
            "detail": gettext(visit, figure.detail),
            "href": base(visit) + figure.path,
            "sign": figure.sign,
            "kind": figure.kind if total else "",
        }
        for figure, total in zip(figures, totals, strict=True)
        if total or not (figure.rare or (figure.is_rare_in_groups and visit.is_limited))
    ]
