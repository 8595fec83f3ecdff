"""Authentication and permissions of machine clients (RFC 6749, section 4.4)."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from typing import LiteralString
from uuid import UUID

from keyrack.api.grants import Grant
from keyrack.api.permissions import PROGRAMS, Permission, closed
from keyrack.api.principals import ClientCaller, ClientId
from keyrack.api.request_mode import RequestMode
from keyrack.auth.access_tokens import AccessTokenClaims
from keyrack.auth.login_throttle import raise_if_throttled
from keyrack.core.error_codes import ErrorCode
from keyrack.core.errors import InvalidClient
from keyrack.core.secret_hashes import digest
from keyrack.core.settings import Settings
from keyrack.db.connection import Database, Statements

PREFIX = "keyrack_client_"  # identifies a leaked secret

INVALID_CLIENT = ErrorCode(
    "invalid-client",
    "There is no machine client with this id and secret, or it may not call any more.",
    "Check the id and the secret; `GET /clients` shows whether the client is disabled or expired.",
)

CLIENT: LiteralString = """
select c.client_id, c.name, c.mode, coalesce(extract(epoch from c.expires_at), 'infinity')::float8 as until,
  array(select client_secret_id from client_secret s where s.client_id = c.client_id) as secrets,
  l.customer_id, l.scopes
from client c left join client_customer l using (client_id)
where c.subject = $1 and not c.is_disabled and (c.expires_at is null or c.expires_at > now())
"""
# The use of a secret is recorded once a minute
SHOWN: LiteralString = """
with s as (
  select s.client_secret_id, s.used_at, c.client_id, c.subject
  from client_secret s join client c using (client_id)
  where s.hash = $2 and c.subject::text = $1 and not c.is_disabled and (c.expires_at is null or c.expires_at > now())),
u as (
  update client_secret t set used_at = now() from s
  where t.client_secret_id = s.client_secret_id and (s.used_at is null or s.used_at < now() - interval '1 minute'))
select s.client_secret_id, s.subject,
  array(select distinct unnest(scopes) from client_customer l where l.client_id = s.client_id) as scopes
from s
"""


@dataclass(frozen=True, slots=True)
class AuthenticatedClient:
    """A client that has authenticated with one of its secrets."""

    subject: UUID
    secret: int  # id of the secret
    scopes: frozenset[str]  # permissions in one of its customers


def new_secret() -> str:
    """A new secret of a client: a prefix and 256 random bits.

    The prefix identifies it as a secret of Keyrack.
    """
    return PREFIX + secrets.token_urlsafe(32)


def find_client(scopes: Iterable[str]) -> frozenset[Permission]:
    """The permissions of these names. Write permissions include reading.

    An unknown name, or one that no client may have, is ignored.
    """
    by_name = {str(permission): permission for permission in PROGRAMS}
    return closed(by_name[name] for name in scopes if name in by_name)


async def authenticate_client(
    statements: Statements, settings: Settings, client: str, secret: str, address: str, *, by_header: bool
) -> AuthenticatedClient:
    """The client with this id and secret.

    Raises `InvalidClient`, and `TooManyRequests` after too many guesses. Wrong secrets count like failed log-ins.
    """
    async with raise_if_throttled(statements, settings, address, client.lower()):
        row = await statements.fetchrow(SHOWN, client.lower(), digest(secret))
        if row is None:
            raise InvalidClient(INVALID_CLIENT, by_header=by_header)
    return AuthenticatedClient(row["subject"], row["client_secret_id"], frozenset(map(str, find_client(row["scopes"]))))


async def load_caller(db: Database, token: AccessTokenClaims) -> ClientCaller | None:
    """The client of a token.

    Its permissions are those of the token that the client still has. None if the client is disabled or expired, or the
    token's secret was removed.
    """
    rows = await db.fetch(CLIENT, token.subject)
    if not rows or token.secret not in rows[0]["secrets"]:
        return None
    token_permissions = find_client(token.scopes)
    grants = {
        row["customer_id"]: Grant(find_client(row["scopes"]) & token_permissions)
        for row in rows
        if row["customer_id"] is not None
    }
    first = rows[0]
    return ClientCaller(
        ClientId(first["client_id"]), first["name"], grants, first["until"], frozenset(first["secrets"]),
        _mode(first["mode"]),
    )  # fmt: skip


def _mode(name: str) -> RequestMode:
    """The mode of this name. A mode of a later release is `spec` here."""
    return RequestMode.STRICT if name == RequestMode.STRICT else RequestMode.SPEC
