"""Groups: named sets of cars, users, services and products."""

from __future__ import annotations

from typing import Annotated, Any, Literal, LiteralString

from pydantic import TypeAdapter

from keyrack.api import conditional_requests
from keyrack.api.auth_schemes import CustomerAuth
from keyrack.api.endpoint import Concurrency, Doc, JsonBody, Responses, Tag
from keyrack.api.endpoint_registry import Endpoints
from keyrack.api.exchange import NO_CONTENT, Request, Response, created
from keyrack.api.permissions import Permission
from keyrack.api.read_sql import Parent
from keyrack.api.reference_errors import EXTERNAL_ID, TAKEN, reference_errors
from keyrack.api.schema.declaration import patch_paths, patch_value
from keyrack.api.schema.request_body import NOT_REMOVABLE, Body, Int32, Patch, invalid_member
from keyrack.api.services import ReadServices
from keyrack.core.error_codes import ErrorCode, FieldError
from keyrack.core.errors import BadRequest, Conflict, NotFound, Refusal, on_constraint
from keyrack.fleet.declarations import GROUPS, NewGroup
from keyrack.fleet.endpoints.cars import NO_CAR
from keyrack.fleet.endpoints.products import NO_PRODUCT
from keyrack.fleet.endpoints.services import NO_SERVICE
from keyrack.fleet.endpoints.users import NO_USER
from keyrack.fleet.schema import CAR, GROUP, PRODUCT, SERVICE_OF_PRODUCT, USER

endpoints = Endpoints[ReadServices](
    Tag("Groups", "Named sets of cars, users, services and products.", frozenset(("groups",))), "groups"
)

NO_GROUP = ErrorCode(
    "group-not-found",
    "Unable to find a group for the given groupId which is assigned to the given customerId.",
    "Use an id that `GET /groups` returns for this customer.",
)
SAME_NAME = ErrorCode(
    "group-name-taken",
    "A group with the same name already exists.",
    "Choose another name, or use the group that has it.",
)
STILL_IN_USE = ErrorCode(
    "group-not-empty",
    "The group still has relations. Delete all relations first.",
    "Remove its cars, users, services and products first.",
)
LIMITS = ErrorCode(
    "group-limits-managers",
    "Managers are limited to the group. Give them other groups first.",
    "Give these managers other groups first; `GET /managers` lists them.",
)
NAME_TOO_LONG = ErrorCode(
    "group-name-too-long",
    "Couldn't update group. The name must not be longer than 250 characters.",
    "Send a name of at most 250 characters.",
)

endpoints.read(
    "/groups",
    GROUP,
    Doc("listGroups", "List groups", "Returns every group of the customer. `$expand` adds its members."),
)
ONE_GROUP = endpoints.read(
    "/groups/{groupId}",
    GROUP,
    Doc("getGroup", "Get a group", "Returns one group. `$expand` adds its members.", is_extension=True),
    is_single=True,
    missing_error=NO_GROUP,
)
endpoints.read(
    "/groups/{groupId}/cars",
    CAR,
    Doc(
        "listCarsOfGroup",
        "List the cars of a group",
        "Returns the cars in the group. The list is empty if there are none.",
    ),
    auth=CustomerAuth(Permission.CARS_READ),
    parent=Parent(GROUP, GROUP.relations["cars"].link),
    missing_error=NO_GROUP,
)
endpoints.read(
    "/groups/{groupId}/users",
    USER,
    Doc(
        "listUsersOfGroup",
        "List the users of a group",
        "Returns the users in the group. The list is empty if there are none.",
    ),
    auth=CustomerAuth(Permission.USERS_READ),
    parent=Parent(GROUP, GROUP.relations["users"].link),
    missing_error=NO_GROUP,
)
endpoints.read(
    "/groups/{groupId}/services",
    SERVICE_OF_PRODUCT,
    Doc(
        "listServicesOfGroup",
        "List the services of a group",
        "Returns the services in the group, without their products. The list is empty if there are none.",
    ),
    auth=CustomerAuth(Permission.SERVICES_READ),
    parent=Parent(GROUP, GROUP.relations["services"].link),
    missing_error=NO_GROUP,
)
endpoints.read(
    "/groups/{groupId}/products",
    PRODUCT,
    Doc(
        "listProductsOfGroup",
        "List the products of a group",
        "Returns the products in the group. The list is empty if there are none.",
    ),
    auth=CustomerAuth(Permission.PRODUCTS_READ),
    parent=Parent(GROUP, GROUP.relations["products"].link),
    missing_error=NO_GROUP,
)

UPDATE: LiteralString = GROUPS.update + " returning " + GROUP.version_sql("fleet_group")
EXISTS: LiteralString = "select group_id from fleet_group where customer_id = $1 and group_id = $2"
DELETE: LiteralString = "delete from fleet_group where customer_id = $1 and group_id = $2 returning group_id"


class GroupPatch(Body):
    op: Literal["remove", "replace"]
    path: Annotated[str, patch_paths(GROUPS.by_name)]
    value: Annotated[Any, patch_value(NewGroup)] = None


CREATE_GROUP = "create group"
NOT_REMOVED = "`op` must be 'replace', but is 'remove'."  # of the name (spec, "Groups")
UPDATE_GROUP = "update group"


@endpoints.put(
    "/groups",
    Doc("createGroup", "Create a group", "Creates an empty group. Its name is unique within the customer."),
    body=JsonBody(TypeAdapter(NewGroup), CREATE_GROUP),
    responses=Responses(
        201, errors={400: (invalid_member(CREATE_GROUP, "name"),), 409: (SAME_NAME, TAKEN)}, representation=ONE_GROUP
    ),
)
async def create(request: Request, group: NewGroup) -> Response:
    with on_constraint({"fleet_group_name_key": (Conflict, SAME_NAME)}):
        async with reference_errors(request, GROUPS, group.external_id, CREATE_GROUP):
            return created(await request.db.fetchval(GROUPS.insert, request.customer, *GROUPS.values(group)))


