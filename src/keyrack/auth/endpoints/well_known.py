"""Discovery documents: the token endpoint, and the keys that verify tokens."""

from __future__ import annotations

from keyrack.api import conditional_requests
from keyrack.api.auth_schemes import PublicAuth
from keyrack.api.endpoint import TAGGED, Doc, Responses
from keyrack.api.endpoint_registry import Endpoints
from keyrack.api.exchange import Request, Response, answer
from keyrack.api.permissions import PROGRAMS
from keyrack.api.schema.json_schema import NamedSchema, list_schemas, object_schema, uri_schema
from keyrack.auth.endpoints.oauth2 import TAG
from keyrack.auth.services import AuthServices
from keyrack.core.settings import Settings

endpoints = Endpoints[AuthServices](TAG, PublicAuth(), is_extension=True)

BY_SECRET = ["client_secret_basic", "client_secret_post"]


_HOW = "How a client shows itself there."
# List fields in the metadata of both documents: name, description, an example
SERVER = (
    ("token_endpoint_auth_methods_supported", _HOW, "client_secret_basic"),
    ("revocation_endpoint_auth_methods_supported", _HOW, "client_secret_basic"),
    ("grant_types_supported", "The grants of the token endpoint.", "password"),
    ("scopes_supported", "All scopes that clients may have.", "cars:read"),
)
JWKS = NamedSchema(
    "JsonWebKeySet",
    object_schema(
        "The keys that verify tokens (RFC 7517).",
        {
            "keys": {
                "type": "array",
                "items": {"type": "object", "additionalProperties": {"type": "string"}},
                "description": "Public keys; a token's header names its own by `kid`.",
                "examples": [[{"kty": "RSA", "use": "sig", "alg": "RS256", "kid": "1", "n": "AQAB", "e": "AQAB"}]],
            }
        },
    ),
)
OPENID_CONFIGURATION = NamedSchema(
    "OpenIdConfiguration",
    object_schema(
        "OpenID Connect Discovery 1.0, section 3, as far as it applies.",
        {
            "issuer": uri_schema("Who issues tokens: their claim `iss`.", ""),
            "token_endpoint": uri_schema("Where access tokens are had.", "/v3/oauth2/token"),
            "revocation_endpoint": uri_schema("Where they are revoked.", "/v3/oauth2/revoke"),
            "jwks_uri": uri_schema("Where the keys are that verify tokens.", "/.well-known/jwks.json"),
            **list_schemas(
                (
                    *SERVER,
                    ("response_types_supported", "What is had by a grant.", "id_token"),
                    ("subject_types_supported", "Each customer knows a user by another subject.", "pairwise"),
                    ("claims_supported", "The claims of tokens.", "sub"),
                    ("id_token_signing_alg_values_supported", "The algorithms of signatures.", "RS256"),
                )
            ),
        },
    ),
)
AUTHORIZATION_SERVER = NamedSchema(
    "AuthorizationServer",
    object_schema(
        "The metadata of an authorization server (RFC 8414, section 2).",
        {
            "issuer": uri_schema("Who issues tokens: their claim `iss`.", ""),
            "token_endpoint": uri_schema("Where access tokens are had.", "/v3/oauth2/token"),
            "revocation_endpoint": uri_schema("Where they are revoked.", "/v3/oauth2/revoke"),
            "jwks_uri": uri_schema("Where the keys are that verify tokens.", "/.well-known/jwks.json"),
            **list_schemas(SERVER),
            "response_types_supported": {
                "type": "array",
                "items": {"type": "string"},
                "description": "None: there is no page to sign in.",
                "examples": [[]],
            },
        },
    ),
)


@endpoints.get(
    "/.well-known/jwks.json",
    Doc(
        "getJwks",
        "The public keys of the tokens",
        "The keys by which access tokens and id tokens are verified, as a JSON Web Key Set (RFC 7517).",
    ),
    responses=Responses(200, schema=JWKS, headers=TAGGED),
)
async def jwks(request: Request, services: AuthServices) -> Response:
    keys = await services.authenticator.signing_keys()
    return conditional_requests.document(request, answer(keys.public()))


@endpoints.get(
    "/.well-known/openid-configuration",
    Doc(
        "getOpenIdConfiguration",
        "Where the token endpoint and the keys are",
        "The document of OpenID Connect Discovery 1.0, as far as it applies here.",
    ),
    responses=Responses(200, schema=OPENID_CONFIGURATION, headers=TAGGED),
)
async def discovery(request: Request, services: AuthServices) -> Response:
    """OpenID Connect Discovery 1.0, section 3, as far as it applies."""
    metadata = _server(services.settings) | {
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["pairwise"],
        "claims_supported": ["iss", "sub", "aud", "iat", "exp", "jti", "customer_id", "email"],
        "id_token_signing_alg_values_supported": ["RS256"],
    }
    return conditional_requests.document(request, answer(metadata))


@endpoints.get(
    "/.well-known/oauth-authorization-server",
    Doc(
        "getAuthorizationServer",
        "Where machine clients get tokens, and how they show themselves",
        "The metadata of RFC 8414: where tokens are had and revoked, how clients show themselves, and all scopes.",
    ),
    responses=Responses(200, schema=AUTHORIZATION_SERVER, headers=TAGGED),
)
async def authorization_server(request: Request, services: AuthServices) -> Response:
    """The metadata of RFC 8414, section 2.

    There is no authorization endpoint, so no response type.
    """
    return conditional_requests.document(
        request, answer({**_server(services.settings), "response_types_supported": []})
    )


def _server(settings: Settings) -> dict[str, str | list[str]]:
    """The common part of both documents."""
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
