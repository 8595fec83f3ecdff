"""Descriptions of properties of the change log: changes, proofs, and access history."""

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
        "customerId": ("The customer of the log.", 3),
        "epoch": ("The epoch of the log. A checkpoint proves nothing about other epochs.", OPERATION_ID),
        "size": ("The number of changes in the log.", 4711),
        "root": ("The root hash of the Merkle tree of the records, in base64.", _HASH),
        "time": ("When the checkpoint was signed.", "2026-05-01T08:15:00Z"),
        "note": (
            "The signed note: origin, size and root, one per line, then the signatures.",
            f"keyrack.example.com/changes/3/{OPERATION_ID}\n4711\n{_HASH}\n\n— ...\n",
        ),
        "consistency": (
            "With `since`: the hashes, in base64, that prove that the log begins with the older one.",
            [_HASH],
        ),
    },
    "ChangeProof": {
        "id": ("The number of the change.", 17),
        "epoch": ("The epoch of the log.", OPERATION_ID),
        "index": ("The index of the record's leaf in the tree, from 0.", 16),
        "record": ("The record of the change, in base64.", "AQAAAAgAAAAAAAAAAw=="),
        "inclusion": ("The hashes from the leaf to the root, in base64.", [_HASH]),
        "checkpoint": ("The checkpoint that contains this root.", None),
    },
    "ChangeTold": {
        "type": ("The event type of the change.", "car.updated"),
        "timestamp": ("When the change happened.", "2026-05-01T08:15:00.25Z"),
        "epoch": (
            "The epoch of the log. With the number of the change, it is the position at which `GET /changes`"
            " continues.",
            OPERATION_ID,
        ),
        "data": ("The change.", None),
    },
    "Change": {
        "id": ("The number of the change. Numbers are counted per customer, without gaps.", 4711),
        "time": ("When the change happened.", "2026-05-01T08:15:00.25Z"),
        "recordedTime": (
            "When the change was numbered. It is never earlier than that of the previous change.",
            _RECORDED,
        ),
        "kind": ("The event type.", "car.updated"),
        "resource": ("The type of the changed resource.", "car"),
        "resourceId": ("The id of the changed resource. If its key has several parts, it contains all of them.", "17"),
        "actor": ("The actor that made the change.", {"type": "manager", "id": "7", "name": "anna"}),
        "onBehalfOf": (
            "The actor that requested it, if it is another one, such as the inviter of an accepted invitation; null"
            " otherwise.",
            {"type": "user", "id": "9", "name": "Uma"},
        ),
        "address": ("The IP address of the request; null without one.", "192.0.2.7"),
        "requestId": ("The id of the request from the header `X-Request-ID`; null without one.", _REQUEST_ID),
        "operationId": ("The operation that caused the change; null without one.", OPERATION_ID),
        "groups": ("The groups of the resource at that time.", [3]),
        "before": (
            "The changed properties with their previous values; null if the resource was created.",
            {"name": "Pool car 1"},
        ),
        "after": (
            "The changed properties with their new values; null if the resource was deleted.",
            {"name": "Pool car 9"},
        ),
    },
    "Actor": {
        "type": ("The type of the actor: a manager, client, device, user, operator, or the system.", "manager"),
        "id": ("The id of the actor.", "7"),
        "name": ("The name of the actor at that time.", "anna"),
    },
    "Access": {
        "at": ("The requested time.", "2026-05-01T10:00:00Z"),
        "from": ("The start of the requested time range.", "2026-05-01T00:00:00Z"),
        "to": ("The end of the requested time range, exclusive.", "2026-05-02T00:00:00Z"),
        "asOf": ("The newest change that the response is certain to include. It may include later ones.", None),
        "changeId": ("The number of that change; 0 before the first.", 4711),
        "recordedTime": ("When the change was numbered.", _RECORDED),
        "assigned": ("The assignments in force, ordered by `since`.", None),
        "since": (
            "When the assignment came into force. With `from` and `to`, the start of the period in which all values"
            " of this entry applied.",
            _SINCE,
        ),
        "until": (
            "When the assignment was to end; null for never. With `from` and `to`, the end of the period in which all"
            " values of this entry applied or will apply.",
            "2026-05-01T18:00:00Z",
        ),
        "knownFrom": ("When the change that caused this state was written.", _SINCE),
        "knownUntil": ("When the change that ended this state was numbered; null if there is none.", None),
        "boxId": ("The key box in the car; null for none.", 9),
        "serviceId": ("The service that was paired with the box, terminated or not; null for none.", 4),
        "events": (
            "The changes around that time, as in `GET /changes`. Empty for a caller without `changes:read`.",
            None,
        ),
        "moreEvents": ("Whether there are more changes than the response contains.", False),
    },
}
