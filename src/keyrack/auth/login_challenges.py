"""Pending steps of a manager: a second factor, or a new passkey.

Each step belongs to one manager. It is valid for five minutes and once. A step is not a session.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import LiteralString
from uuid import UUID

from keyrack.auth.authenticator import AuthenticatedManager
from keyrack.core.secret_hashes import digest, new_secret
from keyrack.core.settings import Settings
from keyrack.db.connection import Database, Statements
from keyrack.db.row_batches import run_in_batches

SECONDS = 300  # validity of a step
TRIES = 5  # codes after one right password

# The newest steps stay
WAIT: LiteralString = """
with begun as (
  insert into sign_in_step (hash, kind, manager_id, sign_outs, time_zone, amr, provider_id)
  values ($1, 'password', $2, $3, $4, $6, $7)),
gone as (
  delete from sign_in_step where hash = any(array(
    select hash from sign_in_step where manager_id = $2 and kind = 'password'
    order by created_at desc, hash offset $5)))
select
"""
FIND: LiteralString = """
select s.manager_id, m.subject, m.username, s.sign_outs, s.time_zone,
  exists (select from totp t where t.manager_id = m.manager_id and t.confirmed_at is not null) as has_app,
  exists (select from passkey p where p.manager_id = m.manager_id) as has_passkey, s.amr, s.provider_id
from sign_in_step s join manager m using (manager_id)
where s.hash = $1 and s.kind = 'password' and s.tries < $2 and s.sign_outs = m.sign_outs and not m.is_disabled
  and s.created_at > now() - make_interval(secs => $3) and (s.provider_id is null or exists (
    select from manager_identity i where i.manager_id = s.manager_id and i.provider_id = s.provider_id))
"""
# The lock on the row counts concurrent attempts one by one
TRY: LiteralString = """
update sign_in_step set tries = tries + 1 where hash = $1 and kind = 'password' and tries < $2 returning true
"""
END: LiteralString = "delete from sign_in_step where hash = $1 returning true"
BEGIN_REGISTRATION: LiteralString = """
with gone as (delete from sign_in_step where manager_id = $2 and kind = 'registration')
insert into sign_in_step (hash, kind, manager_id, challenge) values ($1, 'registration', $2, $3)
"""
TAKE_REGISTRATION: LiteralString = """
delete from sign_in_step where hash = $1 and manager_id = $2 and kind = 'registration'
returning created_at > now() - make_interval(secs => $3)
"""
HAS_FACTOR: LiteralString = """
select exists (select from passkey where manager_id = $1)
  or exists (select from totp where manager_id = $1 and confirmed_at is not null)
"""
FORGET: LiteralString = """
with gone as (delete from sign_in_step where hash = any(array(
  select hash from sign_in_step where created_at <= now() - make_interval(secs => $1) limit $2)) returning true)
select count(*) from gone
"""


@dataclass(frozen=True, slots=True)
class LoginChallenge:
    """A sign-in that still needs a second factor.

    The password was right, or a provider has authenticated the manager.
    """

    manager: int
    subject: UUID
    username: str
    sign_outs: int
    time_zone: str | None
    has_app: bool
    has_passkey: bool
    amr: Sequence[str]  # the methods so far
    provider: int | None


async def begin(
    statements: Statements, signed_in: AuthenticatedManager, time_zone: str | None, settings: Settings
) -> str:
    """Wait for a second factor. Returns the secret for the browser."""
    secret = new_secret()
    most = settings.pending_logins_per_manager - 1
    await statements.execute(
        WAIT, digest(secret), signed_in.manager, signed_in.sign_outs, time_zone, most, signed_in.amr, signed_in.provider
    )
    return secret


async def has_factor(statements: Statements, manager: int) -> bool:
    """Whether a manager has a second factor: passkey or app."""
    return bool(await statements.fetchval(HAS_FACTOR, manager))


async def find(statements: Statements, secret: str) -> LoginChallenge | None:
    """The pending sign-in of the browser's secret, if it is valid."""
    row = await statements.fetchrow(FIND, digest(secret), TRIES, SECONDS)
    return None if row is None else LoginChallenge(*row.values())


async def attempt(statements: Statements, secret: str) -> bool:
    """Count one more attempt. Returns False if none is left."""
    return await statements.fetchval(TRY, digest(secret), TRIES) is not None


async def end(statements: Statements, secret: str) -> bool:
    """End a step. Returns False if it was ended before."""
    return await statements.fetchval(END, digest(secret)) is not None


async def store_registration(statements: Statements, manager: int, secret: str, challenge: bytes) -> None:
    """Store the challenge for a manager's new passkey, under `secret`.

    It replaces the previous one.
    """
    await statements.execute(BEGIN_REGISTRATION, digest(secret), manager, challenge)


async def registered(statements: Statements, manager: int, secret: str) -> bool:
    """Use up a challenge. Returns whether the manager was given it within the last `SECONDS`."""
    return bool(await statements.fetchval(TAKE_REGISTRATION, digest(secret), manager, SECONDS))


async def forget(db: Database, settings: Settings) -> None:
    """Delete expired steps. A housekeeping step."""
    await run_in_batches(db, settings.housekeeping_rows, FORGET, SECONDS)
