"""The OpenAPI schemas of single properties: descriptions, and names of enumerations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from keyrack.http.openapi.descriptions.fleet import meaning

Json = dict[str, Any]

# The subject of a schema, if it differs from the schema's name: its properties are described under the subject
SUBJECTS: Mapping[str, str] = {
    "PasswordGrant": "AccessToken",
    "ClientGrant": "AccessToken",
    "Revocation": "AccessToken",
    "NewManager": "Manager",
    "ManagerInvited": "Manager",
    "ManagerPatch": "Manager",
    "NewClient": "MachineClient",
    "ClientCreated": "MachineClient",
    "ClientPatch": "MachineClient",
    "SecretCreated": "ClientSecret",
    "SdkTokenRequest": "SdkToken",
    "NewCar": "Car",
    "CarPatch": "Car",
    "NewUser": "User",
    "UserPatch": "User",
    "UserCreated": "User",
    "UserData": "User",
    "PersonName": "User",
    "SomeUser": "User",
    "NewAssignment": "Assignment",
    "AssignmentPatch": "Assignment",
    "AssignmentOfCar": "Assignment",
    "AssignmentOfUser": "Assignment",
    "NewGroup": "Group",
    "GroupPatch": "Group",
    "ProductListed": "Product",
    "ProductPatch": "Product",
    "ServiceOfProduct": "Service",
    "KeyForm": "Key",
    "NewEvent": "Event",
    "OfflineEvent": "Event",
    "Sample": "Telemetry",
    "Trouble": "Telemetry",
    "Delivered": "Ingest",
    "DeliveredEvents": "Ingest",
    "Refused": "Ingest",
    "Numbered": "Ingest",
    "Track": "Position",
    "TrackPoint": "Position",
    "CarAccess": "Access",
    "UserAccess": "Access",
    "Stretch": "Access",
    "AsOf": "Access",
    "Bucket": "Samples",
    "NewWebhook": "Webhook",
    "WebhookCreated": "Webhook",
    "WebhookPatch": "Webhook",
    "SecretRotated": "Webhook",
    "KindListed": "Webhook",
    "CheckpointTold": "ChangeTold",
    "TimeRange": "Webhook",
    "Replayed": "Webhook",
    "DeliveryListed": "Delivery",
    "AssignmentBatch": "Batch",
    "CarBatch": "Batch",
    "UserBatch": "Batch",
    "GroupBatch": "Batch",
    "AssignmentCreation": "Batch",
    "AssignmentChange": "Batch",
    "CarCreation": "Batch",
    "CarChange": "Batch",
    "UserCreation": "Batch",
    "UserChange": "Batch",
    "GroupCreation": "Batch",
    "GroupChange": "Batch",
    "End": "Batch",
    "BatchResult": "Batch",
    "BatchReport": "Batch",
    "ItemResult": "Batch",
    "ItemFault": "Batch",
    "AssignmentConflict": "Batch",
    "CarBookingSettings": "BookingSettings",
    "OperationConflict": "Operation",
    "Kept": "Retention",
    "Preview": "Erasure",
    "Goes": "Erasure",
    "Stays": "Erasure",
    "AlsoIn": "Erasure",
    "Preferences": "Me",
    "NewPassword": "Me",
    "Unready": "Health",
    "Why": "Health",
    "EnrolmentNonce": "Box",
    "Enrolment": "Box",
    "EnrolmentApproval": "Box",
    "PendingEnrolment": "Box",
    "EnrolledBox": "Box",
    "BoxState": "Box",
    "BoxLog": "Box",
    "BoxReport": "Box",
    "BoxProvisioning": "Box",
    "BoxStatusList": "Box",
    "Registration": "Device",
    "RegistrationNonce": "Device",
    "AppDevice": "Device",
    "PhoneKey": "PhoneKeys",
    "CarriedBox": "PhoneKeys",
    "CarriedList": "PhoneKeys",
    "DayKey": "DayKey",
    "Withheld": "PhoneKeys",
    "Entries": "BoxEntries",
    "TakenEntries": "BoxEntries",
    "BoxReceipt": "BoxEntries",
    "RefusedEntry": "BoxEntries",
    "TimeWanted": "SignedTime",
}
# The names of enumerations, by subject and property
VALUES: Mapping[tuple[str, str], str] = {
    ("Car", "op"): "PatchOperation",
    ("Assignment", "op"): "PatchOperation",
    ("Webhook", "op"): "PatchOperation",
    ("User", "type"): "UserType",
    ("Product", "type"): "ProductType",
    ("Event", "type"): "EventType",
    ("Operation", "kind"): "OperationKind",
    ("Operation", "cause"): "OperationCause",
    ("Operation", "state"): "OperationState",
    ("Operation", "errorCode"): "OperationError",
    ("Outcome", "type"): "OutcomeType",
    ("Webhook", "kinds"): "OutcomeKind",
    ("Webhook", "dialect"): "WebhookDialect",
    ("MachineClient", "mode"): "ClientMode",
    ("Delivery", "type"): "DeliveryType",
    ("ChangeTold", "type"): "ChangeKind",
    ("EventTold", "type"): "EventKind",
    ("Delivery", "state"): "DeliveryState",
    ("Batch", "conflicts"): "ConflictHandling",
    ("Retention", "kind"): "RetainedKind",
    ("Me", "language"): "Language",
    ("Me", "theme"): "Theme",
    ("Box", "kind"): "BoxReportKind",
    ("Device", "claimedProtection"): "KeyProtection",
    ("PhoneKeys", "reason"): "WithheldReason",
}
# The bodies in items of a batch, which are those of single requests
BODIES: Mapping[str, str] = {
    "AssignmentCreation": "NewAssignment",
    "CarCreation": "NewCar",
    "UserCreation": "NewUser",
    "GroupCreation": "NewGroup",
}
# Properties that are lists of a resource
LISTS: Mapping[tuple[str, str], str] = {("Access", "events"): "Change"}


def subject(name: str) -> str:
    """The subject of the schema with this name."""
    return SUBJECTS.get(name, name)


def describe(name: str, member: str, schema: Json, schemas: dict[str, Json]) -> Json:
    """The schema of a property of the schema `name`, with its description. Adds its enumeration to `schemas`.

    It has no default: generators treat a default as a promise that the property is present.
    """
    if member == "body" and name in BODIES:
        schema = {"$ref": f"#/components/schemas/{BODIES[name]}"}
    if listed := LISTS.get((subject(name), member)):
        schema = schema | {"items": {"$ref": f"#/components/schemas/{listed}"}}
    shown = {key: value for key, value in schema.items() if key not in ("default", "title", "description")}
    shown = _simple(_named(subject(name), member, shown, schemas))
    description = meaning(subject(name), member)
    words = schema.get("description") or (description.text if description else None)
    return shown | ({"description": words} if words else {})


def _named(about: str, member: str, schema: Json, schemas: dict[str, Json]) -> Json:
    """The schema with a reference to the named enumeration, if it has one."""
    called = VALUES.get((about, member))
    if called is None:
        return schema
    if "enum" in schema:
        values = [value for value in schema["enum"] if value is not None]
        schemas[called] = {"type": "string", "enum": values}
        reference: Json = {"$ref": f"#/components/schemas/{called}"}
        return {"anyOf": [reference, {"type": "null"}]} if len(values) < len(schema["enum"]) else reference
    if "anyOf" in schema:
        return schema | {"anyOf": [_named(about, member, option, schemas) for option in schema["anyOf"]]}
    if "items" in schema:
        return schema | {"items": _named(about, member, schema["items"], schemas)}
    return schema


def _simple(schema: Json) -> Json:
    """The schema with two types, instead of a choice between one type and null."""
    match schema:
        case {"anyOf": [{"type": str(kind), **rest}, {"type": "null"}], **others} if kind not in ("array", "object"):
            return {**others, **rest, "type": [kind, "null"]}
        case _:
            return schema
