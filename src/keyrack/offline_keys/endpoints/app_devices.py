"""Register, list and remove a user's phones from the app. An extension of the spec."""

from __future__ import annotations

import secrets
from datetime import timedelta
from typing import Annotated, Any, Literal, LiteralString

from pydantic import ConfigDict, Field, TypeAdapter

from keyrack.api import conditional_requests
from keyrack.api.auth_schemes import AppAuth
from keyrack.api.endpoint import TAGGED, Doc, JsonBody, Responses
from keyrack.api.endpoint_registry import Endpoints
from keyrack.api.exchange import NO_CONTENT, Request, Response, answer
from keyrack.api.principals import AppUser
from keyrack.api.rate_limits import DAY, HOUR, RateLimit
from keyrack.api.schema.request_body import IN_NFC, Body, Moment, StrictBody, format_timestamp, invalid_member
from keyrack.api.services import ReadServices
from keyrack.auth.endpoints.sdk_token import TAG
from keyrack.core.base64url import Octets, base64url
from keyrack.core.error_codes import INVALID_TOKEN, RATE_LIMITED, ErrorCode, FieldError
from keyrack.core.errors import BadRequest, Conflict, NotFound, Unauthorized
from keyrack.core.metrics.catalog import LIMITS
from keyrack.core.settings import Settings
from keyrack.core.text import NOT_BLANK
from keyrack.db.connection import Connection, Row
from keyrack.offline_keys import cose
from keyrack.offline_keys.cose import MessageRefused, PublicKey
from keyrack.offline_keys.endpoints.boxes import UNCOPIED
from keyrack.offline_keys.endpoints.user_devices import NO_DEVICE, device_id
from keyrack.offline_keys.enrolment import NONCE
from keyrack.offline_keys.issuing_keys import load_authority
from keyrack.offline_keys.message_fields import REGISTRATION
from keyrack.offline_keys.p256 import verify
from keyrack.offline_keys.timestamps import now

endpoints = Endpoints[ReadServices](TAG, AppAuth(has_own_user_check=True), is_extension=True, is_preview=True)

OTHERS_DEVICE = ErrorCode(
    "device-of-other-user",
    "The key is registered for another user.",
    "Generate another key pair on the phone; each user needs its own.",
)
TOO_MANY_DEVICES = ErrorCode(
    "too-many-devices",
    "The user already has {most} devices.",
    "Remove an unused device: `DELETE /sdk/devices/{deviceId}`.",
)
REMOVED_DEVICE = ErrorCode(
    "device-removed",
    "The phone was removed, so its key cannot be registered again.",
    "Generate another key pair on the phone, unless the phone was lost or stolen.",
)
NO_REGISTRATION_NONCE = ErrorCode(
    "registration-nonce-unknown",
    "The registration names a nonce that was never issued, was used, or has expired.",
    "Get a nonce by `POST /sdk/devices/nonce`, and have the phone sign it within ten minutes.",
)
OLD_TOKEN = ErrorCode(
    "token-before-removal",
    "The id token was issued before a phone of the user was removed, or before the user joined the customer.",
    "Get a new id token by `POST /sdk/token`, if the user is still signed in.",
)
REGISTER = "register device"
LASTS = timedelta(minutes=10)  # validity of a nonce
NOTICES = "phone-mails"

