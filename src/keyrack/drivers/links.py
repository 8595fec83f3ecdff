"""Links to the app: invitations, mailed links and set-ups.

A link works once, and the newest of a kind replaces the one before. The database has the digest of its secret.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import LiteralString, NamedTuple
from uuid import UUID

from keyrack.core.error_codes import ErrorCode
from keyrack.core.errors import NotFound
from keyrack.core.secret_hashes import digest, new_secret
from keyrack.core.settings import Settings
from keyrack.db.connection import Database, Statements
from keyrack.db.row_batches import run_in_batches
from keyrack.drivers.sessions import IS_GIVEN, IS_WITHDRAWN

PLACE = "/drive/#link="  # follows the app's address; a fragment reaches no server and no log
LINK_EXPIRED = ErrorCode(
    "link-expired",
    "The link is no longer valid. It was used or replaced, or has expired.",
    "Ask your fleet for a new invitation, or request a mail on the sign-in page.",
)


class LinkKind(StrEnum):
    """The origin of a link, which decides what the link proves."""

    INVITATION = "invitation"  # a manager of the customer has seen it
    MAILED = "mailed"  # went to the person's address alone, so it proves the mailbox
    SETUP = "setup"  # follows a sign-in with the start password


INVITED, REQUESTED, SET_UP = 72 * 60, 60, 15  # minutes

CREATE: LiteralString = """
insert into driver_link (hash, user_id, customer_id, kind, expires_at)
values ($1, $2, $3, $4, now() + make_interval(mins => $5))
on conflict (user_id, kind, coalesce(customer_id, 0)) do update set hash = excluded.hash,
  expires_at = excluded.expires_at, created_at = now(), handle = excluded.handle, challenge = null
returning expires_at
"""
# A set-up link is valid while there is no account. A link of a customer is deleted with the membership. A waiting mail
# and a start password create links after a withdrawal, too. So each use checks the withdrawal again.
# A manager can add any person to the customer, and invite it. `can_reset` is false if the account opens cars of other
# customers, so that the manager cannot end it.
FIND: LiteralString = (
    """
select l.link_id, l.user_id, l.customer_id, c.name as customer, l.kind,
  case when l.kind = 'mailed' and a.is_proven then a.handle else l.handle end as handle, l.challenge, p.email_address,
  a.user_id is not null as has_account, coalesce(a.is_proven, false) as is_proven,
  l.kind = 'mailed'
    or exists (select from driver_access o where o.customer_id = l.customer_id and o.user_id = l.user_id)
    or not exists (select from customer_user u where u.user_id = l.user_id and u.customer_id <> l.customer_id and """
    + IS_GIVEN
    + " and not "
    + IS_WITHDRAWN
    + """) as can_reset
from driver_link l join person p using (user_id) left join customer c using (customer_id)
  left join driver_account a using (user_id)
where l.hash = $1 and l.expires_at > now() and p.type = 'Normal' and (l.kind <> 'setup' or a.user_id is null)
  and exists (select from customer_user u where u.user_id = l.user_id)
  and not exists (select from driver_withdrawn w where w.customer_id = l.customer_id and w.user_id = l.user_id)
"""
)
LOCK: LiteralString = "select from person where user_id = $1 for no key update"
USE: LiteralString = "delete from driver_link where hash = $1 and link_id = $2 and expires_at > now() returning true"
CHALLENGE: LiteralString = "update driver_link set challenge = $2 where hash = $1"
FORGET: LiteralString = """
with gone as (delete from driver_link where link_id = any(array(
  select link_id from driver_link where expires_at <= now() limit $1)) returning true)
select count(*) from gone
"""


class LinkExpired(NotFound):
    """The link was used or replaced, or has expired."""

    def __init__(self) -> None:
        super().__init__(LINK_EXPIRED)


class CreatedLink(NamedTuple):
    """A new link. Its secret is shown once."""

    secret: str
    expires: datetime


class DriverLink(NamedTuple):
    """An open link."""

    id: int
    user: int
    customer: int | None  # the customer to which it gives access; None: those of a proven mailbox
    customer_name: str | None
    kind: LinkKind
    handle: UUID  # of the account that it creates, or whose mailbox it proves again
    challenge: bytes | None  # of the passkey that it creates
    email_address: str
    has_account: bool
    is_proven: bool  # the mailbox of the account was proven before
    can_reset: bool  # it is mailed, or ends no account of other customers against the driver's will

    @property
    def resets(self) -> bool:
        """Whether accepting it ends the credentials and sessions of an existing account.

        An invitation does, because a manager has seen it. So does the first proof of the mailbox, because credentials
        of before may belong to a manager.
        """
        return self.has_account and not (self.kind is LinkKind.MAILED and self.is_proven)


def address(settings: Settings, secret: str) -> str:
    """The address that opens the app with the link."""
    return settings.drive_address + PLACE + secret


async def create(statements: Statements, user: int, customer: int | None, kind: LinkKind) -> CreatedLink:
    """Create a link of a user. Replaces the open link of the same kind and customer."""
    secret = new_secret()
    minutes = SET_UP if kind is LinkKind.SETUP else REQUESTED if customer is None else INVITED
    expires = await statements.fetchval(CREATE, digest(secret), user, customer, str(kind), minutes)
    return CreatedLink(secret, expires)


async def find(statements: Statements, secret: str) -> DriverLink:
    """The open link with this secret. Raises `LinkExpired`."""
    row = await statements.fetchrow(FIND, digest(secret))
    if row is None:
        raise LinkExpired
    return DriverLink(*row.values())._replace(kind=LinkKind(row["kind"]))


async def use(statements: Statements, secret: str) -> DriverLink:
    """Use up the link with this secret. Runs in the caller's transaction. Raises `LinkExpired`.

    It locks the person, so that acceptances of two links of one person are serialised.
    """
    await statements.execute(LOCK, (await find(statements, secret)).user)
    found = await find(statements, secret)  # with the account that another link has created meanwhile
    if not await statements.fetchval(USE, digest(secret), found.id):
        raise LinkExpired
    return found


async def store_challenge(statements: Statements, secret: str, challenge: bytes) -> None:
    """Store the challenge of the passkey that the link creates. It replaces the one before."""
    await statements.execute(CHALLENGE, digest(secret), challenge)


async def forget(db: Database, settings: Settings) -> None:
    """Delete expired links. A step of housekeeping."""
    await run_in_batches(db, settings.housekeeping_rows, FORGET)
