"""In charge of what each member of answers and bodies means, once, with a value as an example.

A member has the same meaning wherever it is shown or sent: a body's form is looked up under the resource that it is
about, and what is not found there among `EVERYWHERE`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from keyrack.fleet import declarations
from keyrack.http.openapi.descriptions.auth import OF_ACCESS
from keyrack.http.openapi.descriptions.changelog import OF_LOG
from keyrack.http.openapi.descriptions.extensions import OPERATION_ID, OWN
from keyrack.http.openapi.descriptions.offline_keys import OF_KEYS
from keyrack.http.openapi.descriptions.telemetry import READINGS
from keyrack.offline_keys.public_key import EXAMPLE_THUMBPRINT


class Meaning(NamedTuple):
    """A whole sentence about a member, and a value that it may have."""

    text: str
    example: Any


Members = Mapping[str, tuple[str, Any]]

_CHECKSUM = (
    "The MD5 of the request's body in upper-case hexadecimal: a fingerprint to find the request by. Without a body it"
    " is that of method, blank and path.",
    "9E107D9D372BB6826BD81D3542A419D6",
)

EVERYWHERE: Members = {
    "carId": ("The id of the car.", 4),
    "userId": ("The id of the user.", 9),
    "groupId": ("The id of the group.", 2),
    "productId": ("The id of the product.", 3),
    "serviceId": ("The id of the service.", 5),
    "assignmentId": ("The id of the assignment; null if none was made.", 17),
    "operationId": ("The id of the operation, as the header `Operation-Id` told it.", OPERATION_ID),
    "customerId": ("The id of the customer, as a number.", 1),
    **{name: declarations.PRODUCTS.descriptions[name] for name in ("uniqueId", "serialNumber")},
    "checksum": _CHECKSUM,
    "latitude": ("Degrees to the north of the equator, WGS 84.", 52.52),
    "longitude": ("Degrees to the east of Greenwich, WGS 84.", 13.405),
    "odometer": ("What the odometer showed, as the unit told it.", 48210.5),
    "op": ("What the step does.", "replace"),
    "path": ("The member that the step changes.", "/name"),
    "value": ("What the member gets; `replace` needs it, `remove` does not look at it.", "Pool 2"),
    "from": ("The beginning of the time, which is part of it.", "2026-05-01T08:00:00Z"),
    "to": ("The end of the time, which is not part of it.", "2026-05-01T18:00:00Z"),
    "code": ("What it is, for programs; docs/errors lists all.", "invalid-members"),
    "detail": ("What is wrong, in words.", "Couldn't create car. No valid name provided."),
    "eventId": ("The id of the event.", 120),
    "clientId": ("The number of the client.", 12),
    "managerId": ("The number of the manager.", 3),
    "invitationId": ("The number of the invitation.", 5),
    "secretId": ("The number of the secret.", 3),
    "webhookId": ("The id of the webhook.", 1),
    "changeId": ("The number of the change.", 17),
    "deliveryId": ("The id of the delivery.", 42),
    "sessionId": ("The id of the session.", 7),
    "passkeyId": ("The id of the passkey.", 3),
    "identityId": ("The id of the account.", 3),
    "deviceId": ("The id of the phone: the thumbprint of its public key.", EXAMPLE_THUMBPRINT),
    "keyFormId": ("The id of the key form, as `keyForm.id` of a key tells it.", 1),
    "searchDate": ("A time as in RFC 3339, with `Z` or an offset, percent-encoded.", "2026-05-01T08:15:00Z"),
    "brand": ("The name of the brand, percent-encoded; its case does not matter.", "Demo"),
    "line": ("The number of the line, or of the array's element, from 1 on.", 2),
}

OF: Mapping[str, Members] = {
    "Customer": declarations.CUSTOMERS.descriptions,
    "Car": declarations.CARS.descriptions,
    "User": {
        **declarations.PEOPLE.descriptions,
        "userData": ("The person's name.", {"firstName": "Sam", "lastName": "Doe"}),
        "password": (
            "The password for the app, of a `Normal` user; one is made where none is sent. An answer shows one that was"
            " made, once, and null otherwise.",
            None,
        ),
        "type": (
            "`Normal` users sign in to the mobile app with a password, `Anonymous` ones cannot: an app of your own"
            " opens cars for them, by the SDK. Left out or null it is `Anonymous`.",
            "Anonymous",
        ),
    },
    "Assignment": {
        "id": ("The number of the assignment.", 17),
        "userId": ("The user who may open the car. Only answers may have null, for a person who was erased.", 9),
        "carId": ("The car that may be opened.", 4),
        "start": ("From when on the car may be opened; whole seconds.", "2026-05-01T08:00:00Z"),
        "end": ("Until when; null for an unrestricted assignment, which lasts until somebody ends it.", None),
        "lifetime": (
            "Seconds for which the key in the phone opens the car before it must be fetched anew: more than 604800 (7"
            " days), less than 2419200 (28 days). Left out or null it is 604800.",
            604800,
        ),
        "renewableAfter": (
            "Seconds after which the phone may fetch the key anew: from 0 on, less than `lifetime`. Left out or null it"
            " is half of `lifetime`.",
            302400,
        ),
        "path": ("The member that the step changes.", "/end"),
        "value": (
            "What the member gets, numbers also as text; `replace` needs it, `remove` does not look at it.",
            "2026-06-01T08:00:00Z",
        ),
    },
    "Group": declarations.GROUPS.descriptions,
    "Product": {
        **declarations.PRODUCTS.descriptions,
        "type": (
            "A box holds the car's key and presses its buttons; an IQ tells telemetry and location.",
            None,
        ),
    },
    "Service": {
        **declarations.SERVICES.descriptions,
        "productId": ("The product that it is paired with; null for none.", 3),
    },
    "Contract": declarations.CONTRACTS.descriptions,
    "Event": {
        "id": ("The number of the event: each customer counts its own, without gaps.", 120),
        "dateTime": ("What the wall clock showed where the car was, as it was sent.", "2026-05-01T10:15:00"),
        "utcDateTime": ("The same moment in UTC, to the microsecond.", "2026-05-01T08:15:00Z"),
        "userId": ("Who it was; 0 once that person was erased.", 9),
        "carId": ("Which car was opened or closed.", 4),
        "type": ("What happened. Left out of a body it is `CarOpened`.", "CarOpened"),
        "userAgent": ("Which program told of it.", "ExampleApp/3.1 (Android 16)"),
        "latitude": ("Where it was, in degrees to the north; null where positions are not told or kept.", 52.52),
        "longitude": ("Where it was, in degrees to the east; null where positions are not told or kept.", 13.405),
        "clientId": ("The sender's own name for the event: one that comes again is the same event.", "box-7-000123"),
    },
    "Location": {
        "latitude": ("Degrees to the north of the equator, WGS 84, as text.", "52.52"),
        "longitude": ("Degrees to the east of Greenwich, WGS 84, as text.", "13.405"),
        "date": ("When the position was read.", "2026-05-01T08:15:00Z"),
        "odometerDate": ("When the odometer was read.", "2026-05-01T08:15:00Z"),
        "odometer": ("What the odometer showed, as the unit told it; as text.", "48210.5"),
    },
    "Telemetry": READINGS,
    "Key": {
        "id": ("The number of the key.", 1),
        "brand": ("The car brand.", "Demo"),
        "boxName": ("The key box that this key fits into.", "Box S"),
        "boxSapNumber": ("The article number of that key box.", "100-BOX"),
        "keyForm": ("What the key looks like.", {"id": 1, "name": "Flip key", "imageUrl": "https://example.org/1.svg"}),
        "name": ("What the form is called.", "Flip key"),
        "imageUrl": ("The address of a picture of it.", "https://example.org/1.svg"),
    },
    **OWN,
    **OF_LOG,
    **OF_ACCESS,
    **OF_KEYS,
}


def meaning(subject: str, member: str) -> Meaning | None:
    """What a member means in what is said of a subject."""
    about = {**OF["Car"], **OF["Position"]} if subject == "Position" else OF.get(subject, {})  # a car, and where it is
    entry = about.get(member) or EVERYWHERE.get(member)
    return None if entry is None else Meaning(*entry)
