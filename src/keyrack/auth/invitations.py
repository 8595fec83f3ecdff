"""In charge of invitations: made for an address and a role, accepted once by a link, or withdrawn."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import LiteralString, NamedTuple

from keyrack.api.permissions import Role
from keyrack.auth.owners import OWNER_LIMITED
from keyrack.auth.usernames import manager_id_by_form
from keyrack.core.addresses import address_form
from keyrack.core.error_codes import ErrorCode
from keyrack.core.errors import Conflict, on_constraint
from keyrack.core.secret_hashes import digest, new_secret
from keyrack.core.settings import Settings
from keyrack.db.connection import Statements

PLACE = "/console/invitation#"  # behind the public address; what follows it reaches no server and no log
TOO_MANY = ErrorCode(
    "too-many-invitations",
    "The customer has as many open invitations as it may have.",
    "Withdraw one that nobody will accept: GET /invitations lists them.",
)
ALREADY = ErrorCode(
    "already-a-manager",
    "Whoever has this address acts for the customer already.",
    "Change the role instead: PATCH /managers/{managerId}.",
)
# The index `invitation_address`, on which the release before relies, folds letters such as U+0130
SIMILAR = ErrorCode(
    "similar-address-invited",
    "The address is too similar to that of an open invitation.",
    "Withdraw that invitation first: GET /invitations lists it.",
)

HELD: LiteralString = "select count(*) from invitation where customer_id = $1 and expires_at > now()"
ACTS: LiteralString = """
select exists (select from manager_customer where customer_id = $1 and manager_id = {id})
""".replace("{id}", manager_id_by_form("$2"))
# The release before leaves `address_form` null
OPEN: LiteralString = """
select invitation_id, address from invitation where customer_id = $1 and (address_form = $2 or address_form is null)
"""
REPLACED: LiteralString = "delete from invitation where customer_id = $1 and invitation_id = any($2)"
INSERT: LiteralString = """
insert into invitation (customer_id, address, role, groups, invited_by, hash, expires_at, address_form)
values ($1, $2, $3, $4, $5, $6, now() + make_interval(hours => $7), $8) returning invitation_id, expires_at
"""
MAIL: LiteralString = """
insert into mail (kind, address, invited_to, invitation, language) values ('invitation', $1, $2, $3, $4)
"""
FIND: LiteralString = """
select i.customer_id, i.invitation_id, i.address, i.role, i.groups, i.invited_by, c.name as customer
from invitation i join customer c using (customer_id)
where (i.hash = $1 or i.mailed_hash = $1) and i.expires_at > now()
"""
MANAGER: LiteralString = "select " + manager_id_by_form("$1")
TAKEN: LiteralString = "delete from invitation where customer_id = $1 and invitation_id = $2 returning true"
MAKE: LiteralString = """
insert into manager (username, address_form, password_hash) values ($1, $3, $2)
on conflict do nothing returning manager_id
"""
JOIN: LiteralString = "insert into manager_customer (customer_id, manager_id) values ($1, $2) on conflict do nothing"
# Who has got a role meanwhile keeps it: it may be the last owner's. A group that is not there any more is in no limit;
# who is limited to none that is there sees nothing
GIVE: LiteralString = """
insert into manager_role (customer_id, manager_id, role, groups, is_limited) values ($1, $2, $3,
  case when $4::integer[] is not null then array(select group_id from fleet_group
    where customer_id = $1 and group_id = any($4)) end, $4 is not null)
on conflict (customer_id, manager_id) do nothing
"""


class LinkExpired(LookupError):
    """The link is not good any more: it was used, withdrawn or replaced, or its time is over."""


class AccountExists(ValueError):
    """There is an account of the name already: it accepts by signing in."""


class CreatedInvitation(NamedTuple):
    """An invitation that was made; the link is shown once."""

    id: int
    link: str
    expires: datetime


class InvitationPreview(NamedTuple):
    """What a link is good for."""

    customer: int
    id: int
    address: str
    role: Role
    groups: tuple[int, ...] | None  # it will be limited to
    invited_by: str
    name: str  # of the customer
    manager: int | None  # who has the address already


async def invite(
    connection: Statements,
    settings: Settings,
    customer: int,
    address: str,
    role: Role,
    groups: Sequence[int] | None,
    by: str,
    *,
    mail: bool,
    language: str | None = None,
) -> CreatedInvitation:
    """Invite an address, in the caller's transaction, which holds the customer (`owners.hold`); an open invitation of
    the same address is replaced. Without `groups` it is for the whole fleet. With `mail` a mail with a link of its own
    is sent as well. Raises `Conflict`."""
    if role is Role.OWNER and groups is not None:
        raise Conflict(OWNER_LIMITED)
    form = address_form(address)
    if await connection.fetchval(ACTS, customer, form):
        raise Conflict(ALREADY)
    invited = await connection.fetch(OPEN, customer, form)
    same = [row["invitation_id"] for row in invited if address_form(row["address"]) == form]
    await connection.execute(REPLACED, customer, same)
    if await connection.fetchval(HELD, customer) >= settings.invitation_limit:
        raise Conflict(TOO_MANY)
    secret = new_secret()
    with on_constraint({"invitation_address": (Conflict, SIMILAR)}):
        row = await connection.fetchrow(
            INSERT, customer, address, str(role), groups, by, digest(secret), settings.invitation_hours, form
        )
    assert row is not None  # noqa: S101 - an insert without a condition
    if mail:
        await connection.execute(MAIL, address, customer, row["invitation_id"], language)
    return CreatedInvitation(row["invitation_id"], link(settings, secret), row["expires_at"])


def link(settings: Settings, secret: str) -> str:
    """The address at which an invitation is accepted."""
    return settings.public_url + PLACE + secret


async def find_pending(statements: Statements, hash: bytes) -> InvitationPreview:
    """What the link is good for of whose secret this is the digest. Raises `LinkOver` where it is not, or never was
    good."""
    row = await statements.fetchrow(FIND, hash)
    if row is None:
        raise LinkExpired
    manager = await statements.fetchval(MANAGER, address_form(row["address"]))
    return InvitationPreview(
        row["customer_id"], row["invitation_id"], row["address"], Role(row["role"]),
        None if row["groups"] is None else tuple(row["groups"]), row["invited_by"], row["customer"],
        manager,
    )  # fmt: skip


async def accept(connection: Statements, hash: bytes, *, manager: int | None, password_hash: str | None = None) -> int:
    """Accept an invitation, in the caller's transaction: as `manager`, whoever shows the link to be signed in as, or as
    somebody new, whose user name is the address. The manager's number. Raises `LinkOver`, `AccountThere`.

    It works once: the row that goes is the lock.
    """
    invitation = await find_pending(connection, hash)
    if not await connection.fetchval(TAKEN, invitation.customer, invitation.id):
        raise LinkExpired
    if manager is None:
        manager = await connection.fetchval(MAKE, invitation.address, password_hash, address_form(invitation.address))
        if manager is None:
            raise AccountExists
    assert manager is not None  # noqa: S101 - an insert without a condition
    await connection.execute(JOIN, invitation.customer, manager)
    await connection.execute(GIVE, invitation.customer, manager, str(invitation.role), invitation.groups)
    return manager
