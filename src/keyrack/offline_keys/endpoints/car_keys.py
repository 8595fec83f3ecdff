"""The issued keys of a car, and until when they open. An extension of the spec."""

from __future__ import annotations

from dataclasses import replace
from typing import LiteralString

from keyrack.api.endpoint import Doc
from keyrack.api.endpoint_registry import Endpoints
from keyrack.api.permissions import Permission
from keyrack.api.schema.fields import Resource, boolean, date_time, guid, int32, string
from keyrack.api.schema.group_scope import scoped_by
from keyrack.api.services import ReadServices
from keyrack.fleet.endpoints.cars import A_CAR, NO_CAR
from keyrack.fleet.schema import PRODUCT_IN_SCOPE
from keyrack.offline_keys.endpoints.boxes import TAG

endpoints = Endpoints[ReadServices](TAG, "access", is_extension=True, is_preview=True)

# docs/keys.md, "How long a revoked key opens". The tolerance is included, a slow clock of the box is not
TOLERANCE: LiteralString = "interval '300 seconds'"
_LIMIT: LiteralString = "make_interval(secs => {t}.freshness)"
# The box claims the first list that shows the revocation, or a later one. A list later than the server's newest one
# does not count: a thief of an issuing key can sign lists of the future
_IS_KNOWN: LiteralString = (
    "(({t}_e.held_generation = {t}.generation and {t}_e.held_at between {t}.shown_at and (select g.listed_at"
    " from status_generation g where g.customer_id = {t}.customer_id and g.product_id = {t}.product_id"
    " and g.epoch = {t}.epoch and g.generation = {t}.generation)) is true)"
)
_UNTIL: LiteralString = (
    "case when " + _IS_KNOWN + " then {t}_e.held_at when {t}.revoked_at is null then {t}.expires_at + " + TOLERANCE
    + " else least({t}.expires_at, greatest({t}.issued_at, {t}.revoked_at) + " + _LIMIT + ") + " + TOLERANCE + " end"
)  # fmt: skip
# The key opens while the clock is uncertain. A clock without power stops, so it is slow by the whole outage
_CAN_POWER_LOSS_EXTEND: LiteralString = "(3 = any({t}.rights) and not " + _IS_KNOWN + ")"
ISSUED_KEY = Resource(
    "IssuedKey",
    "box_key {t} left join box_epoch {t}_e using (customer_id, product_id, epoch)"
    " left join app_device {t}_d using (customer_id, device_id)",
    "{t}.customer_id = :customer",
    {
        "id": guid("{t}.key_id"),
        "assignmentId": int32("{t}.assignment_id"),
        "userId": int32("{t}.user_id"),
        "deviceId": string("translate(encode({t}.device_id, 'base64'), '+/=', '-_')"),
        "deviceName": string("{t}_d.name", nullable=True),
        "productId": int32("{t}.product_id", nullable=True),
        "epoch": int32("{t}.epoch"),
        "issued": date_time("{t}.issued_at"),
        "begins": date_time("{t}.begins_at"),
        "expires": date_time("{t}.expires_at"),
        "revoked": date_time("{t}.revoked_at", nullable=True),
        "isKnownToBox": boolean(_IS_KNOWN),
        "opensUntil": date_time(_UNTIL),
        "canPowerLossExtend": boolean(_CAN_POWER_LOSS_EXTEND),
    },
    group_scope=replace(scoped_by("car", user=True), fields={"productId": PRODUCT_IN_SCOPE}),
    permission=Permission.ACCESS_READ,
)

endpoints.read(
    "/cars/{carId}/keys",
    ISSUED_KEY,
    Doc(
        "listKeysOfCar",
        "List the issued keys of a car",
        "Returns valid, revoked and expired keys, as long as they are retained. `opensUntil` is the latest moment at"
        " which the box may still accept the key, apart from the delay of its clock. If `canPowerLossExtend` is true,"
        " a loss of power extends it without a limit. A long list has several pages.",
    ),
    parent=A_CAR,
    missing_error=NO_CAR,
    is_paged=True,
)