PUT_NONCE: LiteralString = """
insert into registration_nonce (customer_id, user_id, nonce, expires_at)
select u.customer_id, u.user_id, $3, $4 from app_subject s join customer_user u using (customer_id, user_id)
where s.customer_id = $1 and s.subject = $2 for key share of u
on conflict (customer_id, user_id) do update set nonce = excluded.nonce, expires_at = excluded.expires_at
returning true
"""
TAKE_NONCE: LiteralString = """
delete from registration_nonce where customer_id = $1 and user_id = $2 and nonce = $3 returning expires_at
"""
# The lock on the user's row serialises registrations, and keeps the user. An id token has whole seconds. Records of
# removed phones are deleted when the user leaves. So a token from before the user came back is outdated as well
LOCK: LiteralString = """
select u.user_id, position('@' in p.email_address) > 0 as has_address,
  coalesce((select not t.approves_phones from key_authority t where t.customer_id = $1), true) as is_approved,
  coalesce(date_trunc('second', greatest(u.joined_at, (select max(r.removed_at) from removed_device r
    where r.customer_id = $1 and r.user_id = u.user_id))) > to_timestamp($3), false) as is_outdated
from app_subject s join customer_user u using (customer_id, user_id) join person p using (user_id)
where s.customer_id = $1 and s.subject = $2 for no key update of u
"""
OWNER: LiteralString = """
select user_id from app_device where customer_id = $1 and device_id = $2 for no key update
"""
IS_REMOVED: LiteralString = """
select exists (select from removed_device where customer_id = $1 and device_id = $2)
"""
COUNT: LiteralString = "select count(*) from app_device where customer_id = $1 and user_id = $2"
# A registered phone gets its new name. No row is returned if another user registers the key at the same time
PUT: LiteralString = """
insert into app_device (customer_id, device_id, user_id, public_key, name, protection, is_approved)
values ($1, $2, $3, $4, $5, $6, $7)
on conflict (customer_id, device_id) do update set name = excluded.name, protection = excluded.protection
  where app_device.user_id = excluded.user_id
returning device_id, name, protection, registered_at, is_approved
"""
MAIL: LiteralString = """
insert into mail (kind, address, invited_to, user_id, notice)
select 'invitation', '', $1, $2, 'phone' where (select count(*) from (select from mail limit $3) m) < $3
"""
OF_USER: LiteralString = """
select d.device_id, d.name, d.protection, d.registered_at, d.is_approved
from app_subject s join app_device d using (customer_id, user_id)
where s.customer_id = $1 and s.subject = $2 order by d.registered_at, d.device_id
"""
# The user is locked first, as in `REMOVE`
REMOVE_OWN: LiteralString = """
delete from app_device d using (
  select u.user_id from app_subject s join customer_user u using (customer_id, user_id)
  where s.customer_id = $1 and s.subject = $2 for key share of u) u
where d.customer_id = $1 and d.user_id = u.user_id and d.device_id = $3 returning true
"""


class Registration(StrictBody):
    """The public key of a phone, signed by that key. See docs/keys.md, "A life of a key"."""

    registration: Octets
    name: Annotated[str, Field(max_length=100, pattern=NOT_BLANK), IN_NFC]
    claimed_protection: Literal["Software", "TrustedEnvironment", "SecureElement"] = "Software"


class RegistrationNonceBody(Body):
    model_config = ConfigDict(title="RegistrationNonce")

    nonce: Octets
    expires: Moment


class AppDevice(StrictBody):
    """A phone. `id` is the thumbprint of its key (RFC 9679)."""

    id: Octets
    name: str
    claimed_protection: Literal["Software", "TrustedEnvironment", "SecureElement"]
    registered: Moment
    is_approved: bool


def app_of(request: Request) -> AppUser:
    """The app's user, for whom it calls."""
    assert request.app is not None  # noqa: S101 - a row of apps has one
    return request.app


@endpoints.post(
    "/sdk/devices/nonce",
    Doc(
        "beginRegistration",
        "Get a nonce for the registration of a phone",
        "The nonce is valid for ten minutes and for one registration. Only the newest nonce of the user is valid.",
    ),
    responses=Responses(200, RegistrationNonceBody),
    is_idempotent=False,
)
async def begin(request: Request) -> Response:
    app = app_of(request)
    nonce, expires = secrets.token_bytes(NONCE), now() + LASTS
    if not await request.db.fetchval(PUT_NONCE, app.customer, app.subject, nonce, expires):
        raise Unauthorized(INVALID_TOKEN)  # the user has left the customer
    return answer({"nonce": base64url(nonce), "expires": format_timestamp(expires)}, headers=UNCOPIED)


@endpoints.put(
    "/sdk/devices",
    Doc(
        "registerDevice",
        "Register or rename a phone",
        "`registration` contains the user of the id token and a nonce of `POST /sdk/devices/nonce`, and is signed by"
        " the phone's own key. A phone that is already registered is renamed, with any nonce. The key of a removed"
        " phone is 409. docs/keys.md describes the messages.",
    ),
    body=JsonBody(TypeAdapter(Registration), REGISTER),
    responses=Responses(
        200,
        AppDevice,
        errors={
            400: (invalid_member(REGISTER, "registration"),),
            401: (OLD_TOKEN,),
            409: (OTHERS_DEVICE, REMOVED_DEVICE, NO_REGISTRATION_NONCE, TOO_MANY_DEVICES),
            429: (RATE_LIMITED,),
        },
    ),
    topics=frozenset(("users",)),
    is_idempotent=False,
)
async def register(request: Request, body: Registration, services: ReadServices) -> Response:
    app = app_of(request)
    key, nonce = _registered(body.registration, app)
    async with request.db.transaction() as connection:
        user = await connection.fetchrow(LOCK, app.customer, app.subject, app.issued_at)
        if user is None:
            raise Unauthorized(INVALID_TOKEN)  # the user has left the customer
        owner = await connection.fetchrow(OWNER, app.customer, key.thumbprint)
        if owner is not None and owner["user_id"] != user["user_id"]:
            raise Conflict(OTHERS_DEVICE)
        if owner is None:
            await _check_new(connection, services.settings, app, user, key, nonce)
        values = key.thumbprint, user["user_id"], load_authority(key), body.name, body.claimed_protection
        row = await connection.fetchrow(PUT, app.customer, *values, user["is_approved"])
        if row is None:
            raise Conflict(OTHERS_DEVICE)
        if owner is None and user["has_address"] and services.settings.sends_mail:
            await _send_notice(connection, services.settings, app.customer, user["user_id"])
    return answer(_shown(row))


