"""Browser sessions of managers: creation, expiry and end.

The secret of a session is in the browser's cookie alone; the database has its digest. No process caches a session, so
an ended one fails at the next request.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import LiteralString
from uuid import UUID

from keyrack.auth.authenticator import AuthenticatedManager
from keyrack.core.secret_hashes import digest, new_secret
from keyrack.core.settings import Settings
from keyrack.db.connection import Database, Statements
from keyrack.db.named_parameters import compile_statement
from keyrack.db.row_batches import run_in_batches

LONGEST_AGENT = 250  # stored characters of the user agent

FIND: LiteralString = """
select s.session_id, s.time_zone, s.seen_at < now() - interval '1 minute' as stale, m.subject, m.username,
  m.language, coalesce(m.time_zone, s.time_zone) as zone, m.theme, s.amr, s.sign_outs,
  extract(epoch from s.created_at)::float8 as began
from session s join manager m using (manager_id)
where s.hash = $1 and s.sign_outs = m.sign_outs and not m.is_disabled
  and s.seen_at > now() - make_interval(mins => $2) and s.created_at > now() - make_interval(hours => $3)
"""
SEEN: LiteralString = """
update session set seen_at = now() where session_id = $1 and seen_at < now() - interval '1 minute'
"""
# The sessions that were seen last stay, the new one among them. The identity is locked: its removal finds the session,
# or no session begins
BEGIN = compile_statement("""
with way_in as (select from manager_identity where manager_id = :manager and provider_id = :provider for key share),
begun as (
  insert into session (manager_id, hash, sign_outs, address, agent, time_zone, amr, provider_id)
  select :manager, :hash, :sign_outs, :address, :agent, :time_zone, :amr, :provider
  where :provider is null or exists (select from way_in)),
gone as (
  delete from session where session_id = any(array(
    select session_id from session where manager_id = :manager order by seen_at desc, session_id desc offset :others)))
select
""")
STRENGTHEN: LiteralString = """
update session set amr = (select array_agg(distinct one) from unnest(amr || $2::text[]) one) where hash = $1
"""
END: LiteralString = "delete from session where hash = $1"
FORGET: LiteralString = """
with gone as (delete from session where session_id = any(array(
  select session_id from session
  where seen_at <= now() - make_interval(mins => $1) or created_at <= now() - make_interval(hours => $2) limit $3))
  returning true)
select count(*) from gone
"""


@dataclass(frozen=True, slots=True)
class BrowserSession:
    """A browser session, with the manager's preferences; None if never set.

    `time_zone` is the one to show times in: the manager's, else `browser_zone`, which the browser sent at sign-in.
    """

    id: int
    subject: UUID
    username: str
    language: str | None
    time_zone: str | None
    browser_zone: str | None
    theme: str | None
    sign_outs: int  # of the manager, before the session
    amr: tuple[str, ...]  # the manager's sign-in methods (RFC 8176)
    began: float  # seconds since 1970


async def create_session(
    db: Database, signed_in: AuthenticatedManager, address: str, agent: str, time_zone: str | None, settings: Settings
) -> str:
    """Begin a session. Returns the secret for the browser.

    Beyond `sessions_per_manager`, the sessions unseen for longest end. No session begins by an identity that was
    removed meanwhile. The secret then opens nothing.
    """
    secret = new_secret()
    arguments = BEGIN.arguments(
        manager=signed_in.manager, hash=digest(secret), sign_outs=signed_in.sign_outs, address=address,
        agent=agent[:LONGEST_AGENT], time_zone=time_zone, others=settings.sessions_per_manager - 1, amr=signed_in.amr,
        provider=signed_in.provider,
    )  # fmt: skip
    await db.execute(BEGIN.sql, *arguments)
    return secret


async def find(db: Statements, secret: str, settings: Settings, *, used: bool = True) -> BrowserSession | None:
    """The session of a secret, if it is valid.

    If it is `used`, that is recorded once a minute.
    """
    row = await db.fetchrow(FIND, digest(secret), settings.session_minutes, settings.session_hours)
    if row is None:
        return None
    if used and row["stale"]:
        await db.execute(SEEN, row["session_id"])
    return BrowserSession(
        row["session_id"], row["subject"], row["username"], row["language"], row["zone"], row["time_zone"],
        row["theme"], row["sign_outs"], tuple(row["amr"]), row["began"],
    )  # fmt: skip


async def strengthen(statements: Statements, secret: str, amr: tuple[str, ...]) -> None:
    """Add the methods that the manager has used since to the session."""
    await statements.execute(STRENGTHEN, digest(secret), list(amr))


async def end(statements: Statements, secret: str) -> None:
    """End the session of a secret, if there is one."""
    await statements.execute(END, digest(secret))


async def forget(db: Database, settings: Settings) -> None:
    """Delete expired sessions. A housekeeping step."""
    await run_in_batches(db, settings.housekeeping_rows, FORGET, settings.session_minutes, settings.session_hours)
