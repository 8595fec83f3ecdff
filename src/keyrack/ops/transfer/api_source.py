"""Reads a whole customer from a server with this API, as rows of our record types.

It relies only on the spec. If the server has the extensions `/assignments` and `/events`, their lists are used: they
need fewer requests, and include cars that no longer exist.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from keyrack.api.schema import references
from keyrack.api.schema.request_body import format_timestamp, moment, wall_clock
from keyrack.core.api_client.responses import ApiError
from keyrack.core.api_client.session import Client
from keyrack.fleet import declarations
from keyrack.ops.transfer import record_types
from keyrack.ops.transfer.record_types import RecordType

AT_ONCE = 8  # concurrent requests
PIECE = 100  # rows per batch, if each row needs a request

Json = dict[str, Any]
Pages = AsyncGenerator[list[Json]]

# The record types that the API provides, in import order
API_RECORD_TYPES = (
    record_types.PRODUCTS,
    record_types.SERVICES,
    record_types.CONTRACTS,
    record_types.CARS,
    record_types.USERS,
    record_types.GROUPS,
    record_types.GROUP_CARS,
    record_types.GROUP_USERS,
    record_types.GROUP_SERVICES,
    record_types.GROUP_PRODUCTS,
    record_types.PAIRINGS,
    record_types.INSTALLATIONS,
    record_types.ASSIGNMENTS,
    record_types.EVENTS,
)
PRODUCT = ("id", *declarations.PRODUCTS.by_name)
SERVICE = ("id", *declarations.SERVICES.by_name)
CAR = ("id", *declarations.CARS.by_name)
GROUP = ("id", *declarations.GROUPS.by_name)
CONTRACT = tuple(declarations.CONTRACTS.by_name)
EVENT = ("id", "dateTime", "userId", "carId", "type", "userAgent", "latitude", "longitude")


class ApiSource:
    """A customer at another server; `user_type` is the type of imported users, which no server provides."""

    def __init__(self, client: Client, user_type: str = "Anonymous") -> None:
        self._client = client
        self._user_type = user_type
        self._gate = asyncio.Semaphore(AT_ONCE)

    async def check(self, customer: int) -> str:
        """The customer's name. Raises `ApiError` if the caller may not act for the customer."""
        for row in await self._client.get("/customers"):
            if str(row["id"]) == str(customer):
                return row["name"]
        raise ApiError(f"The source has no customer {customer}, or this manager may not act for it.")

    def pages(self, kind: RecordType) -> Pages:
        """All rows of a kind, in pages. Raises `ApiError`."""
        match kind.name:
            case "products":
                return self._each("/products", self._product)
            case "services":
                return self._listed("/services", _members(SERVICE))
            case "contracts":
                return self._each("/services", self._contract)
            case "cars":
                return self._listed("/cars", _members(CAR))
            case "users":
                return self._listed("/users", self._user)
            case "groups":
                return self._listed("/groups", _members(GROUP))
            case "pairings":
                return self._listed("/services", _pairing)
            case "installations":
                return self._each("/cars", self._installed)
            case "assignments":
                return self._assignments()
            case "events":
                return self._events()
            case _:
                return self._in_groups(kind.name.removeprefix("group-"), list(kind.members)[1])

    async def _listed(self, path: str, row_of: Callable[[Json], Json | None]) -> Pages:
        async for page in self._client.pages(path):
            yield [row for item in page if (row := row_of(item)) is not None]

    async def _each(self, path: str, rows_of: Callable[[Json], Awaitable[list[Json]]]) -> Pages:
        """The rows of a list that need a request for each item."""

        async def one(item: Json) -> list[Json]:
            async with self._gate:
                return await rows_of(item)

        async for page in self._client.pages(path, size=PIECE):
            yield [row for rows in await asyncio.gather(*(one(item) for item in page)) for row in rows]

    async def _product(self, product: Json) -> list[Json]:
        whole = await self._client.get(f"/products/{product['id']}", missing={})
        if not whole:
            return []  # removed in the meantime
        kind = str(whole["type"]).rpartition(" ")[2]
        if kind not in ("Box", "IQ"):
            raise ApiError(
                f"Product {product['id']} is of the type {whole['type']!r}, which is neither a Box nor an IQ."
            )
        return [{"kind": kind} | _members(PRODUCT)(whole)]

    async def _contract(self, service: Json) -> list[Json]:
        contract = await self._client.get(f"/services/{service['id']}/contracts", missing={})
        return [{"serviceId": service["id"]} | {name: contract.get(name) for name in CONTRACT}] if contract else []

    def _user(self, user: Json) -> Json:
        data: Json = user.get("userData") or {}
        row = {"id": user["id"]} | {name: user.get(name, data.get(name)) for name in declarations.PEOPLE.by_name}
        return row | {"type": self._user_type, "createdAt": None} | references.valid(user)

    async def _installed(self, car: Json) -> list[Json]:
        products = await self._client.get(f"/cars/{car['id']}/products", missing=[])
        return [{"productId": product["id"], "carId": car["id"]} for product in products]

    async def _in_groups(self, collection: str, member: str) -> Pages:
        async for groups in self._client.pages("/groups"):
            for group in groups:
                async for page in self._client.pages(f"/groups/{group['id']}/{collection}"):
                    yield [{"groupId": group["id"], member: row["id"]} for row in page]

    async def _assignments(self) -> Pages:
        """Current and future assignments."""
        if await self._offers("/assignments"):
            async for page in self._client.pages("/assignments"):
                yield [_assignment(assignment) for assignment in page if _is_ahead(assignment)]
            return
        async for page in self._each("/cars", self._assignments_of):
            yield page

    async def _assignments_of(self, car: Json) -> list[Json]:
        listed = await self._client.get(f"/cars/{car['id']}/assignments", missing=[])
        ahead = [assignment["id"] for assignment in listed if _is_ahead(assignment)]
        whole = [await self._client.get(f"/assignments/{id}", missing={}) for id in ahead]
        return [_assignment(assignment) for assignment in whole if assignment]  # the others ended in the meantime

    async def _events(self) -> Pages:
        if await self._offers("/events"):
            async for page in self._client.pages("/events"):
                yield [_event(event) for event in page]
            return
        async for cars in self._client.pages("/cars"):
            for car in cars:
                async for page in self._client.pages(f"/cars/{car['id']}/events"):
                    yield [_event(event) for event in page]

    async def _offers(self, path: str) -> bool:
        """Whether the server has this list, an extension of the spec."""
        answer = await self._client.call("GET", f"{path}?$orderby=id&$top=1")
        return answer.status == 200 and isinstance(answer.json, list)


