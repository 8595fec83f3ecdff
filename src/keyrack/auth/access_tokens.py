"""Access tokens: signed JSON Web Tokens by the profile of RFC 9068."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import LiteralString
from uuid import UUID

from joserfc import jwt
from joserfc.errors import JoseError

from keyrack.auth.signing_keys import SigningKeys
from keyrack.core.settings import Settings
from keyrack.db.connection import Database, Statements
from keyrack.db.row_batches import run_in_batches

TOKEN_SECONDS = 3600
API_AUDIENCE = "keyrack"
TYPE = "at+jwt"

IS_REVOKED: LiteralString = "select exists (select from revoked_token where jti = $1)"
REVOKE: LiteralString = "insert into revoked_token (jti, expires_at) values ($1, $2) on conflict do nothing"
FORGET: LiteralString = """
with gone as (delete from revoked_token where jti = any(array(
  select jti from revoked_token where expires_at < now() order by expires_at limit $1)) returning true)
select count(*) from gone
"""


@dataclass(frozen=True, slots=True)
class AccessTokenClaims:
    """The claims of an access token that this installation has signed."""

    jti: str
    subject: UUID
    expires: float  # seconds since 1970
    issued: float  # seconds since 1970
    sign_outs: int = 0  # of its manager before the token was issued
    amr: tuple[str, ...] = ()  # the manager's sign-in methods (RFC 8176)
    # For a client: the scopes of the token, and the id of the secret that got it
    scopes: frozenset[str] = frozenset()
    secret: int | None = None


def decode_token(text: str, keys: SigningKeys) -> AccessTokenClaims | None:
    """The claims of an access token of this installation, else None.

    The caller checks expiry and revocation.
    """
    try:
        signed_token = jwt.decode(text, keys.set, algorithms=["RS256"])
        claims = signed_token.claims
        if signed_token.header.get("typ") != TYPE or claims.get("aud") != API_AUDIENCE:
            return None
        token = AccessTokenClaims(
            str(claims["jti"]), UUID(claims["sub"]), float(claims["exp"]), float(claims.get("iat", 0))
        )
        if "client_id" in claims:
            return replace(token, scopes=frozenset(claims["scope"].split()), secret=int(claims["secret"]))
        amr = tuple(str(method) for method in claims.get("amr", ()))
        return replace(token, sign_outs=int(claims.get("sign_outs", 0)), amr=amr)
    except (JoseError, ValueError, KeyError, TypeError, AttributeError, OverflowError):
        return None


async def revoke(statements: Statements, token: AccessTokenClaims) -> None:
    """Revoke a token in every process."""
    await statements.execute(REVOKE, token.jti, datetime.fromtimestamp(token.expires, UTC))


async def forget(db: Database, settings: Settings) -> None:
    """Delete revocations of expired tokens. A housekeeping step."""
    await run_in_batches(db, settings.housekeeping_rows, FORGET)
