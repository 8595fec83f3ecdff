"""Types of bodies and answers. Made by clients/generate.py from the OpenAPI document of the server. Do not edit."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, TypeAlias, TypedDict

__all__ = ["About", "Acknowledged", "Acknowledgement", "Actor", "AlsoIn", "AppAccessState", "AppDevice", "AppInvitation", "AppInvitationRequest", "AsOf", "Assignment", "AssignmentBatch", "AssignmentChange", "AssignmentConflict", "AssignmentCreation", "AssignmentOfCar", "AssignmentOfUser", "AssignmentPatch", "AssignmentRequest", "AssignmentUpdate", "AuthorizationServer", "AvailableCar", "Batch", "BatchResult", "BookingSettings", "BoxLog", "BoxProvisioning", "BoxReceipt", "BoxReport", "BoxReportKind", "BoxState", "BoxStatusList", "Bucket", "Car", "CarAccess", "CarBatch", "CarBookingSettings", "CarChange", "CarCreation", "CarOfGroup", "CarPatch", "CarUpdate", "CarriedBox", "CarriedList", "CellState", "Change", "ChangeCheckpoint", "ChangeKind", "ChangeProof", "ChangeTold", "CheckpointTold", "ClientCreated", "ClientMode", "ClientPatch", "ClientSecret", "ClientUpdate", "Code", "ConflictHandling", "Contract", "Created", "Customer", "DayKey", "Delivered", "DeliveredEvents", "Delivery", "DeliveryListed", "DeliveryState", "DeliveryType", "Device", "DriverSettings", "End", "EnrolledBox", "Enrolment", "EnrolmentApproval", "EnrolmentNonce", "Entries", "Event", "EventKind", "EventTold", "EventType", "FactorRules", "Factors", "Fault", "FaultCode", "Goes", "Group", "GroupBatch", "GroupChange", "GroupCreation", "GroupPatch", "GroupUpdate", "Healthy", "HiddenAssignment", "Identity", "Installation", "Invitation", "IssuedKey", "ItemFault", "ItemResult", "JsonWebKeySet", "Kept", "Key", "KeyForm", "KeyProtection", "KindListed", "Language", "Location", "MachineClient", "Manager", "ManagerInvited", "ManagerPatch", "ManagerUpdate", "Me", "NewApp", "NewAssignment", "NewCar", "NewClient", "NewEvent", "NewGroup", "NewManager", "NewPasskey", "NewPassword", "NewUser", "NewWebhook", "Numbered", "OfflineEvent", "OpenApiDocument", "OpenIdConfiguration", "OpenableCarOfUser", "Operation", "OperationCause", "OperationConflict", "OperationError", "OperationKind", "OperationState", "Outcome", "OutcomeKind", "OutcomeType", "Pairing", "Passkey", "PasskeyMade", "PasskeyOptions", "PatchOperation", "PendingEnrolment", "PersonName", "PhoneKey", "PhoneKeys", "Position", "Preferences", "Preview", "Problem", "Product", "ProductListed", "ProductOfGroup", "ProductPatch", "ProductType", "ProductUpdate", "Ready", "RecoveryCodes", "Refused", "RefusedEntry", "Registration", "RegistrationNonce", "Replayed", "RequestDecision", "RetainedKind", "Role", "Sample", "Samples", "SdkToken", "SdkTokenRequest", "SecretCreated", "SecretRotated", "Service", "ServiceOfGroup", "ServiceOfProduct", "Session", "SignedTime", "SomeUser", "Stays", "Stretch", "TakenEntries", "Telemetry", "TestMessage", "Theme", "TimeRange", "TimeWanted", "Track", "TrackPoint", "Trouble", "User", "UserAccess", "UserBatch", "UserChange", "UserCreated", "UserCreation", "UserData", "UserLossOutcome", "UserLossReport", "UserOfGroup", "UserPatch", "UserType", "UserUpdate", "WaitingMessage", "Webhook", "WebhookCreated", "WebhookDialect", "WebhookPatch", "WebhookUpdate", "Why", "Withheld", "WithheldReason"]

class About(TypedDict):
    """Information about the server."""

    name: Literal["Keyrack"]
    version: str
    apiVersion: str
    baseUrl: str
    documentation: str
    openapi: str
    preview: list[str]

class Acknowledged(TypedDict):
    count: int

class Acknowledgement(TypedDict):
    """The number up to which a client has processed the messages."""

    upto: int

class Actor(TypedDict):
    type: str | None
    id: str | None
    name: str | None

class AlsoIn(TypedDict):
    """Another customer of the caller, in which the person stays unchanged."""

    id: str
    name: str

class AppAccessState(TypedDict):
    """A user's access to the app for this customer."""

    canBeInvited: bool
    hasAccess: bool
    isInvited: bool
    invitationExpires: str | None
    lastSeen: str | None
    isWithdrawn: bool

class AppDevice(TypedDict):
    """A phone. `id` is the thumbprint of its key (RFC 9679)."""

    id: str
    name: str
    claimedProtection: KeyProtection
    registered: str
    isApproved: bool

class AppInvitation(TypedDict):
    """The link, and when it expires. Both are null if the link is mailed."""

    link: str | None
    expires: str | None

class AppInvitationRequest(TypedDict, total=False):
    """`mail` sends the link to the user's address. Otherwise, the response has it."""

    mail: bool

class AsOf(TypedDict):
    changeId: int
    recordedTime: str

class _AssignmentRequired(TypedDict):
    id: int
    carId: int
    userId: int | None
    start: str
    end: str | None
    lifetime: int | None
    renewableAfter: int | None

class Assignment(_AssignmentRequired, total=False):
    exclusive: bool
    externalId: str | None
    metadata: dict[str, str] | None
    car: Car | None
    user: User | None

class _AssignmentBatchRequired(TypedDict):
    kind: Literal["assignments"]
    items: list[AssignmentCreation | AssignmentChange | End]

class AssignmentBatch(_AssignmentBatchRequired, total=False):
    atomic: bool
    dryRun: bool
    conflicts: ConflictHandling

class AssignmentChange(TypedDict):
    op: Literal["change"]
    id: int
    patch: list[AssignmentPatch]

class _AssignmentConflictRequired(TypedDict):
    userId: int
    start: str
    end: str | None

class AssignmentConflict(_AssignmentConflictRequired, total=False):
    """An overlapping assignment of the same car. It exists, or a pending request or a previous item asks for it."""

    assignmentId: int | None
    operationId: str | None
    item: int | None

class AssignmentCreation(TypedDict):
    op: Literal["create"]
    body: NewAssignment

class _AssignmentOfCarRequired(TypedDict):
    id: int
    userId: int | None
    start: str
    end: str | None

class AssignmentOfCar(_AssignmentOfCarRequired, total=False):
    exclusive: bool
    externalId: str | None
    metadata: dict[str, str] | None
    car: Car | None
    user: User | None

class _AssignmentOfUserRequired(TypedDict):
    id: int
    carId: int
    start: str
    end: str | None

class AssignmentOfUser(_AssignmentOfUserRequired, total=False):
    exclusive: bool
    externalId: str | None
    metadata: dict[str, str] | None
    car: Car | None
    user: User | None

class _AssignmentPatchRequired(TypedDict):
    op: PatchOperation
    path: Literal["/carId", "/userId", "/start", "/end", "/lifetime", "/renewableAfter", "/exclusive", "/externalId", "/metadata"] | str

