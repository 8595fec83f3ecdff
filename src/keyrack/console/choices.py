"""Search-as-you-type choices of cars, people and brands."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any

from keyrack.api.exchange import Response
from keyrack.api.permissions import Permission
from keyrack.console.local_times import instant, utc
from keyrack.console.rendering import clock
from keyrack.console.searches import ordered_search
from keyrack.core.errors import NotFound
from keyrack.http.page_router import ConsolePages, Visit

pages = ConsolePages()

FAR = timedelta(days=366)  # the longest period of `GET /cars/available`
MOST = 20  # options of one answer; the answer has the total as well

CAR = "id,name,licensePlate,vin,brand,model"
POSITION = CAR.replace("id", "carId", 1)
USER = "id,emailAddress,userData"


@dataclass(frozen=True, slots=True)
class Choice:
    """One option. A field shows `chosen` after the choice, which differs between options of the same name."""

    value: int
    label: str
    detail: str
    chosen: str


@dataclass(frozen=True, slots=True)
class Choices:
    """The first matching options, and the total."""

    options: list[Choice]
    total: int


@pages.get("/{customer}/choices/cars", permission=Permission.CARS_READ)
async def cars(visit: Visit) -> Response:
    """The cars that match the typed text.

    With `free`, only cars without a booking from `start` to `end`. With `exclusive`, shared bookings do not count.
    """
    return _answer(await find_cars(visit, visit.query_value("q"), free(visit, visit.query)))


@pages.get("/{customer}/choices/users", permission=Permission.USERS_READ)
async def users(visit: Visit) -> Response:
    return _answer(await find_users(visit, visit.query_value("q")))


@pages.get("/{customer}/choices/brands", permission=Permission.KEYS_READ)
async def brands(visit: Visit) -> Response:
    """The brands of the catalogue that match the typed text."""
    query = ordered_search(visit.query_value("q"), "naturalorder($it),$it") | {"$top": str(MOST), "$count": "true"}
    reply = await visit.call("GET", "/brands", query=query)
    options = [{"value": name, "label": name, "detail": "", "chosen": name} for name in reply.json]
    return Response(200, json.dumps({"options": options, "total": reply.total}).encode())


async def find_cars(visit: Visit, text: str, period: FreePeriod | None = None) -> Choices:
    """The first matching cars that are free within a period."""
    if period is not None and not period.is_exclusive:
        query = ordered_search(text, "naturalorder(name),carId") | {"$select": POSITION, "$filter": _unbooked(period)}
        return await _find(visit, "/positions", query, of_position)
    query = ordered_search(text, "naturalorder(name),id") | {"$select": CAR}
    if period is None:
        return await _find(visit, "/cars", query, of_car)
    return await _find(visit, "/cars/available", query | {"from": period.start, "to": period.latest_end}, of_car)


async def find_users(visit: Visit, text: str) -> Choices:
    """The first people that match a text."""
    query = ordered_search(text, "emailAddress") | {"$select": USER}
    return await _find(visit, "/users", query, of_user)


@dataclass(frozen=True, slots=True)
class FreePeriod:
    """A period in which a car has to be free, in UTC. `end` is "" without end."""

    start: str
    end: str
    is_exclusive: bool  # only exclusive bookings count

    @property
    def latest_end(self) -> str:
        """The end, at most as far away as `GET /cars/available` looks."""
        latest = utc(instant(self.start) + FAR)
        return min(self.end or latest, latest)


async def labels_of_users(visit: Visit, ids: Iterable[int | None]) -> dict[int | None, str]:
    """The labels of the people with these ids. None and unknown ids have none."""
    known = sorted({id for id in ids if id is not None})
    if not known or not visit.may(Permission.USERS_READ):
        return {}
    query = {"$filter": f"id in ({','.join(map(str, known))})", "$select": USER}
    return {user["id"]: of_user(user).label for user in (await visit.call("GET", "/users", query=query)).json}


def free(visit: Visit, fields: Mapping[str, list[str]]) -> FreePeriod | None:
    """The period in which a car has to be free.

    None if the visit does not ask for free cars, or if the times are not valid yet.
    """
    if "free" not in fields:
        return None
    values = {name: fields.get(name, [""])[-1] for name in ("start", "end")}
    try:
        start = clock(visit).read(values["start"])
        end = "" if "no_end" in fields else clock(visit).read(values["end"])
        return FreePeriod(start, end, "exclusive" in fields) if not end or start < end else None
    except (ValueError, OverflowError):  # a time that does not exist, or is incomplete
        return None


def _unbooked(period: FreePeriod) -> str:
    """The filter of positions for cars without any booking within the period."""
    before = f"a/start lt {period.end} and " if period.end else ""
    taken = f"any(a:{before}(a/end eq null or a/end gt {period.start}))"
    return f"not assignments/{taken} and not hiddenAssignments/{taken}"


def of_car(car: Mapping[str, Any]) -> Choice:
    """The option of a car. Its plate tells apart cars of the same name; without a plate, brand, model and VIN do."""
    plate = car.get("licensePlate")
    detail = " ".join(filter(None, (car.get("brand"), car.get("model"), car.get("vin"))))
    label = f"{car['name']} ({plate})" if plate else car["name"]
    return Choice(car["id"], label, detail, label if plate else _joined(label, detail))


def of_position(position: Mapping[str, Any]) -> Choice:
    """The label of a position's car."""
    return of_car({**position, "id": position["carId"]})


def of_user(user: Mapping[str, Any]) -> Choice:
    """The option of a person: the name, if there is one. The address tells apart people of the same name."""
    data: Mapping[str, Any] = user.get("userData") or {}
    name = " ".join(filter(None, (data.get("firstName"), data.get("lastName"))))
    address = user["emailAddress"]
    return Choice(user["id"], name or address, address if name else "", _joined(name, address))


def by_surname(user: Mapping[str, Any]) -> str:
    """A person's name for lists that are sorted by surname, for example "Lee, Kim"."""
    data: Mapping[str, Any] = user.get("userData") or {}
    return ", ".join(filter(None, (data.get("lastName"), data.get("firstName")))) or user["emailAddress"]


def _joined(*parts: str) -> str:
    return ", ".join(filter(None, parts))


async def _find(visit: Visit, path: str, query: Mapping[str, str], named: Any) -> Choices:
    try:
        response = await visit.call("GET", path, query={**query, "$top": str(MOST), "$count": "true"})
    except NotFound:  # no such row
        return Choices([], 0)
    return Choices([named(row) for row in response.json], response.total)


def _answer(options: Choices) -> Response:
    return Response(200, json.dumps(asdict(options)).encode())
