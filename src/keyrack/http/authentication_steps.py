"""The steps of authentication: the principal, its customer and its permission."""

from __future__ import annotations

from typing import Any

from keyrack.api.auth_schemes import (
    AppAuth,
    ClientSecretAuth,
    CustomerAuth,
    DeviceAuth,
    DrivePageAuth,
    DriverAuth,
    PublicAuth,
)
from keyrack.api.endpoint import Endpoint
from keyrack.core.error_codes import INVALID_TOKEN, SIGNED_OUT
from keyrack.core.errors import Unauthorized
from keyrack.db.audit_context import acting
from keyrack.drivers import sessions as driver_sessions
from keyrack.http import request_parsing
from keyrack.http.calls import HttpCall
from keyrack.http.request_actor import actor
from keyrack.http.steps import CheckStep

DEVICE_KEY = "Device-Key"


def needs_caller(row: Endpoint[Any]) -> bool:
    """Whether the response depends on the caller.

    If so, the primary must be confirmed first: a server that lost contact with it may not know of a revoked access.
    """
    return not isinstance(row.auth, PublicAuth)


async def authenticate(call: HttpCall) -> None:
    """Run the row's steps of `AUTHENTICATION`. Raises `Unauthorized`, `Forbidden`, `NotFound`, `BadRequest`."""
    for check in call.route.authenticate:
        if (waiting := check(call)) is not None:
            await waiting


def read_client_secret(call: HttpCall) -> None:
    """Read the credentials of a client, which may replace the API key. The endpoint checks them."""
    call.authorization = call.http.get_header("Authorization")
    call.is_without_key = call.services.authentication.has_no_key(call.http)


async def check_api_key(call: HttpCall) -> None:
    """Check the API key, unless clients need none here. Raises `KeyRefused`."""
    if call.is_without_key and call.services.settings.clients_without_key:
        return
    call.caller = await call.services.authentication.caller(call.http, key=True, token=False)


async def authenticate_caller(call: HttpCall) -> None:
    """Authenticate a manager or machine client by API key and token, or by browser session."""
    call.caller = await call.services.authentication.caller(call.http, key=True, token=True)


def resolve_customer(call: HttpCall) -> None:
    """Set the customer from the header. Raises `BadRequest`, or `NotFound` if the caller may not act for it."""
    assert call.caller is not None  # noqa: S101 - a row of a customer needs a token
    call.customer = request_parsing.customer(call.http, call.caller)


async def authenticate_device(call: HttpCall) -> None:
    """Authenticate a unit by its device key, which belongs to one customer."""
    auth = call.route.endpoint.auth
    assert isinstance(auth, DeviceAuth)  # noqa: S101 - the step is for rows of devices
    call.device = await call.services.authenticator.device(call.http.get_header(DEVICE_KEY), auth.scope)
    call.customer = call.device.customer


async def authenticate_app(call: HttpCall) -> None:
    """Authenticate a user of one customer by an app's id token.

    A driver's token ends with its session, and with the customer's access. Otherwise a lost phone could get new keys.
    Raises `Unauthorized`.
    """
    auth, authorization = call.route.endpoint.auth, call.http.get_header("Authorization")
    assert isinstance(auth, AppAuth)  # noqa: S101 - the step is for rows of apps
    app = await call.services.authenticator.app(authorization, looks_itself=auth.has_own_user_check)
    session = app.driver_session
    if session is not None and not await driver_sessions.has_access(call.services.system_db, session, app.customer):
        raise Unauthorized(INVALID_TOKEN)
    call.app = app
    call.customer = app.customer


def read_driver_browser(call: HttpCall) -> None:
    """Read what a browser says about itself. Raises `Forbidden` for a write that comes from no page of the app."""
    call.services.driver_cookies.check_origin(call.http)
    call.browser = call.services.driver_cookies.browser(call.http)


async def authenticate_driver(call: HttpCall) -> None:
    """Authenticate a driver by the session of the app. Raises `Unauthorized`, unless the row is for everybody."""
    secret = call.services.driver_cookies.secret(call.http)
    call.driver = await driver_sessions.find(call.services.system_db, secret)
    if call.driver is None and isinstance(call.route.endpoint.auth, DriverAuth):
        raise Unauthorized(SIGNED_OUT)


def resolve_customer_of_driver(call: HttpCall) -> None:
    """Set the customer from the header. Raises `BadRequest`, or `NotFound` if the session does not see it."""
    assert call.driver is not None  # noqa: S101 - `authenticate_driver` comes first
    call.customer = request_parsing.customer(call.http, call.driver)


def record_identity(call: HttpCall) -> None:
    """Set the principal in the access log, and as the actor in the change log."""
    caller, state = call.caller, call.state
    state.customer, state.caller = call.customer, 0 if caller is None else caller.id
    acting.set(actor(call.http, state.id, call.customer, caller, call.device, call.app, call.driver))


def permit(call: HttpCall) -> None:
    """Raises `NotPermitted` or `Forbidden` unless the caller may use the row."""
    call.route.endpoint.permit(call.caller, call.customer)


AUTHENTICATION: tuple[CheckStep[HttpCall], ...] = (
    CheckStep(read_client_secret, lambda row: isinstance(row.auth, ClientSecretAuth)),
    CheckStep(check_api_key, lambda row: row.auth.has_api_key and not row.auth.has_token),
    CheckStep(authenticate_caller, lambda row: row.auth.has_token),
    CheckStep(resolve_customer, lambda row: isinstance(row.auth, CustomerAuth)),
    CheckStep(authenticate_device, lambda row: isinstance(row.auth, DeviceAuth)),
    CheckStep(authenticate_app, lambda row: isinstance(row.auth, AppAuth)),
    CheckStep(read_driver_browser, lambda row: isinstance(row.auth, DriverAuth | DrivePageAuth)),
    CheckStep(authenticate_driver, lambda row: isinstance(row.auth, DriverAuth | DrivePageAuth)),
    CheckStep(resolve_customer_of_driver, lambda row: isinstance(row.auth, DriverAuth) and row.auth.has_customer),
    CheckStep(record_identity),
    CheckStep(permit),
)