class AssignmentPatch(_AssignmentPatchRequired, total=False):
    value: str | int | bool | dict[str, str] | None

class _AssignmentRequestRequired(TypedDict):
    id: int
    assignmentId: int
    carId: int
    userId: int
    kind: Literal["extend", "end"]
    end: str | None
    comment: str | None
    state: Literal["open", "granted", "rejected", "withdrawn", "expired"]
    decidedBy: Literal["manager", "client", "rule", "driver", None]
    decisionComment: str | None
    errorCode: str | None
    errorMessage: str | None
    created: str
    decided: str | None

class AssignmentRequest(_AssignmentRequestRequired, total=False):
    car: Car | None
    user: User | None

class AssignmentUpdate(TypedDict, total=False):
    """The properties to change. Null removes a value."""

    carId: int | None
    userId: int | None
    start: str | datetime | None
    end: str | datetime | None
    lifetime: int | None
    renewableAfter: int | None
    exclusive: bool | None
    externalId: str | None
    metadata: dict[str, Any] | None | None

class AuthorizationServer(TypedDict):
    """The metadata of an authorization server (RFC 8414, section 2)."""

    issuer: str
    token_endpoint: str
    revocation_endpoint: str
    jwks_uri: str
    token_endpoint_auth_methods_supported: list[str]
    revocation_endpoint_auth_methods_supported: list[str]
    grant_types_supported: list[str]
    scopes_supported: list[str]
    response_types_supported: list[str]

_AvailableCarOptionalKeys = TypedDict("_AvailableCarOptionalKeys", {"products@odata.count": 'int', "assignments@odata.count": 'int', "groups@odata.count": 'int'}, total=False)

class _AvailableCarRequired(_AvailableCarOptionalKeys):
    id: int
    name: str
    description: str | None
    vin: str | None
    licensePlate: str | None
    brand: str | None
    model: str | None
    freeFrom: str | None
    freeUntil: str | None

class AvailableCar(_AvailableCarRequired, total=False):
    externalId: str | None
    metadata: dict[str, str] | None
    products: list[Product]
    assignments: list[AssignmentOfCar]
    groups: list[Group]

class _CarBatchRequired(TypedDict):
    kind: Literal["cars"]
    items: list[CarCreation | CarChange | End]

class CarBatch(_CarBatchRequired, total=False):
    atomic: bool
    dryRun: bool

class CarChange(TypedDict):
    op: Literal["change"]
    id: int
    patch: list[CarPatch]

class CarCreation(TypedDict):
    op: Literal["create"]
    body: NewCar

class _CarPatchRequired(TypedDict):
    op: PatchOperation
    path: Literal["/name", "/description", "/vin", "/licensePlate", "/brand", "/model", "/externalId", "/metadata"] | str

class CarPatch(_CarPatchRequired, total=False):
    value: dict[str, str] | str | None

ConflictHandling: TypeAlias = Literal["allow", "report", "refuse"]

class End(TypedDict):
    """Equivalent to the `DELETE` of the kind. For a user, it ends the membership in the customer."""

    op: Literal["end"]
    id: int

class _GroupBatchRequired(TypedDict):
    kind: Literal["groups"]
    items: list[GroupCreation | GroupChange | End]

class GroupBatch(_GroupBatchRequired, total=False):
    atomic: bool
    dryRun: bool

class GroupChange(TypedDict):
    op: Literal["change"]
    id: int
    patch: list[GroupPatch]

class GroupCreation(TypedDict):
    op: Literal["create"]
    body: NewGroup

class _GroupPatchRequired(TypedDict):
    op: Literal["remove", "replace"]
    path: Literal["/name", "/externalId", "/metadata"] | str

class GroupPatch(_GroupPatchRequired, total=False):
    value: dict[str, str] | str | None

class _NewAssignmentRequired(TypedDict):
    carId: int
    userId: int
    start: str | datetime

class NewAssignment(_NewAssignmentRequired, total=False):
    end: str | datetime | None
    lifetime: int | None
    renewableAfter: int | None
    exclusive: bool | None
    externalId: str | None
    metadata: dict[str, Any] | None

class _NewCarRequired(TypedDict):
    name: str

class NewCar(_NewCarRequired, total=False):
    description: str | None
    vin: str | None
    licensePlate: str | None
    brand: str | None
    model: str | None
    externalId: str | None
    metadata: dict[str, Any] | None

class _NewGroupRequired(TypedDict):
    name: str

class NewGroup(_NewGroupRequired, total=False):
    externalId: str | None
    metadata: dict[str, Any] | None

class _NewUserRequired(TypedDict):
    emailAddress: str
    userData: UserData

class NewUser(_NewUserRequired, total=False):
    password: str | None
    type: UserType | None
    externalId: str | None
    metadata: dict[str, Any] | None

PatchOperation: TypeAlias = Literal["remove", "replace"]

class _UserBatchRequired(TypedDict):
    kind: Literal["users"]
    items: list[UserCreation | UserChange | End]

class UserBatch(_UserBatchRequired, total=False):
    atomic: bool
    dryRun: bool

class UserChange(TypedDict):
    op: Literal["change"]
    id: int
    patch: list[UserPatch]

class UserCreation(TypedDict):
    op: Literal["create"]
    body: NewUser

class UserData(TypedDict):
    firstName: str
    lastName: str

class _UserPatchRequired(TypedDict):
    op: Literal["remove", "replace"]
    path: Literal["/externalId", "/metadata"] | str

class UserPatch(_UserPatchRequired, total=False):
    value: dict[str, str] | str | None

UserType: TypeAlias = Literal["Normal", "Anonymous"]

class _BatchResultRequired(TypedDict):
    done: int
    refused: int
    results: list[ItemResult]

class BatchResult(_BatchResultRequired, total=False):
    """The numbers of accepted and rejected items, and the result of each item in order."""

    dryRun: bool

class BookingSettings(TypedDict):
    """The booking settings of a customer."""

    bookings: Literal["shared", "exclusive"]
    bookingsEnforced: bool
    bookingGap: int

class BoxLog(TypedDict):
    """The state of the log of a box."""

    upTo: int
    newest: int
    givenUp: int
    reports: list[BoxReport]

class BoxProvisioning(TypedDict):
    """Three messages that the box accepts together. A box with an older root takes `roots` first."""

    provisioning: str
    keySet: str
    statusList: str
    roots: list[str]

class BoxReceipt(TypedDict):
    """A receipt: the box can delete entries up to this number."""

    box: str
    upTo: int
    receipt: str

class BoxReport(TypedDict):
    """A fault in the log of a box."""

    kind: BoxReportKind
    number: int
    reported: str
    times: int
    userId: int | None

BoxReportKind: TypeAlias = Literal["Fork", "Break", "Forgery", "UnknownKey", "GivenUp", "Late", "UnknownList"]

class BoxState(TypedDict):
    productId: int
    epoch: int
    name: str
    thumbprint: str
    enrolled: str
    log: BoxLog
    pending: PendingEnrolment | None

class BoxStatusList(TypedDict):
    uri: str
    epoch: int
    generation: int
    statusList: str

class Bucket(TypedDict):
    """The readings of a bucket, which begins at `utcDateTime` and has the length `seconds` of the response."""

    utcDateTime: str
    count: int
    min: float
    max: float
    average: float
    last: float
    lastDateTime: str

