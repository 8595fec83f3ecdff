"""The account of a driver: password, passkeys, language and deletion. Extensions of the spec."""

from __future__ import annotations

from typing import Annotated, Any, Literal, LiteralString, NamedTuple

from pydantic import Field, TypeAdapter

from keyrack.api.auth_schemes import DriverAuth
from keyrack.api.endpoint import Doc, JsonBody, Responses
from keyrack.api.endpoint_registry import Endpoints
from keyrack.api.exchange import NO_CONTENT, Request, Response, answer, browser_of, driver_of
from keyrack.api.path_ids import path_number
from keyrack.api.schema.request_body import ExactText, Int32, StrictBody, format_timestamp
from keyrack.auth import passkeys
from keyrack.core.error_codes import RATE_LIMITED, ErrorCode
from keyrack.core.errors import Forbidden, NotFound, WrongCredentials
from keyrack.core.user_agents import device_name
from keyrack.drivers import accounts, sessions
from keyrack.drivers.endpoints.links import DriverPasskeyOptions, DriverPassword, PasskeyName
from keyrack.drivers.endpoints.session import TAG
from keyrack.drivers.services import DriverServices
from keyrack.drivers.sign_in import NO_STORE

endpoints = Endpoints[DriverServices](TAG, DriverAuth(), is_extension=True, is_preview=True)

WRONG_PASSWORD = ErrorCode(
    "wrong-driver-password",
    "The current password is missing or wrong.",
    "Send the current password as `current`.",
)
NO_PASSKEY = ErrorCode(
    "driver-passkey-not-found",
    "Unable to find a passkey of the driver for the given passkeyId.",
    "Use an id that `GET /drive/api/passkeys` returns.",
)

PASSKEYS: LiteralString = """
select passkey_id, name, is_backed_up, is_refused, created_at, used_at from driver_passkey
where user_id = $1 and $2::integer is null order by passkey_id
"""
ACCOUNT: LiteralString = """
select p.email_address, a.handle from driver_account a join person p using (user_id) where a.user_id = $1
"""
REMOVE_PASSKEY: LiteralString = "delete from driver_passkey where user_id = $1 and passkey_id = $2 returning true"
SPEAK: LiteralString = "update driver_account set language = $2 where user_id = $1"


class DriverPasswordChange(StrictBody):
    current: Annotated[ExactText, Field(max_length=1_000)] | None = None
    password: DriverPassword


class NewDriverPasskey(StrictBody):
    credential: dict[str, Any]
    name: PasskeyName = ""


class DriverPasskeyCreated(StrictBody):
    id: Int32


class DriverPasskey(StrictBody):
    """A passkey of the driver. A refused one was copied, and opens nothing."""

    id: Int32
    name: str
    is_backed_up: bool
    is_refused: bool
    created: str
    last_used: str | None


class DriverLanguage(StrictBody):
    """The language of the app and of mails."""

    language: Literal["en", "de"] | None


class NewPasswordHash(NamedTuple):
    """The hash of a new password, and the earlier sign-outs."""

    hash: str
    sign_outs: int


async def hashed(request: Request, body: DriverPasswordChange, services: DriverServices) -> NewPasswordHash:
    """The hash of the new password, if the current one is right.

    Attempts are throttled like sign-ins, because the caller may be guessing on a phone that was left open. Raises
    `Forbidden`, `TooManyRequests`.
    """
    driver = driver_of(request)
    sessions.require_own_sign_in(driver)
    user = driver.user
    try:
        sign_outs = await accounts.verify_current(
            request.db, services.authenticator, services.settings, user, body.current, request.address
        )
    except WrongCredentials:
        raise Forbidden(WRONG_PASSWORD) from None
    if body.current is None:  # the account has none
        sessions.require_recent_sign_in(driver, services.settings)
    return NewPasswordHash(await services.authenticator.passwords.hash(body.password, ("driver", user)), sign_outs)


@endpoints.put(
    "/drive/api/password",
    Doc(
        "changeDriverPassword",
        "Change the password of the driver",
        "Requires the current password, or else a recent sign-in if the account has none. All other sessions end.",
    ),
    body=JsonBody(TypeAdapter(DriverPasswordChange), "change password"),
    prepare=hashed,
    responses=Responses(
        errors={403: (WRONG_PASSWORD, sessions.SIGNED_ON, sessions.SIGN_IN_AGAIN), 429: (RATE_LIMITED,)}
    ),
    is_idempotent=False,
)
async def change_password(request: Request, change: NewPasswordHash) -> Response:
    async with request.db.transaction() as connection:
        if not await accounts.change_password(connection, driver_of(request), change.hash, change.sign_outs):
            raise Forbidden(WRONG_PASSWORD)
    return NO_CONTENT


