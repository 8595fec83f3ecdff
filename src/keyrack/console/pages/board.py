"""The plan: cars as rows, days as columns, and a bar for each booking."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from babel.dates import format_date, format_interval
from babel.numbers import format_decimal

from keyrack.api.exchange import Response
from keyrack.api.permissions import Permission
from keyrack.console.choices import Choice, of_car
from keyrack.console.hidden_assignments import hidden_assignments
from keyrack.console.local_times import instant, midnight, utc
from keyrack.console.paged_fetch import parts_of, rows_of
from keyrack.console.rendering import base, clock, gettext, live_id, page
from keyrack.console.searches import ordered_search
from keyrack.console.timeline_bars import Bar, bar, laid
from keyrack.core.errors import NotFound
from keyrack.core.text import N_
from keyrack.http.page_router import ConsolePages, Visit

pages = ConsolePages()

SPANS = {7: N_("Week"), 14: N_("Two weeks"), 31: N_("Month")}  # days -> label
SPAN = 14
ROWS = (50, 100, 500)  # cars of one page
BARS = 1_500  # of one page: about 1.2 MB; a note says if there are more
FAILED = timedelta(days=1)  # how long failed operations are shown
CUT = N_("Only %(most)s bookings are shown, the earliest ones.")
LONGEST = 200  # characters of a search
USER = "user($select=id,emailAddress,userData)"
FIRST, LAST = date(1970, 1, 8), date(9998, 12, 1)  # the first days of a window


@dataclass(frozen=True)
class BoardWindow:
    """The window of the address: days and cars."""

    first: date
    days: int
    q: str = ""
    page: int = 1
    rows: int = ROWS[0]
    here: date | None = None  # the day on narrow screens

    @property
    def end(self) -> date:
        return self.first + timedelta(days=self.days)

    @property
    def dates(self) -> list[date]:
        return [self.first + timedelta(days=number) for number in range(self.days)]


@dataclass(frozen=True)
class BoardDay:
    """A column."""

    date: str
    short: str
    number: int
    name: str
    is_today: bool
    is_weekend: bool


@dataclass(frozen=True)
class BoardRow:
    """A car and its bars, by their first columns. `hidden` counts overlapping bars without a place."""

    car: Choice
    bars: dict[int, list[Bar]]
    covered: dict[int, str]  # column -> the people with bookings
    lanes: int
    hidden: int


@pages.get("/{customer}/assignments/board", permission=Permission.ASSIGNMENTS_READ)
async def board(visit: Visit) -> Response:
    since = await live_id(visit)
    now = datetime.now(clock(visit).zone)
    window = _window(visit, now.date())
    cars, total = await _cars(visit, window)
    bars, is_cut = await _bars(visit, window, [car.value for car in cars])
    cut = gettext(visit, CUT, most=format_decimal(BARS, locale=clock(visit).locale)) if is_cut else ""
    rows = [_row(car, window, bars.get(car.value, [])) for car in cars]
    return await page(
        visit, "board.html", section="assignments", since=since, window=window, rows=rows, total=total, cut=cut,
        days=[_day(visit, day, now.date()) for day in window.dates], here=_here(visit, window, now.date()),
        period=format_interval(window.first, window.end - timedelta(days=1), "yMMMd", locale=clock(visit).locale),
        spans=[(days, gettext(visit, name), _address(visit, window, days=days)) for days, name in SPANS.items()],
        ways=_ways(visit, window, total), address=f"{base(visit)}/assignments/board",
        now=now.strftime("%Y-%m-%dT%H:%M"),
        refresh=_address(visit, window, day=window.here.isoformat() if window.here else ""),
    )  # fmt: skip


def _window(visit: Visit, today: date) -> BoardWindow:
    """The window of the address. Invalid values have their defaults."""
    days = _number(visit.query_value("days"), tuple(SPANS), SPAN)
    monday = today - timedelta(days=today.weekday())
    here = _date(visit.query_value("day"))
    first = _date(visit.query_value("from")) or here or (today.replace(day=1) if days == max(SPANS) else monday)
    page = visit.query_value("page")
    number = int(page) if page.isascii() and page.isdigit() and len(page) < 6 else 1
    rows = _number(visit.query_value("rows"), ROWS, ROWS[0])
    return BoardWindow(first, days, visit.query_value("q").strip()[:LONGEST], max(number, 1), rows, here)


def _number(text: str, choices: tuple[int, ...], usual: int) -> int:
    return int(text) if text in map(str, choices) else usual


def _date(text: str) -> date | None:
    try:
        day = date.fromisoformat(text)
    except ValueError:
        return None
    return day if FIRST <= day <= LAST else None


async def _cars(visit: Visit, window: BoardWindow) -> tuple[list[Choice], int]:
    search = ordered_search(window.q, "naturalorder(name),id")
    query = {"$select": "id,name,licensePlate", "$count": "true", **search}
    try:
        cars, total = await rows_of(visit, "/cars", query, window.rows, (window.page - 1) * window.rows)
    except NotFound:
        return [], 0
    return [of_car(car) for car in cars], total


async def _bars(visit: Visit, window: BoardWindow, cars: list[int]) -> tuple[dict[int, list[Bar]], bool]:
    """The bars of these cars, and whether there are more than the page shows."""
    if not cars:
        return {}, False
    zone = clock(visit).zone
    start, end = (utc(midnight(day, zone)) for day in (window.first, window.end))
    within = f"start lt {end} and (end eq null or end gt {start})"
    since = utc(datetime.now(UTC) - FAILED)
    state = f"(state eq 'Pending' or (state eq 'Failed' and kind eq 'CreateAssignment' and requested ge {since}))"
    may_know = visit.may(Permission.OPERATIONS_READ)
    there, operations, hidden = await asyncio.gather(
        _of_cars(visit, "/assignments", cars, within),
        _of_cars(visit, "/operations", cars if may_know else [], f"{state} and {within}"),
        hidden_assignments(visit, cars, within, BARS + 1),
    )
    there += hidden
    changing = {item["assignmentId"] for item in operations if item["state"] == "Pending" and item["assignmentId"]}
    entries = there + [item for item in operations if item["kind"] == "CreateAssignment"]
    entries.sort(key=lambda item: instant(item["start"]))
    bars = [bar(visit, item, pending="kind" not in item and item["id"] in changing) for item in entries[:BARS]]
    by_car: dict[int, list[Bar]] = {}
    for item in bars:
        by_car.setdefault(item.car, []).append(item)
    return by_car, len(entries) > BARS or len(operations) > BARS


async def _of_cars(visit: Visit, path: str, cars: list[int], condition: str) -> list[dict[str, Any]]:
    """The rows that match the condition, with their users; one more than the page shows, if there are more."""
    rows: list[dict[str, Any]] = []
    for some in parts_of(visit, cars):
        query = {"$filter": f"carId in {some} and {condition}", "$orderby": "start", "$expand": USER}
        rows += (await rows_of(visit, path, query, BARS + 1))[0]
    return rows


def _row(car: Choice, window: BoardWindow, bars: Iterable[Bar]) -> BoardRow:
    placed, lanes, hidden = laid(bars, window.first, window.days)
    by_column: dict[int, list[Bar]] = {}
    covered: dict[int, list[str]] = {}
    for placed_bar in placed:
        by_column.setdefault(placed_bar.column, []).append(placed_bar)
        for column in range(placed_bar.column, placed_bar.last + 1):
            covered.setdefault(column, []).append(placed_bar.user)
    return BoardRow(car, by_column, {column: ", ".join(users) for column, users in covered.items()}, lanes, hidden)


def _day(visit: Visit, day: date, today: date) -> BoardDay:
    locale = clock(visit).locale
    return BoardDay(
        day.isoformat(), format_date(day, "ccc", locale=locale), day.day,
        format_date(day, gettext(visit, "EEE, d MMM"), locale=locale), day == today, day.weekday() >= 5,
    )  # fmt: skip


def _here(visit: Visit, window: BoardWindow, today: date) -> dict[str, Any]:
    """The one day on narrow screens, with links to its neighbours."""
    shown = [day for day in (window.here, today) if day and window.first <= day < window.end]
    day = shown[0] if shown else window.first
    step = timedelta(days=1)
    ways = {"previous": _of_day(visit, window, day - step), "next": _of_day(visit, window, day + step)}
    shown_day = _day(visit, day, today)
    day_fields = {
        "column": (day - window.first).days, "date": shown_day.date, "name": shown_day.name,
        "is_today": shown_day.is_today,
    }  # fmt: skip
    return {**day_fields, **ways}


def _of_day(visit: Visit, window: BoardWindow, day: date) -> str:
    first = window.first if window.first <= day < window.end else day
    return _address(visit, window, day=day.isoformat(), first=first)


def _ways(visit: Visit, window: BoardWindow, total: int) -> Mapping[str, str]:
    """Links to earlier and later days, today, and other cars; "" if there are none."""
    by = timedelta(days=window.days)
    pages = -(-total // window.rows)
    return {
        "earlier": _address(visit, window, first=window.first - by),
        "later": _address(visit, window, first=window.first + by),
        "today": _address(visit, window, first=None),
        "previous": _address(visit, window, page=window.page - 1) if window.page > 1 else "",
        "next": _address(visit, window, page=window.page + 1) if window.page < pages else "",
    }


def _address(visit: Visit, window: BoardWindow, day: str = "", **change: Any) -> str:
    """The plan's address with another day. Defaults are left out."""
    first = change.pop("first", window.first)
    other = replace(window, **change)
    parameters = {
        "from": first and first.isoformat(), "days": other.days if other.days != SPAN else "", "q": other.q,
        "page": other.page if other.page > 1 else "", "rows": other.rows if other.rows != ROWS[0] else "", "day": day,
    }  # fmt: skip
    query = urlencode({name: value for name, value in parameters.items() if value})
    return f"{base(visit)}/assignments/board" + (f"?{query}" if query else "")