_CarOptionalKeys = TypedDict("_CarOptionalKeys", {"products@odata.count": 'int', "assignments@odata.count": 'int', "groups@odata.count": 'int'}, total=False)

class _CarRequired(_CarOptionalKeys):
    id: int
    name: str
    description: str | None
    vin: str | None
    licensePlate: str | None
    brand: str | None
    model: str | None

class Car(_CarRequired, total=False):
    externalId: str | None
    metadata: dict[str, str] | None
    products: list[Product]
    assignments: list[AssignmentOfCar]
    groups: list[Group]

_CarAccessOptionalKeys = TypedDict("_CarAccessOptionalKeys", {"from": 'str | None'}, total=False)

class _CarAccessRequired(_CarAccessOptionalKeys):
    asOf: AsOf
    assigned: list[Stretch]
    events: list[Change]
    moreEvents: bool
    carId: int

class CarAccess(_CarAccessRequired, total=False):
    """The users who could open a car."""

    at: str | None
    to: str | None

class CarBookingSettings(TypedDict):
    """The booking settings of a car; null for those of the customer."""

    bookings: Literal["shared", "exclusive", None]
    bookingGap: int | None

class CarOfGroup(TypedDict):
    carId: int

class CarUpdate(TypedDict, total=False):
    """The properties to change. Null removes a value."""

    name: str | None
    description: str | None
    vin: str | None
    licensePlate: str | None
    brand: str | None
    model: str | None
    externalId: str | None
    metadata: dict[str, Any] | None | None

class CarriedBox(TypedDict):
    """Messages that a phone carries to a box: its status lists, oldest first, and the newest receipt of its log. `names` has the day keys by which the phone finds the box."""

    box: str
    productId: int
    boxKey: str
    statusLists: list[CarriedList]
    receipt: str | None
    names: list[DayKey]

class CarriedList(TypedDict):
    generation: int
    statusList: str

class _CellStateRequired(TypedDict):
    name: str
    number: int
    status: Literal["ok", "unavailable"]

class CellState(_CellStateRequired, total=False):
    """The readiness of one cell."""

    reasons: list[Why]
    warnings: list[Why]

class Change(TypedDict):
    id: int
    time: str
    recordedTime: str
    kind: str
    resource: str
    resourceId: str
    actor: Actor
    onBehalfOf: Actor | None
    address: str | None
    requestId: str | None
    operationId: str | None
    groups: Any
    before: Any
    after: Any

class ChangeCheckpoint(TypedDict):
    """A signed checkpoint of the log. Verifiers check `note`."""

    customerId: int
    epoch: str
    size: int
    root: str
    time: str
    note: str
    consistency: list[str] | None

ChangeKind: TypeAlias = Literal["customer.updated", "car.created", "car.updated", "car.deleted", "user.created", "user.updated", "user.deleted", "product.created", "product.updated", "product.deleted", "box.installed", "box.uninstalled", "iq.installed", "iq.uninstalled", "service.created", "service.updated", "service.deleted", "service.paired", "service.unpaired", "service.terminated", "contract.created", "contract.updated", "contract.deleted", "group.created", "group.updated", "group.deleted", "group.carAdded", "group.carRemoved", "group.productAdded", "group.productRemoved", "group.serviceAdded", "group.serviceRemoved", "group.userAdded", "group.userRemoved", "assignmentRequest.created", "assignmentRequest.granted", "assignmentRequest.rejected", "assignmentRequest.withdrawn", "assignmentRequest.updated", "assignmentRequest.deleted", "webhook.created", "webhook.updated", "webhook.deleted", "deviceKey.created", "deviceKey.updated", "deviceKey.deleted", "sdkKey.created", "sdkKey.updated", "sdkKey.deleted", "device.created", "device.updated", "device.approved", "device.lost", "device.deleted", "key.issued", "key.updated", "key.revoked", "key.deleted", "enrolment.created", "enrolment.updated", "enrolment.confirmed", "enrolment.deleted", "boxReport.created", "boxReport.updated", "boxReport.deleted", "keyAuthority.created", "keyAuthority.updated", "keyAuthority.deleted", "issuingKey.created", "issuingKey.updated", "issuingKey.deleted", "serviceKey.created", "serviceKey.updated", "serviceKey.deleted", "manager.granted", "manager.withdrawn", "role.granted", "role.updated", "role.withdrawn", "invitation.created", "invitation.updated", "invitation.deleted", "client.created", "client.updated", "client.deleted", "scopes.granted", "scopes.updated", "scopes.withdrawn", "clientSecret.created", "clientSecret.updated", "clientSecret.deleted", "factorRule.set", "factorRule.lifted", "permission.refused"]

class ChangeProof(TypedDict):
    """Proof that a change is in the log: its record is leaf `index` of the checkpoint's tree."""

    id: int
    epoch: str
    index: int
    record: str
    inclusion: list[str]
    checkpoint: ChangeCheckpoint

class ChangeTold(TypedDict):
    """The message about a change. `data` is the change as in `GET /changes`."""

    type: ChangeKind
    timestamp: str
    customerId: int
    epoch: str
    data: Change

class CheckpointTold(TypedDict):
    """The message about a checkpoint, which is in `data`."""

    type: Literal["changes.checkpoint"]
    timestamp: str
    customerId: int
    data: dict[str, Any]

class ClientCreated(TypedDict):
    id: int
    clientId: str
    clientSecret: str

ClientMode: TypeAlias = Literal["spec", "strict"]

class _ClientPatchRequired(TypedDict):
    op: Literal["remove", "replace"]
    path: Literal["/name", "/scopes", "/expires", "/enabled", "/mode"]

class ClientPatch(_ClientPatchRequired, total=False):
    value: Any

class ClientSecret(TypedDict):
    id: int
    created: str
    lastUsed: str | None

class ClientUpdate(TypedDict, total=False):
    """The properties to change. Null removes a value."""

    name: str | None
    scopes: list[Literal["customer:read", "cars:read", "cars:write", "users:read", "users:write", "erasure:read", "erasure:write", "assignments:read", "assignments:write", "assignments:share", "groups:read", "groups:write", "products:read", "services:read", "installations:write", "pairings:write", "keys:read", "sdk:write", "events:read", "events:write", "positions:read", "boxes:read", "boxes:write", "access:read", "changes:read", "operations:read", "batch:write", "webhooks:read", "webhooks:write", "live:read", "managers:read", "clients:read"]] | None
    expires: str | datetime | None
    enabled: Any | None
    mode: ClientMode | None

class Code(TypedDict):
    code: str

class Contract(TypedDict):
    orderNumber: str
    documentNumber: str
    orderPosition: int | None
    start: str
    end: str
    termOfContract: int | None
    termOfNotice: int | None
    unitOfNotice: str | None

class Created(TypedDict):
    """The created resource."""

    id: int

class Customer(TypedDict):
    id: str
    name: str

class DayKey(TypedDict):
    """The key of the names that a box advertises on one day."""

    day: int
    key: str

class _DeliveredRequired(TypedDict):
    accepted: int
    duplicates: int
    refused: list[Refused]

class Delivered(_DeliveredRequired, total=False):
    refusedCount: int | None
    truncated: bool

class _DeliveredEventsRequired(TypedDict):
    accepted: int
    duplicates: int
    refused: list[Refused]
    events: list[Numbered]

