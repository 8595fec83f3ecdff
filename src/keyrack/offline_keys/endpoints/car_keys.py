"""The issued keys of a car, and until when they open. An extension of the spec."""

from __future__ import annotations

from dataclasses import replace

from keyrack.api.endpoint import Doc
from keyrack.api.endpoint_registry import Endpoints
from keyrack.api.permissions import Permission
from keyrack.api.schema.fields import Resource, boolean, date_time, guid, int32, string
from keyrack.api.schema.group_scope import scoped_by
from keyrack.api.services import ReadServices
from keyrack.fleet.endpoints.cars import A_CAR, NO_CAR
from keyrack.fleet.schema import PRODUCT_IN_SCOPE
from keyrack.offline_keys.endpoints.boxes import TAG
from keyrack.offline_keys.opening_deadline import (
    CAN_POWER_LOSS_EXTEND,
    IS_KNOWN_TO_BOX,
    OPENS_UNTIL,
    WITH_EPOCH,
)

endpoints = Endpoints[ReadServices](TAG, "access", is_extension=True, is_preview=True)

ISSUED_KEY = Resource(
    "IssuedKey",
    WITH_EPOCH + " left join app_device {t}_d using (customer_id, device_id)",
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
        "isKnownToBox": boolean(IS_KNOWN_TO_BOX),
        "opensUntil": date_time(OPENS_UNTIL),
        "canPowerLossExtend": boolean(CAN_POWER_LOSS_EXTEND),
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
