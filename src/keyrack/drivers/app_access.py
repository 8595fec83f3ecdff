"""Drivers' access to the app, as a customer manages it."""

from __future__ import annotations

from datetime import datetime
from typing import LiteralString, NamedTuple

from keyrack.core.error_codes import NO_USER, ErrorCode
from keyrack.core.errors import Conflict, NotFound
from keyrack.db.connection import Statements
from keyrack.drivers.sessions import IS_GIVEN, IS_WITHDRAWN

NOT_NORMAL = ErrorCode(
    "user-without-app",
    "The user is `Anonymous`, so the user cannot sign in to the app.",
    "Create a user of the type `Normal` with another e-mail address, and invite that user.",
)
_HAS_ACCESS: LiteralString = IS_GIVEN + " and not " + IS_WITHDRAWN
# A session that sees the customer: one of its own provider, or one of an account with access to it
_SEES: LiteralString = "(s.customer_id = u.customer_id or s.customer_id is null and " + _HAS_ACCESS + ")"
STATE: LiteralString = (
    "select p.type = 'Normal' as can_be_invited, coalesce(a.user_id is not null and "
    + _HAS_ACCESS
    + ", false) as has_access, "
    + IS_WITHDRAWN
    + """ as is_withdrawn,
  (select max(l.expires_at) from driver_link l where l.customer_id = u.customer_id and l.user_id = u.user_id
    and l.kind in ('invitation', 'mailed') and l.expires_at > now()) as invitation_expires,
  (select max(s.seen_at) from driver_session s where s.user_id = u.user_id and """
    + _SEES
    + """) as last_seen
from customer_user u join person p using (user_id) left join driver_account a using (user_id)
where u.customer_id = $1 and u.user_id = $2
"""
)
# The user stays while the transaction writes rows that refer to it
LOCK: LiteralString = """
select p.type = 'Normal' as can_be_invited from customer_user u join person p using (user_id)
where u.customer_id = $1 and u.user_id = $2 for key share of u
"""
ALLOW: LiteralString = "delete from driver_withdrawn where customer_id = $1 and user_id = $2"
WITHDRAW: LiteralString = """
with gone as (delete from driver_access where customer_id = $1 and user_id = $2),
links as (delete from driver_link where customer_id = $1 and user_id = $2)
insert into driver_withdrawn (customer_id, user_id) values ($1, $2) on conflict do nothing
"""
END_SESSIONS: LiteralString = (
    "delete from driver_session s using customer_user u join driver_account a using (user_id)"
    " where u.customer_id = $1 and u.user_id = $2 and s.user_id = u.user_id and " + _SEES
)


class AppAccess(NamedTuple):
    """A user's access to the app in one customer."""

    can_be_invited: bool  # only `Normal` users sign in
    has_access: bool
    is_withdrawn: bool
    invitation_expires: datetime | None  # None without an open invitation
    last_seen: datetime | None


async def state(statements: Statements, customer: int, user: int) -> AppAccess:
    """The state of a user's access. Raises `NotFound`."""
    row = await statements.fetchrow(STATE, customer, user)
    if row is None:
        raise NotFound(NO_USER)
    return AppAccess(*row.values())


async def lock_user(statements: Statements, customer: int, user: int) -> bool:
    """Keep the user in the customer until the transaction ends. Returns whether it can be invited.

    Raises `NotFound`.
    """
    row = await statements.fetchrow(LOCK, customer, user)
    if row is None:
        raise NotFound(NO_USER)
    return row["can_be_invited"]


async def allow_invitation(statements: Statements, customer: int, user: int) -> None:
    """Lift a withdrawal before an invitation. Raises `NotFound`, and `Conflict` for a user that cannot sign in."""
    if not await lock_user(statements, customer, user):
        raise Conflict(NOT_NORMAL)
    await statements.execute(ALLOW, customer, user)


async def withdraw(statements: Statements, customer: int, user: int) -> None:
    """Withdraw the access and open invitations. Sessions see the customer no longer. Raises `NotFound`."""
    await lock_user(statements, customer, user)
    await statements.execute(WITHDRAW, customer, user)


async def end_sessions(statements: Statements, customer: int, user: int) -> None:
    """End the sessions of the user that see the customer. A session may see other customers as well."""
    await statements.execute(END_SESSIONS, customer, user)