class DeliveredEvents(_DeliveredEventsRequired, total=False):
    refusedCount: int | None
    truncated: bool

class Delivery(TypedDict):
    id: int
    messageId: str
    type: DeliveryType
    operationId: str | None
    changeId: int | None
    eventId: int | None
    assignmentId: int | None
    state: DeliveryState
    attempts: int
    attempted: str | None
    nextAttempt: str | None
    status: int | None
    duration: int | None
    answer: str | None
    error: str | None
    created: str
    payload: Outcome | ChangeTold | CheckpointTold | EventTold

class DeliveryListed(TypedDict):
    id: int
    webhookId: int
    webhookUrl: str | None
    messageId: str
    type: DeliveryType
    operationId: str | None
    changeId: int | None
    eventId: int | None
    assignmentId: int | None
    state: DeliveryState
    attempts: int
    attempted: str | None
    nextAttempt: str | None
    status: int | None
    duration: int | None
    answer: str | None
    error: str | None
    created: str
    payload: Outcome | ChangeTold | CheckpointTold | EventTold

DeliveryState: TypeAlias = Literal["Waiting", "Delivered", "Dead"]

DeliveryType: TypeAlias = Literal["assignment.created", "assignment.updated", "assignment.deleted", "customer.updated", "car.created", "car.updated", "car.deleted", "user.created", "user.updated", "user.deleted", "product.created", "product.updated", "product.deleted", "box.installed", "box.uninstalled", "iq.installed", "iq.uninstalled", "service.created", "service.updated", "service.deleted", "service.paired", "service.unpaired", "service.terminated", "contract.created", "contract.updated", "contract.deleted", "group.created", "group.updated", "group.deleted", "group.carAdded", "group.carRemoved", "group.productAdded", "group.productRemoved", "group.serviceAdded", "group.serviceRemoved", "group.userAdded", "group.userRemoved", "assignmentRequest.created", "assignmentRequest.granted", "assignmentRequest.rejected", "assignmentRequest.withdrawn", "assignmentRequest.updated", "assignmentRequest.deleted", "webhook.created", "webhook.updated", "webhook.deleted", "deviceKey.created", "deviceKey.updated", "deviceKey.deleted", "sdkKey.created", "sdkKey.updated", "sdkKey.deleted", "device.created", "device.updated", "device.approved", "device.lost", "device.deleted", "key.issued", "key.updated", "key.revoked", "key.deleted", "enrolment.created", "enrolment.updated", "enrolment.confirmed", "enrolment.deleted", "boxReport.created", "boxReport.updated", "boxReport.deleted", "keyAuthority.created", "keyAuthority.updated", "keyAuthority.deleted", "issuingKey.created", "issuingKey.updated", "issuingKey.deleted", "serviceKey.created", "serviceKey.updated", "serviceKey.deleted", "manager.granted", "manager.withdrawn", "role.granted", "role.updated", "role.withdrawn", "invitation.created", "invitation.updated", "invitation.deleted", "client.created", "client.updated", "client.deleted", "scopes.granted", "scopes.updated", "scopes.withdrawn", "clientSecret.created", "clientSecret.updated", "clientSecret.deleted", "factorRule.set", "factorRule.lifted", "permission.refused", "event.opened", "event.closed", "changes.checkpoint", "webhook.test"]

class Device(TypedDict):
    id: str
    name: str
    claimedProtection: KeyProtection
    registered: str
    isApproved: bool

class DriverSettings(TypedDict):
    """The settings of a customer for its drivers."""

    phone: str | None
    showsPlace: bool
    extensionHours: int

class EnrolledBox(TypedDict):
    productId: int
    epoch: int
    name: str
    thumbprint: str
    isPending: bool

class _EnrolmentRequired(TypedDict):
    enrolment: str

class Enrolment(_EnrolmentRequired, total=False):
    """The enrolment that the box created, and the thumbprint that it displays. See docs/keys.md, "Provisioning". `replaces` is the thumbprint of the pending enrolment."""

    thumbprint: str | None
    replaces: str | None

class EnrolmentApproval(TypedDict):
    """The approved key, by the thumbprint that the box displays."""

    thumbprint: str

class EnrolmentNonce(TypedDict):
    nonce: str
    expires: str

class Entries(TypedDict):
    """Signed entries of the logs of boxes, in any order."""

    entries: list[str]

class _EventRequired(TypedDict):
    id: int
    dateTime: str
    utcDateTime: str
    userId: int
    carId: int
    type: EventType
    userAgent: str
    latitude: float | None
    longitude: float | None

class Event(_EventRequired, total=False):
    car: Car | None
    user: User | None

EventKind: TypeAlias = Literal["event.opened", "event.closed"]

class EventTold(TypedDict):
    """The message about an event. `data` is the event as in `GET /events/{eventId}`, with further members."""

    type: EventKind
    timestamp: str
    customerId: int
    data: dict[str, Any]

EventType: TypeAlias = Literal["CarOpened", "CarClosed"]

class FactorRules(TypedDict):
    """The roles that require a second factor."""

    roles: list[Role]

class Factors(TypedDict):
    id: int
    hasApp: bool
    passkeys: int
    recoveryCodes: int
    isNeeded: bool

class _FaultRequired(TypedDict):
    code: FaultCode
    detail: str

class Fault(_FaultRequired, total=False):
    """One error in the request."""

    pointer: str
    parameter: str
    position: int
    header: str
    valid: list[Any]

FaultCode: TypeAlias = Literal["missing", "unknown", "wrong-type", "wrong-form", "blank", "too-long", "too-short", "direction-control", "out-of-range", "not-one-of", "taken", "one-needed", "invalid-json", "syntax", "not-supported", "repeated"]

class Goes(TypedDict):
    """Data that is erased: `removed` or `ended` at once, or made `anonymous` within minutes. Anonymous data stays without identifying the person."""

    kind: Literal["membership", "groups", "assignments", "devices", "keys", "events", "operations", "deliveries", "changes"]
    how: Literal["removed", "ended", "anonymous"]
    count: int

_GroupOptionalKeys = TypedDict("_GroupOptionalKeys", {"cars@odata.count": 'int', "users@odata.count": 'int', "services@odata.count": 'int', "products@odata.count": 'int'}, total=False)

class _GroupRequired(_GroupOptionalKeys):
    id: int
    name: str

class Group(_GroupRequired, total=False):
    externalId: str | None
    metadata: dict[str, str] | None
    cars: list[Car]
    users: list[User]
    services: list[ServiceOfProduct]
    products: list[Product]

class GroupUpdate(TypedDict, total=False):
    """The properties to change. Null removes a value."""

    name: str | None
    externalId: str | None
    metadata: dict[str, Any] | None | None

class Healthy(TypedDict):
    """The server is ready."""

    status: Literal["ok"]

class _HiddenAssignmentRequired(TypedDict):
    carId: int
    start: str
    end: str | None

class HiddenAssignment(_HiddenAssignmentRequired, total=False):
    car: Car | None

class Identity(TypedDict):
    id: int
    provider: str
    label: str
    createdAt: str

class _InstallationRequired(TypedDict):
    carId: int

class Installation(_InstallationRequired, total=False):
    uniqueId: str | None
    serialNumber: str | None
    productId: int | None

class Invitation(TypedDict):
    id: int
    emailAddress: str
    role: Literal["Owner", "Manager", "Dispatcher", "Technician", "Auditor", "Viewer"]
    groups: Any
    invitedBy: str
    created: str
    expires: str

