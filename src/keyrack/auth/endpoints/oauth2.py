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

TAG = Tag("Authentication", "Access tokens, and the documents that verify tokens.")
endpoints = Endpoints[AuthServices](TAG, ClientSecretAuth())

OTHERS_TOKEN = ErrorCode(
    "token-of-another",
    "The token is another client's.",
    "Have the client that got the token revoke it, or remove the secret that it was got by.",
)
NO_CLIENT = ErrorCode(
    "client-must-show-itself",
    "The token is a client's, and only that client revokes it.",
    "Send the client's id and secret, as for getting a token.",
)
PASSWORD_NOT_ENOUGH = ErrorCode(
    "password-not-enough",
    "A password alone signs this manager in nowhere: it has a second factor, or a role that needs one.",
    "Sign in to the console; programs use a client of their own instead of a person's password.",
)
FORM: tuple[ErrorCode, ...] = (FORM_TOO_LONG, NO_FORM, GIVEN_TWICE, MISSING_PARAMETER, INVALID_PARAMETER, TWO_WAYS)
FRESH = {"Cache-Control": "no-store"}


class AccessToken(BaseModel):
    """For a manager as the spec has it; for a client with `expires_in` as a number and the scopes (RFC 6749, section
    5.1)."""

    access_token: str
    expires_in: str | int
    token_type: str
    scope: str | None = None


@endpoints.post(
    "/oauth2/token",
    Doc(
        "getAccessToken",
        "An access token for a manager or a machine client",
        "The password grant of OAuth 2.0 (RFC 6749, section 4.3): user name and password of a manager, as a form; then"
        " `expires_in` is in seconds, as text. Or the grant of machine clients (section 4.4), with the client's id and"
        " secret in the header `Authorization` or in the form; then it is a number, and `scope` has what the token is"
        " for. There is no refresh token: ask again shortly before the hour is over.",
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
        "Have an access token refused from now on",
        "RFC 7009. A client revokes its own tokens, and shows itself as for getting one; a manager's token is revoked"
        " by whoever has it. It is refused everywhere within a second. What is no token, or is over, is answered 200.",
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
