"""The calling manager: preferences, password and sessions. An extension of the spec."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Literal, LiteralString, NamedTuple
from zoneinfo import available_timezones

from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter

from keyrack.api.auth_schemes import AccountAuth
from keyrack.api.endpoint import Doc, JsonBody, Responses, Tag
from keyrack.api.endpoint_registry import Endpoints
from keyrack.api.exchange import NO_CONTENT, Request, Response, manager_id, manager_parameter
from keyrack.api.path_ids import path_number
from keyrack.api.permissions import Free
from keyrack.api.schema.fields import Resource, date_time, int32, int64, string
from keyrack.api.schema.request_body import Body, ExactText, Text
from keyrack.auth.login import sign_in
from keyrack.auth.password_hashing import SHORTEST
from keyrack.auth.services import AuthServices
from keyrack.core.error_codes import RATE_LIMITED, ErrorCode
from keyrack.core.errors import Forbidden, NotFound, WrongCredentials
from keyrack.core.suggestions import did_you_mean

TAG = Tag("Me", "The calling manager: preferences, password and sessions.")
endpoints = Endpoints[AuthServices](TAG, AccountAuth(Free.PERSON), is_extension=True)

WRONG_PASSWORD = ErrorCode(
    "wrong-password",
    "The current password is wrong.",
    "Check the current password.",
)
NO_SESSION = ErrorCode(
    "session-not-found",
    "Unable to find a session of the manager for the given sessionId.",
    "Use an id that `GET /sessions` returns.",
)

_OF_MANAGER: LiteralString = "{t}.manager_id = :manager"
ME = Resource(
    "Me",
    "manager {t}",
    _OF_MANAGER,
    {
        "id": int32("{t}.manager_id"),
        "username": string("{t}.username"),
        "language": string("{t}.language", nullable=True),
        "timeZone": string("{t}.time_zone", nullable=True),
        "theme": string("{t}.theme", nullable=True),
    },
    permission=Free.PERSON,
)
SESSION = Resource(
    "Session",
    "session {t}",
    _OF_MANAGER,
    {
        "id": int64("{t}.session_id"),
        "address": string("{t}.address"),
        "userAgent": string("{t}.agent"),
        "createdAt": date_time("{t}.created_at"),
        "lastSeen": date_time("{t}.seen_at"),
    },
    permission=Free.PERSON,
)

PREFER: LiteralString = "update manager set language = $2, time_zone = $3, theme = $4 where manager_id = $1"
USERNAME: LiteralString = "select username from manager where manager_id = $1"
# A trigger signs the manager out. A sign-out since the verification means that the verified password is no longer valid
CHANGE: LiteralString = """
update manager set password_hash = $2 where manager_id = $1 and sign_outs = $3 returning true
"""
END_ONE: LiteralString = "delete from session where manager_id = $1 and session_id = $2 returning session_id"
END_ALL: LiteralString = "delete from session where manager_id = $1"


@cache
def _zones() -> frozenset[str]:
    """The names of the IANA database, which are in hundreds of files."""
    return frozenset(available_timezones())


def _zone(name: str) -> str:
    if name not in _zones():
        hint = did_you_mean(name, _zones()) or " Send a name such as 'Europe/Berlin'."
        raise ValueError(f"{name[:60]!a} is not a time zone of the IANA database.{hint}")
    return name


class PreferencesBody(Body):
    """The preferences for the pages; null for the browser's setting."""

    model_config = ConfigDict(title="Preferences")

    language: Literal["en", "de"] | None
    time_zone: Annotated[Text, AfterValidator(_zone)] | None
    theme: Literal["light", "dark"] | None


class NewPassword(Body):
    current_password: Annotated[ExactText, Field(max_length=1_000)]
    new_password: Annotated[ExactText, Field(min_length=SHORTEST, max_length=1_000)]


endpoints.read(
    "/me",
    ME,
    Doc(
        "getMe",
        "Get the calling manager",
        "Returns the manager of the access token, with the preferences for the pages.",
    ),
    is_single=True,
    order_by=_OF_MANAGER,
    tenant=manager_parameter,
)
endpoints.read(
    "/sessions",
    SESSION,
    Doc(
        "listSessions",
        "List the browser sessions of the manager",
        "Returns the sessions of the web console with the time of their last use.",
    ),
    tenant=manager_parameter,
)


@endpoints.put(
    "/me/preferences",
    Doc(
        "setPreferences",
        "Set the language, the time zone and the theme of the pages",
        "All three properties are required. Null selects the browser's setting.",
    ),
    body=JsonBody(TypeAdapter(PreferencesBody), "change preferences"),
    is_idempotent=False,
)
async def prefer(request: Request, body: PreferencesBody) -> Response:
    await request.db.execute(PREFER, manager_id(request), body.language, body.time_zone, body.theme)
    return NO_CONTENT


class PasswordChange(NamedTuple):
    """The hash of a new password, and the sign-outs before the verification."""

    hash: str
    sign_outs: int


async def hashed(request: Request, body: NewPassword, services: AuthServices) -> PasswordChange:
    """The hash of the new password, if the current one is right.

    Attempts are throttled like log-ins, because the caller may be guessing in a browser that was left open. Raises
    `Forbidden`, `TooManyRequests`.
    """
    username = await request.db.fetchval(USERNAME, manager_id(request))
    try:
        shown = await sign_in(
            request.db,
            services.authenticator,
            services.settings,
            username or "",
            body.current_password,
            request.address,
        )
    except WrongCredentials:
        raise Forbidden(WRONG_PASSWORD) from None
    hash = await services.authenticator.passwords.hash(body.new_password, ("manager", manager_id(request)))
    return PasswordChange(hash, shown.sign_outs)


@endpoints.put(
    "/me/password",
    Doc(
        "changePassword",
        "Change your password",
        "Requires the current password. All sessions and tokens of the manager end, so sign in again.",
    ),
    body=JsonBody(TypeAdapter(NewPassword), "change password"),
    prepare=hashed,
    responses=Responses(errors={403: (WRONG_PASSWORD,), 429: (RATE_LIMITED,)}),
    is_idempotent=False,
)
async def change_password(request: Request, change: PasswordChange) -> Response:
    if not await request.db.fetchval(CHANGE, manager_id(request), change.hash, change.sign_outs):
        raise Forbidden(WRONG_PASSWORD)
    return NO_CONTENT


@endpoints.delete(
    "/sessions",
    Doc(
        "endSessions",
        "End all sessions",
        "Every browser has to sign in again. Access tokens stay valid.",
    ),
    is_idempotent=False,
)
async def end_all(request: Request) -> Response:
    await request.db.execute(END_ALL, manager_id(request))
    return NO_CONTENT


@endpoints.delete(
    "/sessions/{sessionId}",
    Doc("endSession", "End a session", "Its browser has to sign in again."),
    responses=Responses(errors={404: (NO_SESSION,)}),
    converters={"sessionId": path_number},
    is_idempotent=False,
)
async def end_one(request: Request) -> Response:
    if await request.db.fetchval(END_ONE, manager_id(request), *request.ids) is None:
        raise NotFound(NO_SESSION)
    return NO_CONTENT