class IssuedKey(TypedDict):
    id: str
    assignmentId: int
    userId: int
    deviceId: str
    deviceName: str | None
    productId: int | None
    epoch: int
    issued: str
    begins: str
    expires: str
    revoked: str | None
    isKnownToBox: bool
    opensUntil: str
    canPowerLossExtend: bool

class _ItemFaultRequired(TypedDict):
    code: str
    detail: str

class ItemFault(_ItemFaultRequired, total=False):
    """An error in the body or patch of the item, if its place is known."""

    pointer: str | None
    valid: list[Any] | None

class _ItemResultRequired(TypedDict):
    status: int

class ItemResult(_ItemResultRequired, total=False):
    """The result of an item, as of the equivalent single request."""

    id: int | None
    password: str | None
    operationId: str | None
    operationLocation: str | None
    checksum: str | None
    operation: dict[str, Any] | None
    wouldFail: str | None
    conflicts: list[AssignmentConflict] | None
    moreConflicts: bool | None
    code: str | None
    detail: str | None
    errors: list[ItemFault] | None

class JsonWebKeySet(TypedDict):
    """The keys that verify tokens (RFC 7517)."""

    keys: list[dict[str, str]]

class Kept(TypedDict):
    """The retention of one kind of data: its time, the event from which it counts, and the time of the oldest data, if known. A group-limited caller gets null for the oldest."""

    kind: RetainedKind
    kept: bool
    keptFor: str | None
    countsFrom: str
    setting: str | None
    oldest: str | None

class Key(TypedDict):
    id: int
    brand: str
    boxName: str | None
    boxSapNumber: str | None
    keyForm: KeyForm

class KeyForm(TypedDict):
    id: int
    name: str
    imageUrl: str

KeyProtection: TypeAlias = Literal["Software", "TrustedEnvironment", "SecureElement"]

class KindListed(TypedDict):
    """An event type, or a wildcard that includes several."""

    kind: str
    resource: str
    meaning: str
    isWildcard: bool
    takes: list[str]

Language: TypeAlias = Literal["en", "de"]

class Location(TypedDict):
    latitude: str | None
    longitude: str | None
    date: str | None
    odometerDate: str | None
    odometer: str | None

class MachineClient(TypedDict):
    id: int
    name: str
    clientId: str
    scopes: list[Literal["customer:read", "cars:read", "cars:write", "users:read", "users:write", "erasure:read", "erasure:write", "assignments:read", "assignments:write", "assignments:share", "groups:read", "groups:write", "products:read", "services:read", "installations:write", "pairings:write", "keys:read", "sdk:write", "events:read", "events:write", "positions:read", "boxes:read", "boxes:write", "access:read", "changes:read", "operations:read", "batch:write", "webhooks:read", "webhooks:write", "live:read", "managers:read", "clients:read"]]
    enabled: bool
    expires: str | None
    mode: ClientMode
    managedHere: bool
    created: str
    lastUsed: str | None

class Manager(TypedDict):
    id: int
    username: str
    role: Literal["Owner", "Manager", "Dispatcher", "Technician", "Auditor", "Viewer", None]
    isLimited: bool
    groups: Any
    enabled: bool
    acceptedProvider: str | None
    acceptedAddress: str | None

class ManagerInvited(TypedDict):
    id: int
    link: str
    expires: str
    mailed: bool

class _ManagerPatchRequired(TypedDict):
    op: Literal["remove", "replace"]
    path: Literal["/role", "/groups"]

class ManagerPatch(_ManagerPatchRequired, total=False):
    value: Any

class ManagerUpdate(TypedDict, total=False):
    """The properties to change. Null removes a value."""

    role: Role | None
    groups: list[int] | None | None

class Me(TypedDict):
    id: int
    username: str
    language: str | None
    timeZone: str | None
    theme: str | None

class NewApp(TypedDict):
    secret: str
    uri: str

class _NewClientRequired(TypedDict):
    name: str
    scopes: list[Literal["customer:read", "cars:read", "cars:write", "users:read", "users:write", "erasure:read", "erasure:write", "assignments:read", "assignments:write", "assignments:share", "groups:read", "groups:write", "products:read", "services:read", "installations:write", "pairings:write", "keys:read", "sdk:write", "events:read", "events:write", "positions:read", "boxes:read", "boxes:write", "access:read", "changes:read", "operations:read", "batch:write", "webhooks:read", "webhooks:write", "live:read", "managers:read", "clients:read"]]

class NewClient(_NewClientRequired, total=False):
    expires: str | datetime | None
    mode: ClientMode

class _NewEventRequired(TypedDict):
    dateTime: str
    utcDateTime: str | datetime
    userId: int
    carId: int
    userAgent: str

class NewEvent(_NewEventRequired, total=False):
    type: EventType
    latitude: float | None
    longitude: float | None

class _NewManagerRequired(TypedDict):
    emailAddress: str
    role: Role

class NewManager(_NewManagerRequired, total=False):
    """The person to invite, and the role."""

    groups: list[int] | None

class NewPasskey(TypedDict):
    name: str
    credential: dict[str, Any]

class NewPassword(TypedDict):
    currentPassword: str
    newPassword: str

class NewWebhook(TypedDict, total=False):
    pull: bool
    url: str | None
    dialect: WebhookDialect | None
    secret: str | None
    kinds: list[OutcomeKind] | None
    enabled: bool
    externalId: str | None
    metadata: dict[str, Any] | None
    name: str | None
    deleteUnusedAfterDays: int | None

class Numbered(TypedDict):
    line: int
    id: int

class _OfflineEventRequired(TypedDict):
    dateTime: str
    utcDateTime: str | datetime
    userId: int
    carId: int
    userAgent: str
    clientId: str

class OfflineEvent(_OfflineEventRequired, total=False):
    """An event that is delivered later, possibly more than once. `clientId` identifies it."""

    type: EventType
    latitude: float | None
    longitude: float | None

OpenApiDocument: TypeAlias = dict[str, Any]

class OpenIdConfiguration(TypedDict):
    """The supported metadata of OpenID Connect Discovery 1.0, section 3."""

    issuer: str
    token_endpoint: str
    revocation_endpoint: str
    jwks_uri: str
    token_endpoint_auth_methods_supported: list[str]
    revocation_endpoint_auth_methods_supported: list[str]
    grant_types_supported: list[str]
    scopes_supported: list[str]
    response_types_supported: list[str]
    subject_types_supported: list[str]
    claims_supported: list[str]
    id_token_signing_alg_values_supported: list[str]

class OpenableCarOfUser(TypedDict):
    """A car that the lost phones may still open."""

    carId: int
    name: str
    opensUntil: str
    canPowerLossExtend: bool

class _OperationRequired(TypedDict):
    id: str
    kind: OperationKind
    cause: OperationCause
    state: OperationState
    errorMessage: str | None
    errorCode: OperationError | None
    conflicts: list[OperationConflict] | None
    checksum: str
    applied: int | None
    assignmentId: int | None
    carId: int
    newCarId: int | None
    userId: int | None
    newUserId: int | None
    start: str | None
    end: str | None
    exclusive: bool | None
    externalId: str | None
    metadata: dict[str, str] | None
    requested: str
    requestedBy: Actor | None
    finished: str | None

