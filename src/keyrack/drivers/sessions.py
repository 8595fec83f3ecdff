"""Sessions of drivers in the app: creation, expiry and end.

The secret of a session is in the browser's cookie alone; the database has its digest. No process caches a session, so
an ended one fails at the next request.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import LiteralString, NamedTuple
from uuid import UUID

from keyrack.api.principals import Driver
from keyrack.auth.sso.providers import Provider
from keyrack.core.error_codes import ErrorCode
from keyrack.core.errors import Forbidden
from keyrack.core.secret_hashes import digest, new_secret
from keyrack.core.settings import Settings
from keyrack.db.connection import Database, Row, Statements
from keyrack.db.named_parameters import compile_statement
from keyrack.db.row_batches import run_in_batches

IDLE_DAYS = 90
MAX_DAYS = 400  # browsers keep no cookie for longer (RFC 6265bis, section 5.5)
MAX_SESSIONS = 20  # of one account
CHALLENGE_SECONDS = 300  # validity of the challenge for a new passkey

SIGNED_ON = ErrorCode(
    "provider-session-limited",
    "A session of a provider cannot change the account.",
    "Sign in with the password or a passkey of the account. Without one, request a link by `POST /drive/api/forgot`.",
)
SIGN_IN_AGAIN = ErrorCode(
    "driver-sign-in-again",
    "A new passkey or a first password requires a sign-in within the last {minutes} minutes.",
    "Sign in again, then repeat the request.",
)

# Conditions about the account `a` and the membership `u`: the customer gave access, and withdrew it
IS_GIVEN: LiteralString = """(a.is_proven or exists (
  select from driver_access d where d.customer_id = u.customer_id and d.user_id = u.user_id))"""
IS_WITHDRAWN: LiteralString = """exists (
  select from driver_withdrawn w where w.customer_id = u.customer_id and w.user_id = u.user_id)"""
# The customers that the session `s` sees. A session of a customer's own provider sees that customer alone
VISIBLE: LiteralString = (
    "select u.customer_id from customer_user u where u.user_id = a.user_id"
    " and case when s.customer_id is not null then u.customer_id = s.customer_id and exists ("
    " select from provider o where o.provider_id = s.provider_id and o.driver_customer_id = s.customer_id) else "
    + IS_GIVEN
    + " end and not "
    + IS_WITHDRAWN
    + " order by u.customer_id"
)
_VALID: LiteralString = (
    " from driver_session s join driver_account a using (user_id) join person p using (user_id)"
    " where s.sign_outs = a.sign_outs and p.type = 'Normal'"
    " and s.seen_at > now() - make_interval(days => $2) and s.created_at > now() - make_interval(days => $3)"
)
FIND: LiteralString = (
    "select s.session_id, s.user_id, s.customer_id, s.created_at, s.seen_at < now() - interval '1 minute' as is_stale,"
    " array(" + VISIBLE + ") as visible" + _VALID + " and s.hash = $1"
)
HAS_ACCESS: LiteralString = "select exists (select" + _VALID + " and s.session_id = $1 and $4 in (" + VISIBLE + "))"
SEEN: LiteralString = "update driver_session set seen_at = now() where session_id = $1"
# The sessions that were seen last stay, the new one among them. The lock waits for a concurrent reset or new password
BEGIN = compile_statement("""
with begun as (
  insert into driver_session (user_id, customer_id, provider_id, hash, sign_outs, device, amr)
  select user_id, :customer, :provider, :hash, sign_outs, :device, :amr from driver_account
  where user_id = :user and (:handle::uuid is null or handle = :handle)
    and (:sign_outs::integer is null or sign_outs = :sign_outs) for share),
gone as (
  delete from driver_session where session_id = any(array(
    select session_id from driver_session where user_id = :user order by seen_at desc, session_id desc offset :others)))
select
""")
# Sessions of the driver $1 that a session shows: one of the provider of $2 those of this customer, another one those of
# its own customers $3. So an account that someone else has prepared shows no use of the app at another customer
IS_SHOWN: LiteralString = """case when $2::integer is not null then s.customer_id = $2
  else s.customer_id is null or s.customer_id = any($3::integer[]) end"""
LIST: LiteralString = (
    "select s.session_id, s.device, s.amr, s.created_at, s.seen_at from driver_session s"
    " join driver_account a using (user_id) where user_id = $1 and s.sign_outs = a.sign_outs and "
    + IS_SHOWN
    + " order by seen_at desc, session_id desc"
)
# A provider's session reaches only those of its customer
END: LiteralString = """
delete from driver_session where user_id = $1 and session_id = $3 and ($2::integer is null or customer_id = $2)
returning true
"""
END_OTHERS: LiteralString = """
delete from driver_session where user_id = $1 and session_id <> $3 and ($2::integer is null or customer_id = $2)
"""
# A subscription for push messages belongs to the browser, so it stays there if the same driver signs in again
MOVE_PUSH: LiteralString = """
update driver_push p set session_id = $3 from driver_session s
where s.hash = $1 and s.user_id = $2 and p.session_id = s.session_id
"""
END_REPLACED: LiteralString = "delete from driver_session where hash = $1"
CHALLENGE: LiteralString = """
update driver_session set challenge = $3, challenged_at = now() where user_id = $1 and session_id = $2
"""
USE_CHALLENGE: LiteralString = """
with pending as (select session_id, challenge, challenged_at from driver_session
  where user_id = $1 and session_id = $2 and challenge is not null for update),
