"""Validation of identity tokens (OpenID Connect Core, 3.1.3.7).

The operator sets the algorithms. Neither the token nor the provider's metadata can add one.
"""

from __future__ import annotations

import hmac
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, cast

import structlog
from joserfc import jws, jwt
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, OKPKey, RSAKey

from keyrack.auth.sso.discovery import Key
from keyrack.auth.sso.errors import ProviderTrouble
from keyrack.auth.sso.providers import Provider
from keyrack.core.text import LONGEST_ADDRESS

log = structlog.get_logger("keyrack.logins")

Find = Callable[[str | None], Awaitable[list[Key]]]  # finds the keys of a `kid`
LONGEST = 32_768  # characters of a token
LONGEST_SUBJECT = 255  # ASCII characters (OpenID Connect Core, section 2)
OLDEST = 600  # maximum age in seconds: a token is fetched right after it was issued
KINDS: dict[str, type[Key]] = {"RS": RSAKey, "PS": RSAKey, "ES": ECKey, "Ed": OKPKey}
# Values by which a provider reports a second factor (RFC 8176; OpenID PAPE)
MFA = frozenset(("mfa", "http://schemas.openid.net/pape/policies/2007/06/multi-factor"))


@dataclass(frozen=True, slots=True)
class ProviderAccount:
    """A person's account at a provider."""

    subject: str
    email: str | None  # verified by the provider
    has_mfa: bool  # the provider reports a second factor, and the operator trusts it


async def verified(
    token: object,
    provider: Provider,
    nonce: str,
    now: float,
    skew: int,
    keys: Callable[[str | None], Awaitable[list[Key]]],
) -> ProviderAccount:
    """The account of a valid token. Raises `ProviderTrouble`.

    `now` is in seconds since 1970, `skew` the tolerance for clocks in seconds. `keys` finds the provider's keys by
    their `kid`.
    """
    if not isinstance(token, str) or not token:
        raise ProviderTrouble("id_token: the answer has none")
    if len(token) > LONGEST:
        raise ProviderTrouble("id_token: it is too long")
    algorithm, kid = _head(token, provider)
    claims = _claims(token, algorithm, [key for key in await keys(kid) if _suits(key, algorithm)])
    _check_parties(claims, provider)
    _check_times(claims, now, skew)
    if not hmac.compare_digest(str(claims.get("nonce", "")).encode(errors="replace"), nonce.encode()):
        raise ProviderTrouble("nonce: the identity token was not requested by this browser")
    return _account(claims, provider)


def _head(token: str, provider: Provider) -> tuple[str, str | None]:
    """The algorithm, one of the pinned ones, and the key's id."""
    try:
        header: dict[str, Any] = dict(jws.extract_compact(token.encode()).headers())
    except (JoseError, ValueError, TypeError):
        raise ProviderTrouble("id_token: it is not a signed token") from None
    algorithm, kid = header.get("alg"), header.get("kid")
    if algorithm not in provider.algorithms:
        raise ProviderTrouble(f"alg: the identity token is signed with {str(algorithm)[:20]!r}, which is not allowed")
    if "crit" in header:
        raise ProviderTrouble("crit: the identity token requires unknown extensions")
    if str(header.get("typ", "JWT")).upper() != "JWT":
        raise ProviderTrouble("typ: the token is not an identity token")
    if kid is not None and not isinstance(kid, str):
        raise ProviderTrouble("kid: the identity token has one that is not a string")
    return cast("str", algorithm), kid


def _suits(key: Key, algorithm: str) -> bool:
    return isinstance(key, KINDS[algorithm[:2]]) and key.get("alg", algorithm) == algorithm


def _claims(token: str, algorithm: str, keys: list[Key]) -> dict[str, Any]:
    """The claims of a token, signed by its key.

    The key is the one that the token names, or the only one for its algorithm.
    """
    if len(keys) != 1:
        raise ProviderTrouble("kid: the identity token fits no key of the provider, or several")
    try:
        return jwt.decode(token, keys[0], algorithms=[algorithm]).claims
    except (JoseError, ValueError, TypeError, AttributeError, KeyError):
        raise ProviderTrouble("signature: the identity token is not signed by the provider") from None


def _check_parties(claims: dict[str, Any], provider: Provider) -> None:
    if claims.get("iss") != provider.issuer:
        raise ProviderTrouble("iss: the identity token is another issuer's")
    audience = claims.get("aud")
    audiences: list[object] = cast("list[object]", audience) if isinstance(audience, list) else [audience]
    if provider.client_id not in audiences:
        raise ProviderTrouble("aud: the identity token is for another client")
    if (len(audiences) > 1 or "azp" in claims) and claims.get("azp") != provider.client_id:
        raise ProviderTrouble("azp: the identity token was issued to another client")


def _check_times(claims: dict[str, Any], now: float, skew: int) -> None:
    expires, issued = _time(claims, "exp"), _time(claims, "iat")
    if expires <= now - skew:
        raise ProviderTrouble("exp: the identity token has expired")
    if issued > now + skew:
        raise ProviderTrouble("iat: the identity token was issued in the future")
    if issued < now - skew - OLDEST:
        raise ProviderTrouble("iat: the identity token was issued too long ago")
    if "nbf" in claims and _time(claims, "nbf") > now + skew:
        raise ProviderTrouble("nbf: the identity token is not valid yet")


def _time(claims: dict[str, Any], name: str) -> float:
    value = claims.get(name)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ProviderTrouble(f"{name}: the identity token has no valid time")
    return value


def _is_verified(claims: dict[str, Any], provider: Provider) -> bool:
    """Whether the provider has verified the address: true, or the text "true".

    OpenID Connect Core 1.0, section 5.1, has a boolean, but some providers send the text. Another value counts as
    false, and the log names it.
    """
    value = claims.get("email_verified")
    if value is not None and not isinstance(value, bool) and value != "true":
        log.warning(
            "email verification claim not boolean", provider=provider.name, type=type(value).__name__,
            remedy="have the provider send true or false",
        )  # fmt: skip
    return value is True or value == "true"


def _account(claims: dict[str, Any], provider: Provider) -> ProviderAccount:
    subject, email = claims.get("sub"), claims.get("email")
    if not isinstance(subject, str) or not 1 <= len(subject) <= LONGEST_SUBJECT or not subject.isprintable():
        raise ProviderTrouble("sub: the identity token has no valid subject")
    is_address = isinstance(email, str) and email.isprintable() and len(email) <= LONGEST_ADDRESS
    is_verified = is_address and _is_verified(claims, provider)
    methods, acr = claims.get("amr"), claims.get("acr")
    said = [acr, *cast("list[object]", methods)] if isinstance(methods, list) else [acr]
    has_mfa = provider.counts_mfa and any(isinstance(method, str) and method in MFA for method in said)
    return ProviderAccount(subject, email if is_verified else None, has_mfa)