class Operation(_OperationRequired, total=False):
    car: Car | None
    newCar: Car | None
    user: User | None
    newUser: User | None

OperationCause: TypeAlias = Literal["Request", "Uninstallation", "CarDeleted", "UserRemoved"]

class OperationConflict(TypedDict):
    """An exclusive assignment with which a failed operation conflicted."""

    assignmentId: int
    userId: int | None
    start: str
    end: str | None

OperationError: TypeAlias = Literal["no-car", "no-user", "no-key-box", "no-service", "service-terminated", "assignment-gone", "end-before-start", "renewable-after-out-of-range", "external-id-taken", "metadata-too-large", "assignment-conflict", "internal-error"]

OperationKind: TypeAlias = Literal["CreateAssignment", "UpdateAssignment", "DeleteAssignment"]

OperationState: TypeAlias = Literal["Pending", "Succeeded", "Failed"]

class Outcome(TypedDict):
    """The message about the outcome of an operation. All event types have the same properties."""

    type: OutcomeType
    operationId: str | None
    customerId: int
    operationSucceeded: bool
    errorMessage: str | None
    checksum: str | None
    assignmentId: int | None
    carId: int | None
    userId: int | None
    start: str | None
    end: str | None
    lifetime: int | None
    renewableAfter: int | None
    exclusive: bool | None
    externalId: str | None
    metadata: dict[str, str] | None

OutcomeKind: TypeAlias = Literal["assignment.created", "assignment.updated", "assignment.deleted", "customer.updated", "car.created", "car.updated", "car.deleted", "user.created", "user.updated", "user.deleted", "product.created", "product.updated", "product.deleted", "box.installed", "box.uninstalled", "iq.installed", "iq.uninstalled", "service.created", "service.updated", "service.deleted", "service.paired", "service.unpaired", "service.terminated", "contract.created", "contract.updated", "contract.deleted", "group.created", "group.updated", "group.deleted", "group.carAdded", "group.carRemoved", "group.productAdded", "group.productRemoved", "group.serviceAdded", "group.serviceRemoved", "group.userAdded", "group.userRemoved", "assignmentRequest.created", "assignmentRequest.granted", "assignmentRequest.rejected", "assignmentRequest.withdrawn", "assignmentRequest.updated", "assignmentRequest.deleted", "webhook.created", "webhook.updated", "webhook.deleted", "deviceKey.created", "deviceKey.updated", "deviceKey.deleted", "sdkKey.created", "sdkKey.updated", "sdkKey.deleted", "device.created", "device.updated", "device.approved", "device.lost", "device.deleted", "key.issued", "key.updated", "key.revoked", "key.deleted", "enrolment.created", "enrolment.updated", "enrolment.confirmed", "enrolment.deleted", "boxReport.created", "boxReport.updated", "boxReport.deleted", "keyAuthority.created", "keyAuthority.updated", "keyAuthority.deleted", "issuingKey.created", "issuingKey.updated", "issuingKey.deleted", "serviceKey.created", "serviceKey.updated", "serviceKey.deleted", "manager.granted", "manager.withdrawn", "role.granted", "role.updated", "role.withdrawn", "invitation.created", "invitation.updated", "invitation.deleted", "client.created", "client.updated", "client.deleted", "scopes.granted", "scopes.updated", "scopes.withdrawn", "clientSecret.created", "clientSecret.updated", "clientSecret.deleted", "factorRule.set", "factorRule.lifted", "permission.refused", "event.opened", "event.closed", "changes.checkpoint", "assignment.*", "customer.*", "car.*", "user.*", "product.*", "box.*", "iq.*", "service.*", "contract.*", "group.*", "assignmentRequest.*", "webhook.*", "deviceKey.*", "sdkKey.*", "device.*", "key.*", "enrolment.*", "boxReport.*", "keyAuthority.*", "issuingKey.*", "serviceKey.*", "manager.*", "role.*", "invitation.*", "client.*", "scopes.*", "clientSecret.*", "factorRule.*", "permission.*", "event.*", "changes.*"]

OutcomeType: TypeAlias = Literal["assignment.created", "assignment.updated", "assignment.deleted", "webhook.test"]

class _PairingRequired(TypedDict):
    serviceId: int

class Pairing(_PairingRequired, total=False):
    uniqueId: str | None
    serialNumber: str | None
    productId: int | None

class Passkey(TypedDict):
    id: int
    name: str
    isBackedUp: bool
    isRefused: bool
    createdAt: str
    lastUsed: str | None

class PasskeyMade(TypedDict):
    id: int
    amr: str

class PasskeyOptions(TypedDict):
    publicKey: dict[str, Any]

class PendingEnrolment(TypedDict):
    """An enrolment that is not in force yet, and replaces a box."""

    epoch: int
    name: str
    thumbprint: str
    enrolled: str
    isProven: bool
    needsApproval: bool
    isApproved: bool
    hasReturned: bool
    isContested: bool

class PersonName(TypedDict):
    firstName: str | None
    lastName: str | None

class PhoneKey(TypedDict):
    """A key of one assignment. A new one is available from `renewAfter`."""

    assignmentId: int
    carId: int
    productId: int
    box: str
    issued: str
    begins: str
    expires: str
    renewAfter: str
    key: str

class PhoneKeys(TypedDict):
    """All keys that a phone keeps. It deletes every other key."""

    keySet: str | None
    roots: list[str]
    keys: list[PhoneKey]
    boxes: list[CarriedBox]
    withheld: list[Withheld]
    isComplete: bool

_PositionOptionalKeys = TypedDict("_PositionOptionalKeys", {"products@odata.count": 'int', "assignments@odata.count": 'int', "groups@odata.count": 'int', "hiddenAssignments@odata.count": 'int'}, total=False)

class _PositionRequired(_PositionOptionalKeys):
    carId: int
    name: str
    licensePlate: str | None
    vin: str | None
    brand: str | None
    model: str | None
    description: str | None
    hasUnit: bool
    latitude: float | None
    longitude: float | None
    utcDateTime: str | None
    lastSeen: str | None
    ignition: bool | None
    isDriving: bool | None
    inUse: bool
    inUseUntil: str | None

class Position(_PositionRequired, total=False):
    externalId: str | None
    products: list[Product]
    assignments: list[AssignmentOfCar]
    groups: list[Group]
    hiddenAssignments: list[HiddenAssignment]

class Preferences(TypedDict):
    """The preferences for the pages; null for the browser's setting."""

    language: Language | None
    timeZone: str | None
    theme: Theme | None

class Preview(TypedDict):
    userId: int
    goes: list[Goes]
    stays: list[Stays]
    customers: list[AlsoIn]

class _ProblemRequired(TypedDict):
    type: str
    title: str
    status: int
    detail: str
    code: str
    traceId: str

class Problem(_ProblemRequired, total=False):
    """An error for programs (RFC 9457). The page at `type` explains the code and its remedy."""

    previousCode: str
    errors: list[Fault]
    retryAfter: int
    error: str
    error_description: str
    epoch: str | None
    oldest: int
    newest: int
    oldestTime: str

_ProductOptionalKeys = TypedDict("_ProductOptionalKeys", {"groups@odata.count": 'int'}, total=False)

class _ProductRequired(_ProductOptionalKeys):
    id: int
    uniqueId: str
    serialNumber: str
    sapNumber: str
    dongleTerminationTimeStamp: str | None
    type: ProductType

