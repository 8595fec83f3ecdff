"""Invitations to a customer: creation, mails, and acceptance by a link."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import LiteralString, NamedTuple

from keyrack.api.permissions import Role
from keyrack.auth import address_proofs
from keyrack.auth.address_proofs import AddressUnproven, ProofSource
from keyrack.auth.owners import OWNER_LIMITED
from keyrack.auth.usernames import MANAGERS
from keyrack.core.addresses import address_form
from keyrack.core.error_codes import ErrorCode
from keyrack.core.errors import Conflict, on_constraint
from keyrack.core.secret_hashes import digest, new_secret
from keyrack.core.settings import Settings
from keyrack.db.audit_context import SET_ACTOR, Actor, acting
from keyrack.db.connection import Connection, Database, Statements

PLACE = "/console/invitation#"  # follows the public address; a fragment reaches no server and no log
TOO_MANY = ErrorCode(
    "too-many-invitations",
    "The customer has reached its limit of open invitations.",
    "Withdraw an open invitation; `GET /invitations` lists them.",
)
ALREADY = ErrorCode(
    "already-a-manager",
    "A manager with this address already belongs to the customer.",
    "Change the role by `PATCH /managers/{managerId}` instead.",
)
# The index `invitation_address`, which the previous release relies on, folds letters such as U+0130
SIMILAR = ErrorCode(
    "similar-address-invited",
    "The address is too similar to that of an open invitation.",
    "Withdraw that invitation first; `GET /invitations` lists it.",
)

HELD: LiteralString = "select count(*) from invitation where customer_id = $1 and expires_at > now()"
ACTS: LiteralString = """
select exists (select from manager_customer where customer_id = $1 and manager_id = {id})
""".replace("{id}", MANAGERS.key_by_form("$2"))
# The previous release leaves `address_form` null
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
# Requests for one invitation are serialised: one mail waits for each, and the whole queue is bounded
IN_TURN: LiteralString = "select from invitation where customer_id = $1 and invitation_id = $2 for update"
MAIL_AGAIN: LiteralString = """
insert into mail (kind, address, invited_to, invitation, language)
select 'invitation', $3, $1, $2, (select language from manager where manager_id = $4)
where (select count(*) from (select from mail limit $5) m) < $5
  and not exists (select from mail where kind = 'invitation' and invited_to = $1 and invitation = $2)
"""
FIND: LiteralString = """
select i.customer_id, i.invitation_id, i.address, i.role, i.groups, i.invited_by, c.name as customer,
  i.mailed_hash is not distinct from $1 as is_mailed, coalesce(i.mailed_to, i.address) as mailed_to
from invitation i join customer c using (customer_id)
where (i.hash = $1 or i.mailed_hash = $1) and i.expires_at > now()
"""
MANAGER: LiteralString = """
select manager_id, username, proven_at is not null as is_proven, is_disabled from manager where manager_id = {id}
""".replace("{id}", MANAGERS.key_by_form("$1"))
INVITER: LiteralString = "select manager_id from manager where manager_id = " + MANAGERS.key_by_form("$1")
TAKEN: LiteralString = "delete from invitation where customer_id = $1 and invitation_id = $2 returning true"
MAKE: LiteralString = """
insert into manager (username, address_form, password_hash, proven_at, proven_by)
values ($1, $4, $2, case when $3::text is not null then now() end, $3) on conflict do nothing returning manager_id
"""
JOIN: LiteralString = """
insert into manager_customer (customer_id, manager_id, accepted_provider, accepted_address) values ($1, $2, $3, $4)
on conflict do nothing
"""
# A role that the manager has got meanwhile stays: it may be the last owner's. Groups that no longer exist are left out.
# A manager who is limited to none of the existing groups sees nothing
GIVE: LiteralString = """
insert into manager_role (customer_id, manager_id, role, groups, is_limited) values ($1, $2, $3,
  case when $4::integer[] is not null then array(select group_id from fleet_group
    where customer_id = $1 and group_id = any($4)) end, $4 is not null)
