"""The credentials of a request, by which its cell is found.

`CREDENTIALS` is the table of all of them in their order: where a request has it, and the SQL that finds it in the
database of a cell. A credential is found whether it is valid or not: its own cell decides that.

The bearer token stands before the customer. A token with another cell's customer gets the answer for an unknown
customer from the cell of the token, as within one cell.
"""

from __future__ import annotations

import json
from base64 import b64decode, urlsafe_b64decode
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, LiteralString, cast
from urllib.parse import parse_qs, unquote_plus
from uuid import UUID

from keyrack.auth import passkeys
from keyrack.auth.sso import login_flow
from keyrack.auth.usernames import MANAGERS
from keyrack.core.addresses import address_form
from keyrack.core.secret_hashes import digest
from keyrack.drivers import accounts, sso
from keyrack.fleet.person_lookup import PERSONS

LONGEST = 4_096  # characters of a credential; a longer one is unknown everywhere
GREATEST_ID = 2**31 - 1

# Each result is 1 if the database has the credential, and null otherwise. The greatest of all cells wins
KEY: LiteralString = "select 1 from signing_key where kid = $1"
MANAGER: LiteralString = "select 1 where {id} is not null".replace("{id}", MANAGERS.key_by_form("$1"))
CLIENT: LiteralString = "select 1 from client where subject = $1"
SESSION: LiteralString = "select 1 from session where hash = $1"
STEP: LiteralString = "select 1 from sign_in_step where hash = $1"
PASSKEY: LiteralString = "select 1 from passkey where credential_id = $1"
INVITATION: LiteralString = "select 1 from invitation where hash = $1 or mailed_hash = $1 limit 1"
RESET_LINK: LiteralString = "select 1 from password_link where hash = $1"
PROVIDER: LiteralString = "select 1 from provider where name = $1"
DRIVER_SESSION: LiteralString = "select 1 from driver_session where hash = $1"
DRIVER_PASSKEY: LiteralString = "select 1 from driver_passkey where credential_id = $1"
DRIVER_LINK: LiteralString = "select 1 from driver_link where hash = $1"
# A person may be a user in several cells; the account is in one of them
DRIVER: LiteralString = """
select 1 + (exists (select from driver_account a where a.user_id = p.user_id))::integer
from person p where p.user_id = {id}
""".replace("{id}", PERSONS.key_by_form("$1"))
DEVICE_KEY: LiteralString = "select 1 from device_key where hash = $1"
API_KEY: LiteralString = "select 1 from api_key where hash = $1"
CUSTOMER: LiteralString = "select 1 from customer where customer_id = $1"


class RoutedRequest:
    """The parts of a request that may contain a credential.

    `path` is the one below the base path. `body` is empty unless the table needs the body of this path.
    """

    def __init__(
        self, method: str, path: str, query: bytes, headers: Sequence[tuple[bytes, bytes]], api_key_header: str,
        body: bytes = b"",
    ) -> None:  # fmt: skip
        self.method = method
        self.path = path
        self.query = query
        self.body = body
        self.api_key_header = api_key_header
        self._headers = headers

    def header(self, name: str) -> str | None:
        """The first header with this lower-case name."""
        sought = name.encode("latin-1")
        return next((value.decode("latin-1") for known, value in self._headers if known == sought), None)

    def cookie(self, name: str) -> str | None:
        """The value of a cookie, or None if it is repeated.

        Its name may have the prefix `__Host-`.
        """
        values = self._cookies.get(f"__Host-{name}") or self._cookies.get(name) or []
        return values[0] if len(values) == 1 else None

    def form_value(self, name: str) -> str | None:
        """The last value of a field of the form."""
        return self._form.get(name, [None])[-1]

    def json_value(self, name: str) -> Any:
        """A member of the JSON object in the body."""
        return self._members.get(name)

    @cached_property
    def _cookies(self) -> Mapping[str, list[str]]:
        values: dict[str, list[str]] = {}
        for known, header in self._headers:
            if known == b"cookie":
                for pair in header.decode("latin-1").split(";"):
                    name, _, value = pair.strip().partition("=")
                    values.setdefault(name, []).append(value)
        return values

    @cached_property
    def _form(self) -> Mapping[str, list[str]]:
        with suppress(ValueError):
            return parse_qs(self.body.decode(), keep_blank_values=True, max_num_fields=100)
        return {}

    @cached_property
    def _members(self) -> Mapping[str, Any]:
        with suppress(ValueError, RecursionError):
            return _object(json.loads(self.body))
        return {}


