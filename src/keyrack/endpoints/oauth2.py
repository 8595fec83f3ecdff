"""OAuth 2: access tokens for managers by the password grant, and the documents that verify tokens."""

from __future__ import annotations

from urllib.parse import parse_qsl

from pydantic import BaseModel

from keyrack.access.auth import TOKEN_SECONDS, Access
from keyrack.access.signing_in import sign_in
from keyrack.api import conditions
from keyrack.api.endpoint import PUBLIC, TAGGED, Endpoints
from keyrack.api.exchange import Answer, Request, answer
from keyrack.errors import GrantRefused
from keyrack.model.permissions import Free
from keyrack.reasons import NO_FORM, RATE_LIMITED, WRONG_CREDENTIALS, Reason
from keyrack.settings import Settings

endpoints = Endpoints("Authentication")

LONGEST = 32_768  # bytes of a form: enough for a thousand characters of each parameter, percent-encoded
FORM_TOO_LONG = Reason(
    "form-too-long",
    f"The form is longer than {LONGEST} bytes.",
    "Send the three parameters of the grant, and nothing else.",
)
GIVEN_TWICE = Reason("parameter-given-twice", "A parameter is given more than once.", "Send each parameter once.")
MISSING_PARAMETER = Reason(
    "missing-parameter", "The parameter {name} is missing.", "Send username, password and grant_type."
)
INVALID_PARAMETER = Reason(
    "invalid-parameter", "The parameter {name} is not valid.", "Send at most 1,000 characters, without U+0000."
)
OTHER_GRANT = Reason("unsupported-grant-type", "The only grant_type here is password.", "Send grant_type=password.")
PASSWORD_NOT_ENOUGH = Reason(
    "password-not-enough",
    "A password alone signs this manager in nowhere: it has a second factor, or a role that needs one.",
    "Sign in to the console; programs use a client of their own instead of a person's password.",
)


class AccessToken(BaseModel):
    access_token: str
    expires_in: str
    token_type: str


class PasswordGrant(BaseModel):
    """The form of RFC 6749, section 4.3.2."""

    username: str
    password: str
    grant_type: str


def grant(body: bytes) -> PasswordGrant:
    """The grant of a form's body. Raises `GrantRefused` with RFC 6749's error codes (section 5.2)."""
    if len(body) > LONGEST:
        raise GrantRefused("invalid_request", FORM_TOO_LONG)
    try:
        pairs = parse_qsl(body.decode(), keep_blank_values=True, strict_parsing=bool(body), errors="strict")
    except ValueError:
        raise GrantRefused("invalid_request", NO_FORM) from None
    form = dict(pairs)
    if len(form) != len(pairs):
        raise GrantRefused("invalid_request", GIVEN_TWICE)
    if not form.get("grant_type"):
        raise GrantRefused("invalid_request", MISSING_PARAMETER.format(name="grant_type"))
    if form["grant_type"] != "password":
        raise GrantRefused("unsupported_grant_type", OTHER_GRANT)
    for name in ("username", "password"):
        if not form.get(name):
            raise GrantRefused("invalid_request", MISSING_PARAMETER.format(name=name))
        if len(form[name]) > 1_000 or "\x00" in form[name]:
            raise GrantRefused("invalid_request", INVALID_PARAMETER.format(name=name))
    return PasswordGrant(username=form["username"], password=form["password"], grant_type="password")


@endpoints.post(
    "/oauth2/token",
    "An access token for a manager",
    body=PasswordGrant,
    form=grant,
    status=200,
    permission=Free.ANYBODY,
    token=False,
    customer=False,
    answers=AccessToken,
    secret=True,
    refuses={
        400: (
            FORM_TOO_LONG,
            NO_FORM,
            GIVEN_TWICE,
            MISSING_PARAMETER,
            OTHER_GRANT,
            INVALID_PARAMETER,
            PASSWORD_NOT_ENOUGH,
        ),
        401: (WRONG_CREDENTIALS,),
        429: (RATE_LIMITED,),
    },
)
async def token(request: Request, wanted: PasswordGrant, settings: Settings, access: Access) -> Answer:
    signed_in = await sign_in(request.db, access, settings, wanted.username, wanted.password, request.address)
    if signed_in.has_factor or signed_in.needs_factor:
        raise GrantRefused("invalid_grant", PASSWORD_NOT_ENOUGH)
    return answer(
        {"access_token": await access.token(signed_in), "expires_in": str(TOKEN_SECONDS), "token_type": "Bearer"},
        headers={"Cache-Control": "no-store"},
    )


@endpoints.write("GET", "/.well-known/jwks.json", "The public keys of the tokens", headers=TAGGED, **PUBLIC)
async def jwks(request: Request, access: Access) -> Answer:
    keys = await access.signing_keys()
    return conditions.document(request, answer(keys.public()))


@endpoints.write(
    "GET", "/.well-known/openid-configuration", "Where the token endpoint and the keys are", headers=TAGGED, **PUBLIC
)
async def discovery(request: Request, settings: Settings) -> Answer:
    """OpenID Connect Discovery 1.0, section 3, as far as it applies."""
    base = settings.public_url
    told = answer(
        {
            "issuer": base,
            "token_endpoint": f"{base}/v3/oauth2/token",
            "jwks_uri": f"{base}/.well-known/jwks.json",
            "grant_types_supported": ["password"],
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["pairwise"],
            "claims_supported": ["iss", "sub", "aud", "iat", "exp", "jti", "customer_id", "email"],
            "id_token_signing_alg_values_supported": ["RS256"],
        }
    )
    return conditions.document(request, told)
