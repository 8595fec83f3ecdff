"""Groups: named sets of cars, users, services and products."""

from __future__ import annotations

from typing import Annotated, Any, Literal, LiteralString

from keyrack.api import conditional_requests
from keyrack.api.endpoint import Endpoints
from keyrack.api.exchange import NO_CONTENT, Request, Response, created
from keyrack.api.permissions import Permission
from keyrack.api.read_sql import Parent
from keyrack.api.schema.declaration import patch_paths, patch_value
from keyrack.api.schema.request_body import Body, Int32, Patch, invalid_member
from keyrack.core.error_codes import ErrorCode
from keyrack.core.errors import Conflict, NotFound, Refusal, on_constraint
from keyrack.fleet.declarations import GROUPS, NewGroup
from keyrack.fleet.endpoints.cars import NO_CAR
from keyrack.fleet.endpoints.products import NO_PRODUCT
from keyrack.fleet.endpoints.services import NO_SERVICE
from keyrack.fleet.endpoints.users import NO_USER
from keyrack.fleet.schema import CAR, GROUP, PRODUCT, SERVICE_OF_PRODUCT, USER

endpoints = Endpoints("Groups", "groups")

NO_GROUP = ErrorCode(
    "group-not-found",
    "Unable to find a group for the given groupId which is assigned to the given customerId.",
    "Use an id that GET /groups returns for this customer.",
)
SAME_NAME = ErrorCode(
    "group-name-taken",
    "A group with the same name already exists.",
    "Choose another name, or use the group that has it.",
)
STILL_IN_USE = ErrorCode(
    "group-not-empty",
    "The group still has relations. Delete all relations first.",
    "Take its cars, users, services and products out first.",
)
LIMITS = ErrorCode(
    "group-limits-managers",
    "Managers are limited to the group. Give them other groups first.",
    "GET /managers tells who is limited to it.",
)
NAME_TOO_LONG = ErrorCode(
    "group-name-too-long",
    "Couldn't update group. The name must not be longer than 250 characters.",
    "Send a name of at most 250 characters.",
)

endpoints.get("/groups", GROUP, "All groups")
ONE_GROUP = endpoints.get("/groups/{groupId}", GROUP, "One group", one=True, missing=NO_GROUP, ours=True)
endpoints.get(
    "/groups/{groupId}/cars",
    CAR,
    "The cars of a group",
    permission=Permission.CARS_READ,
    of=Parent(GROUP, GROUP.relations["cars"].link),
    missing=NO_GROUP,
)
endpoints.get(
    "/groups/{groupId}/users",
    USER,
    "The users of a group",
    permission=Permission.USERS_READ,
    of=Parent(GROUP, GROUP.relations["users"].link),
    missing=NO_GROUP,
)
endpoints.get(
    "/groups/{groupId}/services",
    SERVICE_OF_PRODUCT,
    "The services of a group",
    permission=Permission.SERVICES_READ,
    of=Parent(GROUP, GROUP.relations["services"].link),
    missing=NO_GROUP,
)
endpoints.get(
    "/groups/{groupId}/products",
    PRODUCT,
    "The products of a group",
    permission=Permission.PRODUCTS_READ,
    of=Parent(GROUP, GROUP.relations["products"].link),
    missing=NO_GROUP,
)

UPDATE: LiteralString = GROUPS.update + " returning " + GROUP.version("fleet_group")
EXISTS: LiteralString = "select group_id from fleet_group where customer_id = $1 and group_id = $2"
DELETE: LiteralString = "delete from fleet_group where customer_id = $1 and group_id = $2 returning group_id"


class GroupPatch(Body):
    op: Literal["replace"]
    path: Annotated[str, patch_paths(NewGroup)]
    value: Annotated[Any, patch_value(NewGroup)] = None


CREATE_GROUP = "create group"
UPDATE_GROUP = "update group"


@endpoints.put(
    "/groups",
    "Create a group",
    body=NewGroup,
    what=CREATE_GROUP,
    status=201,
    shows=ONE_GROUP,
    refuses={400: (invalid_member(CREATE_GROUP, "name"),), 409: (SAME_NAME,)},
)
async def create(request: Request, group: NewGroup) -> Response:
    with on_constraint({"fleet_group_name_key": (Conflict, SAME_NAME)}):
        return created(await request.db.fetchval(GROUPS.insert, request.customer, *GROUPS.values(group)))


