"""Forms of OAuth 2: grants, revocations and client credentials."""

from __future__ import annotations

from base64 import b64decode
from binascii import Error
from collections.abc import Mapping
from typing import TypeAlias
from urllib.parse import parse_qsl, unquote_plus

from pydantic import BaseModel

from keyrack.api.permissions import PROGRAMS
from keyrack.auth.client_authentication import INVALID_CLIENT
from keyrack.core.error_codes import NO_FORM, ErrorCode
from keyrack.core.errors import GrantRefused, InvalidClient

SHORT, LONG = 1_000, 8_000  # characters of a parameter, and of a token
LONGEST = 32_768  # bytes of a form: enough for a thousand characters of each parameter, percent-encoded
FORM_TOO_LONG = ErrorCode(
    "form-too-long",
    f"The form is longer than {LONGEST} bytes.",
    "Send only the parameters of the endpoint.",
)
GIVEN_TWICE = ErrorCode("parameter-given-twice", "A parameter is given more than once.", "Send each parameter once.")
MISSING_PARAMETER = ErrorCode(
    "missing-parameter", "The parameter {name} is missing.", "Send all parameters that the grant requires."
)
INVALID_PARAMETER = ErrorCode(
    "invalid-parameter",
    "The parameter {name} is not valid.",
    f"Send at most {SHORT} characters (a token: {LONG}), without U+0000.",
)
OTHER_GRANT = ErrorCode(
    "unsupported-grant-type",
    "The only grant_type here is password or client_credentials.",
    "Send `grant_type=password` for a manager, or `grant_type=client_credentials` for a machine client.",
)
INVALID_SCOPE = ErrorCode(
    "invalid-scope",
    "A scope is none, or none that the client has.",
    "Send scopes of the client, separated by blanks, or no scope for all of them.",
)
TWO_WAYS = ErrorCode(
    "two-client-authentications",
    "The client shows itself in two ways.",
    "Send the id and the secret in the header `Authorization` or in the form, not in both (RFC 6749, section 2.3).",
)


class PasswordGrant(BaseModel):
    """The form of the password grant (RFC 6749, section 4.3.2)."""

    username: str
    password: str
    grant_type: str


class InForm(BaseModel):
    """A form that may contain client credentials (RFC 6749, section 2.3.1)."""

    client_id: str | None = None
    client_secret: str | None = None


class ClientGrant(InForm):
    """The form of the client credentials grant (RFC 6749, section 4.4.2)."""

    grant_type: str
    scope: str | None = None


class Revocation(InForm):
    """The form of a revocation (RFC 7009, section 2.1). The hint is ignored: there is only one type of token."""

    token: str
    token_type_hint: str | None = None


class ClientCredentials(BaseModel):
    """The credentials of a client."""

    id: str
    secret: str


Grant: TypeAlias = PasswordGrant | ClientGrant


def grant(body: bytes) -> Grant:
    """The grant in a form's body.

    Raises `GrantRefused` with RFC 6749's error codes (section 5.2).
    """
    form = _parameters(body)
    kind = _needed(form, "grant_type")
    if kind == "password":
        username, password = _needed(form, "username"), _needed(form, "password")
        return PasswordGrant(username=username, password=password, grant_type=kind)
    if kind != "client_credentials":
        raise GrantRefused("unsupported_grant_type", OTHER_GRANT)
    scope = _given(form, "scope", SHORT * 2)
    if scope is not None and (not scope.split() or not {*scope.split()} <= {*map(str, PROGRAMS)}):
        raise GrantRefused("invalid_scope", INVALID_SCOPE)
    return ClientGrant(grant_type=kind, scope=scope, **_in_form(form))


def revocation(body: bytes) -> Revocation:
    """The revocation in a form's body. Raises `GrantRefused`."""
    form = _parameters(body)
    return Revocation(token=_needed(form, "token", LONG), **_in_form(form))


def credentials(authorization: str | None, form: InForm) -> ClientCredentials | None:
    """The client credentials in the header or form, or None.

    Raises `GrantRefused` if both have a secret, if their ids differ, or if a part of the form is missing. Raises
    `InvalidClient` if the header is malformed.
    """
    scheme, _, encoded = (authorization or "").partition(" ")
    if scheme.lower() == "basic":
        if form.client_secret is not None:
            raise GrantRefused("invalid_request", TWO_WAYS)
        client_credentials = _basic(encoded.strip())
        if form.client_id is not None and form.client_id != client_credentials.id:
            raise GrantRefused("invalid_request", TWO_WAYS)
        return client_credentials
    if form.client_id is None and form.client_secret is None:
        return None
    if not form.client_id or not form.client_secret:
        name = "client_secret" if form.client_id else "client_id"
        raise GrantRefused("invalid_request", MISSING_PARAMETER.format(name=name))
    return ClientCredentials(id=form.client_id, secret=form.client_secret)


def _basic(encoded: str) -> ClientCredentials:
    """Id and secret in a Basic header (RFC 6749, section 2.3.1).

    Each is encoded as in a form, then both as in RFC 7617.
    """
    try:
        id, colon, secret = b64decode(encoded, validate=True).decode("ascii").partition(":")
    except (Error, ValueError):
        raise InvalidClient(INVALID_CLIENT, by_header=True) from None
    if not colon or len(encoded) > 2 * SHORT:
        raise InvalidClient(INVALID_CLIENT, by_header=True)
    id, secret = unquote_plus(id), unquote_plus(secret)
    if "\0" in id + secret:
        raise InvalidClient(INVALID_CLIENT, by_header=True)
    return ClientCredentials(id=id, secret=secret)


def _parameters(body: bytes) -> Mapping[str, str]:
    """The parameters with a value. One without counts as omitted (RFC 6749, section 3.2)."""
    if len(body) > LONGEST:
        raise GrantRefused("invalid_request", FORM_TOO_LONG)
    try:
        pairs = parse_qsl(body.decode(), keep_blank_values=True, strict_parsing=bool(body), errors="strict")
    except ValueError:
        raise GrantRefused("invalid_request", NO_FORM) from None
    form = dict(pairs)
    if len(form) != len(pairs):
        raise GrantRefused("invalid_request", GIVEN_TWICE)
    return {name: value for name, value in form.items() if value}


def _needed(form: Mapping[str, str], name: str, most: int = SHORT) -> str:
    value = _given(form, name, most)
    if not value:
        raise GrantRefused("invalid_request", MISSING_PARAMETER.format(name=name))
    return value


def _given(form: Mapping[str, str], name: str, most: int = SHORT) -> str | None:
    value = form.get(name)
    if value is not None and (len(value) > most or "\0" in value):
        raise GrantRefused("invalid_request", INVALID_PARAMETER.format(name=name))
    return value


def _in_form(form: Mapping[str, str]) -> dict[str, str | None]:
    return {"client_id": _given(form, "client_id"), "client_secret": _given(form, "client_secret")}
