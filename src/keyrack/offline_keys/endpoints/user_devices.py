"""List, approve and remove users' phones, for managers. An extension of the spec."""

from __future__ import annotations

from typing import LiteralString, NoReturn

from keyrack.api.auth_schemes import CustomerAuth
from keyrack.api.endpoint import Doc, Responses
from keyrack.api.endpoint_registry import Endpoints
from keyrack.api.exchange import NO_CONTENT, Request, Response
from keyrack.api.permissions import Permission
from keyrack.api.read_sql import Parent
from keyrack.api.schema.fields import Resource, boolean, date_time, string
from keyrack.api.schema.group_scope import scoped_by
from keyrack.api.services import ReadServices
from keyrack.core.base64url import octets
from keyrack.core.error_codes import NO_DEVICE
from keyrack.core.errors import NotFound
from keyrack.fleet.endpoints.users import NO_USER, TAG
from keyrack.fleet.schema import USER

endpoints = Endpoints[ReadServices](TAG, "users", is_extension=True)

PROTECTIONS = ("Software", "TrustedEnvironment", "SecureElement")

_ID: LiteralString = "translate(encode({t}.device_id, 'base64'), '+/=', '-_')"
DEVICE = Resource(
    "Device",
    "app_device {t}",
    "{t}.customer_id = :customer",
    {
        "id": string(_ID),
        "name": string("{t}.name", search=True),
        "claimedProtection": string("{t}.protection", enum=PROTECTIONS),
        "registered": date_time("{t}.registered_at"),
        "isApproved": boolean("{t}.is_approved"),
    },
    group_scope=scoped_by("user"),
    permission=Permission.USERS_READ,
)

# The user is locked first. The removal of a user from the customer has the same order of locks
REMOVE: LiteralString = """
delete from app_device d using (
  select user_id from customer_user where customer_id = $1 and user_id = $2 for key share) u
where d.customer_id = $1 and d.user_id = u.user_id and d.device_id = $3 returning true
"""
APPROVE: LiteralString = """
update app_device set is_approved = true where customer_id = $1 and user_id = $2 and device_id = $3 returning true
"""
# The revocations stay in the status lists, with their places
UNCOUNT: LiteralString = """
update box_key k set is_counted = false
where customer_id = $1 and user_id = $2 and is_placed and is_counted and revoked_at is not null
  and not exists (select from app_device d where d.customer_id = k.customer_id and d.device_id = k.device_id)
"""
HAS_USER: LiteralString = "select exists (select from customer_user where customer_id = $1 and user_id = $2)"


def device_id(text: str) -> bytes:
    """The thumbprint in a path. An invalid one finds no phone."""
    try:
        return octets(text)
    except ValueError:
        return b""


endpoints.read(
    "/users/{userId}/devices",
    DEVICE,
    Doc("listDevicesOfUser", "List the phones of a user", "Returns every phone that the user's app has registered."),
    parent=Parent(USER, "{t}.customer_id = {p}.customer_id and {t}.user_id = {p}.user_id"),
    missing_error=NO_USER,
)


@endpoints.delete(
    "/users/{userId}/devices/{deviceId}",
    Doc(
        "removeDeviceOfUser",
        "Remove a phone of a user",
        "For a lost phone. Revokes its keys at once; each box rejects them as soon as it has a newer status list. The"
        " phone cannot be registered with the same key again. Id tokens that were issued before cannot register a"
        " phone. The user can register another phone.",
    ),
    auth=CustomerAuth(Permission.USERS_WRITE, is_group_scoped=True),
    responses=Responses(errors={404: (NO_USER, NO_DEVICE)}),
    converters={"deviceId": device_id},
)
async def remove(request: Request) -> Response:
    user, device = request.ids
    if not await request.db.fetchval(REMOVE, request.customer, user, device):
        await _raise_not_found(request, user)
    return NO_CONTENT


@endpoints.delete(
    "/users/{userId}/removed-devices",
    Doc(
        "forgetRemovedDevicesOfUser",
        "Free the keys of a user's removed phones",
        "For a user whose phone gets no key (`too-many-keys`) because keys of removed phones use up"
        " `KEYRACK_KEYS_PER_ASSIGNMENT`. These keys no longer count. They stay revoked, so boxes still reject them.",
    ),
    auth=CustomerAuth(Permission.USERS_WRITE, is_group_scoped=True),
    responses=Responses(errors={404: (NO_USER,)}),
)
async def forget_removed(request: Request) -> Response:
    """Stop counting revoked keys of the user's removed phones."""
    (user,) = request.ids
    if not await request.db.fetchval(HAS_USER, request.customer, user):
        raise NotFound(NO_USER)
    await request.db.execute(UNCOUNT, request.customer, user)
    return NO_CONTENT


@endpoints.put(
    "/users/{userId}/devices/{deviceId}/approval",
    Doc(
        "approveDeviceOfUser",
        "Approve a phone of a user",
        "For a phone that needs approval before it gets keys (`isApproved` is false). Customers require this with"
        " `keyrack keys policy --approve-phones on`. Approving an approved phone changes nothing.",
    ),
    auth=CustomerAuth(Permission.USERS_WRITE, is_group_scoped=True),
    responses=Responses(errors={404: (NO_USER, NO_DEVICE)}),
    converters={"deviceId": device_id},
)
async def approve(request: Request) -> Response:
    user, device = request.ids
    if not await request.db.fetchval(APPROVE, request.customer, user, device):
        await _raise_not_found(request, user)
    return NO_CONTENT


async def _raise_not_found(request: Request, user: int) -> NoReturn:
    has_user = await request.db.fetchval(HAS_USER, request.customer, user)
    raise NotFound(NO_DEVICE if has_user else NO_USER)