@endpoints.get(
    "/drive/api/passkeys",
    Doc(
        "listDriverPasskeys",
        "List the passkeys of the driver",
        "Returns the passkeys, never their keys. A session of a provider gets an empty list.",
    ),
    responses=Responses(200, list[DriverPasskey]),
)
async def list_passkeys(request: Request) -> Response:
    driver = driver_of(request)
    rows = await request.db.fetch(PASSKEYS, driver.user, driver.provider_customer)
    shown = [
        {
            "id": row["passkey_id"], "name": row["name"], "isBackedUp": row["is_backed_up"],
            "isRefused": row["is_refused"], "created": format_timestamp(row["created_at"]),
            "lastUsed": row["used_at"] and format_timestamp(row["used_at"]),
        }
        for row in rows
    ]  # fmt: skip
    return answer(shown, headers=NO_STORE)


@endpoints.post(
    "/drive/api/passkeys/options",
    Doc(
        "beginDriverPasskey",
        "Begin to add a passkey of the driver",
        "Returns the options for `navigator.credentials.create()` in the JSON form of WebAuthn. They are valid once,"
        " for five minutes. The sign-in must be recent.",
    ),
    responses=Responses(
        200,
        DriverPasskeyOptions,
        errors={
            403: (sessions.SIGNED_ON, sessions.SIGN_IN_AGAIN),
            409: (passkeys.NO_PASSKEYS, accounts.TOO_MANY_PASSKEYS),
        },
    ),
    is_idempotent=False,
)
async def passkey_options(request: Request, services: DriverServices) -> Response:
    driver = driver_of(request)
    sessions.require_own_sign_in(driver)
    sessions.require_recent_sign_in(driver, services.settings)
    row = await request.db.fetchrow(ACCOUNT, driver.user)
    assert row is not None  # noqa: S101 - the account of the session
    label = accounts.passkey_label(row["email_address"])
    made = await passkeys.registration_options(
        request.db, accounts.DRIVERS, services.settings, driver.user, label, row["handle"]
    )
    await sessions.store_challenge(request.db, driver, made.challenge)
    return answer({"publicKey": made.options}, headers=NO_STORE)


@endpoints.post(
    "/drive/api/passkeys",
    Doc(
        "addDriverPasskey",
        "Add a passkey of the driver",
        "`credential` is the result of the browser's `navigator.credentials.create()`, as `toJSON()` returns it. The"
        " device must have verified its user. The sign-in must be recent.",
    ),
    body=JsonBody(TypeAdapter(NewDriverPasskey), "add passkey"),
    responses=Responses(
        201,
        DriverPasskeyCreated,
        errors={
            403: (sessions.SIGNED_ON, sessions.SIGN_IN_AGAIN),
            409: (passkeys.NO_PASSKEYS, accounts.TOO_MANY_PASSKEYS, passkeys.KNOWN),
            422: (passkeys.NOT_VERIFIED,),
        },
    ),
    is_idempotent=False,
)
async def add_passkey(request: Request, body: NewDriverPasskey, services: DriverServices) -> Response:
    driver = driver_of(request)
    sessions.require_own_sign_in(driver)
    sessions.require_recent_sign_in(driver, services.settings)
    challenge = await sessions.use_challenge(request.db, driver)
    if challenge is None:
        raise passkeys.PasskeyNotVerified
    name = body.name or device_name(browser_of(request).agent)
    async with request.db.transaction() as connection:
        await accounts.lock(connection, driver)
        id, _ = await passkeys.register(
            connection, accounts.DRIVERS, services.settings, driver.user, name, body.credential, challenge
        )
    return answer({"id": id}, 201)


@endpoints.delete(
    "/drive/api/passkeys/{passkeyId}",
    Doc("removeDriverPasskey", "Remove a passkey of the driver", "It can no longer be used to sign in."),
    responses=Responses(errors={403: (sessions.SIGNED_ON,), 404: (NO_PASSKEY,)}),
    converters={"passkeyId": path_number},
    is_idempotent=False,
)
async def remove_passkey(request: Request) -> Response:
    driver = driver_of(request)
    sessions.require_own_sign_in(driver)
    if not await request.db.fetchval(REMOVE_PASSKEY, driver.user, *request.ids):
        raise NotFound(NO_PASSKEY)
    return NO_CONTENT


@endpoints.put(
    "/drive/api/language",
    Doc("setDriverLanguage", "Set the language of the driver", "It is the language of the app and of its mails."),
    body=JsonBody(TypeAdapter(DriverLanguage), "set language"),
    is_idempotent=False,
)
async def speak(request: Request, body: DriverLanguage) -> Response:
    await request.db.execute(SPEAK, driver_of(request).user, body.language)
    return NO_CONTENT


@endpoints.delete(
    "/drive/api/account",
    Doc(
        "deleteDriverAccount",
        "Delete the account of the driver",
        "Deletes the credentials, the sessions and the accesses. The person stays a user of its customers, which can"
        " invite it again.",
    ),
    responses=Responses(errors={403: (sessions.SIGNED_ON,)}),
    is_idempotent=False,
)
async def delete_account(request: Request, services: DriverServices) -> Response:
    driver = driver_of(request)
    sessions.require_own_sign_in(driver)
    async with request.db.transaction() as connection:
        await accounts.delete(connection, driver)
    return Response(204, headers={"Set-Cookie": services.driver_cookies.no_cookie()})
