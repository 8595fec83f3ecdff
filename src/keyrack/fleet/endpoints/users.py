"""Users: persons, which several customers can share, and their memberships."""

from __future__ import annotations

import secrets
from datetime import timedelta
from typing import Annotated, Any, Literal, LiteralString, NamedTuple

from pydantic import ConfigDict, Field, TypeAdapter

from keyrack.api import conditional_requests
from keyrack.api.auth_schemes import CustomerAuth
from keyrack.api.endpoint import Concurrency, Doc, JsonBody, Responses, Tag
from keyrack.api.endpoint_registry import Endpoints
from keyrack.api.exchange import NO_CONTENT, Request, Response, answer
from keyrack.api.permissions import Permission
from keyrack.api.rate_limits import RateLimit
from keyrack.api.read_sql import Parent
from keyrack.api.reference_errors import EXTERNAL_ID, TAKEN, reference_errors
from keyrack.api.schema.declaration import patch_paths, patch_value
from keyrack.api.schema.references import ExternalId, Metadata
from keyrack.api.schema.request_body import Body, EmailAddress, ExactText, Int32, Name, Patch, invalid_member
from keyrack.assignments.customer_lock import lock_and_flush
from keyrack.assignments.submission import end_all_of_user
from keyrack.core.addresses import address_form
from keyrack.core.error_codes import NO_USER, RATE_LIMITED, ErrorCode, FieldError
from keyrack.core.errors import BadRequest, Conflict, NotFound, on_constraint
from keyrack.core.text import email_address, is_blank, trimmed
from keyrack.db.connection import Statements
from keyrack.db.named_parameters import compile_statement
from keyrack.fleet import global_erasure, group_scope_checks, person_copies
from keyrack.fleet.declarations import USERS, ReferenceRow
from keyrack.fleet.person_lookup import BY_ADDRESS, SAME_ADDRESS, UNIQUE_ADDRESS
from keyrack.fleet.schema import ASSIGNMENT_OF_USER, USER
from keyrack.fleet.services import FleetServices

TAG = Tag("Users", "People who can open cars. A person can be a user of several customers.", frozenset(("users",)))
endpoints = Endpoints[FleetServices](TAG, "users")

NEITHER = ErrorCode(
    "invalid-user-parameters",
    "Invalid emailAddress and userId. One valid parameter is required.",
    "Send either `emailAddress` or `userId`.",
)
NOBODY = ErrorCode(
    "named-user-not-found",
    "Unable to find a user for the given parameters.",
    "Create the user by `PUT /users`; a `userId` finds only users of your own customers.",
)
ALREADY = ErrorCode(
    "user-already-in-customer",
    "The user is already assigned to the customer.",
    "Treat this as success: the user is in the customer.",
)
NOT_ASSIGNED = ErrorCode(
    "user-not-in-customer",
    "Unable to find a user for the given parameters which is assigned to the given customerId.",
    "Treat this as success: the user is not in the customer.",
)
ONE_NEEDED = FieldError(
    "one-needed", "Exactly one of `emailAddress` and `userId` is required.", "", ("emailAddress", "userId")
)

A_USER = Parent(USER, USER.relations["assignments"].link)

endpoints.read(
    "/users",
    USER,
    Doc("listUsers", "List users", "Returns all users of the customer, `Normal` and `Anonymous`."),
)
ONE_USER = endpoints.read(
    "/users/{userId}",
    USER,
    Doc("getUser", "Get a user", "Returns one user of the customer. `$expand` adds assignments and groups."),
    is_single=True,
    missing_error=NO_USER,
)
endpoints.read(
    "/users/{userId}/assignments",
    ASSIGNMENT_OF_USER,
    Doc(
        "listAssignmentsOfUser",
        "List the assignments of a user",
        "Returns past, current and future assignments of the user.",
    ),
    auth=CustomerAuth(Permission.ASSIGNMENTS_READ),
    parent=A_USER,
    missing_error=NO_USER,
)