@endpoints.patch(
    "/groups/{groupId}",
    "Rename a group",
    body=Patch[GroupPatch],
    what=UPDATE_GROUP,
    shows=ONE_GROUP,
    compares=GROUP,
    refuses={400: (invalid_member(UPDATE_GROUP, "name"), NAME_TOO_LONG), 404: (NO_GROUP,), 409: (SAME_NAME,)},
)
async def update(request: Request, patch: list[GroupPatch]) -> Response:
    changes = GROUPS.changes(patch, UPDATE_GROUP, {"name": NAME_TOO_LONG})
    with on_constraint({"fleet_group_name_key": (Conflict, SAME_NAME)}):
        async with conditional_requests.with_if_match(request, GROUP, NO_GROUP) as statements:
            version = await statements.fetchval(UPDATE, request.customer, *request.ids, changes)
    if version is None:
        raise NotFound(NO_GROUP)
    return conditional_requests.changed(GROUP, version)


@endpoints.delete(
    "/groups/{groupId}",
    "Delete an empty group",
    compares=GROUP,
    refuses={404: (NO_GROUP,), 409: (STILL_IN_USE, LIMITS)},
)
async def delete(request: Request) -> Response:
    in_use = (Conflict, STILL_IN_USE)
    of_things = {f"group_{item}_group_fkey": in_use for item in ("car", "user", "service", "product")}
    with on_constraint({**of_things, "scope_group_group_fkey": (Conflict, LIMITS)}):
        async with conditional_requests.with_if_match(request, GROUP, NO_GROUP) as statements:
            if await statements.fetchval(DELETE, request.customer, *request.ids) is None:
                raise NotFound(NO_GROUP)
    return NO_CONTENT


class CarOfGroup(Body):
    car_id: Int32


class UserOfGroup(Body):
    user_id: Int32


class ServiceOfGroup(Body):
    service_id: Int32


class ProductOfGroup(Body):
    product_id: Int32


def links(path: str, item_path: str, body: type[Body], thing: LiteralString, missing: ErrorCode) -> None:
    """The two endpoints that put a thing into a group and take it out; the database finds what is wrong."""
    column: LiteralString = thing + "_id"
    table: LiteralString = "group_" + thing
    insert: LiteralString = "insert into " + table + " (customer_id, group_id, " + column + ") values ($1, $2, $3)"
    delete: LiteralString = (
        "delete from " + table + " where customer_id = $1 and group_id = $2 and " + column + " = $3 returning true"
    )
    already = ErrorCode(
        f"{thing}-already-in-group",
        f"The {thing} is already assigned to the group.",
        "There is nothing to do: it is in the group.",
    )
    absent = ErrorCode(
        f"{thing}-not-in-group",
        f"Unable to find a {thing} for the given {thing}Id which is assigned to the given groupId.",
        "There is nothing to take out: it is not in the group.",
    )
    what = f"assign {thing} to group"
    refusals: dict[str, tuple[type[Refusal], ErrorCode]] = {
        f"{table}_group_fkey": (NotFound, NO_GROUP),
        f"{table}_item_fkey": (NotFound, missing),
        f"{table}_pkey": (Conflict, already),
    }

    @endpoints.put(
        path,
        f"Put a {thing} into a group",
        body=body,
        what=what,
        refuses={400: (invalid_member(what, f"{thing}Id"),), 404: (NO_GROUP, missing), 409: (already,)},
    )
    async def add(request: Request, item: Body) -> Response:
        with on_constraint(refusals):
            await request.db.execute(insert, request.customer, *request.ids, getattr(item, column))
        return NO_CONTENT

    @endpoints.delete(item_path, f"Take a {thing} out of a group", refuses={404: (NO_GROUP, absent)})
    async def remove(request: Request) -> Response:
        group, item = request.ids
        if not await request.db.fetchval(delete, request.customer, group, item):
            exists = await request.db.fetchval(EXISTS, request.customer, group)
            raise NotFound(absent if exists else NO_GROUP)
        return NO_CONTENT


links("/groups/{groupId}/cars", "/groups/{groupId}/cars/{carId}", CarOfGroup, "car", NO_CAR)
links("/groups/{groupId}/users", "/groups/{groupId}/users/{userId}", UserOfGroup, "user", NO_USER)
links("/groups/{groupId}/services", "/groups/{groupId}/services/{serviceId}", ServiceOfGroup, "service", NO_SERVICE)
links("/groups/{groupId}/products", "/groups/{groupId}/products/{productId}", ProductOfGroup, "product", NO_PRODUCT)
