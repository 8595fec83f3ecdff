"""Second factors of the calling manager: passkeys, app codes, recovery codes.

An extension of the spec.
"""

from __future__ import annotations

import time
from typing import Annotated, Any, LiteralString

from pydantic import ConfigDict, Field, TypeAdapter

from keyrack.api.auth_schemes import AccountAuth
from keyrack.api.endpoint import Doc, JsonBody, Responses, Tag
from keyrack.api.endpoint_registry import Endpoints
from keyrack.api.exchange import NO_CONTENT, Request, Response, answer, manager_id, manager_parameter
from keyrack.api.path_ids import path_number
from keyrack.api.permissions import Free
from keyrack.api.principals import ManagerId
from keyrack.api.schema.fields import Resource, boolean, date_time, int32, string
from keyrack.api.schema.request_body import IN_NFC, Body, ExactText, Int32
from keyrack.auth import code_throttle, login_challenges, passkeys, totp
from keyrack.auth.services import AuthServices
from keyrack.core.error_codes import RATE_LIMITED, ErrorCode
from keyrack.core.errors import Conflict, Forbidden, NotFound, Unprocessable
from keyrack.core.settings import Settings
from keyrack.core.text import FREE_TEXT
from keyrack.db.connection import Connection

TAG = Tag(
    "Second factor",
    "Passkeys, codes and recovery codes of the calling manager, and the roles that require a second factor.",
)
endpoints = Endpoints[AuthServices](TAG, AccountAuth(Free.PERSON), is_extension=True)

SIGN_IN_AGAIN = ErrorCode(
    "sign-in-again",
    "This change requires a sign-in within the last {minutes} minutes, with the second factor if you have one.",
    "Sign in again, then repeat the request.",
)
NO_PASSKEY = ErrorCode(
    "passkey-not-found",
    "Unable to find a passkey of the manager for the given passkeyId.",
    "Use an id that `GET /me/passkeys` returns.",
)
NO_APP = ErrorCode("totp-not-set-up", "No authenticator app is set up.", "Set one up by `POST /me/totp`.")
APP_THERE = ErrorCode(
    "totp-already-set-up", "An authenticator app is already set up. Remove it first.", "Remove it by `DELETE /me/totp`."
)
WRONG_CODE = ErrorCode(
    "wrong-code",
    "The code is wrong.",
    "Send the six digits that the app shows now, and check the clock of its device.",
)
NO_FACTOR = ErrorCode(
    "no-second-factor",
    "Recovery codes require an authenticator app or a passkey, and you have neither.",
    "Set up an authenticator app or a passkey first.",
)
LAST_FACTOR = ErrorCode(
    "last-factor-needed",
    "One of your roles requires a second factor, and this is your last one.",
    "Add another factor first, or ask an owner of the customer to remove the rule.",
)

_OF_MANAGER: LiteralString = "{t}.manager_id = :manager"
FACTORS = Resource(
    "Factors",
    "manager {t}",
    _OF_MANAGER,
    {
        "id": int32("{t}.manager_id"),
        "hasApp": boolean(
            "exists (select from totp f where f.manager_id = {t}.manager_id and f.confirmed_at is not null)"
        ),
        "passkeys": int32("(select count(*) from passkey f where f.manager_id = {t}.manager_id)::integer"),
        "recoveryCodes": int32(
            "coalesce((select cardinality(f.hashes) from recovery f where f.manager_id = {t}.manager_id), 0)"
        ),
        "isNeeded": boolean(
            "exists (select from manager_role f join factor_rule using (customer_id, role)"
            " where f.manager_id = {t}.manager_id)"
        ),
    },
    permission=Free.PERSON,
)
PASSKEY = Resource(
    "Passkey",
    "passkey {t}",
    _OF_MANAGER,
    {
        "id": int32("{t}.passkey_id"),
        "name": string("{t}.name"),
        "isBackedUp": boolean("{t}.is_backed_up"),
        "isRefused": boolean("{t}.is_refused"),
        "createdAt": date_time("{t}.created_at"),
        "lastUsed": date_time("{t}.used_at", nullable=True),
    },
    permission=Free.PERSON,
)

