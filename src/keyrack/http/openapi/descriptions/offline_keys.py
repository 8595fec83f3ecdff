"""Descriptions of properties of offline keys: boxes, phones, keys, status lists and logs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from keyrack.http.openapi.descriptions.extensions import OPERATION_ID
from keyrack.offline_keys.public_key import EXAMPLE_THUMBPRINT

# Bytes are base64url (RFC 4648, section 5) without padding; example messages are truncated
_SIGNED = "0oRYOaMBJgRI"
_NONCE = "AAECAwQFBgcICQoLDA0ODw"
_BOX = ("The name of the box in messages: `box:`, the product's id, `:` and the epoch.", "box:3:1")
_EPOCH = ("The number of the enrolment. When an epoch comes into force, all previous ones end.", 1)
_LIST = ("The signed status list, a Token Status List as a CWT.", _SIGNED)
_UP_TO = ("The number up to which the log of the box is known without a gap.", 41)
_ISSUED = ("When the key was issued.", "2026-05-01T08:00:00Z")
_BEGINS = ("When the key becomes valid.", "2026-05-01T08:00:00Z")
_EXPIRES = ("When the key expires.", "2026-05-08T08:00:00Z")
_RECEIPT = ("The newest receipt of the box's log, for the box; null if there is none yet.", _SIGNED)

OF_KEYS: Mapping[str, Mapping[str, tuple[str, Any]]] = {
    "Box": {
        "nonce": ("The nonce that the box must sign: 16 bytes.", _NONCE),
        "expires": ("When the nonce expires.", "2026-05-01T08:10:00Z"),
        "enrolment": ("The message that the box created from the nonce, signed by its own key.", _SIGNED),
        "epoch": _EPOCH,
        "name": _BOX,
        "thumbprint": (
            "The thumbprint of the box's public key (RFC 9679). Compare it with the one that the box displays.",
            EXAMPLE_THUMBPRINT,
        ),
        "enrolled": ("When the box was enrolled in this epoch.", "2026-05-01T08:01:00Z"),
        "isPending": (
            "Whether the enrolment is pending, because the box has an epoch in force. That epoch ends as soon as an"
            " entry that the new key has signed arrives.",
            False,
        ),
        "pending": ("The pending enrolment; null if there is none.", None),
        "isProven": ("Whether an entry that the new key has signed has arrived.", False),
        "needsApproval": (
            "Whether a manager must approve the enrolment, because the customer requires a second person or the"
            " enrolment came back.",
            True,
        ),
        "isApproved": ("Whether a manager has approved the enrolment.", False),
        "hasReturned": (
            "Whether the enrolment came back after it was undone or replaced: by an entry that its key has signed, or"
            " because the enrolment that displaced it was undone.",
            False,
        ),
        "isContested": (
            "Whether another enrolment that was undone, replaced or displaced may be in use. It comes back if this "
            "one is undone.",
            False,
        ),
        "replaces": (
            "The thumbprint of the pending enrolment that this one replaces. Required if that one is in use.",
            None,
        ),
        "log": ("The state of the box's log in this epoch.", None),
        "upTo": _UP_TO,
        "newest": ("The highest known number. Behind a gap, it is higher than `upTo`.", 41),
        "givenUp": ("The number of entries that the box gave up and that no phone has delivered since.", 0),
        "reports": ("Faults of the log, newest first: at most 20 of each kind.", []),
        "kind": (
            "The type of the fault. `Fork`: two entries have the number. `Break`: the entry does not follow the"
            " previous one. `Forgery`: no key of the box signed it. `UnknownKey`: the box opened with a key that was"
            " never issued. `GivenUp`: entries up to it are missing. `Late`: it arrived after it was given up, and so"
            " did those directly before it. `UnknownList`: the box claims a status list or a key set that the server"
            " has not signed.",
            "Fork",
        ),
        "number": ("The number of the entry.", 40),
        "reported": ("When the fault was detected.", "2026-05-01T18:00:00Z"),
        "times": (
            "The number of faults in this report: more than one if further reports of its kind are only counted.",
            1,
        ),
        "userId": ("The user whose app delivered forged entries; null for other kinds of report.", 9),
        "provisioning": ("Authority, name and time of the box, bound to the nonce.", _SIGNED),
        "keySet": ("The issuing and service keys, signed by the root.", _SIGNED),
        "roots": (
            "New roots, oldest first, each signed by the previous one. A box with an older root takes them first.",
            [],
        ),
        "statusList": _LIST,
        "uri": ("The URI of the list in keys.", "https://keyrack.example.com/v3/boxes/3/status?epoch=1&generation=1"),
        "generation": ("The number of the list in the epoch. A new list begins when one is full.", 1),
    },
    "Device": {
        "id": ("The thumbprint of the phone's public key (RFC 9679).", EXAMPLE_THUMBPRINT),
        "name": ("The name of the phone.", "Uma's phone"),
        "claimedProtection": (
            "The storage of the private key, as the app claims: `Software`, a `TrustedEnvironment` or a"
            " `SecureElement`. No attestation proves it. Omitted from a body, it is `Software`.",
            "SecureElement",
        ),
        "registered": ("When the phone was registered.", "2026-05-01T07:30:00Z"),
        "isApproved": ("Whether the phone gets keys. If it is false, a manager must approve the phone first.", True),
        "registration": (
            "The public key of the phone, the subject of the id token and the nonce, signed by that key.",
            _SIGNED,
        ),
        "nonce": ("The nonce that the phone must sign: 16 bytes.", _NONCE),
        "expires": ("When the nonce expires.", "2026-05-01T07:40:00Z"),
    },
    "IssuedKey": {
        "id": ("The id of the key: its `cti`.", OPERATION_ID),
        "deviceId": ("The id of the phone that has the key.", EXAMPLE_THUMBPRINT),
        "deviceName": ("The name of the phone; null after it was removed.", "Uma's phone"),
        "productId": ("The id of the box; null for a group-limited caller if the box is in none of its groups.", 3),
        "epoch": ("The epoch of the box. In later epochs, the key opens nothing.", 1),
        "issued": _ISSUED,
        "begins": _BEGINS,
        "expires": _EXPIRES,
        "revoked": ("When the key was revoked; null if it is not.", None),
        "isKnownToBox": ("Whether the box is known to have a status list that revokes the key.", False),
        "opensUntil": (
            "The latest moment at which the box may still accept the key, apart from the delay of its clock.",
            "2026-05-08T08:05:00Z",
        ),
        "canPowerLossExtend": (
            "Whether the key also opens while the clock of the box is uncertain. Without power, that clock may stop."
            " Then the key opens later than `opensUntil`, without a limit.",
            False,
        ),
    },
    "PhoneKeys": {
        "keySet": (
            "The issuing and service keys, for boxes that do not have them; null if no box of the customer takes keys.",
            _SIGNED,
        ),
        "roots": ("New roots, oldest first, each signed by the previous one, for boxes with an older root.", []),
        "keys": ("The keys: one for each assignment, and a second one while an enrolment of its box is pending.", None),
        "boxes": ("The messages that the phone carries to each box of its keys.", None),
        "withheld": ("The assignments that get no new key.", []),
        "isComplete": (
            "Whether the response has all keys. It is false if there are more assignments than keys in one response.",
            True,
        ),
        "box": _BOX,
        "issued": _ISSUED,
        "begins": _BEGINS,
        "expires": _EXPIRES,
        "renewAfter": ("When a new key for the assignment becomes available.", "2026-05-04T20:00:00Z"),
        "key": ("The key in the form that the box accepts.", _SIGNED),
        "boxKey": (
            "The public key of the box, a COSE_Key. An entry that it did not sign does not belong to the log.",
            "pAECIAEhWCBl7aWhJXfCuugpQ3_jOHAaEKqjdeG7W13hCN5DnAhVHSJYIB5S7XVwEWP3-eQN3580Gz3JuoYK9-DKfKfp7s0AhNGc",
        ),
        "statusLists": ("The status lists of the box, oldest first.", None),
        "receipt": _RECEIPT,
        "names": (
            "The keys of the names that the box advertises, for the days on which a key of the phone may open, and the"
            " 15 minutes before and after. Empty if the box advertises no such names.",
            None,
        ),
        "generation": ("The number of the list of the box.", 1),
        "statusList": _LIST,
        "reason": (
            "`too-many-keys`: too many keys of the assignment can still open. `status-list-full`: the status list of"
            " the box has no room for another key.",
            "too-many-keys",
        ),
    },
    "DayKey": {
        "day": ("The day, counted from 1970-01-01 in UTC.", 20_574),
        "key": ("The key of the day: 16 bytes.", "b0JXRCYhsIYUHu7arGkexQ"),
    },
    "BoxEntries": {
        "entries": ("Entries, as the boxes signed them.", [_SIGNED]),
        "receipts": ("A receipt for each box whose log is now known further.", None),
        "box": _BOX,
        "upTo": _UP_TO,
        "receipt": ("The proof for the box that the log is known up to `upTo`.", _SIGNED),
        "refused": ("The rejected entries.", []),
        "index": ("The index of the entry, from 0.", 3),
        "reason": ("Why the entry was rejected, in words.", "The entry is not signed by the box."),
    },
    "SignedTime": {
        "box": _BOX,
        "nonce": ("The nonce of the box's challenge: 16 bytes.", _NONCE),
        "time": ("The time, signed for the box and its nonce.", _SIGNED),
    },
}