def _members(names: Sequence[str]) -> Callable[[Json], Json]:
    return lambda item: (
        {name: item.get(name) for name in names}
        | {name: value for name, value in references.valid(item).items() if name in names}
    )


def _pairing(service: Json) -> Json | None:
    product = service.get("productId")
    return None if product is None else {"serviceId": service["id"], "productId": product}


def _is_ahead(assignment: Json) -> bool:
    return assignment["end"] is None or _moment(assignment["end"]) > datetime.now(UTC)


def _assignment(assignment: Json) -> Json:
    row = {name: assignment.get(name) for name in ("id", "carId", "userId", "lifetime", "renewableAfter")}
    row |= references.valid(assignment)
    row |= {name: assignment[name] and format_timestamp(_moment(assignment[name])) for name in ("start", "end")}
    return row | ({"exclusive": assignment["exclusive"]} if "exclusive" in assignment else {})


def _event(event: Json) -> Json:
    row = {name: event.get(name) for name in EVENT}
    local, utc = wall_clock(event["dateTime"]), _moment(event["utcDateTime"])
    times = {"localTime": local.isoformat(), "utcDateTime": utc.isoformat()}
    return row | times | {"userId": event.get("userId") or 0, "clientId": None}


def _moment(text: str) -> datetime:
    """A time of the API; without an offset, which some servers omit, it is UTC."""
    try:
        return moment(text)
    except ValueError:
        return moment(text + "Z")
