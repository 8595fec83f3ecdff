"""Phones that get keys: registered, listed and removed by their user's app. Ours, beside the spec."""

from __future__ import annotations

from typing import Annotated, Any, Literal, LiteralString

from pydantic import Field

from keyrack.api import conditional_requests
from keyrack.api.endpoint import FROM_APPS, TAGGED, Endpoints
from keyrack.api.exchange import NO_CONTENT, Request, Response, answer
from keyrack.api.permissions import Free
from keyrack.api.principals import AppUser
from keyrack.api.schema.request_body import IN_NFC, Moment, StrictBody, format_timestamp, invalid_member
from keyrack.core.base64url import Octets, base64url
from keyrack.core.error_codes import INVALID_TOKEN, ErrorCode, FieldError
from keyrack.core.errors import BadRequest, Conflict, NotFound, Unauthorized, on_constraint
from keyrack.core.settings import Settings
from keyrack.core.text import NOT_BLANK
from keyrack.db.connection import Row
from keyrack.offline_keys import cose
from keyrack.offline_keys.cose import MessageRefused, PublicKey
from keyrack.offline_keys.endpoints.user_devices import NO_DEVICE, device_id
from keyrack.offline_keys.issuing_keys import load_authority
from keyrack.offline_keys.message_fields import REGISTRATION
from keyrack.offline_keys.p256 import verify

endpoints = Endpoints("App SDK", Free.USER)

OTHERS_DEVICE = ErrorCode(
    "device-of-other-user",
    "The key is registered for another user.",
    "Make another key pair on the phone: each user has its own.",
)
TOO_MANY_DEVICES = ErrorCode(
    "too-many-devices",
    "The user has {most} devices already.",
    "Remove one that is not used any more: DELETE /sdk/devices/{deviceId}.",
)
REGISTER = "register device"

# What is registered already stays, under its new name. The user's row lets one phone come at a time, and the user stay
LOCK: LiteralString = """
select u.user_id from app_subject s join customer_user u using (customer_id, user_id)
where s.customer_id = $1 and s.subject = $2 for no key update of u
"""
OWNER: LiteralString = "select user_id, registered_at from app_device where customer_id = $1 and device_id = $2"
COUNT: LiteralString = "select count(*) from app_device where customer_id = $1 and user_id = $2"
PUT: LiteralString = """
insert into app_device (customer_id, device_id, user_id, public_key, name, protection) values ($1, $2, $3, $4, $5, $6)
on conflict (customer_id, device_id) do update set name = excluded.name, protection = excluded.protection
returning registered_at
"""
OF_USER: LiteralString = """
select d.device_id, d.name, d.protection, d.registered_at
from app_subject s join app_device d using (customer_id, user_id)
where s.customer_id = $1 and s.subject = $2 order by d.registered_at, d.device_id
"""
REMOVE_OWN: LiteralString = """
delete from app_device d using app_subject s
where d.customer_id = $1 and s.customer_id = $1 and s.subject = $2 and s.user_id = d.user_id and d.device_id = $3
returning true
"""


class Registration(StrictBody):
    """A phone's key, which has signed this itself: docs/keys.md, "A life of a key"."""

    registration: Octets
    name: Annotated[str, Field(max_length=100, pattern=NOT_BLANK), IN_NFC]
    protection: Literal["Software", "TrustedEnvironment", "SecureElement"] = "Software"


class AppDevice(StrictBody):
    """A phone: `id` is the thumbprint of its key (RFC 9679)."""

    id: Octets
    name: str
    protection: Literal["Software", "TrustedEnvironment", "SecureElement"]
    registered: Moment


def app_of(request: Request) -> AppUser:
    """For whom the app calls."""
    assert request.app is not None  # noqa: S101 - a row of apps has one
    return request.app


@endpoints.put(
    "/sdk/devices",
    "Register a phone, or name it anew",
    body=Registration,
    what=REGISTER,
    status=200,
    answers=AppDevice,
    once=False,
    finds_user=True,
    refuses={400: (invalid_member(REGISTER, "registration"),), 409: (OTHERS_DEVICE, TOO_MANY_DEVICES)},
    **FROM_APPS,
)
async def register(request: Request, wanted: Registration, settings: Settings) -> Response:
    app = app_of(request)
    key = _registered(wanted.registration, app)
    async with request.db.transaction() as connection:
        user = await connection.fetchval(LOCK, app.customer, app.subject)
        if user is None:
            raise Unauthorized(INVALID_TOKEN)  # the user is gone
        owner = await connection.fetchrow(OWNER, app.customer, key.thumbprint)
        if owner is None and await connection.fetchval(COUNT, app.customer, user) >= settings.sdk_devices:
            raise Conflict(TOO_MANY_DEVICES.format(most=settings.sdk_devices))
        if owner is not None and owner["user_id"] != user:
            raise Conflict(OTHERS_DEVICE)
        with on_constraint({"app_device_pkey": (Conflict, OTHERS_DEVICE)}):
            registered = await connection.fetchval(
                PUT, app.customer, key.thumbprint, user, load_authority(key), wanted.name, wanted.protection
            )
    return answer(
        {
            "id": base64url(key.thumbprint), "name": wanted.name, "protection": wanted.protection,
            "registered": format_timestamp(registered),
        }
    )  # fmt: skip


def _registered(data: bytes, app: AppUser) -> PublicKey:
    """The key that is registered for this user. Raises `BadRequest`."""
    try:
        message = cose.read(data, REGISTRATION)
    except MessageRefused as refused:
        raise _no_registration(f"A box would say {refused.code.text}.") from None
    key: PublicKey = message.claims["cnf"]
    if message.kid != key.kid or not verify(key, message.to_be_signed, message.signature):
        raise _no_registration("The key that it has did not sign it.")
    if message.claims["sub"] != str(app.subject):
        raise _no_registration("It is for another user.")
    return key


def _no_registration(hint: str) -> BadRequest:
    reason = invalid_member(REGISTER, "registration", hint=hint)
    return BadRequest(reason, errors=[FieldError("wrong-form", hint, "/registration")])


@endpoints.write(
    "GET", "/sdk/devices", "The phones of the user", status=200, answers=list[AppDevice], headers=TAGGED, **FROM_APPS
)
async def devices(request: Request) -> Response:
    app = app_of(request)
    items = [_shown(row) for row in await request.db.fetch(OF_USER, app.customer, app.subject)]
    return conditional_requests.created_response(request, answer(items).body or b"")


def _shown(row: Row) -> dict[str, Any]:
    return {
        "id": base64url(row["device_id"]), "name": row["name"], "protection": row["protection"],
        "registered": format_timestamp(row["registered_at"]),
    }  # fmt: skip


@endpoints.delete(
    "/sdk/devices/{deviceId}",
    "Remove a phone of the user: its keys are revoked",
    convert={"deviceId": device_id},
    once=False,
    refuses={404: (NO_DEVICE,)},
    **FROM_APPS,
)
async def remove_own(request: Request) -> Response:
    app = app_of(request)
    if not await request.db.fetchval(REMOVE_OWN, app.customer, app.subject, *request.ids):
        raise NotFound(NO_DEVICE)
    return NO_CONTENT
