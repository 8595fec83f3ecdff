"""Tracks: the positions of a car on one day, as a map with a time slider and a table."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

from keyrack.api.exchange import Response
from keyrack.api.permissions import Permission
from keyrack.console.local_times import midnight, utc
from keyrack.console.map_tiles import streets
from keyrack.console.rendering import base, clock, page
from keyrack.core.error_codes import ErrorCode
from keyrack.core.errors import BadRequest
from keyrack.http.page_router import ConsolePages, Visit

pages = ConsolePages()

NO_DAY = ErrorCode("invalid-day", "This is not a date.", "Write the date in the address like 2026-11-22.")
PLACES = 300  # positions of a day that are shown: a map cannot show more


@dataclass(frozen=True, slots=True)
class DayTrack:
    """A day of a car, in the person's calendar. `points` are those of GET /cars/{carId}/track."""

    day: date
    today: date
    points: list[dict[str, Any]]
    count: int  # number of all positions of the day; `points` may be a selection

    @property
    def previous(self) -> date:
        return self.day - timedelta(days=1)

    @property
    def next(self) -> date | None:
        return self.day + timedelta(days=1) if self.day < self.today else None


async def track_of(visit: Visit, car: object) -> DayTrack:
    """The track of a car on the day of the address, or on the day of its last position.

    Raises `BadRequest` for an invalid day, and the errors of GET /cars/{carId}/track.
    """
    zone = clock(visit).zone
    today = datetime.now(zone).date()
    day = _day(visit) if visit.query_value("day") else await _last(visit, car) or today
    begin, end = (utc(midnight(day + timedelta(days=more), zone)) for more in (0, 1))
    response = await visit.call(
        "GET", "/cars/{carId}/track", car, query={"from": begin, "to": end, "points": str(PLACES)}
    )
    return DayTrack(day, today, response.json["points"], response.json["count"])


def _day(visit: Visit) -> date:
    try:
        day = date.fromisoformat(visit.query_value("day"))
    except ValueError:
        raise BadRequest(NO_DAY) from None
    if not 1970 <= day.year <= 9000:  # beyond it, a neighbouring day may not exist
        raise BadRequest(NO_DAY)
    return day


async def _last(visit: Visit, car: object) -> date | None:
    """The day of the last position."""
    query = {"$filter": f"carId eq {int(str(car))}", "$select": "utcDateTime"}
    rows = (await visit.call("GET", "/positions", query=query)).json
    last_time = rows[0]["utcDateTime"] if rows else None
    return clock(visit).local(last_time).date() if last_time else None


@pages.get("/{customer}/cars/{carId}/track", permission=Permission.POSITIONS_READ)
async def track(visit: Visit) -> Response:
    """The track on a page of its own."""
    car = (await visit.call("GET", "/cars/{carId}", visit.ids["carId"])).json
    return await page(
        visit, "track.html", section="cars", car=car, track=await track_of(visit, car["id"]),
        back=f"{base(visit)}/cars/{car['id']}", streets=await streets(visit),
    )  # fmt: skip
