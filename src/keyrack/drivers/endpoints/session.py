"""Sign-in of drivers to the app at `/drive`, and their session. Extensions of the spec."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, LiteralString

from pydantic import Field, TypeAdapter

from keyrack.api.auth_schemes import DrivePageAuth, DriverAuth, PublicAuth
from keyrack.api.endpoint import Doc, JsonBody, Responses, Tag
from keyrack.api.endpoint_registry import Endpoints
from keyrack.api.exchange import NO_CONTENT, Request, Response, answer, browser_of, driver_of
from keyrack.api.path_ids import path_number
from keyrack.api.schema.request_body import ExactText, Int32, StrictBody, format_timestamp
from keyrack.auth import app_tokens, passkeys
from keyrack.auth.sso import providers
from keyrack.core.error_codes import RATE_LIMITED, WRONG_CREDENTIALS, ErrorCode
from keyrack.core.errors import NotFound
from keyrack.db.connection import Statements
from keyrack.drivers import accounts, links, push_keys, sessions
from keyrack.drivers.links import LinkKind
from keyrack.drivers.services import DriverServices
from keyrack.drivers.sign_in import NO_STORE, shown_person, sign_in

TAG = Tag("Driver app", "The app of drivers at `/drive`: their sessions, cars and requests. For its own pages.")
NO_PASSKEYS = passkeys.NO_PASSKEYS.format(url="this one")  # the only error of its status needs an example
endpoints = Endpoints[DriverServices](TAG, DriverAuth(), is_extension=True, is_preview=True)

NO_SESSION = ErrorCode(
    "driver-session-not-found",
    "Unable to find a session of the driver for the given sessionId.",
    "Use an id that `GET /drive/api/sessions` returns.",
)

ME: LiteralString = """
select p.user_id, p.first_name, p.last_name, p.email_address, a.language, a.password_hash is not null as has_password,
  (select count(*) from driver_passkey k where k.user_id = p.user_id) as passkeys
