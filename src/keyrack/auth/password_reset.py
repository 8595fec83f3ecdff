"""In charge of setting a password without the one of before: by a link that works once, and soon is over."""

from __future__ import annotations

from typing import LiteralString, NamedTuple

from keyrack.auth.invitations import LinkExpired
from keyrack.auth.usernames import manager_id_by_form
from keyrack.core.addresses import address_form
from keyrack.core.secret_hashes import digest, new_secret
from keyrack.core.settings import Settings
from keyrack.db.connection import Database, Statements
from keyrack.db.row_batches import run_in_batches

PLACE = "/console/password#"  # behind the public address; what follows it reaches no server and no log

# Nobody's address is looked up where it is asked for: how long that takes tells nothing. Until then the address of a
# mail is the normal form of what was typed; no mail goes there
ASK: LiteralString = """
insert into mail (kind, address) select 'password', $1 where (select count(*) from (select from mail limit $2) m) < $2
  and not exists (select from mail where kind = 'password' and address = $1) returning true
"""
WHOSE: LiteralString = """
select manager_id, username, language from manager where manager_id = {id} and not is_disabled
""".replace("{id}", manager_id_by_form("$1"))
LINK: LiteralString = """
insert into password_link (manager_id, hash, expires_at) values ($1, $2, now() + make_interval(mins => $3))
on conflict (manager_id) do update set hash = excluded.hash, expires_at = excluded.expires_at, created_at = now()
"""
IS_GOOD: LiteralString = "select exists (select from password_link where hash = $1 and expires_at > now())"
TAKEN: LiteralString = "delete from password_link where hash = $1 and expires_at > now() returning manager_id"
# A trigger signs the manager out, everywhere
SET: LiteralString = (
    "update manager set password_hash = $2 where manager_id = $1 and not is_disabled returning username"
)
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
    address: str  # the stored one of the account
    language: str | None


async def request_link(statements: Statements, settings: Settings, address: str) -> None:
    """Have a link sent to the address, if it is somebody's. It says nothing of whether it is."""
    await statements.execute(ASK, address_form(address), settings.mail_waiting)


async def create_link(connection: Statements, settings: Settings, name: str) -> PasswordReset | None:
    """A link for the manager of this name, in place of the one of before; None where there is nobody to get one."""
    row = await connection.fetchrow(WHOSE, address_form(name))
    if row is None:
        return None
    secret = new_secret()
    await connection.execute(LINK, row["manager_id"], digest(secret), settings.password_link_minutes)
    return PasswordReset(settings.public_url + PLACE + secret, row["username"], row["language"])


async def check(statements: Statements, secret: str) -> None:
    """Raises `LinkOver` where the link with this secret is, or never was good."""
    if not await statements.fetchval(IS_GOOD, digest(secret)):
        raise LinkExpired


async def reset_with_link(connection: Statements, secret: str, password_hash: str) -> str:
    """Set the password, in the caller's transaction: whose it is. The link is over with it. Raises `LinkOver`."""
    manager = await connection.fetchval(TAKEN, digest(secret))
    username = manager and await connection.fetchval(SET, manager, password_hash)
    if username is None:
        raise LinkExpired
    return username


async def forget(db: Database, settings: Settings) -> None:
    """Forget links and invitations whose time is over. A step of housekeeping."""
    await run_in_batches(db, settings.housekeeping_rows, FORGET)