INSERT = compile_statement("""
with p as (
  insert into person (email_address, first_name, last_name, type, password_hash, address_form, password_customer)
  values (:email_address, :first_name, :last_name, :type, :password_hash, :address_form,
    case when :password_hash::text is not null then :customer::integer end)
  returning user_id
)
insert into customer_user (customer_id, user_id, external_id, metadata)
select :customer, user_id, :external_id, :metadata from p returning user_id
""")
UPDATE: LiteralString = (
    "update customer_user t set " + USERS.assignments("$3") + " from person t_person"
    " where t.customer_id = $1 and t.user_id = $2 and t_person.user_id = t.user_id returning " + USER.version_sql("t")
)  # fmt: skip
# An id finds only persons of customers whose users the caller may list, so that counting through ids reveals no others
BY_ID: LiteralString = "select user_id from customer_user where user_id = $1 and customer_id = any($2) limit 1"
JOIN: LiteralString = "insert into customer_user (customer_id, user_id) values ($1, $2)"
MEMBER: LiteralString = "select exists (select from customer_user where customer_id = $1 and user_id = $2)"
# The erasure itself checks whether this was the last customer (fleet/global_erasure.py)
LEAVE: LiteralString = """
with gone as (delete from customer_user where customer_id = $1 and user_id = $2 returning user_id)
update person p set left_at = now() from gone where p.user_id = gone.user_id
"""


class UserData(Body):
    first_name: Name
    last_name: Name


class NewUser(Body):
    email_address: EmailAddress
    user_data: UserData
    password: Annotated[ExactText, Field(max_length=250)] | None = None
    type: Literal["Normal", "Anonymous"] | None = "Anonymous"
    external_id: ExternalId = None
    metadata: Metadata = None


class UserPatch(Body):
    op: Literal["remove", "replace"]
    path: Annotated[str, patch_paths(USERS.by_name)]
    value: Annotated[Any, patch_value(ReferenceRow)] = None


class UserCreated(Body):
    id: Int32
    password: str | None


class UserReference(Body):
    """A user, identified by exactly one of the two."""

    model_config = ConfigDict(title="SomeUser")

    email_address: ExactText | None = None
    user_id: Int32 | None = None


CREATE_USER = "create user"
UPDATE_USER = "update user"
_MEMBERS = (("emailAddress",), ("userData",), ("firstName", "lastName"), ("firstName",), ("lastName",))


class UserWithHash(NamedTuple):
    """A user to create: the generated password to return, if any, and the hash to store."""

    user: NewUser
    generated: str | None
    hash: str | None


async def hashed(request: Request, user: NewUser, services: FleetServices) -> UserWithHash:
    """Hash the password before the handler runs.

    Hashing is slow, and must not occupy a connection. Raises `Conflict` if a person of another cell has the address.
    A cell that is away is not waited for: `keyrack doctor` finds an address that two cells have then.
    """
    form = address_form(user.email_address)
    if await person_copies.ids_in_other_cells(services.other_cells, form, form):
        raise Conflict(SAME_ADDRESS)
    if user.type != "Normal":
        return UserWithHash(user, None, None)
    generated = secrets.token_urlsafe(12) if is_blank(user.password) else None
    password = generated or user.password or ""
    return UserWithHash(
        user, generated, await services.authenticator.passwords.hash(password, ("customer", request.customer))
    )


