"""In charge of the ids and descriptions of the operations about keys that open boxes without a network."""

from __future__ import annotations

from collections.abc import Mapping

# Method and path -> the id, and what it does
OF_KEYS: Mapping[str, tuple[str, str]] = {
    "POST /sdk/devices/nonce": (
        "beginRegistration",
        "The nonce is valid for ten minutes and one registration. The newest one of the user counts.",
    ),
    "PUT /sdk/devices": (
        "registerDevice",
        "`registration` is made and signed by the phone's own key, for the user of the id token and a nonce of `POST"
        " /sdk/devices/nonce`. A phone that is registered already gets another name, with any nonce. The key of a"
        " removed phone is 409. docs/keys.md has the messages.",
    ),
    "GET /sdk/devices": ("listOwnDevices", "Those of the user of the id token, the oldest first."),
    "DELETE /sdk/devices/{deviceId}": (
        "removeOwnDevice",
        "What it has of keys is revoked at once: each box refuses them as soon as it has a newer status list.",
    ),
    "GET /users/{userId}/devices": ("listDevicesOfUser", "Every phone that the user's app has registered."),
    "DELETE /users/{userId}/devices/{deviceId}": (
        "removeDeviceOfUser",
        "For a phone that was lost. What it has of keys is revoked at once: each box refuses them as soon as it has a"
        " newer status list. The phone cannot be registered with this key again, and id tokens that were issued before"
        " register no phone. The user may register another phone.",
    ),
    "PUT /users/{userId}/devices/{deviceId}/approval": (
        "approveDeviceOfUser",
        "For a phone that waits for approval (`isApproved` is false). Customers choose this by `keyrack keys policy"
        " --approve-phones on`. A phone that is approved already stays so.",
    ),
    "DELETE /users/{userId}/removed-devices": (
        "forgetRemovedDevicesOfUser",
        "For a user whose phone gets no key (`too-many-keys`), as keys of removed phones use up"
        " `KEYRACK_KEYS_PER_ASSIGNMENT`. These keys count no longer. They stay revoked, so boxes still refuse them.",
    ),
    "GET /sdk/keys": (
        "getPhoneKeys",
        "A key holds from the later of now and the assignment's `start` to the earlier of its `end` and now +"
        " `lifetime`; until `renewAfter` the same one is answered again. `boxes` has what the phone carries to boxes."
        " What the phone holds beside this answer is over.",
    ),
    "PUT /sdk/boxlog": (
        "deliverBoxLog",
        "Entries of any box of the customer, in any order, once or often. Openings and closings go to `GET /events`,"
        " each once and in order. `receipts` are for the boxes, which free the room then; what is refused is told by"
        " its place, and the others are taken.",
    ),
    "POST /sdk/time": (
        "getSignedTime",
        "For a box whose clock is uncertain: the message is good for its name and its nonce, which lives for ten"
        " seconds. Only who has a key of the box gets it.",
    ),
    "POST /boxes/{productId}/enrolment": (
        "beginEnrolment",
        "Good for ten minutes; the newest one counts. The box signs it, and `PUT /boxes/{productId}/enrolment` takes"
        " what it has signed. The customer's first box gets an authority for its keys as well.",
    ),
    "PUT /boxes/{productId}/enrolment": (
        "enrolBox",
        "A box that is at work keeps its epoch, and the new one is pending until an entry that the new key has signed"
        " arrives. Then the epoch before ends, with its keys and lists. A further enrolment replaces a pending one."
        " Send the `thumbprint` that the box shows: another key is 409. Enrolments are limited for each customer and"
        " each caller: beyond the limit the answer is 429 with `Retry-After`.",
    ),
    "DELETE /boxes/{productId}/enrolment": (
        "undoEnrolment",
        "The pending epoch is deleted, and its keys are revoked. The epoch in force stays. A box that was enrolled in"
        " the pending one has to be reset.",
    ),
    "POST /boxes/{productId}/enrolment/approval": (
        "approveEnrolment",
        "Customers choose by `keyrack keys policy --second-person on` that a pending enrolment comes into force only"
        " after another manager has approved it. `thumbprint` is that of the pending enrolment, and of the box.",
    ),
    "GET /boxes/{productId}/enrolment": (
        "getEnrolledBox",
        "`log` has the number up to which the log is known without a gap, the highest number, and reports of faults:"
        " the newest 20 of each kind. `pending` is an enrolment that is not in force yet.",
    ),
    "GET /boxes/{productId}/provisioning": (
        "getProvisioning",
        "The box takes the three messages together, or none; they are good for the one nonce. A box that is at work"
        " already gets its clock set by them. While an enrolment is pending, the messages are for its key; `thumbprint`"
        " chooses the box at work.",
    ),
    "GET /boxes/{productId}/status": (
        "getStatusList",
        "A Token Status List as a CWT, signed anew where something was revoked since. With"
        " `Accept: application/statuslist+cwt` its bytes alone.",
    ),
    "GET /cars/{carId}/keys": (
        "listKeysOfCar",
        "Those in force, revoked ones and past ones, as long as they are kept. `opensUntil` is the latest moment at"
        " which a box may still take the key, but for what its clock is slow by. If `canPowerLossExtend`, a loss of"
        " power extends it without a bound. A list that is too long comes in pages.",
    ),
}
