"""The managers of a customer, their roles, and invitations. An extension of the spec."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, LiteralString

from pydantic import BeforeValidator, Field, TypeAdapter

from keyrack.api import conditional_requests
from keyrack.api.auth_schemes import CustomerAuth
from keyrack.api.endpoint import Concurrency, Doc, JsonBody, Responses, Tag
from keyrack.api.endpoint_registry import Endpoints
from keyrack.api.exchange import NO_CONTENT, Request, Response, answer
from keyrack.api.permissions import Permission, Role
from keyrack.api.schema.fields import Resource, boolean, date_time, int32, opaque, string
from keyrack.api.schema.json_patch import patched_form
from keyrack.api.schema.request_body import (
    EmailAddress,
    Id,
    Int32,
    Moment,
    Patch,
    StrictBody,
    format_timestamp,
    invalid_member,
)
from keyrack.api.services import ReadServices
from keyrack.auth import invitation_throttle, invitations, owners
from keyrack.auth.invitations import ALREADY, SIMILAR, TOO_MANY
from keyrack.auth.owners import LAST_OWNER, OWNER_LIMITED
from keyrack.core.error_codes import RATE_LIMITED, ErrorCode, FieldError
from keyrack.core.errors import BadRequest, Conflict, NotFound, on_constraint
from keyrack.db.connection import Statements
from keyrack.fleet.endpoints.groups import NO_GROUP

endpoints = Endpoints[ReadServices](
    Tag("Managers", "People who act for the customer, and open invitations."), "managers", is_extension=True
)

NO_MANAGER_HERE = ErrorCode(
    "manager-of-customer-not-found",
    "Unable to find a manager for the given managerId which is assigned to the given customerId.",
    "Use an id that `GET /managers` returns for this customer.",
)
NO_INVITATION = ErrorCode(
    "invitation-not-found",
    "Unable to find an invitation for the given invitationId which is assigned to the given customerId.",
    "Use an id that `GET /invitations` returns; it does not list accepted or withdrawn invitations.",
)
MOST_GROUPS = 100  # in the scope of one manager
INVITE, UPDATE = "invite manager", "update manager"

MANAGER = Resource(
    "Manager",
    "manager_customer {t} join manager {t}_m using (manager_id) left join manager_role {t}_r using"
    " (customer_id, manager_id)",
    "{t}.customer_id = :customer",
    {
        "id": int32("{t}.manager_id"),
        "username": string("{t}_m.username", search=True),
        "role": string("{t}_r.role", nullable=True, enum=tuple(map(str, Role))),
        "isLimited": boolean("coalesce({t}_r.is_limited, false)"),
        "groups": opaque("to_jsonb({t}_r.groups)"),
        "enabled": boolean("(not {t}_m.is_disabled)"),
        "acceptedProvider": string("{t}.accepted_provider", nullable=True),
        "acceptedAddress": string("{t}.accepted_address", nullable=True),
    },
    permission=Permission.MANAGERS_READ,
)
INVITATION = Resource(
    "Invitation",
    "invitation {t}",
    "({t}.customer_id = :customer and {t}.expires_at > now())",
    {
        "id": int32("{t}.invitation_id"),
        "emailAddress": string("{t}.address", search=True),
        "role": string("{t}.role", enum=tuple(map(str, Role))),
        "groups": opaque("to_jsonb({t}.groups)"),
        "invitedBy": string("{t}.invited_by"),
        "created": date_time("{t}.created_at"),
        "expires": date_time("{t}.expires_at"),
    },
    permission=Permission.MANAGERS_READ,
)
LEAVE: LiteralString = "delete from manager_customer where customer_id = $1 and manager_id = $2 returning true"
HERE: LiteralString = "select true from manager_customer where customer_id = $1 and manager_id = $2"
WITHDRAW: LiteralString = "delete from invitation where customer_id = $1 and invitation_id = $2 returning true"
ROLE: LiteralString = "select role, groups from manager_role where customer_id = $1 and manager_id = $2"
SET_ROLE: LiteralString = """
insert into manager_role (customer_id, manager_id, role, groups, is_limited)
values ($1, $2, $3, $4::integer[], $4 is not null) on conflict (customer_id, manager_id)
do update set role = excluded.role, groups = excluded.groups, is_limited = excluded.is_limited
"""
# The groups stay until the transaction ends
HAS_GROUPS: LiteralString = """
select (select count(*) from (
  select from fleet_group where customer_id = $1 and group_id = any($2::integer[]) for key share) g)
  = (select count(distinct g) from unnest($2) g)
