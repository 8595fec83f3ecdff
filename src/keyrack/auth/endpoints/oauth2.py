"""OAuth 2: access tokens for managers and machine clients, and their revocation."""

from __future__ import annotations

from pydantic import BaseModel, TypeAdapter

from keyrack.api.auth_schemes import ClientSecretAuth
from keyrack.api.endpoint import Doc, FormBody, Responses, Tag
from keyrack.api.endpoint_registry import Endpoints
from keyrack.api.exchange import Request, Response, answer
from keyrack.api.rate_limits import RateLimit
from keyrack.auth import access_tokens, client_authentication
from keyrack.auth.access_tokens import TOKEN_SECONDS
from keyrack.auth.api_keys import MISSING, KeyRefused
from keyrack.auth.authenticator import Authenticator
from keyrack.auth.client_authentication import INVALID_CLIENT, AuthenticatedClient
from keyrack.auth.endpoints.oauth2_forms import (
    FORM_TOO_LONG,
    GIVEN_TWICE,
    INVALID_PARAMETER,
    INVALID_SCOPE,
    MISSING_PARAMETER,
    OTHER_GRANT,
    TWO_WAYS,
    ClientCredentials,
    ClientGrant,
    Grant,
    PasswordGrant,
    Revocation,
    credentials,
    grant,
    revocation,
)
from keyrack.auth.login import sign_in
from keyrack.auth.services import AuthServices
from keyrack.core.error_codes import NO_FORM, RATE_LIMITED, WRONG_CREDENTIALS, ErrorCode
from keyrack.core.errors import GrantRefused, InvalidClient, Unauthorized
from keyrack.core.settings import Settings

TAG = Tag("Authentication", "Access tokens, and the keys and metadata to verify them.")
endpoints = Endpoints[AuthServices](TAG, ClientSecretAuth())

OTHERS_TOKEN = ErrorCode(
    "token-of-another",
    "The token belongs to another client.",
    "Revoke the token as the client that got it, or remove the secret that it was issued for.",
)
NO_CLIENT = ErrorCode(
    "client-authentication-required",
    "The token belongs to a machine client, and only that client can revoke it.",
    "Send the id and the secret of the client.",
)
PASSWORD_NOT_ENOUGH = ErrorCode(
    "password-not-enough",
    "A password alone signs this manager in nowhere: it has a second factor, or a role that needs one.",
    "Sign in to the console, or use a machine client in programs.",
)
FORM: tuple[ErrorCode, ...] = (FORM_TOO_LONG, NO_FORM, GIVEN_TWICE, MISSING_PARAMETER, INVALID_PARAMETER, TWO_WAYS)
FRESH = {"Cache-Control": "no-store"}


class AccessToken(BaseModel):
    """An access token. For a client, `expires_in` is a number and `scope` is present (RFC 6749, section 5.1)."""

    access_token: str
    expires_in: str | int
    token_type: str
    scope: str | None = None


@endpoints.post(
    "/oauth2/token",
    Doc(
        "getAccessToken",
        "Get an access token for a manager or a machine client",
        "For a manager: the password grant of OAuth 2.0 (RFC 6749, section 4.3) with user name and password in a"
        " form. `expires_in` is then a string with seconds. For a machine client: the client credentials grant"
        " (section 4.4) with the client's id and secret, in the `Authorization` header or in the form. `expires_in`"
        " is then a number, and `scope` lists the scopes of the token. There is no refresh token: get a new token"
        " before the hour ends.",
    ),
    body=FormBody(TypeAdapter(PasswordGrant | ClientGrant), grant),
    responses=Responses(
        200,
        AccessToken,
        errors={
            400: (*FORM, OTHER_GRANT, INVALID_SCOPE, PASSWORD_NOT_ENOUGH),
            401: (WRONG_CREDENTIALS, INVALID_CLIENT),
            429: (RATE_LIMITED,),
        },
        has_secret=True,
    ),
)
async def token(request: Request, wanted: Grant, services: AuthServices) -> Response:
    if isinstance(wanted, ClientGrant):
        return await _for_client(request, wanted, services.settings, services.authenticator)
    if request.without_key:
        raise KeyRefused(f"{services.settings.brand}-API-Key", MISSING)
    signed_in = await sign_in(
        request.db, services.authenticator, services.settings, wanted.username, wanted.password, request.address
    )
    if signed_in.has_factor or signed_in.needs_factor:
        raise GrantRefused("invalid_grant", PASSWORD_NOT_ENOUGH)
    return answer(
        {
            "access_token": await services.authenticator.token(signed_in),
            "expires_in": str(TOKEN_SECONDS),
            "token_type": "Bearer",
        },
        headers=FRESH,
    )


async def _for_client(request: Request, grant: ClientGrant, settings: Settings, access: Authenticator) -> Response:
    proven = access.check()
    shown = await _shown(request, credentials(request.authorization, grant), settings)
    access.assert_current(proven)
    scopes = sorted(shown.scopes) if grant.scope is None else grant.scope.split()
    if not shown.scopes.issuperset(scopes):
        raise GrantRefused("invalid_scope", INVALID_SCOPE)
    body = {
        "access_token": await access.client_token(shown, scopes),
        "expires_in": TOKEN_SECONDS,
        "token_type": "Bearer",
        "scope": " ".join(scopes),
    }
    return answer(body, headers=FRESH)


async def _shown(request: Request, given: ClientCredentials | None, settings: Settings) -> AuthenticatedClient:
    """The authenticated client. Raises `InvalidClient`, `TooManyRequests`."""
    by_header = request.authorization is not None
    if given is None:
        raise InvalidClient(INVALID_CLIENT, by_header=by_header)
    return await client_authentication.authenticate_client(
        request.db, settings, given.id, given.secret, request.address, by_header=by_header
    )


@endpoints.post(
    "/oauth2/revoke",
    Doc(
        "revokeToken",
        "Revoke an access token",
        "Revokes a token as in RFC 7009. A client authenticates as for getting a token, and can revoke only its own"
        " tokens. A manager's token can be revoked by anyone who has it. The token is rejected everywhere within a"
        " second. The response is also 200 if the token is unknown or expired.",
        is_extension=True,
    ),
    body=FormBody(TypeAdapter(Revocation), revocation),
    responses=Responses(
        200, errors={400: (*FORM, OTHERS_TOKEN), 401: (INVALID_CLIENT, NO_CLIENT), 429: (RATE_LIMITED,)}, media_type=""
    ),
)
async def revoke(request: Request, body: Revocation, services: AuthServices) -> Response:
    """Revoke a token (RFC 7009).

    An unknown or expired token counts as revoked. A manager's token can be revoked by any caller that has it and the
    API key, since the two are enough to use it.
    """
    given = credentials(request.authorization, body)
    shown = await _shown(request, given, services.settings) if given else None
    if shown is None and request.without_key:
        raise KeyRefused(f"{services.settings.brand}-API-Key", MISSING)
    try:
        access_token = await services.authenticator.token_of(f"Bearer {body.token}")
    except Unauthorized:
        return Response(200, headers=FRESH)
    if shown is None and access_token.secret is not None:
        raise InvalidClient(NO_CLIENT)
    if shown is not None and access_token.subject != shown.subject:
        raise GrantRefused("unauthorized_client", OTHERS_TOKEN)
    limit = RateLimit("revocations", services.settings.revocation_rate, services.settings.revocation_burst)
    await limit.take(request.db, str(access_token.subject))
    await access_tokens.revoke(request.db, access_token)
    services.authenticator.forget()  # the other processes are notified
    return Response(200, headers=FRESH)