USERNAME: LiteralString = "select username from manager where manager_id = $1"
HAS: LiteralString = """
select (select count(*) from passkey where manager_id = $1 and not is_refused)
  + (select count(*) from totp where manager_id = $1 and confirmed_at is not null)
"""
IS_NEEDED: LiteralString = """
select exists (select from manager_role r join factor_rule using (customer_id, role) where r.manager_id = $1)
"""
HAS_PASSKEY: LiteralString = "select exists (select from passkey where manager_id = $1 and passkey_id = $2)"
REMOVE_PASSKEY: LiteralString = "delete from passkey where manager_id = $1 and passkey_id = $2 returning passkey_id"
END_RECOVERY: LiteralString = "delete from recovery where manager_id = $1"


class PasskeyOptions(Body):
    public_key: dict[str, Any]


class NewPasskey(Body):
    name: Annotated[str, Field(max_length=100, pattern=FREE_TEXT), IN_NFC]
    credential: dict[str, Any]


class PasskeyMade(Body):
    id: Int32
    amr: str


class NewApp(Body):
    secret: str
    uri: str


class CodeBody(Body):
    model_config = ConfigDict(title="Code")

    code: Annotated[ExactText, Field(max_length=20)]


class RecoveryCodes(Body):
    codes: list[str]


async def _fresh(connection: Connection, request: Request, settings: Settings) -> ManagerId:
    """Lock the manager, who must have signed in recently with all factors.

    Raises `Forbidden`. A browser that was left open, or a stolen password, is not enough to add a sign-in method.
    Neither is a session that has ended since the request was authenticated.
    """
    manager = request.manager
    is_over = await connection.fetchval(passkeys.LOCK, manager.id) != manager.sign_outs
    is_old = is_over or manager.began < time.time() - settings.reauthentication_minutes * 60
    if is_old or ("mfa" not in manager.amr and await login_challenges.has_factor(connection, manager.id)):
        raise Forbidden(SIGN_IN_AGAIN.format(minutes=settings.reauthentication_minutes))
    return manager.id


async def _removed(connection: Connection, manager: int) -> None:
    """Check the remaining factors after one was removed.

    Raises `Conflict` if it was the last one and a role needs one. Recovery codes end with the last factor.
    """
    if await connection.fetchval(HAS, manager):
        return
    if await connection.fetchval(IS_NEEDED, manager):
        raise Conflict(LAST_FACTOR)
    await connection.execute(END_RECOVERY, manager)


endpoints.read(
    "/me/factors",
    FACTORS,
    Doc(
        "getFactors",
        "Get the second factors of the calling manager",
        "Returns the second factors, and whether a role requires one.",
    ),
    is_single=True,
    order_by=_OF_MANAGER,
    tenant=manager_parameter,
)
endpoints.read(
    "/me/passkeys",
    PASSKEY,
    Doc(
        "listPasskeys",
        "List the passkeys of the manager",
        "Returns the passkeys with the time of their last use, never their keys.",
    ),
    tenant=manager_parameter,
)


@endpoints.post(
    "/me/passkeys/options",
    Doc(
        "beginPasskey",
        "Begin to add a passkey",
        "Returns the options for `navigator.credentials.create()` in the JSON form of WebAuthn. They are valid once,"
        " for five minutes.",
    ),
    responses=Responses(
        200, PasskeyOptions, errors={403: (SIGN_IN_AGAIN,), 409: (passkeys.NO_PASSKEYS, passkeys.TOO_MANY)}
    ),
    is_idempotent=False,
)
async def options(request: Request, services: AuthServices) -> Response:
    async with request.db.transaction() as connection:
        manager = await _fresh(connection, request, services.settings)
        made = await passkeys.create_registration_options(connection, services.settings, manager)
    return answer({"publicKey": made}, headers={"Cache-Control": "no-store"})


@endpoints.put(
    "/me/passkeys",
    Doc(
        "addPasskey",
        "Add a passkey",
        "`credential` is the result of the browser's `navigator.credentials.create()`, as `toJSON()` returns it. The"
        " device must have verified its user.",
    ),
    body=JsonBody(TypeAdapter(NewPasskey), "add passkey"),
    responses=Responses(
        201,
        PasskeyMade,
        errors={
            403: (SIGN_IN_AGAIN,),
            409: (passkeys.NO_PASSKEYS, passkeys.TOO_MANY, passkeys.KNOWN),
            422: (passkeys.NOT_VERIFIED,),
        },
    ),
    is_idempotent=False,
)
async def add_passkey(request: Request, body: NewPasskey, services: AuthServices) -> Response:
    challenge = await passkeys.use_registration_challenge(request.db, manager_id(request), body.credential)
    async with request.db.transaction() as connection:
        manager = await _fresh(connection, request, services.settings)
        id, amr = await passkeys.register(
            connection, passkeys.MANAGERS, services.settings, manager, body.name, body.credential, challenge
        )
    return answer({"id": id, "amr": amr}, 201)