from person p join driver_account a using (user_id) where p.user_id = $1
"""
CUSTOMERS: LiteralString = """
select customer_id, name, driver_phone from customer where customer_id = any($1) order by customer_id
"""
SUBJECT: LiteralString = """
select subject_at(u.customer_id, p.seed) from customer_user u join person p using (user_id)
where u.customer_id = $1 and u.user_id = $2
"""


class AppProvider(StrictBody):
    customer_id: Int32 | None
    id: Int32
    name: str


class AppSettings(StrictBody):
    """The settings of the app before a sign-in."""

    sends_mail: bool
    has_passkeys: bool
    push_key: str | None
    radio: Literal["bluetooth", "simulated"]
    providers: list[AppProvider]
    server_time: str


class DriverCredentials(StrictBody):
    email_address: Annotated[ExactText, Field(max_length=250)]
    password: Annotated[ExactText, Field(max_length=1_000)]


class DriverPerson(StrictBody):
    """The driver, as the app shows it to the driver."""

    id: Int32
    first_name: str | None
    last_name: str | None
    email_address: str


class SignedInDriver(StrictBody):
    """The signed-in driver, or the set-up link after a start password."""

    user: DriverPerson | None = None
    link: str | None = None


class PasskeySignIn(StrictBody):
    credential: dict[str, Any]


class PasskeySignInOptions(StrictBody):
    public_key: dict[str, Any]


class DriverCustomer(StrictBody):
    id: Int32
    name: str
    phone: str | None


class DriverSession(StrictBody):
    """The session of the request, with the customers that it sees."""

    user: DriverPerson
    customers: list[DriverCustomer]
    session_id: int
    has_password: bool
    is_of_provider: bool
    recent_until: str
    passkeys: int
    language: str | None


class DriverSessionRow(StrictBody):
    """A session of the driver."""

    id: int
    device: str
    created: str
    seen: str
    is_current: bool


class DriverToken(StrictBody):
    id_token: str


@endpoints.get(
    "/drive/api/settings",
    Doc("getDriveSettings", "Get the settings of the app", "Returns what the app needs before a driver signs in."),
    auth=PublicAuth(),
    responses=Responses(200, AppSettings),
)
async def app_settings(request: Request, services: DriverServices) -> Response:
    settings = services.settings
    return answer(
        {
            "sendsMail": settings.sends_mail,
            "hasPasskeys": accounts.DRIVERS.host(settings) is not None,
            "pushKey": await push_keys.public(request.db) if settings.push else None,
            "radio": "bluetooth" if settings.simulated_radio_socket is None else "simulated",
            "providers": [
                {"id": row["provider_id"], "name": row["label"], "customerId": row["driver_customer_id"]}
                for row in await providers.of_drivers(request.db)
            ],
            "serverTime": format_timestamp(datetime.now(UTC)),
        },
        headers=NO_STORE,
    )


@endpoints.post(
    "/drive/api/session",
    Doc(
        "signInDriver",
        "Sign in to the app",
        "Begins a session by the e-mail address and the password of a driver. The start password of `PUT /users`"
        " begins none. Its response is 200 with the secret of a link, by which the driver sets a password or a"
        " passkey.",
    ),
    auth=DrivePageAuth(),
    body=JsonBody(TypeAdapter(DriverCredentials), "sign in"),
    responses=Responses(
        201,
        SignedInDriver,
        descriptions={200: "The start password is right. No session begins, and `link` is the secret of a link"},
        errors={
            401: (WRONG_CREDENTIALS,),
            403: (accounts.NEEDS_INVITATION, accounts.NO_ACCESS),
            429: (RATE_LIMITED,),
        },
        has_secret=True,
    ),
    is_idempotent=False,
)
async def sign_in_by_password(request: Request, body: DriverCredentials, services: DriverServices) -> Response:
    signed_in = await accounts.verify_password(
        request.db, services.authenticator, services.settings, body.email_address, body.password, request.address
    )
    if signed_in.start_customer is not None:
        made = await links.create(request.db, signed_in.user, signed_in.start_customer, LinkKind.SETUP)
        return answer({"link": made.secret}, headers=NO_STORE)
    async with request.db.transaction() as connection:
        return await sign_in(
            connection, request, services.driver_cookies, signed_in.user, accounts.PASSWORD_METHOD, signed_in.version
        )


@endpoints.post(
    "/drive/api/session/options",
    Doc(
        "beginDriverPasskeySignIn",
        "Begin to sign in with a passkey",
        "Returns the options for `navigator.credentials.get()` in the JSON form of WebAuthn. A cookie binds them to the"
        " browser for ten minutes.",
    ),
    auth=DrivePageAuth(),
    responses=Responses(200, PasskeySignInOptions, errors={409: (NO_PASSKEYS,), 429: (RATE_LIMITED,)}),
    is_idempotent=False,
)
async def sign_in_options(request: Request, services: DriverServices) -> Response:
    options, cookie = await accounts.challenge_passkey(
        request.db, services.encryption, services.settings, browser_of(request).challenges, request.address
    )
    headers = {**NO_STORE, "Set-Cookie": services.driver_cookies.challenge_cookie(cookie)}
    return answer({"publicKey": options}, headers=headers)


@endpoints.post(
    "/drive/api/session/passkey",
    Doc(
        "signInDriverByPasskey",
        "Sign in with a passkey",
        "`credential` is the result of the browser's `navigator.credentials.get()`, as `toJSON()` returns it.",
    ),
    auth=DrivePageAuth(),
    body=JsonBody(TypeAdapter(PasskeySignIn), "sign in"),
    responses=Responses(
        201,
        SignedInDriver,
        errors={401: (WRONG_CREDENTIALS,), 403: (accounts.NO_ACCESS,), 429: (RATE_LIMITED,)},
        has_secret=True,
    ),
    is_idempotent=False,
)
async def sign_in_by_passkey(request: Request, body: PasskeySignIn, services: DriverServices) -> Response:
    user, version, amr = await accounts.verify_passkey(
        services.system_db, services.encryption, services.settings, browser_of(request).challenges,
        json.dumps(body.credential), request.address,
    )  # fmt: skip
    async with request.db.transaction() as connection:
        return await sign_in(connection, request, services.driver_cookies, user, amr, version)


@endpoints.get(
    "/drive/api/session",
    Doc("getDriverSession", "Get the session of the app", "Returns the driver, and the customers of the session."),
    responses=Responses(200, DriverSession),
)
async def session(request: Request, services: DriverServices) -> Response:
    driver = driver_of(request)
    row = await request.db.fetchrow(ME, driver.user)
    assert row is not None  # noqa: S101 - the driver of the session
    return answer(
        {
            "user": shown_person(row),
            "customers": await _customers(request.db, driver.customers),
            "sessionId": driver.session,
            "hasPassword": row["has_password"],
            "isOfProvider": driver.provider_customer is not None,
            "recentUntil": format_timestamp(sessions.recent_until(driver, services.settings)),
            "passkeys": row["passkeys"],
            "language": row["language"],
        },
        headers=NO_STORE,
    )


@endpoints.delete(
    "/drive/api/session",
    Doc("signOutDriver", "Sign out of the app", "Ends the session. Keys that the phone has stay valid."),
    is_idempotent=False,
)
async def sign_out(request: Request, services: DriverServices) -> Response:
    driver = driver_of(request)
    await sessions.end(request.db, driver, driver.session)
    return Response(204, headers={"Set-Cookie": services.driver_cookies.no_cookie()})


@endpoints.get(
    "/drive/api/sessions",
    Doc(
        "listDriverSessions",
        "List the sessions of the driver",
        "Returns the newest use first, at most 20. A session"
        " of a provider is shown only by sessions that see its customer.",
    ),
    responses=Responses(200, list[DriverSessionRow]),
)
async def list_sessions(request: Request) -> Response:
    driver = driver_of(request)
    rows = await sessions.shown(request.db, driver)
    shown = [
        {
            "id": row["session_id"], "device": row["device"], "created": format_timestamp(row["created_at"]),
            "seen": format_timestamp(row["seen_at"]), "isCurrent": row["session_id"] == driver.session,
        }
        for row in rows
    ]  # fmt: skip
    return answer(shown, headers=NO_STORE)


@endpoints.delete(
    "/drive/api/sessions",
    Doc("endOtherDriverSessions", "End all other sessions", "The session of the request stays."),
    is_idempotent=False,
)
async def end_others(request: Request) -> Response:
    await sessions.end_others(request.db, driver_of(request))
    return NO_CONTENT


@endpoints.delete(
    "/drive/api/sessions/{sessionId}",
    Doc("endDriverSession", "End a session", "Its browser has to sign in again."),
    responses=Responses(errors={404: (NO_SESSION,)}),
    converters={"sessionId": path_number},
    is_idempotent=False,
)
async def end_one(request: Request) -> Response:
    if not await sessions.end(request.db, driver_of(request), *request.ids):
        raise NotFound(NO_SESSION)
    return NO_CONTENT


@endpoints.post(
    "/drive/api/token",
    Doc(
        "getDriverToken",
        "Get the driver's id token",
        "Returns an id token of the driver in the customer of `Customer-ID`, as `POST /sdk/token` does for an app."
        " The token ends with the session.",
    ),
    auth=DriverAuth(has_customer=True),
    responses=Responses(200, DriverToken, has_secret=True),
    is_idempotent=False,
)
async def token(request: Request, services: DriverServices) -> Response:
    driver, customer = driver_of(request), request.customer
    subject = await request.db.fetchval(SUBJECT, customer, driver.user)
    await app_tokens.remember(request.db, customer, subject, driver.user)
    signed = await services.authenticator.sign(
        subject, app_tokens.audience(customer), customer_id=customer, email=str(subject),
        driver_session_id=driver.session,
    )  # fmt: skip
    return answer({"idToken": signed}, headers=NO_STORE)


async def _customers(statements: Statements, visible: frozenset[int]) -> list[dict[str, Any]]:
    rows = await statements.fetch(CUSTOMERS, list(visible))
    return [{"id": row["customer_id"], "name": row["name"], "phone": row["driver_phone"]} for row in rows]