Place = Callable[[RoutedRequest], Any]


@dataclass(frozen=True, slots=True)
class CredentialKind:
    """One kind of credential, its place and its lookup.

    `parameter` makes the SQL parameter of the text; a `ValueError` means that no cell has it. A kind without `sql` is
    sealed by the cell for `purpose`, and opened there. `paths` are the only paths with it; empty for all. A cell whose
    result is `greatest` decides, whatever the others have.
    """

    name: str
    place: Place
    sql: LiteralString | None
    parameter: Callable[[str], object] = digest
    paths: tuple[str, ...] = ()
    has_body: bool = False  # the place is in the body
    is_secret: bool = True  # its cell may be one that is away, so that the request must not be rejected meanwhile
    purpose: str = ""
    greatest: int = 1


@dataclass(frozen=True, slots=True)
class Credential:
    """A credential of one request. `parameter` is that of the SQL of its kind."""

    kind: CredentialKind
    text: str
    parameter: object


def header(name: str) -> Place:
    return lambda request: request.header(name)


def cookie(name: str) -> Place:
    return lambda request: request.cookie(name)


def form(name: str) -> Place:
    return lambda request: request.form_value(name)


def member(name: str) -> Place:
    return lambda request: request.json_value(name)


def bearer(request: RoutedRequest) -> str | None:
    """The header of the bearer token, a part of its text."""
    scheme, _, token = (request.header("authorization") or "").partition(" ")
    return token.strip().partition(".")[0] if scheme.lower() == "bearer" and "." in token else None


def revoked_token(request: RoutedRequest) -> str | None:
    return (request.form_value("token") or "").partition(".")[0] or None


def client_id(request: RoutedRequest) -> str | None:
    """The id of a machine client.

    It is in the header or in the form (RFC 6749, section 2.3.1).
    """
    scheme, _, encoded = (request.header("authorization") or "").partition(" ")
    if scheme.lower() != "basic":
        return request.form_value("client_id")
    with suppress(ValueError):
        return unquote_plus(b64decode(encoded.strip(), validate=True).decode("ascii").partition(":")[0])
    return None


def passkey_id(place: Place) -> Place:
    """The id in a passkey's response: JSON, or the text of JSON."""

    def find(request: RoutedRequest) -> Any:
        credential: Any = place(request)
        with suppress(ValueError, RecursionError):
            credential = json.loads(credential) if isinstance(credential, str) else credential
        return _object(credential).get("rawId")

    return find


def callback_state(request: RoutedRequest) -> str | None:
    """The state and the cookie of a provider's sign-in."""
    states = parse_qs(request.query.decode("latin-1")).get("state", [])
    return _with_cookie(states, request.cookie("keyrack-sign-in"))


def driver_callback_state(request: RoutedRequest) -> str | None:
    query = request.json_value("query")
    states = parse_qs(query.removeprefix("?")).get("state", []) if isinstance(query, str) else []
    return _with_cookie(states, request.cookie("keyrack-drive-challenge"))


def _with_cookie(states: Sequence[str], cookie: str | None) -> str | None:
    return f"{states[0]} {cookie}" if len(states) == 1 and cookie else None


def console_customer(request: RoutedRequest) -> str | None:
    """The customer in the path of a console page."""
    first, _, rest = request.path.removeprefix("/").partition("/")
    return rest.partition("/")[0] if first == "console" else None


def api_key(request: RoutedRequest) -> str | None:
    return request.header(request.api_key_header)


