"""In charge of sign-ins under way: each is one browser's, ends after ten minutes, and is taken up again once.

The database has digests alone. What the provider is to give back, and what it is to be shown, is made of the secret in
the browser's cookie: so it is bound to that browser, and nobody who reads the table can go on with a sign-in.
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import urlsafe_b64encode
from dataclasses import dataclass
from typing import LiteralString

from keyrack.auth.sso.errors import NotSignedIn
from keyrack.core.secret_hashes import digest
from keyrack.core.settings import Settings
from keyrack.db.connection import Database, Statements
from keyrack.db.row_batches import run_in_batches

SECONDS = 600  # that one may take

BEGIN: LiteralString = """
insert into login_state (state, provider_id, browser, manager_id, next, time_zone, invitation)
select $1, $2, $3, $4, $5, $6, $7
where (select count(*) from (select from login_state limit $8) s) < $8 returning true
"""
TAKE: LiteralString = """
delete from login_state where state = $1 and browser = $2 and created_at > now() - interval '10 minutes'
returning provider_id, manager_id, next, time_zone, invitation
"""
FORGET: LiteralString = """
with gone as (delete from login_state where state = any(array(
  select state from login_state where created_at <= now() - interval '10 minutes' limit $1)) returning true)
select count(*) from gone
"""


@dataclass(frozen=True, slots=True)
class LoginStart:
    """What a sign-in was begun for."""

    next: str  # where to go then
    time_zone: str | None = None  # of the browser
    manager: int | None = None  # who connects an account, in place of signing in
    invitation: bytes | None = None  # the digest of its code, where one is accepted


@dataclass(frozen=True, slots=True)
class ResumedLogin:
    """A sign-in that is taken up again."""

    provider: int
    asked: LoginStart


def nonce(browser: str, state: str) -> str:
    """What the identity token of this sign-in has to say."""
    return _made("nonce", browser, state)


def verifier(browser: str, state: str) -> str:
    """What shows the provider that who redeems the code is who asked for it (RFC 7636, section 4.1)."""
    return _made("verifier", browser, state)


def challenge(verifier: str) -> str:
    """Its `S256` (RFC 7636, section 4.2)."""
    return urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()


def _made(what: str, browser: str, state: str) -> str:
    made = hmac.digest(browser.encode(), f"{what} {state}".encode(), "sha256")
    return urlsafe_b64encode(made).rstrip(b"=").decode()


async def create_state(
    statements: Statements, provider: int, state: str, browser: str, start: LoginStart, settings: Settings
) -> None:
    """Keep that it was begun. Raises `NotSignedIn` where too many are under way."""
    begun = await statements.fetchval(
        BEGIN, digest(state), provider, digest(browser), start.manager, start.next, start.time_zone,
        start.invitation, settings.max_pending_sso_logins,
    )  # fmt: skip
    if begun is None:
        raise NotSignedIn("crowded", "too many sign-ins are under way: KEYRACK_MAX_PENDING_SSO_LOGINS")


async def consume_state(statements: Statements, state: str, browser: str) -> ResumedLogin:
    """Take one up again, which nobody can do twice. Raises `NotSignedIn`: it is over, or another browser's."""
    row = await statements.fetchrow(TAKE, digest(state), digest(browser))
    if row is None:
        raise NotSignedIn("lapsed", "this browser has no such sign-in under way")
    return ResumedLogin(
        row["provider_id"], LoginStart(row["next"], row["time_zone"], row["manager_id"], row["invitation"])
    )


async def forget(db: Database, settings: Settings) -> None:
    """Forget the sign-ins that nobody has gone through with. A step of housekeeping."""
    await run_in_batches(db, settings.housekeeping_rows, FORGET)
