"""Password reset by a link that works once."""

from __future__ import annotations

from collections.abc import Collection
from typing import LiteralString, NamedTuple

from keyrack.auth import address_proofs, sign_in_methods
from keyrack.auth.address_proofs import ProofSource
from keyrack.auth.invitations import LinkExpired
from keyrack.auth.sign_in_methods import SignInMethod
from keyrack.auth.usernames import MANAGERS
from keyrack.core.addresses import address_form
from keyrack.core.secret_hashes import digest, new_secret
from keyrack.core.settings import Settings
from keyrack.db.connection import Connection, Database, Statements
from keyrack.db.row_batches import run_in_batches

PLACE = "/console/password#"  # follows the public address; a fragment reaches no server and no log

# A request looks up no address, so its duration reveals nothing. A worker looks it up when it writes the mail. Until
# then the row has the normal form of the input, to which no mail is sent
ONE_AT_A_TIME: LiteralString = "select pg_advisory_xact_lock(hashtext('mail'), hashtext($1))"
ASK: LiteralString = """
insert into mail (kind, address) select 'password', $1 where (select count(*) from (select from mail limit $2) m) < $2
  and not exists (select from mail where kind = 'password' and address = $1) returning true
"""
# Locked, so that no link for the old address is created while the manager gets another address
WHOSE: LiteralString = """
select manager_id, username, language from manager where manager_id = {id} and not is_disabled for no key update
""".replace("{id}", MANAGERS.key_by_form("$1"))
LINK: LiteralString = """
insert into password_link (manager_id, hash, expires_at, mailed_hash)
values ($1, $2, now() + make_interval(mins => $3), case when $4::boolean then $2::bytea end)
on conflict (manager_id) do update set hash = excluded.hash, expires_at = excluded.expires_at, created_at = now(),
  mailed_hash = excluded.mailed_hash
"""
FIND: LiteralString = """
select m.manager_id, m.username, m.proven_at is not null as is_proven,
  l.mailed_hash is not distinct from l.hash as is_mailed
from password_link l join manager m using (manager_id)
where l.hash = $1 and l.expires_at > now() and not m.is_disabled
"""
TAKEN: LiteralString = "delete from password_link where hash = $1 and expires_at > now() returning true"
# A trigger signs the manager out everywhere
SET: LiteralString = (
    "update manager set password_hash = $2 where manager_id = $1 and not is_disabled returning username"
)
END: LiteralString = "delete from password_link where manager_id = $1"
FORGET: LiteralString = """
with gone as (delete from password_link where manager_id = any(array(
  select manager_id from password_link where expires_at < now() limit $1)) returning true),
old as (delete from invitation where (customer_id, invitation_id) in (
  select customer_id, invitation_id from invitation where expires_at < now() limit $1) returning true)
select (select count(*) from gone) + (select count(*) from old)
"""


class PasswordReset(NamedTuple):
    """A link that sets a password, and the address for it."""

    link: str
    manager: int
    address: str  # the stored one of the account
    language: str | None


class PasswordLink(NamedTuple):
    """The account whose password an open link sets."""

    manager: int
    username: str
    is_proven: bool  # whether the address of the account is proven
    is_mailed: bool  # whether the link was mailed to the address, which proves it

    @property
    def is_first_proof(self) -> bool:
        """Whether setting the password proves the address.

        The first proof removes every other sign-in method.
        """
        return self.is_mailed and not self.is_proven


async def request_link(db: Database, settings: Settings, address: str) -> None:
    """Queue a link for the address, if a manager has it.

    The caller does not learn whether one has. Nothing is added while a mail to the address waits, so requests for one
    address are serialised.
    """
    form = address_form(address)
    async with db.transaction() as connection:
        await connection.execute(ONE_AT_A_TIME, form)
        await connection.execute(ASK, form, settings.mail_waiting)


async def create_link(
    connection: Statements, settings: Settings, name: str, *, is_mailed: bool = False
) -> PasswordReset | None:
    """Create a manager's link, and end the previous one.

    Returns None if no manager of this name may sign in. `is_mailed` means that the link goes to the account's address
    alone.
    """
    form = address_form(name)
    row = await connection.fetchrow(WHOSE, form)
    if row is None or address_form(row["username"]) != form:
        return None
    secret = new_secret()
    await connection.execute(LINK, row["manager_id"], digest(secret), settings.password_link_minutes, is_mailed)
    return PasswordReset(settings.public_url + PLACE + secret, row["manager_id"], row["username"], row["language"])


async def end_link(connection: Statements, manager: int) -> None:
    """End the open link of a manager.

    Runs in the caller's transaction, which has the manager locked.
    """
    await connection.execute(END, manager)


async def find_link(statements: Statements, secret: str) -> PasswordLink:
    """The open link with this secret. Raises `LinkExpired`."""
    row = await statements.fetchrow(FIND, digest(secret))
    if row is None:
        raise LinkExpired
    return PasswordLink(*row.values())


async def reset_with_link(
    connection: Connection, secret: str, password_hash: str, remove: Collection[SignInMethod] = ()
) -> None:
    """Set the password, and use up the link. Raises `LinkExpired`.

    Runs in the caller's transaction. The first mailed link removes every other sign-in method. Later ones, and links of
    the operator, remove the chosen methods.
    """
    link = await find_link(connection, secret)
    await address_proofs.lock(connection, link.manager)  # locks the manager before the link, as every proof does
    if not await connection.fetchval(TAKEN, digest(secret)):
        raise LinkExpired
    if link.is_mailed and await address_proofs.prove(connection, link.manager, ProofSource.MAIL, password_hash):
        return
    await sign_in_methods.remove_chosen(connection, link.manager, remove)
    if await connection.fetchval(SET, link.manager, password_hash) is None:
        raise LinkExpired


async def forget(db: Database, settings: Settings) -> None:
    """Delete expired links and invitations. A housekeeping step."""
    await run_in_batches(db, settings.housekeeping_rows, FORGET)