@endpoints.put(
    "/users",
    Doc(
        "createUser",
        "Create a user in the customer",
        "Creates a new person as a user of this customer. `Anonymous` users cannot sign in to the app. A `Normal`"
        " user without a password gets a generated one. The response is the only one that contains it. To add an"
        " existing person, use `PUT /users/assignments/customers`.",
    ),
    auth=CustomerAuth(Permission.USERS_WRITE, is_group_scoped=True),
    body=JsonBody(TypeAdapter(NewUser), CREATE_USER),
    prepare=hashed,
    responses=Responses(
        201,
        UserCreated,
        errors={400: tuple(invalid_member(CREATE_USER, *members) for members in _MEMBERS), 409: (SAME_ADDRESS, TAKEN)},
        representation=ONE_USER,
        has_secret=True,
    ),
)
async def create(request: Request, new: UserWithHash) -> Response:
    user = new.user
    arguments = INSERT.arguments(
        customer=request.customer,
        email_address=user.email_address,
        first_name=user.user_data.first_name,
        last_name=user.user_data.last_name,
        type=user.type or "Anonymous",
        password_hash=new.hash,
        address_form=address_form(user.email_address),
        external_id=user.external_id,
        metadata=user.metadata or None,
    )
    with on_constraint(dict.fromkeys(UNIQUE_ADDRESS, (Conflict, SAME_ADDRESS))):
        async with reference_errors(request, USERS, user.external_id, CREATE_USER):
            id = await request.db.fetchval(INSERT.sql, *arguments)
    return answer({"id": id, "password": new.generated}, 201, made=id)


@endpoints.patch(
    "/users/{userId}",
    Doc(
        "updateUser",
        "Update the references of a user",
        "A JSON Patch (RFC 6902) with `remove` and `replace`, which is applied completely or not at all. It changes the"
        " `externalId` and the `metadata` of the user in this customer, and nothing of the person.",
        is_extension=True,
    ),
    auth=CustomerAuth(Permission.USERS_WRITE, is_group_scoped=True),
    body=JsonBody(TypeAdapter(Patch[UserPatch]), UPDATE_USER),
    concurrency=Concurrency(if_match=USER),
    responses=Responses(
        errors={
            400: (invalid_member(UPDATE_USER, "externalId"), invalid_member(UPDATE_USER, "metadata")),
            404: (NO_USER,),
            409: (TAKEN,),
        },
        representation=ONE_USER,
    ),
)
async def update(request: Request, patch: list[UserPatch]) -> Response:
    changes = USERS.changes(patch, UPDATE_USER)
    async with (
        reference_errors(request, USERS, changes.get(EXTERNAL_ID), UPDATE_USER, patch),
        conditional_requests.with_if_match(request, USER, NO_USER) as statements,
    ):
        version = await statements.fetchval(UPDATE, request.customer, *request.ids, changes)
    if version is None:
        raise NotFound(NO_USER)
    return conditional_requests.changed(USER, version)


async def _require_user(statements: Statements, request: Request, user: UserReference) -> int:
    """The id of the identified user.

    Raises `BadRequest` unless exactly one valid identifier is given. Raises `NotFound` if it identifies no user, or a
    user of this customer who is out of the caller's scope.
    """
    id = await _find_user(statements, request, user, NOBODY)
    if await _is_elsewhere(statements, request, id) and await statements.fetchval(MEMBER, request.customer, id):
        raise NotFound(NOBODY)
    return id


async def _member(statements: Statements, request: Request, user: UserReference) -> int:
    """The id of the customer's user. Raises `BadRequest`, `NotFound`."""
    id = await _find_user(statements, request, user, NOT_ASSIGNED)
    is_member = await statements.fetchval(MEMBER, request.customer, id)
    if not is_member or await _is_elsewhere(statements, request, id):
        raise NotFound(NOT_ASSIGNED)
    return id


async def _is_elsewhere(statements: Statements, request: Request, id: int) -> bool:
    """Whether the user is out of the scope of a group-limited caller."""
    return await group_scope_checks.is_out_of_scope(request, "userId", id, statements)


async def _find_user(statements: Statements, request: Request, user: UserReference, missing: ErrorCode) -> int:
    address = trimmed(user.email_address or "")
    if (user.user_id is None) == (not address):
        raise BadRequest(NEITHER, errors=[ONE_NEEDED])
    if address:
        id = await statements.fetchval(BY_ADDRESS, *_forms(user.email_address or ""))
        valid = id is not None or _is_address(address)
    else:
        id = await statements.fetchval(BY_ID, user.user_id, readable_customers(request))
        valid = (user.user_id or 0) > 0
    if not valid:
        place = "/emailAddress" if address else "/userId"
        raise BadRequest(NEITHER, errors=[FieldError("wrong-form", f"`{place[1:]}` is not valid.", place)])
    if id is None:
        raise NotFound(missing)
    return id


