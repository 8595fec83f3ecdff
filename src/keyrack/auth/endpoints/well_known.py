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


_HOW = "The supported authentication methods of clients."
# List fields in the metadata of both documents: name, description, an example
SERVER = (
    ("token_endpoint_auth_methods_supported", _HOW, "client_secret_basic"),
    ("revocation_endpoint_auth_methods_supported", _HOW, "client_secret_basic"),
    ("grant_types_supported", "The supported grant types.", "password"),
    ("scopes_supported", "All scopes of clients.", "cars:read"),
)
JWKS = NamedSchema(
    "JsonWebKeySet",
    object_schema(
        "The keys that verify tokens (RFC 7517).",
        {
            "keys": {
                "type": "array",
                "items": {"type": "object", "additionalProperties": {"type": "string"}},
                "description": "The public keys. `kid` in the header of a token identifies its key.",
                "examples": [[{"kty": "RSA", "use": "sig", "alg": "RS256", "kid": "1", "n": "AQAB", "e": "AQAB"}]],
            }
        },
    ),
)
OPENID_CONFIGURATION = NamedSchema(
    "OpenIdConfiguration",
    object_schema(
        "The supported metadata of OpenID Connect Discovery 1.0, section 3.",
        {
            "issuer": uri_schema("The issuer of tokens, as in their claim `iss`.", ""),
            "token_endpoint": uri_schema("The URL of the token endpoint.", "/v3/oauth2/token"),
            "revocation_endpoint": uri_schema("The URL of the revocation endpoint.", "/v3/oauth2/revoke"),
            "jwks_uri": uri_schema("The URL of the keys that verify tokens.", "/.well-known/jwks.json"),
            **list_schemas(
                (
                    *SERVER,
                    ("response_types_supported", "The supported response types.", "id_token"),
                    (
                        "subject_types_supported",
                        "The subject types: a user has a different subject in each customer.",
                        "pairwise",
                    ),
                    ("claims_supported", "The claims of tokens.", "sub"),
                    ("id_token_signing_alg_values_supported", "The signature algorithms of id tokens.", "RS256"),
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
            "issuer": uri_schema("The issuer of tokens, as in their claim `iss`.", ""),
            "token_endpoint": uri_schema("The URL of the token endpoint.", "/v3/oauth2/token"),
            "revocation_endpoint": uri_schema("The URL of the revocation endpoint.", "/v3/oauth2/revoke"),
            "jwks_uri": uri_schema("The URL of the keys that verify tokens.", "/.well-known/jwks.json"),
            **list_schemas(SERVER),
            "response_types_supported": {
                "type": "array",
                "items": {"type": "string"},
                "description": "Empty, because there is no authorization endpoint.",
                "examples": [[]],
            },
        },
    ),
)


@endpoints.get(
    "/.well-known/jwks.json",
    Doc(
        "getJwks",
        "Get the public keys of tokens",
        "Returns the keys that verify access tokens and id tokens, as a JSON Web Key Set (RFC 7517).",
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
        "Get the OpenID Connect metadata",
        "Returns the supported part of the metadata of OpenID Connect Discovery 1.0.",
    ),
    responses=Responses(200, schema=OPENID_CONFIGURATION, headers=TAGGED),
)
async def discovery(request: Request, services: AuthServices) -> Response:
    """The supported metadata of OpenID Connect Discovery 1.0, section 3."""
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
        "Get the authorization server metadata",
        "Returns the metadata of RFC 8414: the endpoints that issue and revoke tokens, the authentication methods of"
        " clients, and all scopes.",
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
