"""The steps of authentication: the principal, its customer and its permission."""

from __future__ import annotations

from typing import Any

from keyrack.api.auth_schemes import AppAuth, ClientSecretAuth, DeviceAuth, PublicAuth
from keyrack.api.endpoint import Endpoint
from keyrack.db.audit_context import acting
from keyrack.http import request_parsing
from keyrack.http.calls import HttpCall
from keyrack.http.request_actor import actor
from keyrack.http.steps import CheckStep, run_checks

DEVICE_KEY = "Device-Key"


def needs_caller(row: Endpoint[Any]) -> bool:
    """Whether the answer depends on the caller. Then a server that may have lost its role must not give it."""
    return not isinstance(row.auth, PublicAuth)


async def authenticate(call: HttpCall) -> None:
    """Run the row's steps of `AUTHENTICATION`. Raises `Unauthorized`, `Forbidden`, `NotFound`, `BadRequest`."""
    await run_checks(call.route.authenticate, call)


def read_client_secret(call: HttpCall) -> None:
    """Clients show a secret here, perhaps in place of an API key: the endpoint itself checks it."""
    call.authorization = call.http.get_header("Authorization")
    call.is_without_key = call.services.authentication.has_no_key(call.http)


async def check_api_key(call: HttpCall) -> None:
    """Raises `KeyRefused` unless the API key is valid, or clients need none here."""
    if call.is_without_key and call.services.settings.clients_without_key:
        return
    call.caller = await call.services.authentication.caller(call.http, key=True, token=False)


async def authenticate_caller(call: HttpCall) -> None:
    """A manager or a machine client, by API key and token, or by the session of a browser."""
    call.caller = await call.services.authentication.caller(call.http, key=True, token=True)


def resolve_customer(call: HttpCall) -> None:
    """The customer that the header names. Raises `BadRequest`, and `NotFound` if it is none of the caller's."""
    assert call.caller is not None  # noqa: S101 - a row of a customer needs a token
    call.customer = request_parsing.customer(call.http, call.caller)


async def authenticate_device(call: HttpCall) -> None:
    """A unit, by its device key, which belongs to one customer."""
    auth = call.route.endpoint.auth
    assert isinstance(auth, DeviceAuth)  # noqa: S101 - the step is for rows of devices
    call.device = await call.services.authenticator.device(call.http.get_header(DEVICE_KEY), auth.scope)
    call.customer = call.device.customer


async def authenticate_app(call: HttpCall) -> None:
    """A user by the id token of an app, which belongs to one customer."""
    auth, authorization = call.route.endpoint.auth, call.http.get_header("Authorization")
    assert isinstance(auth, AppAuth)  # noqa: S101 - the step is for rows of apps
    call.app = await call.services.authenticator.app(authorization, looks_itself=auth.has_own_user_check)
    call.customer = call.app.customer


def record_identity(call: HttpCall) -> None:
    """Name the principal to the access log, and to the change log as the actor of what the request writes."""
    caller, state = call.caller, call.state
    state.customer, state.caller = call.customer, 0 if caller is None else caller.id
    acting.set(actor(call.http, call.customer, caller, call.device, call.app))


def permit(call: HttpCall) -> None:
    """Raises `NotPermitted`, `Forbidden` unless the caller may use the row."""
    call.route.endpoint.permit(call.caller, call.customer)


AUTHENTICATION: tuple[CheckStep[HttpCall], ...] = (
    CheckStep(read_client_secret, lambda row: isinstance(row.auth, ClientSecretAuth)),
    CheckStep(check_api_key, lambda row: row.auth.has_api_key and not row.auth.has_token),
    CheckStep(authenticate_caller, lambda row: row.auth.has_token),
    CheckStep(resolve_customer, lambda row: row.auth.has_customer),
    CheckStep(authenticate_device, lambda row: isinstance(row.auth, DeviceAuth)),
    CheckStep(authenticate_app, lambda row: isinstance(row.auth, AppAuth)),
    CheckStep(record_identity),
    CheckStep(permit),
)