class Product(_ProductRequired, total=False):
    externalId: str | None
    metadata: dict[str, str] | None
    service: ServiceOfProduct | None
    car: Car | None
    groups: list[Group]

_ProductListedOptionalKeys = TypedDict("_ProductListedOptionalKeys", {"groups@odata.count": 'int'}, total=False)

class _ProductListedRequired(_ProductListedOptionalKeys):
    id: int
    uniqueId: str
    serialNumber: str
    sapNumber: str
    type: ProductType

class ProductListed(_ProductListedRequired, total=False):
    externalId: str | None
    metadata: dict[str, str] | None
    service: ServiceOfProduct | None
    car: Car | None
    groups: list[Group]

class ProductOfGroup(TypedDict):
    productId: int

class _ProductPatchRequired(TypedDict):
    op: Literal["remove", "replace"]
    path: Literal["/externalId", "/metadata"] | str

class ProductPatch(_ProductPatchRequired, total=False):
    value: dict[str, str] | str | None

ProductType: TypeAlias = Literal["vendor Box", "vendor IQ"]

class ProductUpdate(TypedDict, total=False):
    """The properties to change. Null removes a value."""

    externalId: Any | None
    metadata: Any | None

class _ReadyRequired(TypedDict):
    status: Literal["ok"]

class Ready(_ReadyRequired, total=False):
    """The server is ready."""

    warnings: list[Why]
    cells: list[CellState]

class RecoveryCodes(TypedDict):
    codes: list[str]

class Refused(TypedDict):
    line: int
    reason: str

class RefusedEntry(TypedDict):
    index: int
    reason: str

class _RegistrationRequired(TypedDict):
    registration: str
    name: str

class Registration(_RegistrationRequired, total=False):
    """The public key of a phone, signed by that key. See docs/keys.md, "A life of a key"."""

    claimedProtection: KeyProtection

class RegistrationNonce(TypedDict):
    nonce: str
    expires: str

class Replayed(TypedDict):
    count: int
    next: str | None

class _RequestDecisionRequired(TypedDict):
    decision: Literal["grant", "reject"]

class RequestDecision(_RequestDecisionRequired, total=False):
    comment: str | None

RetainedKind: TypeAlias = Literal["assignments", "events", "keys", "operations", "deliveries", "changes", "positions", "odometer", "telemetry", "series", "answers", "people", "sessions"]

Role: TypeAlias = Literal["Owner", "Manager", "Dispatcher", "Technician", "Auditor", "Viewer"]

class Sample(TypedDict, total=False):
    """Readings of one unit at one time: the properties of the spec's telemetry, and the unit."""

    serialNumber: str | None
    uniqueId: str | None
    carDataReadTime: str | datetime
    currentLatitude: float | None
    currentLongitude: float | None
    odometer: float | None
    selectedCulture: str | None
    vin: str | None
    rpm: int | None
    dtc: list[Trouble] | None
    isDriving: bool | None
    isHybrid: bool | None
    chargeState: bool | None
    ignition: bool | None
    driverSeatbelt: bool | None
    isTractionControlActive: bool | None
    isCruiseControlActive: bool | None
    isCruiseControlEnabled: bool | None
    isParkingBrakeEngaged: bool | None
    isLeftTurnSignalActive: bool | None
    isRightTurnSignalActive: bool | None
    fuelType: str | None
    timeToNextService: str | None
    fuelConsumption: float | None
    totalFuelUsed: float | None
    fuelLevelVolume: float | None
    fuelLevelPercent: float | None
    engineHours: float | None
    distanceToNextService: float | None
    adBlueLevel: float | None
    fuelFilterLifeRemaining: float | None
    oilLevel: float | None
    oilTemperature: float | None
    oilLifeRemaining: float | None
    transmissionOilTemperature: float | None
    engineTemperature: float | None
    engineCoolantTemperature: float | None
    batteryVoltage: float | None
    currentSpeed: float | None
    tirePressureFrontLeft: float | None
    tirePressureFrontRight: float | None
    tirePressureRearLeft: float | None
    tirePressureRearRight: float | None
    interiorTemperature: float | None
    outsideTemperature: float | None
    frontBrakeLifeRemaining: float | None
    rearBrakeLifeRemaining: float | None

_SamplesRequiredKeys = TypedDict("_SamplesRequiredKeys", {"from": 'str'})

class Samples(_SamplesRequiredKeys):
    carId: int
    to: str
    seconds: float
    series: dict[str, list[Bucket]]

class SdkToken(TypedDict):
    id_token: str

class SdkTokenRequest(TypedDict):
    customerId: int
    sdkKey: str
    userId: int

class SecretCreated(TypedDict):
    id: int
    clientSecret: str

class SecretRotated(TypedDict):
    signingSecret: str
    oldSigningSecretUntil: str

_ServiceOptionalKeys = TypedDict("_ServiceOptionalKeys", {"groups@odata.count": 'int'}, total=False)

class _ServiceRequired(_ServiceOptionalKeys):
    id: int
    name: str
    productId: int | None
    isTerminated: bool
    terminationDate: str | None
    terminationCause: str | None

class Service(_ServiceRequired, total=False):
    groups: list[Group]
    product: Product | None
    contract: Contract | None

class ServiceOfGroup(TypedDict):
    serviceId: int

_ServiceOfProductOptionalKeys = TypedDict("_ServiceOfProductOptionalKeys", {"groups@odata.count": 'int'}, total=False)

class _ServiceOfProductRequired(_ServiceOfProductOptionalKeys):
    id: int
    name: str
    isTerminated: bool
    terminationDate: str | None
    terminationCause: str | None

class ServiceOfProduct(_ServiceOfProductRequired, total=False):
    groups: list[Group]
    product: Product | None
    contract: Contract | None

class Session(TypedDict):
    id: int
    address: str
    userAgent: str
    createdAt: str
    lastSeen: str

class SignedTime(TypedDict):
    time: str

class SomeUser(TypedDict, total=False):
    """A user, identified by exactly one of the two."""

    emailAddress: str | None
    userId: int | None

class Stays(TypedDict):
    """Data that stays, and the reason as a code and a text."""

    kind: Literal["person", "answers", "receivers"]
    code: Literal["shared-or-left-lately", "until-forgotten", "was-sent"]
    text: str

class Stretch(TypedDict):
    """A period in which an assignment was in force."""

    assignmentId: int
    carId: int
    userId: int
    since: str
    until: str | None
    knownFrom: str
    knownUntil: str | None
    boxId: int | None
    serviceId: int | None

class TakenEntries(TypedDict):
    receipts: list[BoxReceipt]
    refused: list[RefusedEntry]

