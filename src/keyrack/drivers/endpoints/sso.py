"""Sign-in of drivers by a provider. Extensions of the spec.

The provider sends the browser back to a page of the app, which passes the query on. So each write comes from an own
page, and its cookie is never sent from another site.
"""

from __future__ import annotations

from typing import Annotated
from urllib.parse import parse_qs

import structlog
from pydantic import Field, TypeAdapter

from keyrack.api.auth_schemes import DrivePageAuth
from keyrack.api.endpoint import Doc, JsonBody, Responses
from keyrack.api.endpoint_registry import Endpoints
from keyrack.api.exchange import Request, Response, answer, browser_of
from keyrack.api.rate_limits import give_back_each, loggable_address
from keyrack.api.schema.request_body import Int32, StrictBody
from keyrack.auth.login_throttle import address_limits, take_limits
from keyrack.auth.sso import providers
from keyrack.auth.sso.errors import NotSignedIn
from keyrack.auth.sso.login_flow import SignInResult
from keyrack.auth.sso.login_states import LoginStart
from keyrack.core.error_codes import RATE_LIMITED, ErrorCode
from keyrack.core.errors import Forbidden, NotFound
from keyrack.core.metrics.catalog import LOGINS
from keyrack.drivers import sso
from keyrack.drivers.accounts import NO_ACCESS
from keyrack.drivers.endpoints.session import TAG, SignedInDriver
from keyrack.drivers.services import DriverServices
from keyrack.drivers.sign_in import NO_STORE, sign_in

log = structlog.get_logger("keyrack.logins")
endpoints = Endpoints[DriverServices](TAG, DrivePageAuth(), is_extension=True, is_preview=True)

MAX_QUERY = 16_000  # characters
MAX_PARAMETERS = 50
QUERY = "^[!-~]*$"  # a browser encodes all other characters (URL Standard, section 1.3)

NO_PROVIDER = ErrorCode(
    "driver-provider-not-found",
    "Unable to find a provider of drivers for the given providerId.",
    "Use an id of `providers` in `GET /drive/api/settings`.",
)
FAILED = ErrorCode(
    "provider-sign-in-failed",
    "The sign-in at the provider failed or was not finished.",
    "Begin again. If it fails again, ask the operator, whose log has the reason.",
)
UNKNOWN = ErrorCode(
    "provider-account-unknown",
    "No driver of the fleet belongs to this account of the provider.",
    "Ask your fleet which e-mail address it has of you.",
)


class ProviderSignIn(StrictBody):
    provider_id: Int32


class ProviderSignInStart(StrictBody):
    """The provider's address, to which the page sends the browser."""

    address: str


class ProviderResponse(StrictBody):
    """The query of the address to which the provider redirected."""

    query: Annotated[str, Field(max_length=MAX_QUERY, pattern=QUERY)]


@endpoints.post(
    "/drive/api/sso/options",
    Doc(
        "beginDriverProviderSignIn",
        "Begin to sign in by a provider",
        "Returns the address of the provider. A cookie binds the sign-in to the browser for ten minutes. The provider"
        " sends the browser to `/drive/sso`.",
    ),
    body=JsonBody(TypeAdapter(ProviderSignIn), "sign in"),
    responses=Responses(200, ProviderSignInStart, errors={403: (FAILED,), 404: (NO_PROVIDER,), 429: (RATE_LIMITED,)}),
    is_idempotent=False,
)
async def begin(request: Request, body: ProviderSignIn, services: DriverServices) -> Response:
    # Counts like a failed sign-in; a success returns it
    await take_limits(services.system_db, *address_limits(services.settings, request.address))
    provider = await providers.of_id(services.system_db, body.provider_id)
    if provider is None or provider.driver_customer is None:
        raise NotFound(NO_PROVIDER)
    try:
        address, cookie = await services.sign_on.begin_at(
            provider, browser_of(request).challenges, LoginStart(""), sso.DRIVERS
        )
    except NotSignedIn as trouble:
        raise _failed(request, trouble) from None
    headers = {**NO_STORE, "Set-Cookie": services.driver_cookies.challenge_cookie(cookie)}
    return answer({"address": address}, headers=headers)


@endpoints.post(
    "/drive/api/sso/session",
    Doc(
        "signInDriverByProvider",
        "Sign in by a provider",
        "Begins a session by the provider's response. The session sees the customer of the provider alone, and cannot"
        " change the account.",
    ),
    body=JsonBody(TypeAdapter(ProviderResponse), "sign in"),
    responses=Responses(
        201, SignedInDriver, errors={403: (FAILED, UNKNOWN, NO_ACCESS), 429: (RATE_LIMITED,)}, has_secret=True
    ),
    is_idempotent=False,
)
async def finish(request: Request, body: ProviderResponse, services: DriverServices) -> Response:
    try:
        result = await services.sign_on.finish(_parameters(body.query), browser_of(request).challenges, sso.DRIVERS)
        response = await _begin_session(request, result, services)
    except NotSignedIn as trouble:
        raise _failed(request, trouble) from None
    await give_back_each(services.system_db, *address_limits(services.settings, request.address))
    LOGINS.add("accepted")
    return response


async def _begin_session(request: Request, result: SignInResult, services: DriverServices) -> Response:
    """Raises `NotSignedIn`, and `Forbidden` if the session would see no customer."""
    provider, account = result.provider, result.account
    if provider.driver_customer is None:
        raise NotSignedIn("provider", "the provider no longer signs in drivers")
    async with request.db.transaction() as connection:
        user = await sso.find_driver(connection, provider, account)
        return await sign_in(
            connection, request, services.driver_cookies, user, sso.methods(account), provider=provider
        )


def _parameters(query: str) -> dict[str, list[str]]:
    try:
        return parse_qs(query, keep_blank_values=True, max_num_fields=MAX_PARAMETERS)
    except ValueError:
        raise NotSignedIn("provider", "the response has too many parameters") from None


def _failed(request: Request, trouble: NotSignedIn) -> Forbidden:
    LOGINS.add("wrong")
    log.warning(
        "single sign-on of a driver failed", address=loggable_address(request.address), code=trouble.reason,
        reason=str(trouble),
    )  # fmt: skip
    return Forbidden(UNKNOWN if trouble.reason == "unknown" else FAILED)