async def _send_notice(connection: Connection, settings: Settings, customer: int, user: int) -> None:
    """Queue the mail to a user about a new phone.

    It has limits per user and per customer. An SDK key can register phones for all users of a customer, and the mails
    of all customers share one queue.
    """
    of_user, of_customer = settings.phone_mails_per_day_per_user, settings.phone_mails_per_hour_per_customer
    limits = (
        (RateLimit(NOTICES, of_user, of_user, DAY), f"user {customer} {user}"),
        (RateLimit(NOTICES, of_customer, of_customer, HOUR), f"customer {customer}"),
    )
    for limit, subject in limits:
        if not await limit.count(connection, subject):
            LIMITS.add(NOTICES)
            return
    await connection.execute(MAIL, customer, user, settings.mail_waiting)


async def _check_new(
    connection: Connection, settings: Settings, app: AppUser, user: Row, key: PublicKey, nonce: bytes
) -> None:
    """Check that a user may register a new phone.

    The nonce is used up. A registered phone needs no nonce, so a repeated request has the same effect. Raises
    `Unauthorized`, `Conflict`, `TooManyRequests`.
    """
    if await connection.fetchval(IS_REMOVED, app.customer, key.thumbprint):
        raise Conflict(REMOVED_DEVICE)
    if user["is_outdated"]:
        raise Unauthorized(OLD_TOKEN)
    expires = await connection.fetchval(TAKE_NONCE, app.customer, user["user_id"], nonce)
    if expires is None or expires < now():
        raise Conflict(NO_REGISTRATION_NONCE)
    if await connection.fetchval(COUNT, app.customer, user["user_id"]) >= settings.sdk_devices:
        raise Conflict(TOO_MANY_DEVICES.format(most=settings.sdk_devices))
    rate = settings.sdk_registrations_per_hour
    await RateLimit("phone-registrations", rate, rate, HOUR).take(connection, f"{app.customer} {user['user_id']}")


def _registered(data: bytes, app: AppUser) -> tuple[PublicKey, bytes]:
    """The key and the nonce of a registration for this user. Raises `BadRequest`."""
    try:
        message = cose.read(data, REGISTRATION)
    except MessageRefused as refused:
        raise _no_registration(f"A box would reject the message with the code `{refused.code.text}`.") from None
    key: PublicKey = message.claims["cnf"]
    if message.kid != key.kid or not verify(key, message.to_be_signed, message.signature):
        raise _no_registration("The registration must be signed by the key that it contains.")
    if message.claims["sub"] != str(app.subject):
        raise _no_registration("The registration is for another user.")
    return key, message.claims["nonce"]


def _no_registration(hint: str) -> BadRequest:
    reason = invalid_member(REGISTER, "registration", hint=hint)
    return BadRequest(reason, errors=[FieldError("wrong-form", hint, "/registration")])


@endpoints.get(
    "/sdk/devices",
    Doc(
        "listOwnDevices", "List the phones of the user", "Returns the phones of the user of the id token, oldest first."
    ),
    auth=AppAuth(),
    responses=Responses(200, list[AppDevice], headers=TAGGED),
)
async def devices(request: Request) -> Response:
    app = app_of(request)
    items = [_shown(row) for row in await request.db.fetch(OF_USER, app.customer, app.subject)]
    return conditional_requests.created_response(request, answer(items).body or b"")


def _shown(row: Row) -> dict[str, Any]:
    return {
        "id": base64url(row["device_id"]), "name": row["name"], "claimedProtection": row["protection"],
        "registered": format_timestamp(row["registered_at"]), "isApproved": row["is_approved"],
    }  # fmt: skip


@endpoints.delete(
    "/sdk/devices/{deviceId}",
    Doc(
        "removeOwnDevice",
        "Remove a phone of the user",
        "Revokes the keys of the phone at once. Each box rejects them as soon as it has a newer status list.",
    ),
    auth=AppAuth(),
    responses=Responses(errors={404: (NO_DEVICE,)}),
    topics=frozenset(("users",)),
    converters={"deviceId": device_id},
    is_idempotent=False,
)
async def remove_own(request: Request) -> Response:
    app = app_of(request)
    if not await request.db.fetchval(REMOVE_OWN, app.customer, app.subject, *request.ids):
        raise NotFound(NO_DEVICE)
    return NO_CONTENT
