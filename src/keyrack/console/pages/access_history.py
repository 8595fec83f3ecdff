"""The access history: the users of a car, and the cars of a user, at a time or in a period.

Times in the address are UTC, so a colleague who opens it sees the same. A form sends times of the person's zone, and is
redirected to such an address.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from urllib.parse import urlencode

from babel.dates import format_datetime
from markupsafe import Markup

from keyrack.api.exchange import Response
from keyrack.api.permissions import Permission
from keyrack.console.changes.descriptions import ChangeDescriber, describe_changes
from keyrack.console.changes.resource_names import Thing
from keyrack.console.local_times import Clock, NoSuchTime, instant, utc
from keyrack.console.pages.change import of_thing
from keyrack.console.rendering import base, clock, gettext, live_id, page, redirect, translate_error
from keyrack.core.errors import BadRequest, Gone, NotFound, Refusal, Unavailable
from keyrack.core.text import N_
from keyrack.http.page_router import ConsolePages, Visit

pages = ConsolePages()

LATELY = timedelta(days=7)  # the default period
SECOND = timedelta(seconds=1)
LONG = timedelta(days=3)  # the length from which on marks are days
MARKS = 6
ROWS = {"car": "/cars/{carId}/access", "user": "/users/{userId}/access"}
SECTIONS = {"car": "cars", "user": "users"}
# Texts for API errors that name parameters
WORDS = {
    "time-in-future": N_("This time is in the future. Upcoming bookings are in the list of bookings."),
    "empty-time-range": N_("The end must be later than the start. Choose other times."),
}


@dataclass
class AccessHistoryQuery:
    """The times of an address in UTC, "" if missing; the typed texts; and their errors.

    `local` means that a form sent them, on the person's clock.
    """

    times: dict[str, str] = field(default_factory=dict[str, str])
    typed: dict[str, str] = field(default_factory=dict[str, str])
    errors: dict[str, str] = field(default_factory=dict[str, str])
    local: bool = False

    @property
    def over(self) -> bool:
        return "from" in self.typed

    def set(self, clock: Clock, times: Mapping[str, str]) -> None:
        """Set these times of UTC."""
        self.times, self.typed = dict(times), {name: clock.field(time) for name, time in times.items()}


@dataclass(frozen=True, slots=True)
class AccessRow:
    """An access period: the labels, and its place in the window from 0 to 100."""

    user: Markup
    car: Markup
    assignment: Markup
    box: Markup | None
    service: Markup | None
    since: str
    until: str | None
    is_over: bool  # now
    changed: str | None  # the time at which it was changed or deleted
    begins: float
    ends: float


@pages.get("/{customer}/cars/{carId}/access", permission=Permission.ACCESS_READ)
async def of_car(visit: Visit) -> Response:
    return await _history(visit, "car", visit.ids["carId"])


@pages.get("/{customer}/users/{user}/access", permission=Permission.ACCESS_READ)
async def of_user(visit: Visit) -> Response:
    return await _history(visit, "user", visit.ids["user"])


async def _history(visit: Visit, resource: str, id: str) -> Response:
    """Raises `NotFound`."""
    since, query, here = await live_id(visit), _parse_query(visit), _page(visit, resource, id)
    if query.local and not query.errors:
        return redirect(f"{here}?{urlencode(query.times)}")
    draw = partial(_drawn, visit, since, (resource, id), here, query)
    if query.errors:
        await _known(visit, resource, id)
        return await draw(status=422)
    try:
        history = await _load_history(visit, resource, id, query)
    except (BadRequest, Gone, Unavailable) as refusal:
        return await draw(refusal=refusal, status=refusal.status)
    return await draw(history)


async def _load_history(visit: Visit, resource: str, id: str, query: AccessHistoryQuery) -> Mapping[str, Any]:
    """The answer of the API. Without times, the period is the last days, as far as they are known.

    Raises the `Refusal` of the endpoint.
    """
    if "over" in visit.query and not query.times:
        now = datetime.now(UTC)
        query.set(clock(visit), {"from": utc(now - LATELY), "to": utc(now)})
        try:
            return (await visit.call("GET", ROWS[resource], id, query=query.times)).json
        except Gone as refusal:
            # A history may begin in this second. The API limits a later end to its present time
            query.set(clock(visit), {"from": _oldest(refusal), "to": utc(now + SECOND)})
    return (await visit.call("GET", ROWS[resource], id, query=query.times)).json


def _oldest(refusal: Refusal | None) -> str:
    """The oldest time that the API can answer, of an error."""
    return str(refusal.extensions().get("oldestTime", "")) if isinstance(refusal, Gone) else ""


async def _known(visit: Visit, resource: str, id: str) -> None:
    """Check that the object exists or existed, if no time is requested. Raises `NotFound`."""
    try:
        await visit.call("GET", ROWS[resource], id)
    except NotFound:
        raise
    except Refusal:
        return


def _parse_query(visit: Visit) -> AccessHistoryQuery:
    """The times of the address: `at`, or `from` and `to`. Without any, it is now."""
    query, time = AccessHistoryQuery(), clock(visit)
    names = (
        ("from", "to") if "from" in visit.query or "to" in visit.query else ("at",) if visit.query_value("at") else ()
    )
    for name in names:
        text = visit.query_value(name)
        try:
            if text.endswith("Z"):
                query.typed[name] = time.field(text)
                query.times[name] = text
            else:
                query.typed[name], query.local = text, True
                query.times[name] = time.read(text)
        except NoSuchTime:
            query.errors[name] = gettext(
                visit,
                "This time does not exist in %(zone)s: the clocks are put forward over it. Enter an earlier"
                " or a later time.",
                zone=time.name,
            )
        except (ValueError, OverflowError):
            query.errors[name] = gettext(visit, "Enter a date and a time.")
    return query


async def _drawn(
    visit: Visit,
    since: str,
    thing: Thing,
    here: str,
    query: AccessHistoryQuery,
    body: Mapping[str, Any] | None = None,
    *,
    refusal: Refusal | None = None,
    status: int = 200,
) -> Response:
    resource, id = thing
    now = datetime.now(UTC)
    rows: Sequence[Mapping[str, Any]] = body["assigned"] if body else []
    events: Sequence[Mapping[str, Any]] = body["events"] if body else []
    telling = await describe_changes(visit, events, [thing, *_things(rows)])
    begins, ends = (instant(body[name]) for name in ("from", "to")) if body and query.over else (now, now)
    oldest = _oldest(refusal)
    wrong, remedy = _wrong(visit, refusal)
    return await page(
        visit, "access.html", status=status, section=SECTIONS[resource], since=since, here=here, asked=query, told=body,
        resource=resource, name=telling.named(resource, id), query=urlencode(query.times),
        back=_back(visit, resource, id, telling), wrong=wrong, remedy=remedy,
        known=oldest, oldest=oldest and f"{here}?{_from(query, oldest)}",
        stretches=[_stretch(telling, row, begins, ends, now) for row in rows], now=clock(visit).field(now),
        events=[(event, telling.sentence(event)) for event in reversed(events)], marks=_marks(visit, begins, ends),
        changes=of_thing(visit, resource, id), at_a_time=here, over_a_time=f"{here}?over=lately",
    )  # fmt: skip


def _wrong(visit: Visit, refusal: Refusal | None) -> tuple[str, str]:
    """The error and its remedy; the API's texts if the console has none."""
    if refusal is None:
        return "", ""
    if isinstance(refusal, Gone):
        return gettext(visit, "This is known only from a later time on:"), ""
    if isinstance(refusal, Unavailable):
        later = gettext(visit, "Reload the page in a moment.")
        return gettext(visit, "The latest changes are not in the log yet, so this page would be incomplete."), later
    text = WORDS.get(refusal.reason.code)
    if text is not None:
        return gettext(visit, text), ""
    return translate_error(visit, refusal.reason), gettext(visit, refusal.reason.remedy)


