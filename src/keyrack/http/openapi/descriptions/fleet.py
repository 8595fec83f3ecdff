"""The description of each property of responses and bodies, with an example.

A property has the same description everywhere. A body's schema is looked up under the resource that it is about, then
in `EVERYWHERE`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from keyrack.fleet import declarations
from keyrack.http.openapi.descriptions.auth import OF_ACCESS
from keyrack.http.openapi.descriptions.changelog import OF_LOG
from keyrack.http.openapi.descriptions.driver_resources import OF_DRIVER_RESOURCES
from keyrack.http.openapi.descriptions.drivers import OF_DRIVERS, OF_EXPORTS
from keyrack.http.openapi.descriptions.extensions import OPERATION_ID, OWN
from keyrack.http.openapi.descriptions.offline_keys import OF_KEYS
from keyrack.http.openapi.descriptions.telemetry import READINGS
from keyrack.offline_keys.public_key import EXAMPLE_THUMBPRINT


class Meaning(NamedTuple):
    """The description of a property, as a whole sentence, and an example value."""

    text: str
    example: Any


Members = Mapping[str, tuple[str, Any]]

_CHECKSUM = (
    "The MD5 of the request body in upper-case hexadecimal, a fingerprint to find the request. Without a body, it is"
    " the MD5 of method, blank and path.",
    "9E107D9D372BB6826BD81D3542A419D6",
)

EVERYWHERE: Members = {
    "carId": ("The id of the car.", 4),
    "userId": ("The id of the user.", 9),
    "groupId": ("The id of the group.", 2),
    "productId": ("The id of the product.", 3),
    "serviceId": ("The id of the service.", 5),
    "assignmentId": ("The id of the assignment; null if none was created.", 17),
    "operationId": ("The id of the operation, as in the header `Operation-Id`.", OPERATION_ID),
    "customerId": ("The id of the customer, as a number.", 1),
    **{name: declarations.PRODUCTS.descriptions[name] for name in ("uniqueId", "serialNumber")},
    "checksum": _CHECKSUM,
    "latitude": ("The latitude in degrees north, WGS 84.", 52.52),
    "longitude": ("The longitude in degrees east, WGS 84.", 13.405),
    "odometer": ("The odometer reading of the unit.", 48210.5),
    "op": ("The type of the patch operation.", "replace"),
    "path": ("The property to change.", "/name"),
    "value": ("The new value. Required for `replace`, ignored for `remove`.", "Pool 2"),
    "from": ("The start of the time range, inclusive.", "2026-05-01T08:00:00Z"),
    "to": ("The end of the time range, exclusive.", "2026-05-01T18:00:00Z"),
    "code": ("The error code; docs/errors lists all.", "invalid-members"),
    "detail": ("The error message.", "Couldn't create car. No valid name provided."),
    "eventId": ("The id of the event.", 120),
    "clientId": ("The id of the client.", 12),
    "managerId": ("The id of the manager.", 3),
    "invitationId": ("The id of the invitation.", 5),
    "secretId": ("The id of the secret.", 3),
    "webhookId": ("The id of the webhook.", 1),
    "changeId": ("The number of the change.", 17),
    "deliveryId": ("The id of the delivery.", 42),
    "sessionId": ("The id of the session.", 7),
    "passkeyId": ("The id of the passkey.", 3),
    "requestId": ("The id of the request.", 3),
    "identityId": ("The id of the connected account.", 3),
    "deviceId": ("The id of the phone: the thumbprint of its public key.", EXAMPLE_THUMBPRINT),
    "advertisedName": ("The name that the box advertises at present.", "K-4MZ0QX"),
    "keyFormId": ("The id of the key form, as in `keyForm.id` of a key.", 1),
    "searchDate": ("A time in RFC 3339 with `Z` or an offset, percent-encoded.", "2026-05-01T08:15:00Z"),
    "brand": ("The name of the brand, percent-encoded and case-insensitive.", "Demo"),
    "line": ("The number of the line, or of the array element, from 1.", 2),
}

OF: Mapping[str, Members] = {
    "Customer": declarations.CUSTOMERS.descriptions,
    "Car": declarations.CARS.descriptions,
    "AvailableCar": {
        **declarations.CARS.descriptions,
        "freeFrom": (
            "When the exclusive booking before the period ends, without its gap; null for none.",
            "2026-04-30T17:00:00Z",
        ),
        "freeUntil": ("When the exclusive booking after the period starts; null for none.", "2026-05-02T06:00:00Z"),
    },
    "User": {
        **declarations.PEOPLE.descriptions,
        **declarations.USERS.descriptions,
        "path": ("The property to change, or a key of `metadata`.", "/externalId"),
        "value": ("The new value. Required for `replace`, ignored for `remove`.", "E-4711"),
        "userData": ("The person's name.", {"firstName": "Sam", "lastName": "Doe"}),
        "password": (
            "The app password of a `Normal` user. If a request omits it, a password is generated. A response contains"
            " only a generated password, once; null otherwise.",
            None,
        ),
        "type": (
            "`Normal` users sign in to the mobile app with a password. For `Anonymous` users, your own app opens cars"
            " with the SDK. Omitted or null, it is `Anonymous`.",
            "Anonymous",
        ),
    },
    "Assignment": {
        "id": ("The id of the assignment.", 17),
        "userId": ("The user who can open the car. In responses, null after the person was erased.", 9),
        "carId": ("The car that the user can open.", 4),
        "start": ("When the access begins, in whole seconds.", "2026-05-01T08:00:00Z"),
        "end": ("When the access ends; null for an assignment that lasts until it is ended.", None),
        "lifetime": (
            "The seconds for which the key in the phone opens the car without a renewal: more than 604800 (7 days)"
            " and less than 2419200 (28 days). Omitted or null, it is 604800.",
            604800,
        ),
        "renewableAfter": (
            "The seconds after which the phone can renew the key: at least 0 and less than `lifetime`. Omitted or"
            " null, it is half of `lifetime`.",
            302400,
        ),
        "exclusive": (
            "Whether the car is blocked for other exclusive assignments. Omitted or null in a request, the booking"
            " settings of the car decide.",
            False,
        ),
        **declarations.ASSIGNMENTS.descriptions,
        "path": ("The property to change, or a key of `metadata`.", "/end"),
        "value": (
            "The new value; numbers and booleans may be strings. Required for `replace`, ignored for `remove`.",
            "2026-06-01T08:00:00Z",
        ),
    },
    "Group": declarations.GROUPS.descriptions,
    "Product": {
        **declarations.PRODUCTS.descriptions,
        "path": ("The property to change, or a key of `metadata`.", "/externalId"),
        "value": ("The new value. Required for `replace`, ignored for `remove`.", "BX-4711"),
        "type": (
            "A box contains the car's key and presses its buttons. An IQ sends telemetry and location.",
            None,
        ),
    },
    "Service": {
        **declarations.SERVICES.descriptions,
        "productId": ("The product that is paired with the service; null for none.", 3),
    },
    "Contract": declarations.CONTRACTS.descriptions,
    "Event": {
        "id": ("The number of the event. Numbers are counted per customer, without gaps.", 120),
        "dateTime": ("The local wall clock time at the car, as it was sent.", "2026-05-01T10:15:00"),
        "utcDateTime": ("The same time in UTC, to the microsecond.", "2026-05-01T08:15:00Z"),
        "userId": ("The user who opened or closed the car; 0 after the person was erased.", 9),
        "carId": ("The car that was opened or closed.", 4),
        "type": ("The type of the event. Omitted from a body, it is `CarOpened`.", "CarOpened"),
        "userAgent": ("The program that reported the event.", "ExampleApp/3.1 (Android 16)"),
        "latitude": ("The latitude in degrees north; null if positions are not sent or not stored.", 52.52),
        "longitude": ("The longitude in degrees east; null if positions are not sent or not stored.", 13.405),
        "clientId": ("The sender's id for the event. An event with the same id is a duplicate.", "box-7-000123"),
    },
    "Location": {
        "latitude": ("The latitude in degrees north, WGS 84, as a string.", "52.52"),
        "longitude": ("The longitude in degrees east, WGS 84, as a string.", "13.405"),
        "date": ("When the position was read.", "2026-05-01T08:15:00Z"),
        "odometerDate": ("When the odometer was read.", "2026-05-01T08:15:00Z"),
        "odometer": ("The odometer reading of the unit, as a string.", "48210.5"),
    },
    "Telemetry": READINGS,
    "Key": {
        "id": ("The id of the key.", 1),
        "brand": ("The car brand.", "Demo"),
        "boxName": ("The key box that fits this key.", "Box S"),
        "boxSapNumber": ("The article number of that key box.", "100-BOX"),
        "keyForm": ("The form of the key.", {"id": 1, "name": "Flip key", "imageUrl": "https://example.org/1.svg"}),
        "name": ("The name of the form.", "Flip key"),
        "imageUrl": ("The address of an image of the form.", "https://example.org/1.svg"),
    },
    **OWN,
    **OF_LOG,
    **OF_ACCESS,
    **OF_KEYS,
    **OF_DRIVERS,
    **OF_EXPORTS,
    **OF_DRIVER_RESOURCES,
}


def meaning(subject: str, member: str) -> Meaning | None:
    """The description of a property of a subject, or None."""
    about = {**OF["Car"], **OF["Position"]} if subject == "Position" else OF.get(subject, {})  # a car and its position
    entry = about.get(member) or EVERYWHERE.get(member)
    return None if entry is None else Meaning(*entry)
