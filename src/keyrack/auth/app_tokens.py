"""Id tokens of `POST /sdk/token`, with which an app acts for a user.

The subject of a token is valid for one customer.
"""

from __future__ import annotations

from typing import LiteralString
from uuid import UUID

from joserfc import jwt
from joserfc.errors import JoseError

from keyrack.api.principals import AppUser
from keyrack.auth.signing_keys import SigningKeys
from keyrack.db.connection import Statements

AUDIENCE = "keyrack-sdk"  # followed by the customer's id
TYPE = "JWT"

USER: LiteralString = "select user_id from app_subject where customer_id = $1 and subject = $2"
# Tokens of releases before the claim `sdk_key_id` name no key
USER_BY_KEY: LiteralString = """
select user_id from app_subject where customer_id = $1 and subject = $2
and ($3::integer is null or exists (
  select from sdk_key k where k.customer_id = $1 and k.sdk_key_id = $3 and k.revoked_at is null))
"""
# A token is valid while its subject is in this table. The row is deleted with the user
REMEMBER: LiteralString = """
insert into app_subject (customer_id, subject, user_id)
select customer_id, $2, user_id from customer_user where customer_id = $1 and user_id = $3 for key share
on conflict do nothing
"""


def audience(customer: int) -> str:
    """The audience of id tokens of this customer."""
    return f"{AUDIENCE}/{customer}"


async def remember(statements: Statements, customer: int, subject: UUID, user: int) -> None:
    """Store the subject of a user who gets a token."""
    if await statements.fetchval(USER, customer, subject) is None:
        await statements.execute(REMEMBER, customer, subject, user)


async def user_exists(statements: Statements, app: AppUser) -> bool:
    """Whether the user belongs to the customer now."""
    return await statements.fetchval(USER, app.customer, app.subject) == app.user


async def find(statements: Statements, text: str, keys: SigningKeys, issuer: str) -> AppUser | None:
    """The app user of an id token.

    None if the token is invalid, its user has left the customer, or its SDK key is revoked. The caller checks the
    expiry, and the session of a driver's token.
    """
    try:
        signed_token = jwt.decode(text, keys.set, algorithms=["RS256"])
        claims = signed_token.claims
        customer, subject = int(claims["customer_id"]), UUID(claims["sub"])
        issued, until = float(claims["iat"]), float(claims["exp"])
        key = int(claims["sdk_key_id"]) if "sdk_key_id" in claims else None
        session = int(claims["driver_session_id"]) if "driver_session_id" in claims else None
        ours = (
            claims["iss"] == issuer and claims["aud"] == audience(customer) and signed_token.header.get("typ") == TYPE
        )
    except (JoseError, ValueError, KeyError, TypeError, AttributeError, OverflowError):
        return None
    user = await statements.fetchval(USER_BY_KEY, customer, subject, key) if ours else None
    return None if user is None else AppUser(customer, subject, user, issued, until, session)
