"""Sign-in of drivers to the app at `/drive`, and their session. Extensions of the spec."""

from __future__ import annotations

from typing import Annotated, Any, LiteralString

from pydantic import Field, TypeAdapter

from keyrack.api.auth_schemes import DrivePageAuth, DriverAuth
from keyrack.api.endpoint import Doc, JsonBody, Responses, Tag
from keyrack.api.endpoint_registry import Endpoints
from keyrack.api.exchange import Request, Response, answer, driver_of
from keyrack.api.schema.request_body import EmailAddress, ExactText, Int32, StrictBody
from keyrack.auth import app_tokens
from keyrack.core.error_codes import RATE_LIMITED
from keyrack.db.connection import Row, Statements
from keyrack.drivers import accounts, sessions
from keyrack.drivers.services import DriverServices

TAG = Tag("Driver app", "The app of drivers at `/drive`: their sessions, cars and requests. For its own pages.")
endpoints = Endpoints[DriverServices](TAG, DriverAuth(), is_extension=True, is_preview=True)

NO_STORE = {"Cache-Control": "no-store"}
ME: LiteralString = """
select p.user_id, p.first_name, p.last_name, p.email_address, a.language, a.password_hash is not null as has_password,
  (select count(*) from driver_passkey k where k.user_id = p.user_id) as passkeys
from person p join driver_account a using (user_id) where p.user_id = $1
"""
CUSTOMERS: LiteralString = "select customer_id, name from customer where customer_id = any($1) order by customer_id"
SUBJECT: LiteralString = """
select subject_at(u.customer_id, p.seed) from customer_user u join person p using (user_id)
where u.customer_id = $1 and u.user_id = $2
"""


class Credentials(StrictBody):
    email_address: Annotated[ExactText, Field(max_length=250)]
    password: Annotated[ExactText, Field(max_length=1_000)]
    device: Annotated[str, Field(max_length=sessions.LONGEST_DEVICE)] = ""


class DriverUser(StrictBody):
    """The driver, as the app shows it to the driver."""

    id: Int32
    first_name: str | None
    last_name: str | None
    email_address: EmailAddress


class SignedInDriver(StrictBody):
    user: DriverUser


class DriverCustomer(StrictBody):
    id: Int32
    name: str


class DriverSession(StrictBody):
    """The session of the request, with the customers that it sees."""

    user: DriverUser
    customers: list[DriverCustomer]
    session_id: int
    has_password: bool
    passkeys: int
    language: str | None


class DriverToken(StrictBody):
    id_token: str


@endpoints.post(
    "/drive/api/session",
    Doc("signInDriver", "Sign in to the app", "Begins a session by the address and the password of a driver."),
    auth=DrivePageAuth(),
    body=JsonBody(TypeAdapter(Credentials), "sign in"),
    responses=Responses(201, SignedInDriver, errors={429: (RATE_LIMITED,)}, has_secret=True),
    is_idempotent=False,
)
async def sign_in(request: Request, body: Credentials, services: DriverServices) -> Response:
    signed_in = await accounts.verify_password(
        request.db, services.authenticator, services.settings, body.email_address, body.password, request.address
    )
    secret = await sessions.begin(request.db, signed_in.user, body.device, ("pwd",))
    row = await request.db.fetchrow(ME, signed_in.user)
    assert row is not None  # noqa: S101 - the account that has just signed in
    headers = {**NO_STORE, "Set-Cookie": services.driver_cookies.cookie(secret)}
    return answer({"user": _shown(row)}, 201, headers)


@endpoints.get(
    "/drive/api/session",
    Doc("getDriverSession", "Get the session of the app", "Returns the driver, and the customers of the session."),
    responses=Responses(200, DriverSession),
)
async def session(request: Request) -> Response:
    driver = driver_of(request)
    row = await request.db.fetchrow(ME, driver.user)
    assert row is not None  # noqa: S101 - the driver of the session
    return answer(
        {
            "user": _shown(row),
            "customers": await _customers(request.db, driver.customers),
            "sessionId": driver.session,
            "hasPassword": row["has_password"],
            "passkeys": row["passkeys"],
            "language": row["language"],
        },
        headers=NO_STORE,
    )


@endpoints.delete(
    "/drive/api/session",
    Doc("signOutDriver", "Sign out of the app", "Ends the session. Keys that the phone has stay valid."),
    responses=Responses(),
    is_idempotent=False,
)
async def sign_out(request: Request, services: DriverServices) -> Response:
    driver = driver_of(request)
    await sessions.end(request.db, driver, driver.session)
    return Response(204, headers={"Set-Cookie": services.driver_cookies.no_cookie()})


@endpoints.post(
    "/drive/api/token",
    Doc(
        "getDriverToken",
        "Get the driver's id token",
        "Returns an id token of the driver in the customer of `Customer-ID`, as `POST /sdk/token` does for an app.",
    ),
    auth=DriverAuth(is_in_customer=True),
    responses=Responses(200, DriverToken, has_secret=True),
    is_idempotent=False,
)
async def token(request: Request, services: DriverServices) -> Response:
    customer, user = request.customer, driver_of(request).user
    subject = await request.db.fetchval(SUBJECT, customer, user)
    await app_tokens.remember(request.db, customer, subject, user)
    signed = await services.authenticator.sign(
        subject, app_tokens.audience(customer), customer_id=customer, email=str(subject)
    )
    return answer({"idToken": signed}, headers=NO_STORE)


def _shown(row: Row) -> dict[str, Any]:
    return {
        "id": row["user_id"], "firstName": row["first_name"], "lastName": row["last_name"],
        "emailAddress": row["email_address"],
    }  # fmt: skip


async def _customers(statements: Statements, visible: frozenset[int]) -> list[dict[str, Any]]:
    rows = await statements.fetch(CUSTOMERS, list(visible))
    return [{"id": row["customer_id"], "name": row["name"]} for row in rows]