used as (update driver_session s set challenge = null from pending p where s.session_id = p.session_id)
select challenge from pending where challenged_at > now() - make_interval(secs => $3)
"""
FORGET: LiteralString = """
with gone as (delete from driver_session where session_id = any(array(
  select session_id from driver_session
  where seen_at <= now() - make_interval(days => $1) or created_at <= now() - make_interval(days => $2) limit $3))
  returning true)
select count(*) from gone
"""


class AccountVersion(NamedTuple):
    """The account whose credentials were verified.

    A reset makes another `handle`. A new password counts `sign_outs`, which are None for credentials that survive it.
    """

    handle: UUID
    sign_outs: int | None


async def find(statements: Statements, secret: str | None) -> Driver | None:
    """The driver of a session's secret; None if it is invalid.

    A session that sees no customer is not valid. Its use is recorded once a minute.
    """
    row = await statements.fetchrow(FIND, digest(secret), IDLE_DAYS, MAX_DAYS) if secret else None
    if row is None or not row["visible"]:
        return None
    if row["is_stale"]:
        await statements.execute(SEEN, row["session_id"])
    return Driver(row["user_id"], row["session_id"], frozenset(row["visible"]), row["created_at"], row["customer_id"])


async def has_access(statements: Statements, session: int, customer: int) -> bool:
    """Whether the session is valid, and sees the customer."""
    return await statements.fetchval(HAS_ACCESS, session, IDLE_DAYS, MAX_DAYS, customer)


async def begin(
    statements: Statements,
    user: int,
    device: str,
    amr: tuple[str, ...],
    version: AccountVersion | None = None,
    provider: Provider | None = None,
) -> str:
    """Begin a session. Returns the secret for the browser.

    `provider` has signed the driver in. No session begins if the account has no longer this `version`. Beyond
    `MAX_SESSIONS`, the sessions unseen for longest end.
    """
    secret = new_secret()
    customer, provider_id = (None, None) if provider is None else (provider.driver_customer, provider.id)
    handle, sign_outs = version or (None, None)
    arguments = BEGIN.arguments(
        user=user, customer=customer, provider=provider_id, hash=digest(secret), device=device, amr=list(amr),
        handle=handle, sign_outs=sign_outs, others=MAX_SESSIONS - 1,
    )  # fmt: skip
    await statements.execute(BEGIN.sql, *arguments)
    return secret


def require_own_sign_in(driver: Driver) -> None:
    """Raises `Forbidden` for a session of a provider.

    Otherwise a customer's provider could add a password that opens the cars of other customers.
    """
    if driver.provider_customer is not None:
        raise Forbidden(SIGNED_ON)


async def replace(statements: Statements, secret: str, driver: Driver) -> None:
    """End the session that the browser had before a new sign-in.

    No browser has its cookie any more. Subscriptions of the same driver move to the new session.
    """
    earlier = digest(secret)
    await statements.execute(MOVE_PUSH, earlier, driver.user, driver.session)
    await statements.execute(END_REPLACED, earlier)


def recent_until(driver: Driver, settings: Settings) -> datetime:
    """The time until which the sign-in permits a new credential."""
    return driver.signed_in_at + timedelta(minutes=settings.reauthentication_minutes)


def require_recent_sign_in(driver: Driver, settings: Settings) -> None:
    """Raises `Forbidden` if the sign-in is too old for a new credential.

    Otherwise an unlocked phone would give lasting access to the account.
    """
    if recent_until(driver, settings) <= datetime.now(UTC):
        raise Forbidden(SIGN_IN_AGAIN.format(minutes=settings.reauthentication_minutes))


async def shown(statements: Statements, driver: Driver) -> list[Row]:
    """The sessions of the driver that this one may show."""
    return await statements.fetch(LIST, driver.user, driver.provider_customer, list(driver.customers))


async def end(statements: Statements, driver: Driver, session: int) -> bool:
    """End a session of the driver. Returns whether there was one."""
    return bool(await statements.fetchval(END, driver.user, driver.provider_customer, session))


async def end_others(statements: Statements, driver: Driver) -> None:
    """End all sessions of the driver but this one."""
    await statements.execute(END_OTHERS, driver.user, driver.provider_customer, driver.session)


async def store_challenge(statements: Statements, driver: Driver, challenge: bytes) -> None:
    """Store the challenge of the session's next passkey. It replaces the one before."""
    await statements.execute(CHALLENGE, driver.user, driver.session, challenge)


async def use_challenge(statements: Statements, driver: Driver) -> bytes | None:
    """The challenge that the session was given within the last minutes. It is used up."""
    return await statements.fetchval(USE_CHALLENGE, driver.user, driver.session, CHALLENGE_SECONDS)


async def forget(db: Database, settings: Settings) -> None:
    """Delete expired sessions. A step of housekeeping."""
    await run_in_batches(db, settings.housekeeping_rows, FORGET, IDLE_DAYS, MAX_DAYS)
