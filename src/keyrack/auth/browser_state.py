"""Sign-in state in a cookie: sealed for one purpose, with an expiry.

Unauthenticated clients can begin any number of sign-ins. So the database stores no pending state, only used ones until
they have expired.
"""

from __future__ import annotations

import json
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping, Sequence
from typing import Any, LiteralString

from keyrack.core.secret_hashes import digest
from keyrack.core.settings import Settings
from keyrack.db.connection import Database, Statements
from keyrack.db.encryption.cipher import Encryption
from keyrack.db.row_batches import run_in_batches

SECONDS = 600  # validity of a state
MOST = 4  # states in one cookie, such as those of several tabs
LONGEST = 3_800  # characters of a cookie's value: browsers keep 4,096 with its name and attributes (RFC 6265, 6.1)

# Kept longer than any process accepts the state, however far apart the clocks of two processes are
USE: LiteralString = """
insert into used_login_state (hash, expires_at) values ($1, now() + make_interval(secs => 2 * $2))
on conflict (hash) do nothing returning true
"""
# A process of the previous version still writes to `login_state` during a rolling upgrade
FORGET: LiteralString = """
with gone as (delete from used_login_state where hash = any(array(
  select hash from used_login_state where expires_at <= now() limit $1)) returning true),
old as (delete from login_state where state = any(array(
  select state from login_state where created_at <= now() - interval '10 minutes' limit $1)) returning true)
select (select count(*) from gone) + (select count(*) from old)
"""


async def add(vault: Encryption, purpose: str, cookie: str | None, state: Mapping[str, object]) -> str:
    """The value of the cookie with one more state, the newest first.

    The oldest states that do not fit are left out. Raises `ValueError` if the state alone is too long, and
    `CannotDecrypt`.
    """
    text = json.dumps({"expires": int(time.time()) + SECONDS, **state}, separators=(",", ":"))
    sealed = urlsafe_b64encode(await vault.seal_message(purpose, text)).rstrip(b"=").decode()
    if len(sealed) > LONGEST:
        raise ValueError(f"a state has at most {LONGEST} characters")
    values = [sealed, *_values(cookie)][:MOST]
    while len(".".join(values)) > LONGEST:
        values.pop()
    return ".".join(values)


async def valid(vault: Encryption, purpose: str, cookie: str | None) -> Sequence[Mapping[str, Any]]:
    """The valid states in a cookie, the newest first.

    They were sealed by this installation for this purpose, and have not expired.
    """
    opened = [await vault.open_message(purpose, _decoded(value)) for value in _values(cookie)[:MOST]]
    states = [json.loads(text) for text in opened if text is not None]
    return [state for state in states if state["expires"] > time.time()]


async def use(statements: Statements, secret: str) -> bool:
    """Use up the state with this secret.

    Returns False if any process has done so before.
    """
    return await statements.fetchval(USE, digest(secret), SECONDS) is not None


async def forget(db: Database, settings: Settings) -> None:
    """Delete used states that have expired. A step of housekeeping."""
    await run_in_batches(db, settings.housekeeping_rows, FORGET)


def _values(cookie: str | None) -> list[str]:
    return cookie.split(".") if cookie and len(cookie) <= LONGEST else []


def _decoded(value: str) -> bytes:
    """The bytes of unpadded base64url; empty if the text is invalid."""
    try:
        return urlsafe_b64decode(value + "=" * (-len(value) % 4))
    except ValueError:
        return b""
