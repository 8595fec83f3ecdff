"""Links of drivers to the app, and their acceptance. Extensions of the spec."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field, TypeAdapter

from keyrack.api.auth_schemes import DrivePageAuth, DriverAuth
from keyrack.api.endpoint import Doc, JsonBody, Responses
from keyrack.api.endpoint_registry import Endpoints
from keyrack.api.exchange import NO_CONTENT, Request, Response, answer, browser_of, driver_of
from keyrack.api.schema.request_body import IN_NFC, ExactText, Int32, StrictBody
from keyrack.auth import passkeys
from keyrack.auth.password_hashing import SHORTEST
from keyrack.core.error_codes import RATE_LIMITED
from keyrack.core.text import FREE_TEXT
from keyrack.core.user_agents import device_name
from keyrack.drivers import accounts, links, mails, sessions
from keyrack.drivers.accounts import NewCredentials
from keyrack.drivers.endpoints.session import TAG, SignedInDriver
from keyrack.drivers.services import DriverServices
from keyrack.drivers.sign_in import NO_STORE, sign_in

endpoints = Endpoints[DriverServices](TAG, DrivePageAuth(), is_extension=True, is_preview=True)

Secret = Annotated[ExactText, Field(max_length=100)]
DriverPassword = Annotated[ExactText, Field(min_length=SHORTEST, max_length=250)]
PasskeyName = Annotated[str, Field(max_length=100, pattern=FREE_TEXT), IN_NFC]


class DriverLinkBody(StrictBody):
    secret: Secret


class LinkCustomer(StrictBody):
    id: Int32
    name: str


class DriverLinkPreview(StrictBody):
    """The customer and the user of a link."""

    kind: Literal["invitation", "mailed", "setup"]
    customer: LinkCustomer | None
    email_address: str
    has_account: bool
    is_signed_in_as_this_user: bool
    resets: bool
    can_reset: bool


class DriverPasskeyOptions(StrictBody):
    public_key: dict[str, Any]


class LinkAcceptance(StrictBody):
    secret: Secret
    password: DriverPassword | None = None
    credential: dict[str, Any] | None = None
    name: PasskeyName = ""
    reset: bool = False


class ForgottenPassword(StrictBody):
    email_address: Annotated[ExactText, Field(max_length=250)]


class AcceptedLink(NamedTuple):
    """An accepted link, with the new credentials."""

    secret: str
    credentials: NewCredentials
    is_reset: bool


EXPIRED = (links.LINK_EXPIRED,)


@endpoints.post(
    "/drive/api/links/preview",
    Doc(
        "previewDriverLink",
        "Preview a link",
        "Returns what the link gives. The link stays valid. `resets` means that accepting it ends the passwords,"
        " passkeys and sessions of an existing account. Without `canReset`, the driver has to sign in and join.",
    ),
    body=JsonBody(TypeAdapter(DriverLinkBody), "open link"),
    responses=Responses(200, DriverLinkPreview, errors={404: EXPIRED}),
    is_idempotent=False,
)
async def preview(request: Request, body: DriverLinkBody) -> Response:
    link = await links.find(request.db, body.secret)
    is_here = request.driver is not None and request.driver.user == link.user
    customer = None if link.customer is None else {"id": link.customer, "name": link.customer_name}
    return answer(
        {
            "kind": str(link.kind),
            "customer": customer,
            "emailAddress": masked(link.email_address),
            "hasAccount": link.has_account,
            "isSignedInAsThisUser": is_here,
            "resets": link.resets,
            "canReset": link.can_reset,
        },
        headers=NO_STORE,
    )


@endpoints.post(
    "/drive/api/links/options",
    Doc(
        "beginDriverLinkPasskey",
        "Begin to accept a link with a passkey",
        "Returns the options for `navigator.credentials.create()` in the JSON form of WebAuthn. They are valid once, as"
        " long as the link.",
    ),
    body=JsonBody(TypeAdapter(DriverLinkBody), "open link"),
    responses=Responses(
        200,
        DriverPasskeyOptions,
        errors={404: EXPIRED, 409: (passkeys.NO_PASSKEYS, accounts.TOO_MANY_PASSKEYS)},
    ),
    is_idempotent=False,
)
async def options(request: Request, body: DriverLinkBody, services: DriverServices) -> Response:
    link = await links.find(request.db, body.secret)
    made = await passkeys.registration_options(
        request.db, accounts.DRIVERS, services.settings, link.user, accounts.passkey_label(link.email_address),
        link.handle,
    )  # fmt: skip
    await links.store_challenge(request.db, body.secret, made.challenge)
    return answer({"publicKey": made.options}, headers=NO_STORE)


async def hashed(request: Request, body: LinkAcceptance, services: DriverServices) -> AcceptedLink:
    """Hash the password of an open link before the handler runs.

    Hashing is slow, and must not occupy a connection.
    """
    link = await links.find(request.db, body.secret)
    hash = None
    if body.password is not None:
        hash = await services.authenticator.passwords.hash(body.password, ("driver", link.user))
    name = body.name or device_name(browser_of(request).agent)
    return AcceptedLink(body.secret, NewCredentials(hash, body.credential, name), body.reset)


@endpoints.post(
    "/drive/api/links/accept",
    Doc(
        "acceptDriverLink",
        "Accept a link",
        "Creates the driver's account with a password, or with a passkey, and begins a session. A link of an existing"
        " account resets it, if `reset` is true. An invitation resets no account of other fleets, unless the driver has"
        " accepted an earlier one of the same fleet. A mailed link needs no `reset`. If the mailbox was proven before,"
        " a mailed link signs in, and may set a new password.",
    ),
    body=JsonBody(TypeAdapter(LinkAcceptance), "accept link"),
    prepare=hashed,
    responses=Responses(
        201,
        SignedInDriver,
        errors={
            400: (accounts.NO_CREDENTIAL,),
            403: (accounts.NO_ACCESS,),
            404: EXPIRED,
            409: (
                accounts.ACCOUNT_EXISTS,
                accounts.RESET_REFUSED,
                passkeys.NO_PASSKEYS,
                accounts.TOO_MANY_PASSKEYS,
                passkeys.KNOWN,
            ),
            422: (passkeys.NOT_VERIFIED,),
        },
        has_secret=True,
    ),
    is_idempotent=False,
)
async def accept(request: Request, accepted: AcceptedLink, services: DriverServices) -> Response:
    async with request.db.transaction() as connection:
        user, amr = await accounts.accept(
            connection, services.settings, accepted.secret, accepted.credentials, is_reset=accepted.is_reset
        )
        return await sign_in(connection, request, services.driver_cookies, user, amr)


@endpoints.post(
    "/drive/api/links/join",
    Doc(
        "joinByDriverLink",
        "Add the access of an invitation to the account",
        "The invitation must be one of the signed-in driver. The account keeps its credentials and sessions.",
    ),
    auth=DriverAuth(),
    body=JsonBody(TypeAdapter(DriverLinkBody), "join"),
    responses=Responses(errors={403: (sessions.SIGNED_ON,), 404: EXPIRED}),
    is_idempotent=False,
)
async def join(request: Request, body: DriverLinkBody) -> Response:
    driver = driver_of(request)
    sessions.require_own_sign_in(driver)
    async with request.db.transaction() as connection:
        await accounts.join(connection, body.secret, driver)
    return NO_CONTENT


@endpoints.post(
    "/drive/api/forgot",
    Doc(
        "requestDriverMail",
        "Request a mail with a link",
        "Sends a link to the address, if a driver has it. The response is the same for every address.",
    ),
    body=JsonBody(TypeAdapter(ForgottenPassword), "request mail"),
    responses=Responses(errors={429: (RATE_LIMITED,)}),
    is_idempotent=False,
)
async def forgot(request: Request, body: ForgottenPassword, services: DriverServices) -> Response:
    settings = services.settings
    await accounts.take_forgot(request.db, settings, body.email_address, request.address)
    if settings.sends_mail:
        await mails.request_link(request.db, settings, body.email_address, browser_of(request).languages)
    return NO_CONTENT


def masked(address: str) -> str:
    """The address with the first character of its local part.

    >>> masked("driver@example.org")
    'd…@example.org'
    """
    local_part, _, domain = address.rpartition("@")
    return f"{local_part[:1]}…@{domain}"