on conflict (customer_id, manager_id) do nothing
"""


class LinkExpired(LookupError):
    """The link was used, withdrawn or replaced, or has expired."""


class AccountExists(ValueError):
    """An account of this name exists. It accepts by signing in."""


class OtherAddress(NamedTuple):
    """An accepting identity whose verified address is not the invited one."""

    provider: str
    address: str | None  # None: the provider has verified none


class CreatedInvitation(NamedTuple):
    """A new invitation. Its link is shown once."""

    id: int
    link: str
    expires: datetime


class InvitationPreview(NamedTuple):
    """The invitation behind a link."""

    customer: int
    id: int
    address: str
    role: Role
    groups: tuple[int, ...] | None  # the manager will be limited to them
    invited_by: str
    name: str  # of the customer
    manager: int | None  # id of the account with this address
    is_proven: bool  # whether the address of that account is proven
    is_disabled: bool  # whether that account is disabled
    is_mailed: bool  # whether the link was mailed to the stored address of the account, which proves it

    @property
    def sets_way_in(self) -> bool:
        """Whether accepting sets the only sign-in method.

        It does for a new account, and for one whose address the link proves.
        """
        return self.manager is None or (self.is_mailed and not self.is_proven and not self.is_disabled)


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
    """Invite an address. An open invitation of the same address is replaced.

    Runs in the caller's transaction, which has locked the customer (`owners.lock_roles`). Without `groups` the
    invitation is for the whole fleet. With `mail`, a mail with a link of its own is sent as well. Raises `Conflict`.
    """
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
    """The address of the page that accepts an invitation."""
    return settings.public_url + PLACE + secret


async def find_pending(statements: Statements, hash: bytes) -> InvitationPreview:
    """The open invitation whose secret has this digest. Raises `LinkExpired`."""
    row = await statements.fetchrow(FIND, hash)
    if row is None:
        raise LinkExpired
    manager = await statements.fetchrow(MANAGER, address_form(row["address"]))
    stored = manager["username"] if manager else row["address"]
    return InvitationPreview(
        row["customer_id"], row["invitation_id"], row["address"], Role(row["role"]),
        None if row["groups"] is None else tuple(row["groups"]), row["invited_by"], row["customer"],
        manager["manager_id"] if manager else None, bool(manager and manager["is_proven"]),
        bool(manager and manager["is_disabled"]), row["is_mailed"] and row["mailed_to"] == stored,
    )  # fmt: skip


async def request_mail(db: Database, settings: Settings, invited: InvitationPreview) -> None:
    """Queue a mail with a link of the invitation, to its address.

    Opening the link proves the address. Nothing is queued while a mail of the invitation waits, or if the queue is
    full.
    """
    async with db.transaction() as connection:
        await connection.execute(IN_TURN, invited.customer, invited.id)
        await connection.execute(
            MAIL_AGAIN, invited.customer, invited.id, invited.address, invited.manager, settings.mail_waiting
        )


async def accept(
    connection: Connection,
    hash: bytes,
    *,
    manager: int | None,
    password_hash: str | None = None,
    proof: ProofSource | None = None,
    other: OtherAddress | None = None,
) -> int:
    """Accept an invitation. Returns the id of the manager.

    Accepts as `manager`, who is signed in, or as a new account, whose user name is the address. A mailed link proves
    the address, and so does `proof`. The account of a newly proven address loses every earlier sign-in method, and gets
    `password_hash`. Runs in the caller's transaction. Raises `LinkExpired`, `AccountExists`, and `AddressUnproven` if
    nothing proves the address of an existing account.

    An invitation works once: the deletion of its row is the lock. The manager is locked before it, as in single
    sign-on. The change log records the role on behalf of the inviter, as no manager grants a role to itself.
    """
    invitation = await find_pending(connection, hash)
    is_proven = invitation.manager is not None and await address_proofs.lock(connection, invitation.manager)
    if not await connection.fetchval(TAKEN, invitation.customer, invitation.id):
        raise LinkExpired
    source = ProofSource.MAIL if invitation.is_mailed else proof
    if invitation.manager is None:
        form = address_form(invitation.address)
        accepted = await connection.fetchval(MAKE, invitation.address, password_hash, source, form)
    else:
        is_here = manager == invitation.manager
        accepted = await _existing(connection, invitation, source, password_hash, is_proven=is_proven, is_here=is_here)
    if accepted is None:
        raise AccountExists
    actor = acting.get()
    assert actor is not None  # noqa: S101 - the caller sets the actor before the transaction
    await connection.execute(SET_ACTOR, actor.on_behalf(await _inviter(connection, invitation)).encoded)
    await connection.execute(JOIN, invitation.customer, accepted, *(other or (None, None)))
    await connection.execute(GIVE, invitation.customer, accepted, str(invitation.role), invitation.groups)
    await connection.execute(SET_ACTOR, actor.encoded)
    return accepted


async def _inviter(statements: Statements, invitation: InvitationPreview) -> Actor:
    """The inviter: a manager, or the operator by the brand's name."""
    id = await statements.fetchval(INVITER, address_form(invitation.invited_by))
    return Actor("operator" if id is None else "manager", invitation.invited_by, id)


async def _existing(
    connection: Connection,
    invitation: InvitationPreview,
    source: ProofSource | None,
    password_hash: str | None,
    *,
    is_proven: bool,
    is_here: bool,
) -> int | None:
    """The manager of the invited address, if it may accept.

    None if it must sign in first. `is_here` means that the browser is signed in as this manager. Raises
    `AddressUnproven`.
    """
    if invitation.manager is None or invitation.is_disabled:
        return None
    if source is not None and not is_proven:
        await address_proofs.prove(connection, invitation.manager, source, password_hash)
        return invitation.manager
    if is_here and not is_proven:
        raise AddressUnproven
    return invitation.manager if is_here else None
