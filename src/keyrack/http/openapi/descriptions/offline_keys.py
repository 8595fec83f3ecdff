"""In charge of what the members mean that are about keys without a network: boxes, phones, keys, lists and logs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from keyrack.http.openapi.descriptions.extensions import OPERATION_ID
from keyrack.offline_keys.public_key import EXAMPLE_THUMBPRINT

# What has bytes is base64url (RFC 4648, section 5) without padding; messages are shortened to their beginnings
_SIGNED = "0oRYOaMBJgRI"
_NONCE = "AAECAwQFBgcICQoLDA0ODw"
_BOX = ("What the box is called in messages: `box:`, the product's id, `:` and the epoch.", "box:3:1")
_EPOCH = ("The number of the enrolment. When an epoch comes into force, those before it end.", 1)
_LIST = ("The signed status list, a Token Status List as a CWT.", _SIGNED)
_UP_TO = ("Up to which number the log of the box is known without a gap.", 41)
_ISSUED = ("When the key was issued.", "2026-05-01T08:00:00Z")
_BEGINS = ("From when on it opens.", "2026-05-01T08:00:00Z")
_EXPIRES = ("Until when it opens.", "2026-05-08T08:00:00Z")
_RECEIPT = ("The newest receipt of the box's log, for the box; null where there is none yet.", _SIGNED)

OF_KEYS: Mapping[str, Mapping[str, tuple[str, Any]]] = {
    "Box": {
        "nonce": ("What the box has to sign: 16 bytes.", _NONCE),
        "expires": ("Until when the nonce is taken.", "2026-05-01T08:10:00Z"),
        "enrolment": ("What the box has made of the nonce, signed by its own key.", _SIGNED),
        "epoch": _EPOCH,
        "name": _BOX,
        "thumbprint": (
            "The thumbprint of the box's public key (RFC 9679): to be compared with what the box shows.",
            EXAMPLE_THUMBPRINT,
        ),
        "enrolled": ("When the box was enrolled in this epoch.", "2026-05-01T08:01:00Z"),
        "isPending": (
            "Whether the enrolment is pending, because the box has an epoch in force. That one ends as soon as an entry"
            " that the new key has signed arrives.",
            False,
        ),
        "pending": ("The pending enrolment; null if there is none.", None),
        "isProven": ("Whether an entry that the new key has signed has arrived.", False),
        "needsApproval": (
            "Whether a manager has to approve the enrolment: the customer wants a second person, or it came back.",
            True,
        ),
        "isApproved": ("Whether a manager has approved the enrolment.", False),
        "hasReturned": (
            "Whether the enrolment was undone or replaced, and came back: by an entry that its key has signed, or by "
            "the undo of the one that displaced it.",
            False,
        ),
        "isContested": (
            "Whether another enrolment that was undone, replaced or displaced may be in use. It comes back if this "
            "one is undone.",
            False,
        ),
        "replaces": (
            "The thumbprint of the pending enrolment that this one replaces. It is needed if that one is in use.",
            None,
        ),
        "log": ("How far the log of the box has come home, in this epoch.", None),
        "upTo": _UP_TO,
        "newest": ("The highest number that has come: behind a gap it is more than `upTo`.", 41),
        "givenUp": ("How many entries the box gave up and no phone has brought since.", 0),
        "reports": ("Faults of the log, the newest first: at most 20 of each kind.", []),
        "kind": (
            "The fault. `Fork`: two entries have the number. `Break`: it does not fit the one before. `Forgery`: no"
            " key of the box signed it. `UnknownKey`: it opened by a key that was never issued. `GivenUp`: entries up"
            " to it are missing. `Late`: it arrived after it was given up, and so did those directly before it."
            " `UnknownList`: the box claims a status list or a key set that the server has not signed.",
            "Fork",
        ),
        "number": ("The number of the entry.", 40),
        "reported": ("When that was seen.", "2026-05-01T18:00:00Z"),
        "times": ("How many faults it counts: more than one if no further report of its kind was kept.", 1),
        "userId": ("The user whose app brought forged entries; null for other kinds of report.", 9),
        "provisioning": ("Authority, name and time of the box, bound to the nonce.", _SIGNED),
        "keySet": ("The issuing and service keys, signed by the root.", _SIGNED),
        "roots": (
            "New roots, the oldest first, each signed by the one before. A box with an older root takes them first.",
            [],
        ),
        "statusList": _LIST,
        "uri": ("What keys call the list.", "https://keyrack.example.com/v3/boxes/3/status?epoch=1&generation=1"),
        "generation": ("Which list of the epoch it is: the next one begins where one is full.", 1),
    },
    "Device": {
        "id": ("The thumbprint of the phone's public key (RFC 9679).", EXAMPLE_THUMBPRINT),
        "name": ("What the phone is called.", "Uma's phone"),
        "claimedProtection": (
            "The app's claim where the private key is: in `Software`, a `TrustedEnvironment` or a `SecureElement`."
            " No attestation proves it. Without it in a body it is `Software`.",
            "SecureElement",
        ),
        "registered": ("When it was registered.", "2026-05-01T07:30:00Z"),
        "isApproved": ("Whether the phone gets keys. If it is false, a manager has to approve the phone first.", True),
        "registration": (
            "The public key of the phone, the subject of the id token and the nonce, signed by that key.",
            _SIGNED,
        ),
        "nonce": ("16 bytes, which the phone has to sign.", _NONCE),
        "expires": ("When the nonce expires.", "2026-05-01T07:40:00Z"),
    },
    "IssuedKey": {
        "id": ("The id of the key: its `cti`.", OPERATION_ID),
        "deviceId": ("The phone that has it, by its id.", EXAMPLE_THUMBPRINT),
        "deviceName": ("What that phone is called; null once it was removed.", "Uma's phone"),
        "productId": ("The id of the box; null for a group-limited caller if the box is in none of its groups.", 3),
        "epoch": ("The epoch of the box: in a later one the key opens nothing.", 1),
        "issued": _ISSUED,
        "begins": _BEGINS,
        "expires": _EXPIRES,
        "revoked": ("When it was revoked; null where it was not.", None),
        "isKnownToBox": ("Whether the box was seen to have a list that says that the key is revoked.", False),
        "opensUntil": (
            "The latest moment at which the box may still take the key, but for what its clock is slow by.",
            "2026-05-08T08:05:00Z",
        ),
        "canPowerLossExtend": (
            "Whether the key also opens while the clock of the box is uncertain. That clock may stand still without"
            " power. Then the key opens later than `opensUntil`, without a bound.",
            False,
        ),
    },
    "PhoneKeys": {
        "keySet": (
            "The issuing and service keys, for boxes that do not have them; null where nothing opens so.",
            _SIGNED,
        ),
        "roots": ("New roots, the oldest first, each signed by the one before, for boxes with an older root.", []),
        "keys": ("The keys: one for each assignment, and another one while an enrolment of its box is pending.", None),
        "boxes": ("What the phone carries to each box of its keys.", None),
        "withheld": ("The assignments for which no key is made now.", []),
        "isComplete": ("Whether these are all: else there are more assignments than one answer has keys.", True),
        "box": _BOX,
        "issued": _ISSUED,
        "begins": _BEGINS,
        "expires": _EXPIRES,
        "renewAfter": ("From when on there is another key for the assignment.", "2026-05-04T20:00:00Z"),
        "key": ("The key, as the box takes it.", _SIGNED),
        "boxKey": (
            "The public key of the box, a COSE_Key: what it has not signed is no entry of its log.",
            "pAECIAEhWCBl7aWhJXfCuugpQ3_jOHAaEKqjdeG7W13hCN5DnAhVHSJYIB5S7XVwEWP3-eQN3580Gz3JuoYK9-DKfKfp7s0AhNGc",
        ),
        "statusLists": ("The status lists of the box, the oldest first.", None),
        "receipt": _RECEIPT,
        "generation": ("Which list of the box it is.", 1),
        "statusList": _LIST,
        "reason": (
            "`too-many-keys`: so many of the assignment's keys may still open. `status-list-full`: the box has no place"
            " for another one.",
            "too-many-keys",
        ),
    },
    "BoxEntries": {
        "entries": ("Entries as the boxes have signed them.", [_SIGNED]),
        "receipts": ("A receipt for each box whose log is known further than before.", None),
        "box": _BOX,
        "upTo": _UP_TO,
        "receipt": ("That the log is known up to there, for the box.", _SIGNED),
        "refused": ("The entries that were not taken.", []),
        "index": ("Which one it is, counted from 0.", 3),
        "reason": ("Why it was refused, in words.", "The entry is not signed by the box."),
    },
    "SignedTime": {
        "box": _BOX,
        "nonce": ("The nonce of the box's challenge: 16 bytes.", _NONCE),
        "time": ("The time, signed for the box and its nonce.", _SIGNED),
    },
}
