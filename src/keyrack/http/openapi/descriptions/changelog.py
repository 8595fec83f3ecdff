"""In charge of what the members mean that tell of the log of changes: changes, their proof, and who had access."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from keyrack.http.openapi.descriptions.extensions import OPERATION_ID

_RECORDED = "2026-05-01T08:15:00.3Z"
_SINCE = "2026-05-01T08:00:00Z"
_REQUEST_ID = "4bf92f3577b34da6a3ce929d0e0e4736"
_HASH = "na2/4PB/eLDQ0Zlq3BewgzOBgf3wmP2nUSyHZDLRILU="

OF_LOG: Mapping[str, Mapping[str, tuple[str, Any]]] = {
    "ChangeCheckpoint": {
        "customerId": ("Whose log it is.", 3),
        "epoch": ("The epoch of the log: the checkpoint says nothing of another one.", OPERATION_ID),
        "size": ("How many changes it is of.", 4711),
        "root": ("The root of the tree of their records, in base64.", _HASH),
        "time": ("When it was signed.", "2026-05-01T08:15:00Z"),
        "note": (
            "The signed note: origin, size and root in lines, then the signatures.",
            f"keyrack.example.com/changes/3/{OPERATION_ID}\n4711\n{_HASH}\n\n— ...\n",
        ),
        "consistency": ("With `since`: hashes that prove that the log begins with the older one, in base64.", [_HASH]),
    },
    "ChangeProof": {
        "id": ("The number of the change.", 17),
        "epoch": ("The epoch of the log.", OPERATION_ID),
        "index": ("Which leaf of the tree its record is, from 0.", 16),
        "record": ("The record of the change, in base64.", "AQAAAAgAAAAAAAAAAw=="),
        "inclusion": ("The hashes from the leaf to the root, in base64.", [_HASH]),
        "checkpoint": ("The checkpoint whose root it is.", None),
    },
    "ChangeTold": {
        "type": ("What it is about: the kind of the change.", "car.updated"),
        "timestamp": ("When it happened.", "2026-05-01T08:15:00.25Z"),
        "epoch": ("Which log it is of: with the number of the change, where `GET /changes` goes on.", OPERATION_ID),
        "data": ("What it tells.", None),
    },
    "Change": {
        "id": ("The number of the change: each customer counts its own, without gaps.", 4711),
        "time": ("When it happened.", "2026-05-01T08:15:00.25Z"),
        "recordedTime": ("When it got its number: never earlier than that of the change before.", _RECORDED),
        "kind": ("What happened.", "car.updated"),
        "resource": ("What kind of thing it happened to.", "car"),
        "resourceId": ("The id of that thing; of what has several, all of them.", "17"),
        "actor": ("Who did it.", {"type": "manager", "id": "7", "name": "anna"}),
        "onBehalfOf": (
            "The actor that asked for it, if another one: the inviter of an accepted invitation, for example. Null "
            "otherwise.",
            {"type": "user", "id": "9", "name": "Uma"},
        ),
        "address": ("The address that the request came from; null where there was none.", "192.0.2.7"),
        "requestId": ("The id of the request, as the header `X-Request-ID` told it; null without one.", _REQUEST_ID),
        "operationId": ("The operation that it comes from; null without one.", OPERATION_ID),
        "groups": ("The groups that the thing was in then.", [3]),
        "before": ("The members that changed, as they were; null for what was made.", {"name": "Pool car 1"}),
        "after": ("The members that changed, as they are; null for what was removed.", {"name": "Pool car 9"}),
    },
    "Actor": {
        "type": ("What did it: a manager, client, device, user, operator, or the system.", "manager"),
        "id": ("The id of who did it.", "7"),
        "name": ("The name of who did it, as it was then.", "anna"),
    },
    "Access": {
        "at": ("The time in question.", "2026-05-01T10:00:00Z"),
        "from": ("The beginning of the time in question.", "2026-05-01T00:00:00Z"),
        "to": ("Its end, which is not part of it.", "2026-05-02T00:00:00Z"),
        "asOf": ("The newest change that the answer is sure to have in it; those behind it may be.", None),
        "changeId": ("The number of that change; 0 before the first.", 4711),
        "recordedTime": ("When it got its number.", _RECORDED),
        "assigned": ("What was in force, in the order of `since`.", None),
        "since": ("When it came into force; of a time between two, since when all in here was so.", _SINCE),
        "until": (
            "When it was to end, null for never; of a time between two, until when all in here was so or is to be.",
            "2026-05-01T18:00:00Z",
        ),
        "knownFrom": ("When the change was written that made it so.", _SINCE),
        "knownUntil": ("When the change got its number that made it otherwise; null where none did.", None),
        "boxId": ("The key box that was in the car; null for none.", 9),
        "serviceId": ("The service that the box was paired with, terminated or not; null for none.", 4),
        "events": (
            "The changes around it, as `GET /changes` has them. Empty for a caller without `changes:read`.",
            None,
        ),
        "moreEvents": ("Whether there are more of them than are shown.", False),
    },
}