@endpoints.delete(
    "/me/passkeys/{passkeyId}",
    Doc("removePasskey", "Remove a passkey", "It can no longer be used to sign in."),
    responses=Responses(errors={403: (SIGN_IN_AGAIN,), 404: (NO_PASSKEY,), 409: (LAST_FACTOR,)}),
    converters={"passkeyId": path_number},
    is_idempotent=False,
)
async def remove_passkey(request: Request, services: AuthServices) -> Response:
    if not await request.db.fetchval(HAS_PASSKEY, manager_id(request), *request.ids):
        raise NotFound(NO_PASSKEY)
    async with request.db.transaction() as connection:
        manager = await _fresh(connection, request, services.settings)
        if await connection.fetchval(REMOVE_PASSKEY, manager, *request.ids) is None:
            raise NotFound(NO_PASSKEY)
        await _removed(connection, manager)
    return NO_CONTENT


@endpoints.post(
    "/me/totp",
    Doc(
        "beginApp",
        "Begin to set up an authenticator app",
        "Returns a secret, also as the URI for a QR code. No other response contains it. The app counts as a second"
        " factor after `PUT /me/totp` has confirmed it.",
    ),
    responses=Responses(200, NewApp, errors={403: (SIGN_IN_AGAIN,), 409: (APP_THERE,)}, has_secret=True),
    is_idempotent=False,
)
async def begin_app(request: Request, services: AuthServices) -> Response:
    async with request.db.transaction() as connection:
        manager = await _fresh(connection, request, services.settings)
        secret = await totp.begin(connection, services.encryption, manager)
        if secret is None:
            raise Conflict(APP_THERE)
        username = await connection.fetchval(USERNAME, manager)
    return answer({"secret": secret, "uri": totp.uri(secret, username)}, headers={"Cache-Control": "no-store"})


@endpoints.put(
    "/me/totp",
    Doc(
        "confirmApp",
        "Confirm an authenticator app",
        "Requires a code of the app. From then on, a password alone is not enough to sign in.",
    ),
    body=JsonBody(TypeAdapter(CodeBody), "confirm the app"),
    responses=Responses(errors={403: (SIGN_IN_AGAIN,), 404: (NO_APP,), 422: (WRONG_CODE,), 429: (RATE_LIMITED,)}),
    is_idempotent=False,
)
async def confirm_app(request: Request, body: CodeBody, services: AuthServices) -> Response:
    async with code_throttle.raise_if_throttled(request.db, services.settings, manager_id(request), request.address):
        async with request.db.transaction() as connection:
            manager = await _fresh(connection, request, services.settings)
            confirmed = await totp.confirm(connection, services.encryption, manager, body.code)
        if confirmed is None:
            raise NotFound(NO_APP)
        if not confirmed:
            raise Unprocessable(WRONG_CODE)
    return NO_CONTENT


@endpoints.delete(
    "/me/totp",
    Doc("removeApp", "Remove the authenticator app", "Its codes are no longer accepted."),
    responses=Responses(errors={403: (SIGN_IN_AGAIN,), 404: (NO_APP,), 409: (LAST_FACTOR,)}),
    is_idempotent=False,
)
async def remove_app(request: Request, services: AuthServices) -> Response:
    async with request.db.transaction() as connection:
        manager = await _fresh(connection, request, services.settings)
        if await connection.fetchval(totp.REMOVE, manager) is None:
            raise NotFound(NO_APP)
        await _removed(connection, manager)
    return NO_CONTENT


@endpoints.post(
    "/me/recovery-codes",
    Doc(
        "renewRecoveryCodes",
        "Create ten recovery codes",
        "The new codes replace all previous ones. The response is the only one that contains them. Each code works"
        " once in place of a code of the app.",
    ),
    responses=Responses(200, RecoveryCodes, errors={403: (SIGN_IN_AGAIN,), 409: (NO_FACTOR,)}, has_secret=True),
    is_idempotent=False,
)
async def renew_recovery(request: Request, services: AuthServices) -> Response:
    async with request.db.transaction() as connection:
        manager = await _fresh(connection, request, services.settings)
        if not await connection.fetchval(HAS, manager):
            raise Conflict(NO_FACTOR)
        made = await totp.renew_recovery(connection, manager)
    return answer({"codes": made}, headers={"Cache-Control": "no-store"})