def _from(query: AccessHistoryQuery, oldest: str) -> str:
    """The same address, from the oldest known time on."""
    return urlencode({"from": oldest, "to": query.times["to"]} if query.over else {"at": oldest})


def _things(rows: Sequence[Mapping[str, Any]]) -> list[Thing]:
    members = {
        "assignmentId": "assignment",
        "carId": "car",
        "userId": "user",
        "boxId": "product",
        "serviceId": "service",
    }
    return [(name, str(row[member])) for row in rows for member, name in members.items() if row[member] is not None]


def _stretch(
    telling: ChangeDescriber, row: Mapping[str, Any], begins: datetime, ends: datetime, now: datetime
) -> AccessRow:
    def place(moment: datetime) -> float:
        whole = (ends - begins) or timedelta(seconds=1)
        return round(100 * min(max((moment - begins) / whole, 0.0), 1.0), 2)

    def part(resource: str, id: int | None) -> Markup | None:
        return None if id is None else telling.named(resource, id)

    until = instant(row["until"]) if row["until"] else None
    return AccessRow(
        telling.named("user", row["userId"]), telling.named("car", row["carId"]),
        telling.named("assignment", row["assignmentId"]), part("product", row["boxId"]),
        part("service", row["serviceId"]), row["since"], row["until"], until is not None and until <= now,
        row["knownUntil"], place(instant(row["since"])), place(until or ends),
    )  # fmt: skip


def _marks(visit: Visit, begins: datetime, ends: datetime) -> list[str]:
    """The marks above equal parts of the window."""
    form = "d MMM" if ends - begins >= LONG else "EEE HH:mm"
    time = clock(visit)
    return [
        format_datetime(time.local(begins + number * (ends - begins) / MARKS), form, locale=time.locale)
        for number in range(MARKS if ends > begins else 0)
    ]


def _page(visit: Visit, resource: str, id: str) -> str:
    return f"{base(visit)}/{SECTIONS[resource]}/{id}/access"


def _back(visit: Visit, resource: str, id: str, telling: ChangeDescriber) -> dict[str, str]:
    """The link to the object's page, or to its list if the object is deleted."""
    there = telling.named(resource, id)
    if there.startswith("<a "):
        return {"href": f"{base(visit)}/{SECTIONS[resource]}/{id}", "text": there.striptags()}
    text = gettext(visit, "Cars") if resource == "car" else gettext(visit, "People")
    return {"href": f"{base(visit)}/{SECTIONS[resource]}", "text": text}