def readable_customers(request: Request) -> list[int]:
    """Customers whose users the caller may list.

    A customer in which the caller is group-limited is not among them, unless it is the customer of the request.
    """
    caller, customers = request.caller, request.customers_with(Permission.USERS_READ)
    return [
        customer
        for customer in customers
        if caller and (customer == request.customer or caller.grant(customer).scope is None)
    ]


def _is_address(text: str) -> bool:
    try:
        return bool(email_address(text))
    except ValueError:
        return False


async def look_up(request: Request, user: UserReference, services: FleetServices) -> UserReference:
    """Copy the person of another cell, within the rate limit of lookups.

    A caller finds persons of other customers by address, and can then read their names. The customer's rate limit
    prevents unlimited guessing of addresses. Raises `TooManyRequests`, and `Unavailable` if a cell does not answer.
    """
    if user.email_address:
        rate, burst = services.settings.user_lookups_per_hour, services.settings.user_lookup_burst
        await RateLimit("users", rate, burst, timedelta(hours=1)).take(request.db, request.customer)
        if services.other_cells.numbers and user.user_id is None:
            await person_copies.copy_by_address(request.db, services.other_cells, *_forms(user.email_address))
    return user


def _forms(address: str) -> tuple[str, str]:
    """Normal forms of the address as sent, and without surrounding blanks."""
    return address_form(address), address_form(trimmed(address))


@endpoints.put(
    "/users/assignments/customers",
    Doc(
        "addUserToCustomer",
        "Add an existing user to the customer",
        "Identify the person by exactly one of `emailAddress` and `userId`. `userId` only finds users of customers"
        " whose users the caller may list.",
    ),
    auth=CustomerAuth(Permission.USERS_WRITE, is_group_scoped=True),
    body=JsonBody(TypeAdapter(UserReference), "assign user to customer"),
    prepare=look_up,
    concurrency=Concurrency(serialized="always", precheck=_require_user),
    responses=Responses(errors={400: (NEITHER,), 404: (NOBODY,), 409: (ALREADY,), 429: (RATE_LIMITED,)}),
)
async def assign(request: Request, user: UserReference) -> Response:
    refusals = {"customer_user_pkey": (Conflict, ALREADY), "customer_user_user_id_fkey": (NotFound, NOBODY)}
    async with request.db.transaction() as connection:
        await lock_and_flush(connection, request.customer)
        id = await _require_user(connection, request, user)
        with on_constraint(refusals):
            await connection.execute(JOIN, request.customer, id)
    return NO_CONTENT


@endpoints.delete(
    "/users/assignments/customers",
    Doc(
        "removeUserFromCustomer",
        "Remove a user from the customer",
        "Identify the user by exactly one of `emailAddress` and `userId`. The user's assignments in this customer end"
        " asynchronously, each with its own operation and webhook.",
    ),
    auth=CustomerAuth(Permission.USERS_WRITE, is_group_scoped=True),
    body=JsonBody(TypeAdapter(UserReference), "unassign user from customer"),
    concurrency=Concurrency(serialized="always", precheck=_member),
    responses=Responses(errors={400: (NEITHER,), 404: (NOT_ASSIGNED,)}),
    topics=frozenset(("users", "groups")),
)
async def unassign(request: Request, user: UserReference) -> Response:
    async with request.db.transaction() as connection:
        await lock_and_flush(connection, request.customer)
        id = await _member(connection, request, user)
        await end_all_of_user(connection, request.customer, id, request.checksum, request.asker)
        await connection.execute(LEAVE, request.customer, id)
        await global_erasure.end_account(connection, id)
    return NO_CONTENT