"""
LANGUAGE: LiteralString = "select language from manager where manager_id = $1"

endpoints.read(
    "/managers",
    MANAGER,
    Doc(
        "listManagers",
        "List managers",
        "Returns the managers of the customer. `role` is null for a manager without a role, who has no permissions.",
    ),
)
ONE_MANAGER = endpoints.read(
    "/managers/{managerId}",
    MANAGER,
    Doc("getManager", "Get a manager", "Returns one manager with the role in this customer."),
    is_single=True,
    missing_error=NO_MANAGER_HERE,
)
endpoints.read(
    "/invitations",
    INVITATION,
    Doc("listInvitations", "List open invitations", "Returns invitations that are neither accepted nor expired."),
    auth=CustomerAuth(Permission.MANAGERS_READ),
)


def _role(value: object) -> object:
    """The role of a name. Another value stays, and fails the validation."""
    return Role(value) if isinstance(value, str) and value in set(Role) else value


RoleName = Annotated[Role, BeforeValidator(_role)]


Groups = Annotated[list[Id] | None, Field(min_length=1, max_length=MOST_GROUPS)]


class NewManager(StrictBody):
    """The person to invite, and the role."""

    email_address: EmailAddress
    role: RoleName
    groups: Groups = None


class ManagerInvited(StrictBody):
    id: Int32
    link: str
    expires: Moment
    mailed: bool


class ManagerPatch(StrictBody):
    op: Literal["remove", "replace"]
    path: Literal["/role", "/groups"]
    value: Any = None


class PatchedManager(StrictBody):
    """The result of a patch. Fields are checked as in an invitation.

    Only the groups can be removed.
    """

    role: RoleName = Role.VIEWER
    groups: Groups = None


CHANGED = TypeAdapter(PatchedManager)


@endpoints.put(
    "/managers",
    Doc(
        "inviteManager",
        "Invite a manager",
        "Creates a link that works once. The response is the only one that contains this link. If a mail server is"
        " configured, another link is mailed to the address (`mailed`). The invited person sets a password, or"
        " accepts with a single sign-on account of that address. A new invitation for the same address replaces the"
        " previous one.",
    ),
    body=JsonBody(TypeAdapter(NewManager), INVITE),
    responses=Responses(
        201,
        ManagerInvited,
        errors={
            400: tuple(invalid_member(INVITE, name) for name in ("emailAddress", "role", "groups")),
            404: (NO_GROUP,),
            409: (TOO_MANY, ALREADY, SIMILAR, OWNER_LIMITED),
            429: (RATE_LIMITED,),
        },
        has_secret=True,
    ),
)
async def invite(request: Request, new_manager: NewManager, services: ReadServices) -> Response:
    manager = request.manager
    await invitation_throttle.take(
        request.db, services.settings, request.customer, manager.id, new_manager.email_address
    )
    mails = services.settings.sends_mail
    async with request.db.transaction() as connection:
        await owners.lock_roles(connection, request.customer)
        await _check_groups(connection, request.customer, new_manager.groups)
        language = await connection.fetchval(LANGUAGE, manager.id)
        made = await invitations.invite(
            connection, services.settings, request.customer, new_manager.email_address, new_manager.role,
            new_manager.groups, manager.name, mail=mails, language=language,
        )  # fmt: skip
    body = {"id": made.id, "link": made.link, "expires": format_timestamp(made.expires), "mailed": mails}
    return answer(body, 201, {"Cache-Control": "no-store"})


@endpoints.delete(
    "/invitations/{invitationId}",
    Doc(
        "withdrawInvitation",
        "Withdraw an invitation",
        "Its links stop working.",
    ),
    auth=CustomerAuth(Permission.MANAGERS_WRITE),
    responses=Responses(errors={404: (NO_INVITATION,)}),
)
async def withdraw(request: Request) -> Response:
    if not await request.db.fetchval(WITHDRAW, request.customer, *request.ids):
        raise NotFound(NO_INVITATION)
    return NO_CONTENT


@endpoints.patch(
    "/managers/{managerId}",
    Doc(
        "updateManager",
        "Change the role or the groups of a manager",
        "A JSON Patch (RFC 6902) that replaces `/role` or `/groups`, or removes `/groups`. Without groups, the role is"
        " for the whole fleet. The change takes effect everywhere within a second. The last owner cannot lose the"
        " role.",
    ),
    body=JsonBody(TypeAdapter(Patch[ManagerPatch]), UPDATE),
    concurrency=Concurrency(if_match=MANAGER),
    responses=Responses(
        errors={
            400: (invalid_member(UPDATE, "role"), invalid_member(UPDATE, "groups")),
            404: (NO_MANAGER_HERE, NO_GROUP),
            409: (LAST_OWNER, OWNER_LIMITED),
        },
        representation=ONE_MANAGER,
    ),
)
async def update(request: Request, patch: list[ManagerPatch]) -> Response:
    """Change role or groups. It holds within a second, also on open streams."""
    whole = patched_form(
        CHANGED, patch, UPDATE, "groups", "`groups` must be an array; a `remove` step gives access to the whole fleet."
    )
    named = {step.path for step in patch}
    async with request.db.transaction() as connection:
        await _lock_manager(connection, request)
        row = await connection.fetchrow(ROLE, request.customer, request.ids[0])
        role = str(whole.role) if "/role" in named else row and row["role"]
        groups = whole.groups if "/groups" in named else row and row["groups"]
        if role is None:
            raise BadRequest(
                invalid_member(UPDATE, "role"), errors=[FieldError("missing", "The manager has no role.", "")]
            )
        await _check_groups(connection, request.customer, whole.groups)
        with on_constraint({"manager_role_owner": (Conflict, OWNER_LIMITED)}):
            await connection.execute(SET_ROLE, request.customer, request.ids[0], role, groups)
        await owners.ensure_owner_remains(connection, request.customer)
    return NO_CONTENT


async def _check_groups(connection: Statements, customer: int, groups: Sequence[int] | None) -> None:
    """Raise `NotFound` unless the customer has these groups."""
    if groups is not None and not await connection.fetchval(HAS_GROUPS, customer, groups):
        raise NotFound(NO_GROUP)


@endpoints.delete(
    "/managers/{managerId}",
    Doc(
        "removeManager",
        "Remove a manager from the customer",
        "The account and its roles in other customers stay. The last owner who can sign in cannot be removed.",
    ),
    concurrency=Concurrency(if_match=MANAGER),
    responses=Responses(errors={404: (NO_MANAGER_HERE,), 409: (LAST_OWNER,)}),
)
async def remove(request: Request) -> Response:
    async with request.db.transaction() as connection:
        await _lock_manager(connection, request)
        await connection.fetchval(LEAVE, request.customer, request.ids[0])
        await owners.ensure_owner_remains(connection, request.customer)
    return NO_CONTENT


async def _lock_manager(connection: Statements, request: Request) -> None:
    """Lock the customer's roles, and find the manager of the path.

    Raises `NotFound`, `PreconditionFailed`.
    """
    await owners.lock_roles(connection, request.customer)
    await conditional_requests.compare(connection, request, MANAGER, NO_MANAGER_HERE)
    if not await connection.fetchval(HERE, request.customer, request.ids[0]):
        raise NotFound(NO_MANAGER_HERE)
