"""Descriptions of properties beyond the spec: operations, webhooks, batches, retention and more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from keyrack.webhooks.declarations import WEBHOOKS

OPERATION_ID = "5f0c1c1e-7c0e-4a55-9a0b-9a2f4d8a1e55"
_SIGNING = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
_OPERATION = ("The id of the operation, as in the header `Operation-Id`.", OPERATION_ID)
_EXTENSIONS = {
    "exclusive": (
        "Whether the assignment is exclusive. It can be null if the operation failed or waits: the default of the car.",
        False,
    ),
    "externalId": ("The `externalId` of the assignment, also if the operation failed; null for none.", "B-2026-0815"),
    "metadata": ("The `metadata` of the assignment, also if the operation failed; null for none.", {"site": "Berlin"}),
}
_ERROR = ("The reason for the failure; null if the operation succeeded.", None)
_LAST_SEEN = ("The time of the unit's newest reading; null for a car without readings.", "2026-05-01T08:15:00Z")

OWN: Mapping[str, Mapping[str, tuple[str, Any]]] = {
    "SdkToken": {
        "customerId": ("The id of the user's customer, as a number.", 1),
        "sdkKey": ("A secret of the customer. The operator of the server creates it.", "sdk_5Zk3v0s8Qm1r"),
        "id_token": ("The signed token (JWT), valid for one hour.", "eyJhbGciOiJSUzI1NiJ9.e30.c2lnbmF0dXJl"),
    },
    "Operation": {
        "id": _OPERATION,
        "kind": ("The type of the operation.", "CreateAssignment"),
        "cause": (
            "The cause of the operation: a request of its own, or one that ended assignments as a consequence.",
            "Request",
        ),
        "state": ("`Pending` until the operation is applied, then `Succeeded` or `Failed`.", "Succeeded"),
        "errorMessage": ("The error message of a failed operation; null otherwise.", None),
        "errorCode": ("The error code of a failed operation; null otherwise.", None),
        "conflicts": (
            "The exclusive assignments, at most ten, with which a failed operation conflicted, each with"
            " `assignmentId`, `userId`, `start` and `end`; null otherwise, and for a group-limited caller.",
            None,
        ),
        "applied": ("The position in the order in which the customer's operations were applied.", 41),
        "assignmentId": ("The created, updated or ended assignment; null if none was created.", 17),
        "newCarId": ("The car that an update assigns instead of `carId`; null if the car does not change.", None),
        "userId": ("The user of the assignment; null after the person was erased.", 9),
        "newUserId": (
            "The user that an update assigns instead of `userId`; null if the user does not change.",
            None,
        ),
        "start": ("The requested or current start of the assignment.", "2026-05-01T08:00:00Z"),
        "end": ("The requested or current end of the assignment; null for none.", None),
        "requested": ("When the operation was requested.", "2026-04-30T12:00:00Z"),
        "requestedBy": (
            "The manager or client that requested the operation; null for the operator.",
            {"type": "manager", "id": "7", "name": "anna"},
        ),
        "finished": ("When the operation succeeded or failed; null until then.", "2026-04-30T12:00:00.25Z"),
        **_EXTENSIONS,
    },
    "AssignmentRequest": {
        "id": ("The id of the request.", 3),
        "assignmentId": ("The assignment. It may have been deleted since.", 17),
        "carId": ("The car of the assignment when the driver sent the request.", 4),
        "userId": ("The driver.", 9),
        "kind": ("`extend` asks for a later end, `end` ends the assignment now.", "extend"),
        "end": ("The end that the driver asks for; null for the kind `end`.", "2026-05-01T18:00:00Z"),
        "comment": ("The driver's comment; null for none.", "The train is late"),
        "state": (
            "The state. `expired`: the assignment ended or changed before a decision.",
            "open",
        ),
        "decidedBy": (
            "`manager`, `client`, the customer's `rule`, or the `driver` for an early end or a withdrawal; null for an"
            " open request.",
            None,
        ),
        "decisionComment": ("The manager's comment; null for none.", None),
        "errorCode": ("The error code of the operation, if it failed after the grant; null otherwise.", None),
        "errorMessage": ("The error message of the operation, if it failed after the grant; null otherwise.", None),
        "created": ("When the driver sent the request.", "2026-05-01T15:00:00Z"),
        "decided": ("When the request was decided; null for an open one.", None),
    },
    "DriverRequest": {
        "id": ("The id of the request.", 3),
        "customerId": ("The customer of the assignment.", 1),
        "assignmentId": ("The assignment. It may have been deleted since.", 17),
        "kind": ("`extend` asks for a later end, `end` ends the assignment now.", "extend"),
        "end": ("The end that the driver asks for; null for the kind `end`.", "2026-05-01T18:00:00Z"),
        "comment": ("The driver's comment; null for none.", "The train is late"),
        "state": ("The state. `expired`: the assignment ended or changed before a decision.", "rejected"),
        "reason": (
            "Why the operation failed after the grant, else the comment of the decision; null for neither.",
            "The car is needed at six",
        ),
        "errorCode": ("The error code of the operation, if it failed after the grant; null otherwise.", None),
        "created": ("When the driver sent the request.", "2026-05-01T15:00:00Z"),
        "decided": ("When the request was decided; null for an open one.", "2026-05-01T15:05:00Z"),
    },
    "DriverRequestBody": {
        "assignmentId": ("An assignment of the driver that has not ended.", 17),
        "kind": ("`extend` asks for a later end, `end` ends the assignment now.", "extend"),
        "end": ("The new end, for the kind `extend` alone.", "2026-05-01T18:00:00Z"),
        "comment": ("A comment for the fleet, or null.", "The train is late"),
    },
    "RequestCreated": {
        "id": ("The id of the request.", 3),
        "state": ("`granted` at once, or `open`.", "open"),
    },
    "RequestDecision": {
        "decision": ("`grant` changes the assignment, `reject` does not.", "grant"),
        "comment": ("A comment for the driver, or null.", "The car is free until eight"),
    },
    "HiddenAssignment": {
        "carId": ("The car.", 17),
        "start": ("When the assignment begins.", "2026-05-01T08:00:00Z"),
        "end": ("When the assignment ends; null for none.", None),
    },
    "Outcome": {
        "type": ("The event type.", "assignment.created"),
        "operationId": ("The id of the operation; null in a test.", OPERATION_ID),
        "operationSucceeded": (
            "Whether the operation succeeded. If not, the other properties have the requested values.",
            True,
        ),
        "errorMessage": _ERROR,
        "carId": ("The car of the assignment; null in a test.", 4),
        "userId": ("The user of the assignment; null in a test, and after the person was erased.", 9),
        "start": ("The start of the assignment; null in a test.", "2026-05-01T08:00:00Z"),
        "end": ("The end of the assignment; null for none.", None),
        "lifetime": ("The lifetime of the assignment's key in seconds.", 604800),
        "renewableAfter": ("The seconds after which the phone can renew the key.", 302400),
        **_EXTENSIONS,
    },
    "EventTold": {
        "type": ("The event type.", "event.opened"),
        "timestamp": ("When the event was recorded, which may be days after the event.", "2026-05-01T08:00:02.25Z"),
        "data": (
            "The event as in `GET /events/{eventId}`, with further properties. `carExternalId` and `userExternalId` are"
            " the references of the car and the user. `recordedTime` is when it was recorded. `late` is true if that"
            " was more than 60 seconds after `utcDateTime`. `assignmentId` is the assignment of the key, if a key box"
            " reported the event; null otherwise.",
            {
                "id": 121,
                "dateTime": "2026-05-01T10:00:00",
                "utcDateTime": "2026-05-01T08:00:00Z",
                "userId": 9,
                "carId": 4,
                "type": "CarOpened",
                "userAgent": "Keyrack key, box:5:13",
                "latitude": None,
                "longitude": None,
                "carExternalId": "V-1001",
                "userExternalId": None,
                "recordedTime": "2026-05-01T08:00:02.25Z",
                "late": False,
                "assignmentId": 17,
            },
        ),
    },
    "Webhook": {
        **WEBHOOKS.descriptions,
        "kind": ("The name of the event type or wildcard, for `kinds` of a webhook.", "box.installed"),
        "resource": ("The resource of the event type.", "product"),
        "meaning": ("The description of the event type.", "A box was installed in a car."),
        "isWildcard": ("Whether it is a wildcard.", False),
        "takes": ("The event types that a wildcard includes; empty for an event type.", []),
        "signingSecret": (
            "The secret of Standard Webhooks that signs deliveries. No other response contains it.",
            _SIGNING,
        ),
        "path": ("The property to change.", "/enabled"),
        "value": ("The new value. Required for `replace`, ignored for `remove`.", False),
        "count": ("The number of deliveries to send again.", 12),
        "next": ("The `from` of the next request if there are more; null otherwise.", None),
        "undelivered": ("Whether to send only undelivered messages. Omitted, it is false: all are sent.", True),
        "to": ("The end of the time range, exclusive. Omitted or null, it is now.", None),
    },
    "TestMessage": {
        "type": ("The event type of the example to send.", "assignment.created"),
        "set": ("Properties of the example with other values.", {"carId": 7}),
    },
    "WaitingMessage": {
        "number": ("The number of the message, for its acknowledgement.", 42),
        "type": ("The event type.", "assignment.created"),
        "headers": (
            "The headers to pass on with the body.",
            {
                "Content-Type": "application/json",
                "webhook-id": OPERATION_ID,
                "webhook-timestamp": "1777622400",
                "webhook-signature": "v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4=",
            },
        ),
        "body": (
            "The body as text. Pass it on unchanged, because the signature covers its bytes.",
            '{"type": "assignment.created", "operationSucceeded": true}',
        ),
    },
    "Acknowledgement": {"upto": ("The number of the last message that the client has processed.", 42)},
    "Acknowledged": {"count": ("The number of removed messages.", 3)},
    "Delivery": {
        "id": ("The id of the delivery.", 42),
        "webhookId": ("The id of the webhook.", 1),
        "webhookUrl": ("The URL of the webhook; null for a pull webhook.", "https://example.org/keyrack"),
        "messageId": ("The value of the header `webhook-id`, which is the same in every attempt.", OPERATION_ID),
        "type": ("The event type.", "assignment.created"),
        "operationId": ("The operation of an outcome; null for other messages.", OPERATION_ID),
        "changeId": ("The number of the change; null for other messages.", None),
        "eventId": ("The number of the event; null for other messages.", None),
        "state": ("`Waiting` for the next attempt or for a client, `Delivered`, or `Dead` (given up).", "Delivered"),
        "attempts": ("The number of attempts.", 1),
        "attempted": ("When the last attempt was made; null for none.", "2026-04-30T12:00:01Z"),
        "nextAttempt": ("When the next attempt is due; null for none.", None),
        "status": ("The HTTP status of the last response; null for none.", 204),
        "duration": ("The duration of the last attempt in milliseconds.", 18),
        "answer": ("The start of the last response body.", ""),
        "error": ("The error of the last attempt; null for none.", None),
        "created": (
            "When the delivery was written, together with its outcome, its event or the number of its change.",
            "2026-04-30T12:00:00.25Z",
        ),
        "payload": ("The message. In the dialect `keyrack`, it is the request body.", None),
    },
    "Position": {
        "hasUnit": ("Whether an IQ unit is installed in the car.", True),
        "latitude": ("The latitude in degrees north; null if no position is known.", 52.52),
        "longitude": ("The longitude in degrees east; null if no position is known.", 13.405),
        "utcDateTime": ("When the position was read.", "2026-05-01T08:15:00Z"),
        "lastSeen": _LAST_SEEN,
        "ignition": ("Whether the ignition was on; null if unknown.", True),
        "isDriving": ("Whether the car was being driven; null if unknown.", True),
        "inUse": ("Whether an assignment is in force now.", True),
        "inUseUntil": ("When the last assignment in force ends; null for none, and for one without an end.", None),
        "count": ("The number of positions, including omitted ones.", 2),
        "thinned": ("Whether positions were omitted.", False),
        "points": ("The positions, in order of time.", None),
        "until": ("The time of the last reading at this position.", "2026-05-01T08:20:00Z"),
        "odometer": (
            "The odometer reading at this position, if it is at most one day old; null otherwise.",
            48210.5,
        ),
    },
    "Samples": {
        "seconds": ("The length of a bucket in seconds.", 36.0),
        "series": ("The buckets of each property in `fields`, by its name.", None),
        "utcDateTime": ("The start of the bucket.", "2026-05-01T08:00:00Z"),
        "count": ("The number of readings.", 3),
        "min": ("The minimum of the readings.", 12.4),
        "max": ("The maximum of the readings.", 12.7),
        "average": ("The arithmetic mean of the readings.", 12.55),
        "last": ("The newest reading.", 12.6),
        "lastDateTime": ("The time of the newest reading.", "2026-05-01T08:00:30Z"),
    },
    "Ingest": {
        "accepted": ("The number of lines with new data.", 2),
        "duplicates": ("The number of lines without new data.", 0),
        "refused": ("The rejected lines, with their reasons.", []),
        "refusedCount": ("The number of rejected lines, if `refused` does not list all of them.", 1200),
        "truncated": ("True if `refused` does not list all rejected lines; omitted otherwise.", True),
        "reason": ("Why the line was rejected.", "There is no property 'colour'."),
        "events": ("The number of each event, by its line.", [{"line": 1, "id": 121}]),
        "id": ("The number of the event.", 121),
    },
    "Batch": {
        "kind": ("The type of the items.", "cars"),
        "atomic": ("Whether one rejected item undoes all others. Omitted, it is false.", False),
        "dryRun": (
            "Whether to predict the results without changes. Omitted, it is false. A response only has it if it is"
            " true.",
            True,
        ),
        "conflicts": (
            "The handling of overlapping assignments of the same car: `allow` them (the default), `report` them in"
            " the result, or `refuse` the item.",
            "report",
        ),
        "items": ("The items, in the order of their processing.", None),
        "op": ("`create`, `change` or `end`, equivalent to `PUT`, `PATCH` and `DELETE`.", "create"),
        "body": ("The body of the `PUT`.", None),
        "id": ("The id of the created resource, or of the resource to change or end.", 4),
        "patch": ("The body of the `PATCH`.", None),
        "done": ("The number of items that were carried out.", 1),
        "refused": ("The number of rejected items.", 0),
        "results": ("The result of each item, in the order of the items.", None),
        "message": (
            "Why the batch was not carried out.",
            "The batch was not carried out because an item was rejected.",
        ),
        "status": ("The status of the equivalent single request.", 201),
        "password": ("The generated password of a `Normal` user. No other response contains it.", "Jx2rVq8mTz0a"),
        "operationLocation": ("The address of the operation.", "/v3/operations/" + OPERATION_ID),
        "operation": (
            "With `Prefer: wait=N`: the operation, as `GET /operations/{operationId}` returns it.",
            {"id": OPERATION_ID, "state": "Succeeded"},
        ),
        "wouldFail": (
            "In a dry run: why the operation would fail.",
            "There is no key box installed in the car.",
        ),
        "moreConflicts": ("Whether there are more conflicts than the response contains.", False),
        "errors": ("Each error in the item.", None),
        "pointer": ("The place in the item: a JSON Pointer (RFC 6901).", "/body/name"),
        "valid": ("The valid values or names.", ["name"]),
        "assignmentId": ("The existing assignment; null if an item of the batch requests it.", 17),
        "operationId": ("The pending operation that requests the assignment; null for an existing one.", None),
        "item": (
            "The index, from 0, of the previous item that requests the assignment; null for an existing one.",
            None,
        ),
        "start": ("When the assignment starts.", "2026-05-01T08:00:00Z"),
        "end": ("When the assignment ends; null for an unrestricted one.", None),
    },
    "Retention": {
        "kind": ("The kind of data.", "operations"),
        "kept": ("Whether this kind of data is retained.", True),
        "keptFor": ("The retention time (ISO 8601 duration); null if the data is kept until it is deleted.", "P90D"),
        "countsFrom": ("The event from which the retention time counts, in words.", "When they were done."),
        "setting": (
            "The operator's setting that determines the time; null if the customer determines it.",
            "KEYRACK_OPERATION_RETENTION_DAYS",
        ),
        "oldest": (
            "The time of the oldest data; null if there is none, or if it is not determined.",
            "2026-04-30T12:00:00Z",
        ),
    },
    "Erasure": {
        "goes": ("The data that is erased, by kind.", [{"kind": "assignments", "how": "ended", "count": 2}]),
        "stays": (
            "The data that stays, with the reasons.",
            [
                {
                    "kind": "receivers",
                    "code": "was-sent",
                    "text": "Messages that webhooks already received stay with their receivers.",
                }
            ],
        ),
        "customers": (
            "Other customers that have this person, if the caller may list all of their users. The person stays there.",
            [],
        ),
        "kind": ("The kind of data.", "assignments"),
        "how": ("`removed` or `ended` at once, or made `anonymous` within minutes.", "ended"),
        "count": ("The number of records.", 2),
        "code": ("Why the data stays, for programs.", "was-sent"),
        "text": ("Why the data stays, in words.", "Messages that webhooks already received stay with their receivers."),
        "id": ("The id of the customer, as a string.", "2"),
        "name": ("The name of the customer.", "Example Fleet North"),
    },
    "Me": {
        "id": ("The id of the manager.", 1),
        "username": ("The user name for signing in.", "manager@example.com"),
        "language": ("The language of the pages; null for the language of the browser.", "en"),
        "timeZone": (
            "The time zone of the pages, by its IANA name; null for the time zone of the browser.",
            "Europe/Berlin",
        ),
        "theme": ("The theme of the pages, light or dark; null for the theme of the browser.", None),
        "currentPassword": ("The current password.", "correct horse battery staple"),
        "newPassword": ("The new password.", "another horse battery staple"),
    },
    "Session": {
        "id": ("The id of the session.", 7),
        "address": ("The address from which the manager signed in.", "192.0.2.10"),
        "userAgent": ("The user agent of the browser.", "Mozilla/5.0"),
        "createdAt": ("When the manager signed in.", "2026-05-01T07:30:00Z"),
        "lastSeen": ("When the session was last used.", "2026-05-01T08:15:00Z"),
    },
    "Identity": {
        "id": ("The id of the connected account.", 3),
        "provider": ("The name of the provider in commands.", "example"),
        "label": ("The display name of the provider.", "Example"),
        "createdAt": ("When the account was connected.", "2026-05-01T07:30:00Z"),
    },
    "Factors": {
        "id": ("The id of the manager.", 1),
        "hasApp": ("Whether an authenticator app is set up.", True),
        "passkeys": ("The number of passkeys.", 1),
        "recoveryCodes": ("The number of unused recovery codes.", 10),
        "isNeeded": ("Whether a role of the manager, in any customer, requires a second factor.", False),
    },
    "Passkey": {
        "id": ("The id of the passkey.", 3),
        "name": ("The name that the manager chose.", "Laptop"),
        "isBackedUp": ("Whether it is synced between devices.", False),
        "isRefused": (
            "Whether the passkey is rejected because its signature counter decreased, which indicates a copy.",
            False,
        ),
        "createdAt": ("When the passkey was added.", "2026-05-01T07:30:00Z"),
        "lastUsed": ("When the passkey was last used to sign in; null for never.", None),
    },
    "PasskeyOptions": {
        "publicKey": (
            "The options for `navigator.credentials.create()`, as JSON.",
            {"challenge": "AQID", "attestation": "none"},
        ),
    },
    "NewPasskey": {
        "name": ("The name that the manager chose.", "Laptop"),
        "credential": (
            "The credential that the browser created, as its `toJSON()` returns it.",
            {"id": "AQID", "type": "public-key"},
        ),
    },
    "PasskeyMade": {
        "id": ("The id of the passkey.", 3),
        "amr": ("The authentication method of the key (RFC 8176): `hwk` on one device, `swk` if it is synced.", "hwk"),
    },
    "NewApp": {
        "secret": ("The secret of the app, in base32.", "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP"),
        "uri": ("The same secret as a URI for a QR code.", "otpauth://totp/Keyrack:manager?secret=JBSWY3DPEHPK3PXP"),
    },
    "Code": {
        "code": ("The code of the app: six digits.", "123456"),
    },
    "RecoveryCodes": {
        "codes": ("The recovery codes.", ["ABCD-EFGH-IJKL-MNOP"]),
    },
    "FactorRules": {
        "roles": ("The roles that require a second factor.", ["Owner"]),
    },
    "SimulatedNames": {
        "names": ("The names that simulated boxes nearby advertise.", ["K-4MZ0QX"]),
    },
    "SimulatedWrite": {
        "link": ("The link to the box; null to connect.", "uz476mHc9yYzburfBS6kUA"),
        "fragment": ("A fragment of at most 512 bytes; null to end the link.", "gwADgQED"),
    },
    "SimulatedLink": {
        "link": ("The link to the box; null if there is none any more.", "uz476mHc9yYzburfBS6kUA"),
        "size": ("The maximum bytes of a fragment on this link.", 182),
        "fragments": ("The fragments that the box sends.", ["gwADgQED"]),
    },
    "Health": {
        "status": ("`ok`, or `unavailable`.", "ok"),
        "reasons": ("All reasons why the server is not ready.", []),
        "warnings": ("Problems that do not make the server unready; omitted if there are none.", []),
        "code": ("The error code; docs/errors lists all.", "no-worker"),
        "detail": ("The error message.", "Operations have waited for 60 seconds, and no worker is running."),
        "previousCode": (
            "The name of a renamed code in the previous release. The next release removes this member.",
            "secrets-closed",
        ),
    },
}
