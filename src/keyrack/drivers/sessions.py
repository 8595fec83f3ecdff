"""Sessions of drivers in the app: creation, expiry and end.

The secret of a session is in the browser's cookie alone; the database has its digest. No process caches a session, so
an ended one fails at the next request.
"""

from __future__ import annotations

from typing import LiteralString

from keyrack.api.principals import Driver
from keyrack.core.error_codes import SIGNED_OUT
from keyrack.core.errors import Unauthorized
from keyrack.core.secret_hashes import digest, new_secret
from keyrack.db.connection import Statements

IDLE_DAYS = 90
MAX_DAYS = 400  # browsers keep no cookie for longer (RFC 6265bis, section 5.5)
MAX_SESSIONS = 20  # of one account
LONGEST_DEVICE = 100  # characters of the device's name

# A customer that the session sees: the person is its user, and the access was neither missing nor withdrawn. A session
# of a customer's own provider sees that customer alone
VISIBLE: LiteralString = """
select u.customer_id from customer_user u
where u.user_id = a.user_id
  and case when s.customer_id is not null then u.customer_id = s.customer_id
    else a.is_proven or exists (
      select from driver_access d where d.customer_id = u.customer_id and d.user_id = u.user_id) end
  and not exists (select from driver_withdrawal w where w.customer_id = u.customer_id and w.user_id = u.user_id)
order by u.customer_id
"""
FIND: LiteralString = (
    "select s.session_id, s.user_id, s.seen_at < now() - interval '1 minute' as is_stale, array("
    + VISIBLE
    + ") as visible"
    " from driver_session s join driver_account a using (user_id) join person p using (user_id)"
    " where s.hash = $1 and s.sign_outs = a.sign_outs and p.type = 'Normal'"
    " and s.seen_at > now() - make_interval(days => $2) and s.created_at > now() - make_interval(days => $3)"
)
SEEN: LiteralString = "update driver_session set seen_at = now() where session_id = $1"
# The sessions that were seen last stay, the new one among them
BEGIN: LiteralString = """
with begun as (
  insert into driver_session (user_id, customer_id, hash, sign_outs, device, amr)
  select user_id, $2, $3, sign_outs, $4, $5 from driver_account where user_id = $1),
gone as (
  delete from driver_session where session_id = any(array(
    select session_id from driver_session where user_id = $1 order by seen_at desc, session_id desc offset $6)))
select
"""
END: LiteralString = "delete from driver_session where user_id = $1 and session_id = $2 returning true"


async def find(statements: Statements, secret: str | None) -> Driver:
    """The driver of a session's secret. Raises `Unauthorized`.

    A session that sees no customer authenticates nobody. Its use is recorded once a minute.
    """
    row = await statements.fetchrow(FIND, digest(secret), IDLE_DAYS, MAX_DAYS) if secret else None
    if row is None or not row["visible"]:
        raise Unauthorized(SIGNED_OUT)
    if row["is_stale"]:
        await statements.execute(SEEN, row["session_id"])
    return Driver(row["user_id"], row["session_id"], frozenset(row["visible"]))


async def begin(
    statements: Statements, user: int, device: str, amr: tuple[str, ...], customer: int | None = None
) -> str:
    """Begin a session. Returns the secret for the browser.

    `customer` is that of the provider that signed the driver in. Beyond `MAX_SESSIONS`, the sessions unseen for
    longest end.
    """
    secret = new_secret()
    await statements.execute(
        BEGIN, user, customer, digest(secret), device[:LONGEST_DEVICE], list(amr), MAX_SESSIONS - 1
    )
    return secret


async def end(statements: Statements, driver: Driver, session: int) -> bool:
    """End a session of the driver. Returns whether there was one."""
    return bool(await statements.fetchval(END, driver.user, session))
