"""The documents that programs find by themselves: where tokens are had, and the keys that verify them."""

from __future__ import annotations

from keyrack.api import conditional_requests
from keyrack.api.endpoint import PUBLIC, TAGGED, Endpoints
from keyrack.api.exchange import Request, Response, answer
from keyrack.api.permissions import PROGRAMS
from keyrack.auth.authenticator import Authenticator
from keyrack.core.settings import Settings

endpoints = Endpoints("Authentication")

BY_SECRET = ["client_secret_basic", "client_secret_post"]


@endpoints.write("GET", "/.well-known/jwks.json", "The public keys of the tokens", headers=TAGGED, **PUBLIC)
async def jwks(request: Request, access: Authenticator) -> Response:
    keys = await access.signing_keys()
    return conditional_requests.document(request, answer(keys.public()))


@endpoints.write(
    "GET", "/.well-known/openid-configuration", "Where the token endpoint and the keys are", headers=TAGGED, **PUBLIC
)
async def discovery(request: Request, settings: Settings) -> Response:
    """OpenID Connect Discovery 1.0, section 3, as far as it applies."""
    metadata = _server(settings) | {
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["pairwise"],
        "claims_supported": ["iss", "sub", "aud", "iat", "exp", "jti", "customer_id", "email"],
        "id_token_signing_alg_values_supported": ["RS256"],
    }
    return conditional_requests.document(request, answer(metadata))


@endpoints.write(
    "GET",
    "/.well-known/oauth-authorization-server",
    "Where machine clients get tokens, and how they show themselves",
    headers=TAGGED,
    **PUBLIC,
)
async def authorization_server(request: Request, settings: Settings) -> Response:
    """RFC 8414, section 2. There is no authorization endpoint, so no response type."""
    return conditional_requests.document(request, answer({**_server(settings), "response_types_supported": []}))


def _server(settings: Settings) -> dict[str, str | list[str]]:
    """What both documents say."""
    base = settings.public_url
    return {
        "issuer": base,
        "token_endpoint": f"{base}/v3/oauth2/token",
        "token_endpoint_auth_methods_supported": BY_SECRET,
        "revocation_endpoint": f"{base}/v3/oauth2/revoke",
        "revocation_endpoint_auth_methods_supported": BY_SECRET,
        "jwks_uri": f"{base}/.well-known/jwks.json",
        "grant_types_supported": ["password", "client_credentials"],
        "scopes_supported": [str(permission) for permission in PROGRAMS],
    }