def key_id(token_header: str) -> str:
    """The `kid` of a token's header. Raises `ValueError` if there is none."""
    try:
        kid = json.loads(_base64url(token_header))["kid"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ValueError("no kid") from None
    return _text(kid)


def _object(value: Any) -> Mapping[str, Any]:
    """The value if it is a JSON object, else an empty one."""
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


def _text(value: object) -> str:
    if not isinstance(value, str) or "\0" in value or not value:
        raise ValueError("no text")
    return value


def _base64url(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


def number(text: str) -> int:
    """The id of a customer. Raises `ValueError`."""
    if not (text.isascii() and text.isdigit()) or not 0 < int(text[:12]) <= GREATEST_ID:
        raise ValueError("no id")
    return int(text)


def address(text: str) -> str:
    return address_form(_text(text.strip()))


def code(text: str) -> bytes:
    return digest(text.strip())


# The first of a request that a cell has decides. Credentials of single paths stand first: a browser that signs in
# elsewhere may still have a session
CREDENTIALS = (
    CredentialKind("user name", form("username"), MANAGER, address, ("/oauth2/token", "/console/sign-in"), True),
    CredentialKind("client", client_id, CLIENT, UUID, ("/oauth2/token",), True),
    CredentialKind("signing key", revoked_token, KEY, key_id, ("/oauth2/revoke",), True),
    CredentialKind("client", client_id, CLIENT, UUID, ("/oauth2/revoke",), True),
    CredentialKind("user name", form("address"), MANAGER, address, ("/console/forgot",), True),
    CredentialKind(
        "passkey", passkey_id(form("credential")), PASSKEY, _base64url, ("/console/sign-in/passkey",), True
    ),
    CredentialKind("sign-in step", cookie("keyrack-step"), STEP, paths=("/console/sign-in/second",)),
    CredentialKind(
        "invitation", form("code"), INVITATION, code,
        tuple(f"/console/invitation{action}" for action in ("", "/accept", "/mail", "/provider")), True,
    ),
    CredentialKind(
        "password link", form("code"), RESET_LINK, code, ("/console/password", "/console/password/set"), True
    ),
    CredentialKind("provider", form("name"), PROVIDER, _text, ("/console/sign-in/provider",), True, False),
    CredentialKind(
        "state of a sign-in", callback_state, None, _text, ("/console/sign-in/callback",),
        purpose=login_flow.MANAGERS.purpose,
    ),
    CredentialKind(
        "driver", member("emailAddress"), DRIVER, address, ("/drive/api/session", "/drive/api/forgot"), True,
        greatest=2,
    ),
    CredentialKind(
        "driver's passkey", passkey_id(member("credential")), DRIVER_PASSKEY, _base64url,
        ("/drive/api/session/passkey",), True,
    ),
    CredentialKind(
        "driver's link", member("secret"), DRIVER_LINK, digest,
        ("/drive/api/links/preview", "/drive/api/links/options", "/drive/api/links/accept"), True,
    ),
    CredentialKind(
        "state of a driver's sign-in", driver_callback_state, None, _text, ("/drive/api/sso/session",), True,
        purpose=sso.DRIVERS.purpose,
    ),
    CredentialKind("signing key", bearer, KEY, key_id),
    CredentialKind("session", cookie("keyrack-session"), SESSION, paths=("/console/",)),
    CredentialKind("driver's session", cookie("keyrack-drive"), DRIVER_SESSION, paths=("/drive/api/",)),
    CredentialKind("device key", header("device-key"), DEVICE_KEY),
    CredentialKind("API key", api_key, API_KEY),
    CredentialKind("customer", header("customer-id"), CUSTOMER, number, is_secret=False),
    CredentialKind("customer", console_customer, CUSTOMER, number, ("/console/",), is_secret=False),
)  # fmt: skip

# Passkeys sign a challenge that another cell may have sealed: the path, the owners, and the cookie with the challenge
CHALLENGES = {
    "/console/sign-in/passkey": (passkeys.MANAGERS, "keyrack-challenge"),
    "/drive/api/session/passkey": (accounts.DRIVERS, "keyrack-drive-challenge"),
}


@lru_cache(maxsize=1024)
def kinds_of(path: str) -> tuple[CredentialKind, ...]:
    """The kinds of credentials of a path, in their order."""
    return tuple(kind for kind in CREDENTIALS if not kind.paths or any(_is_at(path, place) for place in kind.paths))


def _is_at(path: str, place: str) -> bool:
    return path == place or (place.endswith("/") and (path + "/").startswith(place))


def credentials_of(request: RoutedRequest) -> Iterator[Credential]:
    """The credentials of a request, in the order of the table."""
    for kind in kinds_of(request.path):
        text = kind.place(request)
        if isinstance(text, str) and 0 < len(text) <= LONGEST:
            with suppress(ValueError):
                yield Credential(kind, text, kind.parameter(text))