class Telemetry(TypedDict):
    selectedCulture: str | None
    deviceSerialNumber: str | None
    vin: str | None
    odometer: float
    rpm: int
    dtc: list[Trouble]
    isDriving: bool
    carDataReadTime: str
    isHybrid: bool | None
    chargeState: bool | None
    ignition: bool | None
    driverSeatbelt: bool | None
    isTractionControlActive: bool | None
    isCruiseControlActive: bool | None
    isCruiseControlEnabled: bool | None
    isParkingBrakeEngaged: bool | None
    isLeftTurnSignalActive: bool | None
    isRightTurnSignalActive: bool | None
    fuelType: str | None
    timeToNextService: str | None
    currentLongitude: float | None
    currentLatitude: float | None
    fuelConsumption: float | None
    totalFuelUsed: float | None
    fuelLevelVolume: float | None
    fuelLevelPercent: float | None
    engineHours: float | None
    distanceToNextService: float | None
    adBlueLevel: float | None
    fuelFilterLifeRemaining: float | None
    oilLevel: float | None
    oilTemperature: float | None
    oilLifeRemaining: float | None
    transmissionOilTemperature: float | None
    engineTemperature: float | None
    engineCoolantTemperature: float | None
    batteryVoltage: float | None
    currentSpeed: float | None
    tirePressureFrontLeft: float | None
    tirePressureFrontRight: float | None
    tirePressureRearLeft: float | None
    tirePressureRearRight: float | None
    interiorTemperature: float | None
    outsideTemperature: float | None
    frontBrakeLifeRemaining: float | None
    rearBrakeLifeRemaining: float | None

class _TestMessageRequired(TypedDict):
    type: Literal["assignment.created", "assignment.updated", "assignment.deleted", "customer.updated", "car.created", "car.updated", "car.deleted", "user.created", "user.updated", "user.deleted", "product.created", "product.updated", "product.deleted", "box.installed", "box.uninstalled", "iq.installed", "iq.uninstalled", "service.created", "service.updated", "service.deleted", "service.paired", "service.unpaired", "service.terminated", "contract.created", "contract.updated", "contract.deleted", "group.created", "group.updated", "group.deleted", "group.carAdded", "group.carRemoved", "group.productAdded", "group.productRemoved", "group.serviceAdded", "group.serviceRemoved", "group.userAdded", "group.userRemoved", "assignmentRequest.created", "assignmentRequest.granted", "assignmentRequest.rejected", "assignmentRequest.withdrawn", "assignmentRequest.updated", "assignmentRequest.deleted", "webhook.created", "webhook.updated", "webhook.deleted", "deviceKey.created", "deviceKey.updated", "deviceKey.deleted", "sdkKey.created", "sdkKey.updated", "sdkKey.deleted", "device.created", "device.updated", "device.approved", "device.lost", "device.deleted", "key.issued", "key.updated", "key.revoked", "key.deleted", "enrolment.created", "enrolment.updated", "enrolment.confirmed", "enrolment.deleted", "boxReport.created", "boxReport.updated", "boxReport.deleted", "keyAuthority.created", "keyAuthority.updated", "keyAuthority.deleted", "issuingKey.created", "issuingKey.updated", "issuingKey.deleted", "serviceKey.created", "serviceKey.updated", "serviceKey.deleted", "manager.granted", "manager.withdrawn", "role.granted", "role.updated", "role.withdrawn", "invitation.created", "invitation.updated", "invitation.deleted", "client.created", "client.updated", "client.deleted", "scopes.granted", "scopes.updated", "scopes.withdrawn", "clientSecret.created", "clientSecret.updated", "clientSecret.deleted", "factorRule.set", "factorRule.lifted", "permission.refused", "event.opened", "event.closed", "changes.checkpoint", "webhook.test"]

class TestMessage(_TestMessageRequired, total=False):
    """A test in the form of an event type. `set` replaces members of the example."""

    set: dict[str, str | int | float | bool | None]

Theme: TypeAlias = Literal["light", "dark"]

_TimeRangeRequiredKeys = TypedDict("_TimeRangeRequiredKeys", {"from": 'str | datetime'})

class TimeRange(_TimeRangeRequiredKeys, total=False):
    """The time range of outcomes and changes, from `from` up to, but not including, `to`."""

    to: str | datetime | None
    undelivered: bool

class TimeWanted(TypedDict):
    """The name and the nonce in the box's challenge."""

    box: str
    nonce: str

_TrackRequiredKeys = TypedDict("_TrackRequiredKeys", {"from": 'str'})

class Track(_TrackRequiredKeys):
    carId: int
    to: str
    count: int
    thinned: bool
    points: list[TrackPoint]

class TrackPoint(TypedDict):
    utcDateTime: str
    until: str
    latitude: float
    longitude: float
    odometer: float | None

class Trouble(TypedDict):
    """A diagnostic trouble code."""

    key: str
    value: str

_UserOptionalKeys = TypedDict("_UserOptionalKeys", {"assignments@odata.count": 'int', "groups@odata.count": 'int'}, total=False)

class _UserRequired(_UserOptionalKeys):
    id: int
    emailAddress: str
    userData: PersonName

class User(_UserRequired, total=False):
    externalId: str | None
    metadata: dict[str, str] | None
    assignments: list[AssignmentOfUser]
    groups: list[Group]

_UserAccessOptionalKeys = TypedDict("_UserAccessOptionalKeys", {"from": 'str | None'}, total=False)

class _UserAccessRequired(_UserAccessOptionalKeys):
    asOf: AsOf
    assigned: list[Stretch]
    events: list[Change]
    moreEvents: bool
    userId: int

class UserAccess(_UserAccessRequired, total=False):
    """The cars that a user could open."""

    at: str | None
    to: str | None

class UserCreated(TypedDict):
    id: int
    password: str | None

class UserLossOutcome(TypedDict):
    cars: list[OpenableCarOfUser] | None

class UserLossReport(TypedDict, total=False):
    """The lost phones; null for all phones of the user."""

    phones: list[str] | None
    endSessions: bool

class UserOfGroup(TypedDict):
    userId: int

class UserUpdate(TypedDict, total=False):
    """The properties to change. Null removes a value."""

    externalId: str | None
    metadata: dict[str, Any] | None | None

class WaitingMessage(TypedDict):
    """A waiting message: its headers, with the static secret, and its body."""

    number: int
    type: str
    headers: dict[str, str]
    body: str

class _WebhookRequired(TypedDict):
    id: int
    url: str | None
    kinds: list[OutcomeKind]
    dialect: WebhookDialect
    enabled: bool
    name: str | None
    pull: bool
    deleteUnusedAfterDays: int | None
    disabledReason: str | None
    hasSecret: bool
    oldSigningSecretUntil: str | None
    pulled: str | None
    created: str
    waiting: int
    dead: int

class Webhook(_WebhookRequired, total=False):
    externalId: str | None
    metadata: dict[str, str] | None

class WebhookCreated(TypedDict):
    id: int
    signingSecret: str

WebhookDialect: TypeAlias = Literal["keyrack", "standard-webhooks", "cloudevents"]

class _WebhookPatchRequired(TypedDict):
    op: PatchOperation
    path: Literal["/url", "/dialect", "/secret", "/kinds", "/enabled", "/externalId", "/metadata", "/name"] | str

class WebhookPatch(_WebhookPatchRequired, total=False):
    value: Any

class WebhookUpdate(TypedDict, total=False):
    """The properties to change. Null removes a value."""

    url: str | None
    dialect: WebhookDialect | None
    secret: str | None
    kinds: list[OutcomeKind] | None | None
    enabled: bool | None
    externalId: str | None
    metadata: dict[str, Any] | None | None
    name: str | None

class _WhyRequired(TypedDict):
    code: str
    detail: str

class Why(_WhyRequired, total=False):
    previousCode: str

class Withheld(TypedDict):
    """An assignment that gets no new key, and the reason."""

    assignmentId: int
    reason: WithheldReason

WithheldReason: TypeAlias = Literal["too-many-keys", "status-list-full"]

Batch: TypeAlias = AssignmentBatch | CarBatch | UserBatch | GroupBatch