@endpoints.patch(
    "/groups/{groupId}",
    Doc(
        "updateGroup",
        "Rename a group",
        "A JSON Patch (RFC 6902) that replaces the name, the `externalId` or the `metadata`. The latter two can also be"
        " removed.",
    ),
    body=JsonBody(TypeAdapter(Patch[GroupPatch]), UPDATE_GROUP),
    concurrency=Concurrency(if_match=GROUP),
    responses=Responses(
        errors={400: (invalid_member(UPDATE_GROUP, "name"), NAME_TOO_LONG), 404: (NO_GROUP,), 409: (SAME_NAME, TAKEN)},
        representation=ONE_GROUP,
    ),
)
async def update(request: Request, patch: list[GroupPatch]) -> Response:
    for number, step in enumerate(patch):
        if step.op == "remove" and step.path == "/name":
            fault = FieldError("missing", NOT_REMOVABLE.format(name="name"), f"/{number}")
            raise BadRequest(invalid_member(UPDATE_GROUP, "op", hint=NOT_REMOVED), errors=[fault])
    changes = GROUPS.changes(patch, UPDATE_GROUP, {"name": NAME_TOO_LONG})
    with on_constraint({"fleet_group_name_key": (Conflict, SAME_NAME)}):
        async with (
            reference_errors(request, GROUPS, changes.get(EXTERNAL_ID), UPDATE_GROUP, patch),
            conditional_requests.with_if_match(request, GROUP, NO_GROUP) as statements,
        ):
            version = await statements.fetchval(UPDATE, request.customer, *request.ids, changes)
    if version is None:
        raise NotFound(NO_GROUP)
    return conditional_requests.changed(GROUP, version)


@endpoints.delete(
    "/groups/{groupId}",
    Doc("deleteGroup", "Delete an empty group", "The group must be empty, so remove its members first."),
    concurrency=Concurrency(if_match=GROUP),
    responses=Responses(errors={404: (NO_GROUP,), 409: (STILL_IN_USE, LIMITS)}),
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


def links(path: str, item_path: str, body: type[Body], thing: LiteralString, missing: ErrorCode, stays: str) -> None:
    """Define the two endpoints that add an item to a group and remove it. The database finds invalid requests.

    `stays` describes what happens to the item itself.
    """
    column: LiteralString = thing + "_id"
    table: LiteralString = "group_" + thing
    insert: LiteralString = "insert into " + table + " (customer_id, group_id, " + column + ") values ($1, $2, $3)"
    delete: LiteralString = (
        "delete from " + table + " where customer_id = $1 and group_id = $2 and " + column + " = $3 returning true"
    )
    already = ErrorCode(
        f"{thing}-already-in-group",
        f"The {thing} is already assigned to the group.",
        f"Treat this as success: the {thing} is in the group.",
    )
    absent = ErrorCode(
        f"{thing}-not-in-group",
        f"Unable to find a {thing} for the given {thing}Id which is assigned to the given groupId.",
        f"Treat this as success: the {thing} is not in the group.",
    )
    action = f"assign {thing} to group"
    refusals: dict[str, tuple[type[Refusal], ErrorCode]] = {
        f"{table}_group_fkey": (NotFound, NO_GROUP),
        f"{table}_item_fkey": (NotFound, missing),
        f"{table}_pkey": (Conflict, already),
    }

    @endpoints.put(
        path,
        Doc(
            f"add{thing.capitalize()}ToGroup",
            f"Add a {thing} to a group",
            f"A {thing} can be in several groups. The response is 409 if the group already contains it.",
        ),
        body=JsonBody(TypeAdapter(body), action),
        responses=Responses(
            errors={400: (invalid_member(action, f"{thing}Id"),), 404: (NO_GROUP, missing), 409: (already,)}
        ),
    )
    async def add(request: Request, item: Body) -> Response:
        with on_constraint(refusals):
            await request.db.execute(insert, request.customer, *request.ids, getattr(item, column))
        return NO_CONTENT

    @endpoints.delete(
        item_path,
        Doc(f"remove{thing.capitalize()}FromGroup", f"Remove a {thing} from a group", stays),
        responses=Responses(errors={404: (NO_GROUP, absent)}),
    )
    async def remove(request: Request) -> Response:
        group, item = request.ids
        if not await request.db.fetchval(delete, request.customer, group, item):
            exists = await request.db.fetchval(EXISTS, request.customer, group)
            raise NotFound(absent if exists else NO_GROUP)
        return NO_CONTENT


links(
    "/groups/{groupId}/cars",
    "/groups/{groupId}/cars/{carId}",
    CarOfGroup,
    "car",
    NO_CAR,
    "The car itself does not change.",
)
links(
    "/groups/{groupId}/users",
    "/groups/{groupId}/users/{userId}",
    UserOfGroup,
    "user",
    NO_USER,
    "The user stays in the customer.",
)
links(
    "/groups/{groupId}/services",
    "/groups/{groupId}/services/{serviceId}",
    ServiceOfGroup,
    "service",
    NO_SERVICE,
    "The service itself does not change.",
)
links(
    "/groups/{groupId}/products",
    "/groups/{groupId}/products/{productId}",
    ProductOfGroup,
    "product",
    NO_PRODUCT,
    "The product itself does not change.",
)
