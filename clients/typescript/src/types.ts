// Types of bodies and answers, operations and error codes. Made by clients/generate.py from the OpenAPI document of the server. Do not edit.

/** Information about the server. */
export interface About {
  name: "Keyrack";
  version: string;
  apiVersion: string;
  baseUrl: string;
  documentation: string;
  openapi: string;
  preview: string[];
}

export interface Acknowledged {
  count: number;
}

/** The number up to which a client has processed the messages. */
export interface Acknowledgement {
  upto: number;
}

export interface Actor {
  type: string | null;
  id: string | null;
  name: string | null;
}

/** Another customer of the caller, in which the person stays unchanged. */
export interface AlsoIn {
  id: string;
  name: string;
}

/** A user's access to the app for this customer. */
export interface AppAccessState {
  canBeInvited: boolean;
  hasAccess: boolean;
  isInvited: boolean;
  invitationExpires: string | null;
  lastSeen: string | null;
  isWithdrawn: boolean;
}

/** A phone. `id` is the thumbprint of its key (RFC 9679). */
export interface AppDevice {
  id: string;
  name: string;
  claimedProtection: KeyProtection;
  registered: string;
  isApproved: boolean;
}

/** The link, and when it expires. Both are null if the link is mailed. */
export interface AppInvitation {
  link: string | null;
  expires: string | null;
}

/** `mail` sends the link to the user's address. Otherwise, the response has it. */
export interface AppInvitationRequest {
  mail?: boolean;
}

export interface AsOf {
  changeId: number;
  recordedTime: string;
}

export interface Assignment {
  id: number;
  carId: number;
  userId: number | null;
  start: string;
  end: string | null;
  lifetime: number | null;
  renewableAfter: number | null;
  exclusive?: boolean;
  externalId?: string | null;
  metadata?: Record<string, string> | null;
  car?: Car | null;
  user?: User | null;
}

export interface AssignmentBatch {
  atomic?: boolean;
  dryRun?: boolean;
  kind: "assignments";
  items: (AssignmentCreation | AssignmentChange | End)[];
  conflicts?: ConflictHandling;
}

export interface AssignmentChange {
  op: "change";
  id: number;
  patch: AssignmentPatch[];
}

/** An overlapping assignment of the same car. It exists, or a pending request or a previous item asks for it. */
export interface AssignmentConflict {
  assignmentId?: number | null;
  operationId?: string | null;
  item?: number | null;
  userId: number;
  start: string;
  end: string | null;
}

export interface AssignmentCreation {
  op: "create";
  body: NewAssignment;
}

export interface AssignmentOfCar {
  id: number;
  userId: number | null;
  start: string;
  end: string | null;
  exclusive?: boolean;
  externalId?: string | null;
  metadata?: Record<string, string> | null;
  car?: Car | null;
  user?: User | null;
}

export interface AssignmentOfUser {
  id: number;
  carId: number;
  start: string;
  end: string | null;
  exclusive?: boolean;
  externalId?: string | null;
  metadata?: Record<string, string> | null;
  car?: Car | null;
  user?: User | null;
}

export interface AssignmentPatch {
  op: PatchOperation;
  path: "/carId" | "/userId" | "/start" | "/end" | "/lifetime" | "/renewableAfter" | "/exclusive" | "/externalId" | "/metadata" | string;
  value?: string | number | boolean | Record<string, string> | null;
}

export interface AssignmentRequest {
  id: number;
  assignmentId: number;
  carId: number;
  userId: number;
  kind: "extend" | "end";
  end: string | null;
  comment: string | null;
  state: "open" | "granted" | "rejected" | "withdrawn" | "expired";
  decidedBy: "manager" | "client" | "rule" | "driver" | null;
  decisionComment: string | null;
  errorCode: string | null;
  errorMessage: string | null;
  created: string;
  decided: string | null;
  car?: Car | null;
  user?: User | null;
}

/** The properties to change. Null removes a value. */
export interface AssignmentUpdate {
  carId?: number | null;
  userId?: number | null;
  start?: string | Date | null;
  end?: string | Date | null;
  lifetime?: number | null;
  renewableAfter?: number | null;
  exclusive?: boolean | null;
  externalId?: string | null;
  metadata?: Record<string, unknown> | null | null;
}

/** The metadata of an authorization server (RFC 8414, section 2). */
export interface AuthorizationServer {
  issuer: string;
  token_endpoint: string;
  revocation_endpoint: string;
  jwks_uri: string;
  token_endpoint_auth_methods_supported: string[];
  revocation_endpoint_auth_methods_supported: string[];
  grant_types_supported: string[];
  scopes_supported: string[];
  response_types_supported: string[];
}

export interface AvailableCar {
  id: number;
  name: string;
  description: string | null;
  vin: string | null;
  licensePlate: string | null;
  brand: string | null;
  model: string | null;
  externalId?: string | null;
  metadata?: Record<string, string> | null;
  freeFrom: string | null;
  freeUntil: string | null;
  "products@odata.count"?: number;
  products?: Product[];
  "assignments@odata.count"?: number;
  assignments?: AssignmentOfCar[];
  "groups@odata.count"?: number;
  groups?: Group[];
}

export type Batch = AssignmentBatch | CarBatch | UserBatch | GroupBatch;

/** The numbers of accepted and rejected items, and the result of each item in order. */
export interface BatchResult {
  done: number;
  refused: number;
  dryRun?: boolean;
  results: ItemResult[];
}

/** The booking settings of a customer. */
export interface BookingSettings {
  bookings: "shared" | "exclusive";
  bookingsEnforced: boolean;
  bookingGap: number;
}

/** The state of the log of a box. */
export interface BoxLog {
  upTo: number;
  newest: number;
  givenUp: number;
  reports: BoxReport[];
}

/** Three messages that the box accepts together. A box with an older root takes `roots` first. */
export interface BoxProvisioning {
  provisioning: string;
  keySet: string;
  statusList: string;
  roots: string[];
}

/** A receipt: the box can delete entries up to this number. */
export interface BoxReceipt {
  box: string;
  upTo: number;
  receipt: string;
}

/** A fault in the log of a box. */
export interface BoxReport {
  kind: BoxReportKind;
  number: number;
  reported: string;
  times: number;
  userId: number | null;
}

export type BoxReportKind = "Fork" | "Break" | "Forgery" | "UnknownKey" | "GivenUp" | "Late" | "UnknownList";

export interface BoxState {
  productId: number;
  epoch: number;
  name: string;
  thumbprint: string;
  enrolled: string;
  log: BoxLog;
  pending: PendingEnrolment | null;
}

export interface BoxStatusList {
  uri: string;
  epoch: number;
  generation: number;
  statusList: string;
}

/** The readings of a bucket, which begins at `utcDateTime` and has the length `seconds` of the response. */
export interface Bucket {
  utcDateTime: string;
  count: number;
  min: number;
  max: number;
  average: number;
  last: number;
  lastDateTime: string;
}

export interface Car {
  id: number;
  name: string;
  description: string | null;
  vin: string | null;
  licensePlate: string | null;
  brand: string | null;
  model: string | null;
  externalId?: string | null;
  metadata?: Record<string, string> | null;
  "products@odata.count"?: number;
  products?: Product[];
  "assignments@odata.count"?: number;
  assignments?: AssignmentOfCar[];
  "groups@odata.count"?: number;
  groups?: Group[];
}

/** The users who could open a car. */
export interface CarAccess {
  at?: string | null;
  from?: string | null;
  to?: string | null;
  asOf: AsOf;
  assigned: Stretch[];
  events: Change[];
  moreEvents: boolean;
  carId: number;
}

export interface CarBatch {
  atomic?: boolean;
  dryRun?: boolean;
  kind: "cars";
  items: (CarCreation | CarChange | End)[];
}

/** The booking settings of a car; null for those of the customer. */
export interface CarBookingSettings {
  bookings: "shared" | "exclusive" | null;
  bookingGap: number | null;
}

export interface CarChange {
  op: "change";
  id: number;
  patch: CarPatch[];
}

export interface CarCreation {
  op: "create";
  body: NewCar;
}

export interface CarOfGroup {
  carId: number;
}

export interface CarPatch {
  op: PatchOperation;
  path: "/name" | "/description" | "/vin" | "/licensePlate" | "/brand" | "/model" | "/externalId" | "/metadata" | string;
  value?: Record<string, string> | string | null;
}

/** The properties to change. Null removes a value. */
export interface CarUpdate {
  name?: string | null;
  description?: string | null;
  vin?: string | null;
  licensePlate?: string | null;
  brand?: string | null;
  model?: string | null;
  externalId?: string | null;
  metadata?: Record<string, unknown> | null | null;
}

/** Messages that a phone carries to a box: its status lists, oldest first, and the newest receipt of its log. `names` has the day keys by which the phone finds the box. */
export interface CarriedBox {
  box: string;
  productId: number;
  boxKey: string;
  statusLists: CarriedList[];
  receipt: string | null;
  names: DayKey[];
}

export interface CarriedList {
  generation: number;
  statusList: string;
}

/** The readiness of one cell. */
export interface CellState {
  name: string;
  number: number;
  status: "ok" | "unavailable";
  reasons?: Why[];
  warnings?: Why[];
}

export interface Change {
  id: number;
  time: string;
  recordedTime: string;
  kind: string;
  resource: string;
  resourceId: string;
  actor: Actor;
  onBehalfOf: Actor | null;
  address: string | null;
  requestId: string | null;
  operationId: string | null;
  groups: unknown;
  before: unknown;
  after: unknown;
}

/** A signed checkpoint of the log. Verifiers check `note`. */
export interface ChangeCheckpoint {
  customerId: number;
  epoch: string;
  size: number;
  root: string;
  time: string;
  note: string;
  consistency: string[] | null;
}

export type ChangeKind = "customer.updated" | "car.created" | "car.updated" | "car.deleted" | "user.created" | "user.updated" | "user.deleted" | "product.created" | "product.updated" | "product.deleted" | "box.installed" | "box.uninstalled" | "iq.installed" | "iq.uninstalled" | "service.created" | "service.updated" | "service.deleted" | "service.paired" | "service.unpaired" | "service.terminated" | "contract.created" | "contract.updated" | "contract.deleted" | "group.created" | "group.updated" | "group.deleted" | "group.carAdded" | "group.carRemoved" | "group.productAdded" | "group.productRemoved" | "group.serviceAdded" | "group.serviceRemoved" | "group.userAdded" | "group.userRemoved" | "assignmentRequest.created" | "assignmentRequest.granted" | "assignmentRequest.rejected" | "assignmentRequest.withdrawn" | "assignmentRequest.updated" | "assignmentRequest.deleted" | "webhook.created" | "webhook.updated" | "webhook.deleted" | "deviceKey.created" | "deviceKey.updated" | "deviceKey.deleted" | "sdkKey.created" | "sdkKey.updated" | "sdkKey.deleted" | "device.created" | "device.updated" | "device.approved" | "device.lost" | "device.deleted" | "key.issued" | "key.updated" | "key.revoked" | "key.deleted" | "enrolment.created" | "enrolment.updated" | "enrolment.confirmed" | "enrolment.deleted" | "boxReport.created" | "boxReport.updated" | "boxReport.deleted" | "keyAuthority.created" | "keyAuthority.updated" | "keyAuthority.deleted" | "issuingKey.created" | "issuingKey.updated" | "issuingKey.deleted" | "serviceKey.created" | "serviceKey.updated" | "serviceKey.deleted" | "manager.granted" | "manager.withdrawn" | "role.granted" | "role.updated" | "role.withdrawn" | "invitation.created" | "invitation.updated" | "invitation.deleted" | "client.created" | "client.updated" | "client.deleted" | "scopes.granted" | "scopes.updated" | "scopes.withdrawn" | "clientSecret.created" | "clientSecret.updated" | "clientSecret.deleted" | "factorRule.set" | "factorRule.lifted" | "permission.refused";

/** Proof that a change is in the log: its record is leaf `index` of the checkpoint's tree. */
export interface ChangeProof {
  id: number;
  epoch: string;
  index: number;
  record: string;
  inclusion: string[];
  checkpoint: ChangeCheckpoint;
}

/** The message about a change. `data` is the change as in `GET /changes`. */
export interface ChangeTold {
  type: ChangeKind;
  timestamp: string;
  customerId: number;
  epoch: string;
  data: Change;
}

/** The message about a checkpoint, which is in `data`. */
export interface CheckpointTold {
  type: "changes.checkpoint";
  timestamp: string;
  customerId: number;
  data: Record<string, unknown>;
}

export interface ClientCreated {
  id: number;
  clientId: string;
  clientSecret: string;
}

export type ClientMode = "spec" | "strict";

export interface ClientPatch {
  op: "remove" | "replace";
  path: "/name" | "/scopes" | "/expires" | "/enabled" | "/mode";
  value?: unknown;
}

export interface ClientSecret {
  id: number;
  created: string;
  lastUsed: string | null;
}

/** The properties to change. Null removes a value. */
export interface ClientUpdate {
  name?: string | null;
  scopes?: ("customer:read" | "cars:read" | "cars:write" | "users:read" | "users:write" | "erasure:read" | "erasure:write" | "assignments:read" | "assignments:write" | "assignments:share" | "groups:read" | "groups:write" | "products:read" | "services:read" | "installations:write" | "pairings:write" | "keys:read" | "sdk:write" | "events:read" | "events:write" | "positions:read" | "boxes:read" | "boxes:write" | "access:read" | "changes:read" | "operations:read" | "batch:write" | "webhooks:read" | "webhooks:write" | "live:read" | "managers:read" | "clients:read")[] | null;
  expires?: string | Date | null;
  enabled?: unknown | null;
  mode?: ClientMode | null;
}

export interface Code {
  code: string;
}

export type ConflictHandling = "allow" | "report" | "refuse";

export interface Contract {
  orderNumber: string;
  documentNumber: string;
  orderPosition: number | null;
  start: string;
  end: string;
  termOfContract: number | null;
  termOfNotice: number | null;
  unitOfNotice: string | null;
}

/** The created resource. */
export interface Created {
  id: number;
}

export interface Customer {
  id: string;
  name: string;
}

/** The key of the names that a box advertises on one day. */
export interface DayKey {
  day: number;
  key: string;
}

export interface Delivered {
  accepted: number;
  duplicates: number;
  refused: Refused[];
  refusedCount?: number | null;
  truncated?: boolean;
}

export interface DeliveredEvents {
  accepted: number;
  duplicates: number;
  refused: Refused[];
  refusedCount?: number | null;
  truncated?: boolean;
  events: Numbered[];
}

export interface Delivery {
  id: number;
  messageId: string;
  type: DeliveryType;
  operationId: string | null;
  changeId: number | null;
  eventId: number | null;
  assignmentId: number | null;
  state: DeliveryState;
  attempts: number;
  attempted: string | null;
  nextAttempt: string | null;
  status: number | null;
  duration: number | null;
  answer: string | null;
  error: string | null;
  created: string;
  payload: Outcome | ChangeTold | CheckpointTold | EventTold;
}

export interface DeliveryListed {
  id: number;
  webhookId: number;
  webhookUrl: string | null;
  messageId: string;
  type: DeliveryType;
  operationId: string | null;
  changeId: number | null;
  eventId: number | null;
  assignmentId: number | null;
  state: DeliveryState;
  attempts: number;
  attempted: string | null;
  nextAttempt: string | null;
  status: number | null;
  duration: number | null;
  answer: string | null;
  error: string | null;
  created: string;
  payload: Outcome | ChangeTold | CheckpointTold | EventTold;
}

export type DeliveryState = "Waiting" | "Delivered" | "Dead";

export type DeliveryType = "assignment.created" | "assignment.updated" | "assignment.deleted" | "customer.updated" | "car.created" | "car.updated" | "car.deleted" | "user.created" | "user.updated" | "user.deleted" | "product.created" | "product.updated" | "product.deleted" | "box.installed" | "box.uninstalled" | "iq.installed" | "iq.uninstalled" | "service.created" | "service.updated" | "service.deleted" | "service.paired" | "service.unpaired" | "service.terminated" | "contract.created" | "contract.updated" | "contract.deleted" | "group.created" | "group.updated" | "group.deleted" | "group.carAdded" | "group.carRemoved" | "group.productAdded" | "group.productRemoved" | "group.serviceAdded" | "group.serviceRemoved" | "group.userAdded" | "group.userRemoved" | "assignmentRequest.created" | "assignmentRequest.granted" | "assignmentRequest.rejected" | "assignmentRequest.withdrawn" | "assignmentRequest.updated" | "assignmentRequest.deleted" | "webhook.created" | "webhook.updated" | "webhook.deleted" | "deviceKey.created" | "deviceKey.updated" | "deviceKey.deleted" | "sdkKey.created" | "sdkKey.updated" | "sdkKey.deleted" | "device.created" | "device.updated" | "device.approved" | "device.lost" | "device.deleted" | "key.issued" | "key.updated" | "key.revoked" | "key.deleted" | "enrolment.created" | "enrolment.updated" | "enrolment.confirmed" | "enrolment.deleted" | "boxReport.created" | "boxReport.updated" | "boxReport.deleted" | "keyAuthority.created" | "keyAuthority.updated" | "keyAuthority.deleted" | "issuingKey.created" | "issuingKey.updated" | "issuingKey.deleted" | "serviceKey.created" | "serviceKey.updated" | "serviceKey.deleted" | "manager.granted" | "manager.withdrawn" | "role.granted" | "role.updated" | "role.withdrawn" | "invitation.created" | "invitation.updated" | "invitation.deleted" | "client.created" | "client.updated" | "client.deleted" | "scopes.granted" | "scopes.updated" | "scopes.withdrawn" | "clientSecret.created" | "clientSecret.updated" | "clientSecret.deleted" | "factorRule.set" | "factorRule.lifted" | "permission.refused" | "event.opened" | "event.closed" | "changes.checkpoint" | "webhook.test";

export interface Device {
  id: string;
  name: string;
  claimedProtection: KeyProtection;
  registered: string;
  isApproved: boolean;
}

/** The settings of a customer for its drivers. */
export interface DriverSettings {
  phone: string | null;
  showsPlace: boolean;
  extensionHours: number;
}

/** Equivalent to the `DELETE` of the kind. For a user, it ends the membership in the customer. */
export interface End {
  op: "end";
  id: number;
}

export interface EnrolledBox {
  productId: number;
  epoch: number;
  name: string;
  thumbprint: string;
  isPending: boolean;
}

/** The enrolment that the box created, and the thumbprint that it displays. See docs/keys.md, "Provisioning". `replaces` is the thumbprint of the pending enrolment. */
export interface Enrolment {
  enrolment: string;
  thumbprint?: string | null;
  replaces?: string | null;
}

/** The approved key, by the thumbprint that the box displays. */
export interface EnrolmentApproval {
  thumbprint: string;
}

export interface EnrolmentNonce {
  nonce: string;
  expires: string;
}

/** Signed entries of the logs of boxes, in any order. */
export interface Entries {
  entries: string[];
}

export interface Event {
  id: number;
  dateTime: string;
  utcDateTime: string;
  userId: number;
  carId: number;
  type: EventType;
  userAgent: string;
  latitude: number | null;
  longitude: number | null;
  car?: Car | null;
  user?: User | null;
}

export type EventKind = "event.opened" | "event.closed";

/** The message about an event. `data` is the event as in `GET /events/{eventId}`, with further members. */
export interface EventTold {
  type: EventKind;
  timestamp: string;
  customerId: number;
  data: Record<string, unknown>;
}

export type EventType = "CarOpened" | "CarClosed";

/** The roles that require a second factor. */
export interface FactorRules {
  roles: Role[];
}

export interface Factors {
  id: number;
  hasApp: boolean;
  passkeys: number;
  recoveryCodes: number;
  isNeeded: boolean;
}

/** One error in the request. */
export interface Fault {
  code: FaultCode;
  detail: string;
  pointer?: string;
  parameter?: string;
  position?: number;
  header?: string;
  valid?: unknown[];
}

/** Kinds of errors. */
export type FaultCode = "missing" | "unknown" | "wrong-type" | "wrong-form" | "blank" | "too-long" | "too-short" | "direction-control" | "out-of-range" | "not-one-of" | "taken" | "one-needed" | "invalid-json" | "syntax" | "not-supported" | "repeated";

/** Data that is erased: `removed` or `ended` at once, or made `anonymous` within minutes. Anonymous data stays without identifying the person. */
export interface Goes {
  kind: "membership" | "groups" | "assignments" | "devices" | "keys" | "events" | "operations" | "deliveries" | "changes";
  how: "removed" | "ended" | "anonymous";
  count: number;
}

export interface Group {
  id: number;
  name: string;
  externalId?: string | null;
  metadata?: Record<string, string> | null;
  "cars@odata.count"?: number;
  cars?: Car[];
  "users@odata.count"?: number;
  users?: User[];
  "services@odata.count"?: number;
  services?: ServiceOfProduct[];
  "products@odata.count"?: number;
  products?: Product[];
}

export interface GroupBatch {
  atomic?: boolean;
  dryRun?: boolean;
  kind: "groups";
  items: (GroupCreation | GroupChange | End)[];
}

export interface GroupChange {
  op: "change";
  id: number;
  patch: GroupPatch[];
}

export interface GroupCreation {
  op: "create";
  body: NewGroup;
}

export interface GroupPatch {
  op: "remove" | "replace";
  path: "/name" | "/externalId" | "/metadata" | string;
  value?: Record<string, string> | string | null;
}

/** The properties to change. Null removes a value. */
export interface GroupUpdate {
  name?: string | null;
  externalId?: string | null;
  metadata?: Record<string, unknown> | null | null;
}

/** The server is ready. */
export interface Healthy {
  status: "ok";
}

export interface HiddenAssignment {
  carId: number;
  start: string;
  end: string | null;
  car?: Car | null;
}

export interface Identity {
  id: number;
  provider: string;
  label: string;
  createdAt: string;
}

export interface Installation {
  uniqueId?: string | null;
  serialNumber?: string | null;
  productId?: number | null;
  carId: number;
}

export interface Invitation {
  id: number;
  emailAddress: string;
  role: "Owner" | "Manager" | "Dispatcher" | "Technician" | "Auditor" | "Viewer";
  groups: unknown;
  invitedBy: string;
  created: string;
  expires: string;
}

export interface IssuedKey {
  id: string;
  assignmentId: number;
  userId: number;
  deviceId: string;
  deviceName: string | null;
  productId: number | null;
  epoch: number;
  issued: string;
  begins: string;
  expires: string;
  revoked: string | null;
  isKnownToBox: boolean;
  opensUntil: string;
  canPowerLossExtend: boolean;
}

/** An error in the body or patch of the item, if its place is known. */
export interface ItemFault {
  code: string;
  detail: string;
  pointer?: string | null;
  valid?: unknown[] | null;
}

/** The result of an item, as of the equivalent single request. */
export interface ItemResult {
  status: number;
  id?: number | null;
  password?: string | null;
  operationId?: string | null;
  operationLocation?: string | null;
  checksum?: string | null;
  operation?: Record<string, unknown> | null;
  wouldFail?: string | null;
  conflicts?: AssignmentConflict[] | null;
  moreConflicts?: boolean | null;
  code?: string | null;
  detail?: string | null;
  errors?: ItemFault[] | null;
}

/** The keys that verify tokens (RFC 7517). */
export interface JsonWebKeySet {
  keys: (Record<string, string>)[];
}

/** The retention of one kind of data: its time, the event from which it counts, and the time of the oldest data, if known. A group-limited caller gets null for the oldest. */
export interface Kept {
  kind: RetainedKind;
  kept: boolean;
  keptFor: string | null;
  countsFrom: string;
  setting: string | null;
  oldest: string | null;
}

export interface Key {
  id: number;
  brand: string;
  boxName: string | null;
  boxSapNumber: string | null;
  keyForm: KeyForm;
}

export interface KeyForm {
  id: number;
  name: string;
  imageUrl: string;
}

export type KeyProtection = "Software" | "TrustedEnvironment" | "SecureElement";

/** An event type, or a wildcard that includes several. */
export interface KindListed {
  kind: string;
  resource: string;
  meaning: string;
  isWildcard: boolean;
  takes: string[];
}

export type Language = "en" | "de";

export interface Location {
  latitude: string | null;
  longitude: string | null;
  date: string | null;
  odometerDate: string | null;
  odometer: string | null;
}

export interface MachineClient {
  id: number;
  name: string;
  clientId: string;
  scopes: ("customer:read" | "cars:read" | "cars:write" | "users:read" | "users:write" | "erasure:read" | "erasure:write" | "assignments:read" | "assignments:write" | "assignments:share" | "groups:read" | "groups:write" | "products:read" | "services:read" | "installations:write" | "pairings:write" | "keys:read" | "sdk:write" | "events:read" | "events:write" | "positions:read" | "boxes:read" | "boxes:write" | "access:read" | "changes:read" | "operations:read" | "batch:write" | "webhooks:read" | "webhooks:write" | "live:read" | "managers:read" | "clients:read")[];
  enabled: boolean;
  expires: string | null;
  mode: ClientMode;
  managedHere: boolean;
  created: string;
  lastUsed: string | null;
}

export interface Manager {
  id: number;
  username: string;
  role: "Owner" | "Manager" | "Dispatcher" | "Technician" | "Auditor" | "Viewer" | null;
  isLimited: boolean;
  groups: unknown;
  enabled: boolean;
  acceptedProvider: string | null;
  acceptedAddress: string | null;
}

export interface ManagerInvited {
  id: number;
  link: string;
  expires: string;
  mailed: boolean;
}

export interface ManagerPatch {
  op: "remove" | "replace";
  path: "/role" | "/groups";
  value?: unknown;
}

/** The properties to change. Null removes a value. */
export interface ManagerUpdate {
  role?: Role | null;
  groups?: number[] | null | null;
}

export interface Me {
  id: number;
  username: string;
  language: string | null;
  timeZone: string | null;
  theme: string | null;
}

export interface NewApp {
  secret: string;
  uri: string;
}

export interface NewAssignment {
  carId: number;
  userId: number;
  start: string | Date;
  end?: string | Date | null;
  lifetime?: number | null;
  renewableAfter?: number | null;
  exclusive?: boolean | null;
  externalId?: string | null;
  metadata?: Record<string, unknown> | null;
}

export interface NewCar {
  name: string;
  description?: string | null;
  vin?: string | null;
  licensePlate?: string | null;
  brand?: string | null;
  model?: string | null;
  externalId?: string | null;
  metadata?: Record<string, unknown> | null;
}

export interface NewClient {
  name: string;
  scopes: ("customer:read" | "cars:read" | "cars:write" | "users:read" | "users:write" | "erasure:read" | "erasure:write" | "assignments:read" | "assignments:write" | "assignments:share" | "groups:read" | "groups:write" | "products:read" | "services:read" | "installations:write" | "pairings:write" | "keys:read" | "sdk:write" | "events:read" | "events:write" | "positions:read" | "boxes:read" | "boxes:write" | "access:read" | "changes:read" | "operations:read" | "batch:write" | "webhooks:read" | "webhooks:write" | "live:read" | "managers:read" | "clients:read")[];
  expires?: string | Date | null;
  mode?: ClientMode;
}

export interface NewEvent {
  dateTime: string;
  utcDateTime: string | Date;
  userId: number;
  carId: number;
  type?: EventType;
  userAgent: string;
  latitude?: number | null;
  longitude?: number | null;
}

export interface NewGroup {
  name: string;
  externalId?: string | null;
  metadata?: Record<string, unknown> | null;
}

/** The person to invite, and the role. */
export interface NewManager {
  emailAddress: string;
  role: Role;
  groups?: number[] | null;
}

export interface NewPasskey {
  name: string;
  credential: Record<string, unknown>;
}

export interface NewPassword {
  currentPassword: string;
  newPassword: string;
}

export interface NewUser {
  emailAddress: string;
  userData: UserData;
  password?: string | null;
  type?: UserType | null;
  externalId?: string | null;
  metadata?: Record<string, unknown> | null;
}

export interface NewWebhook {
  pull?: boolean;
  url?: string | null;
  dialect?: WebhookDialect | null;
  secret?: string | null;
  kinds?: OutcomeKind[] | null;
  enabled?: boolean;
  externalId?: string | null;
  metadata?: Record<string, unknown> | null;
  name?: string | null;
  deleteUnusedAfterDays?: number | null;
}

export interface Numbered {
  line: number;
  id: number;
}

/** An event that is delivered later, possibly more than once. `clientId` identifies it. */
export interface OfflineEvent {
  dateTime: string;
  utcDateTime: string | Date;
  userId: number;
  carId: number;
  type?: EventType;
  userAgent: string;
  latitude?: number | null;
  longitude?: number | null;
  clientId: string;
}

/** An OpenAPI 3.1 document. */
export type OpenApiDocument = Record<string, unknown>;

/** The supported metadata of OpenID Connect Discovery 1.0, section 3. */
export interface OpenIdConfiguration {
  issuer: string;
  token_endpoint: string;
  revocation_endpoint: string;
  jwks_uri: string;
  token_endpoint_auth_methods_supported: string[];
  revocation_endpoint_auth_methods_supported: string[];
  grant_types_supported: string[];
  scopes_supported: string[];
  response_types_supported: string[];
  subject_types_supported: string[];
  claims_supported: string[];
  id_token_signing_alg_values_supported: string[];
}

/** A car that the lost phones may still open. */
export interface OpenableCarOfUser {
  carId: number;
  name: string;
  opensUntil: string;
  canPowerLossExtend: boolean;
}

export interface Operation {
  id: string;
  kind: OperationKind;
  cause: OperationCause;
  state: OperationState;
  errorMessage: string | null;
  errorCode: OperationError | null;
  conflicts: OperationConflict[] | null;
  checksum: string;
  applied: number | null;
  assignmentId: number | null;
  carId: number;
  newCarId: number | null;
  userId: number | null;
  newUserId: number | null;
  start: string | null;
  end: string | null;
  exclusive: boolean | null;
  externalId: string | null;
  metadata: Record<string, string> | null;
  requested: string;
  requestedBy: Actor | null;
  finished: string | null;
  car?: Car | null;
  newCar?: Car | null;
  user?: User | null;
  newUser?: User | null;
}

export type OperationCause = "Request" | "Uninstallation" | "CarDeleted" | "UserRemoved";

/** An exclusive assignment with which a failed operation conflicted. */
export interface OperationConflict {
  assignmentId: number;
  userId: number | null;
  start: string;
  end: string | null;
}

export type OperationError = "no-car" | "no-user" | "no-key-box" | "no-service" | "service-terminated" | "assignment-gone" | "end-before-start" | "renewable-after-out-of-range" | "external-id-taken" | "metadata-too-large" | "assignment-conflict" | "internal-error";

export type OperationKind = "CreateAssignment" | "UpdateAssignment" | "DeleteAssignment";

export type OperationState = "Pending" | "Succeeded" | "Failed";

/** The message about the outcome of an operation. All event types have the same properties. */
export interface Outcome {
  type: OutcomeType;
  operationId: string | null;
  customerId: number;
  operationSucceeded: boolean;
  errorMessage: string | null;
  checksum: string | null;
  assignmentId: number | null;
  carId: number | null;
  userId: number | null;
  start: string | null;
  end: string | null;
  lifetime: number | null;
  renewableAfter: number | null;
  exclusive: boolean | null;
  externalId: string | null;
  metadata: Record<string, string> | null;
}

export type OutcomeKind = "assignment.created" | "assignment.updated" | "assignment.deleted" | "customer.updated" | "car.created" | "car.updated" | "car.deleted" | "user.created" | "user.updated" | "user.deleted" | "product.created" | "product.updated" | "product.deleted" | "box.installed" | "box.uninstalled" | "iq.installed" | "iq.uninstalled" | "service.created" | "service.updated" | "service.deleted" | "service.paired" | "service.unpaired" | "service.terminated" | "contract.created" | "contract.updated" | "contract.deleted" | "group.created" | "group.updated" | "group.deleted" | "group.carAdded" | "group.carRemoved" | "group.productAdded" | "group.productRemoved" | "group.serviceAdded" | "group.serviceRemoved" | "group.userAdded" | "group.userRemoved" | "assignmentRequest.created" | "assignmentRequest.granted" | "assignmentRequest.rejected" | "assignmentRequest.withdrawn" | "assignmentRequest.updated" | "assignmentRequest.deleted" | "webhook.created" | "webhook.updated" | "webhook.deleted" | "deviceKey.created" | "deviceKey.updated" | "deviceKey.deleted" | "sdkKey.created" | "sdkKey.updated" | "sdkKey.deleted" | "device.created" | "device.updated" | "device.approved" | "device.lost" | "device.deleted" | "key.issued" | "key.updated" | "key.revoked" | "key.deleted" | "enrolment.created" | "enrolment.updated" | "enrolment.confirmed" | "enrolment.deleted" | "boxReport.created" | "boxReport.updated" | "boxReport.deleted" | "keyAuthority.created" | "keyAuthority.updated" | "keyAuthority.deleted" | "issuingKey.created" | "issuingKey.updated" | "issuingKey.deleted" | "serviceKey.created" | "serviceKey.updated" | "serviceKey.deleted" | "manager.granted" | "manager.withdrawn" | "role.granted" | "role.updated" | "role.withdrawn" | "invitation.created" | "invitation.updated" | "invitation.deleted" | "client.created" | "client.updated" | "client.deleted" | "scopes.granted" | "scopes.updated" | "scopes.withdrawn" | "clientSecret.created" | "clientSecret.updated" | "clientSecret.deleted" | "factorRule.set" | "factorRule.lifted" | "permission.refused" | "event.opened" | "event.closed" | "changes.checkpoint" | "assignment.*" | "customer.*" | "car.*" | "user.*" | "product.*" | "box.*" | "iq.*" | "service.*" | "contract.*" | "group.*" | "assignmentRequest.*" | "webhook.*" | "deviceKey.*" | "sdkKey.*" | "device.*" | "key.*" | "enrolment.*" | "boxReport.*" | "keyAuthority.*" | "issuingKey.*" | "serviceKey.*" | "manager.*" | "role.*" | "invitation.*" | "client.*" | "scopes.*" | "clientSecret.*" | "factorRule.*" | "permission.*" | "event.*" | "changes.*";

export type OutcomeType = "assignment.created" | "assignment.updated" | "assignment.deleted" | "webhook.test";

export interface Pairing {
  uniqueId?: string | null;
  serialNumber?: string | null;
  productId?: number | null;
  serviceId: number;
}

export interface Passkey {
  id: number;
  name: string;
  isBackedUp: boolean;
  isRefused: boolean;
  createdAt: string;
  lastUsed: string | null;
}

export interface PasskeyMade {
  id: number;
  amr: string;
}

export interface PasskeyOptions {
  publicKey: Record<string, unknown>;
}

export type PatchOperation = "remove" | "replace";

/** An enrolment that is not in force yet, and replaces a box. */
export interface PendingEnrolment {
  epoch: number;
  name: string;
  thumbprint: string;
  enrolled: string;
  isProven: boolean;
  needsApproval: boolean;
  isApproved: boolean;
  hasReturned: boolean;
  isContested: boolean;
}

export interface PersonName {
  firstName: string | null;
  lastName: string | null;
}

/** A key of one assignment. A new one is available from `renewAfter`. */
export interface PhoneKey {
  assignmentId: number;
  carId: number;
  productId: number;
  box: string;
  issued: string;
  begins: string;
  expires: string;
  renewAfter: string;
  key: string;
}

/** All keys that a phone keeps. It deletes every other key. */
export interface PhoneKeys {
  keySet: string | null;
  roots: string[];
  keys: PhoneKey[];
  boxes: CarriedBox[];
  withheld: Withheld[];
  isComplete: boolean;
}

export interface Position {
  carId: number;
  name: string;
  licensePlate: string | null;
  vin: string | null;
  brand: string | null;
  model: string | null;
  externalId?: string | null;
  description: string | null;
  hasUnit: boolean;
  latitude: number | null;
  longitude: number | null;
  utcDateTime: string | null;
  lastSeen: string | null;
  ignition: boolean | null;
  isDriving: boolean | null;
  inUse: boolean;
  inUseUntil: string | null;
  "products@odata.count"?: number;
  products?: Product[];
  "assignments@odata.count"?: number;
  assignments?: AssignmentOfCar[];
  "groups@odata.count"?: number;
  groups?: Group[];
  "hiddenAssignments@odata.count"?: number;
  hiddenAssignments?: HiddenAssignment[];
}

/** The preferences for the pages; null for the browser's setting. */
export interface Preferences {
  language: Language | null;
  timeZone: string | null;
  theme: Theme | null;
}

export interface Preview {
  userId: number;
  goes: Goes[];
  stays: Stays[];
  customers: AlsoIn[];
}

/** An error for programs (RFC 9457). The page at `type` explains the code and its remedy. */
export interface Problem {
  type: string;
  title: string;
  status: number;
  detail: string;
  code: string;
  traceId: string;
  previousCode?: string;
  errors?: Fault[];
  retryAfter?: number;
  error?: string;
  error_description?: string;
  epoch?: string | null;
  oldest?: number;
  newest?: number;
  oldestTime?: string;
}

export interface Product {
  id: number;
  uniqueId: string;
  serialNumber: string;
  sapNumber: string;
  dongleTerminationTimeStamp: string | null;
  externalId?: string | null;
  metadata?: Record<string, string> | null;
  type: ProductType;
  service?: ServiceOfProduct | null;
  car?: Car | null;
  "groups@odata.count"?: number;
  groups?: Group[];
}

export interface ProductListed {
  id: number;
  uniqueId: string;
  serialNumber: string;
  sapNumber: string;
  externalId?: string | null;
  metadata?: Record<string, string> | null;
  type: ProductType;
  service?: ServiceOfProduct | null;
  car?: Car | null;
  "groups@odata.count"?: number;
  groups?: Group[];
}

export interface ProductOfGroup {
  productId: number;
}

export interface ProductPatch {
  op: "remove" | "replace";
  path: "/externalId" | "/metadata" | string;
  value?: Record<string, string> | string | null;
}

export type ProductType = "vendor Box" | "vendor IQ";

/** The properties to change. Null removes a value. */
export interface ProductUpdate {
  externalId?: unknown | null;
  metadata?: unknown | null;
}

/** The server is ready. */
export interface Ready {
  status: "ok";
  warnings?: Why[];
  cells?: CellState[];
}

export interface RecoveryCodes {
  codes: string[];
}

export interface Refused {
  line: number;
  reason: string;
}

export interface RefusedEntry {
  index: number;
  reason: string;
}

/** The public key of a phone, signed by that key. See docs/keys.md, "A life of a key". */
export interface Registration {
  registration: string;
  name: string;
  claimedProtection?: KeyProtection;
}

export interface RegistrationNonce {
  nonce: string;
  expires: string;
}

export interface Replayed {
  count: number;
  next: string | null;
}

export interface RequestDecision {
  decision: "grant" | "reject";
  comment?: string | null;
}

export type RetainedKind = "assignments" | "events" | "keys" | "operations" | "deliveries" | "changes" | "positions" | "odometer" | "telemetry" | "series" | "answers" | "people" | "sessions";

/** The role of a manager in a customer. */
export type Role = "Owner" | "Manager" | "Dispatcher" | "Technician" | "Auditor" | "Viewer";

/** Readings of one unit at one time: the properties of the spec's telemetry, and the unit. */
export interface Sample {
  serialNumber?: string | null;
  uniqueId?: string | null;
  carDataReadTime?: string | Date;
  currentLatitude?: number | null;
  currentLongitude?: number | null;
  odometer?: number | null;
  selectedCulture?: string | null;
  vin?: string | null;
  rpm?: number | null;
  dtc?: Trouble[] | null;
  isDriving?: boolean | null;
  isHybrid?: boolean | null;
  chargeState?: boolean | null;
  ignition?: boolean | null;
  driverSeatbelt?: boolean | null;
  isTractionControlActive?: boolean | null;
  isCruiseControlActive?: boolean | null;
  isCruiseControlEnabled?: boolean | null;
  isParkingBrakeEngaged?: boolean | null;
  isLeftTurnSignalActive?: boolean | null;
  isRightTurnSignalActive?: boolean | null;
  fuelType?: string | null;
  timeToNextService?: string | null;
  fuelConsumption?: number | null;
  totalFuelUsed?: number | null;
  fuelLevelVolume?: number | null;
  fuelLevelPercent?: number | null;
  engineHours?: number | null;
  distanceToNextService?: number | null;
  adBlueLevel?: number | null;
  fuelFilterLifeRemaining?: number | null;
  oilLevel?: number | null;
  oilTemperature?: number | null;
  oilLifeRemaining?: number | null;
  transmissionOilTemperature?: number | null;
  engineTemperature?: number | null;
  engineCoolantTemperature?: number | null;
  batteryVoltage?: number | null;
  currentSpeed?: number | null;
  tirePressureFrontLeft?: number | null;
  tirePressureFrontRight?: number | null;
  tirePressureRearLeft?: number | null;
  tirePressureRearRight?: number | null;
  interiorTemperature?: number | null;
  outsideTemperature?: number | null;
  frontBrakeLifeRemaining?: number | null;
  rearBrakeLifeRemaining?: number | null;
}

export interface Samples {
  carId: number;
  from: string;
  to: string;
  seconds: number;
  series: Record<string, Bucket[]>;
}

export interface SdkToken {
  id_token: string;
}

export interface SdkTokenRequest {
  customerId: number;
  sdkKey: string;
  userId: number;
}

export interface SecretCreated {
  id: number;
  clientSecret: string;
}

export interface SecretRotated {
  signingSecret: string;
  oldSigningSecretUntil: string;
}

export interface Service {
  id: number;
  name: string;
  productId: number | null;
  isTerminated: boolean;
  terminationDate: string | null;
  terminationCause: string | null;
  "groups@odata.count"?: number;
  groups?: Group[];
  product?: Product | null;
  contract?: Contract | null;
}

export interface ServiceOfGroup {
  serviceId: number;
}

export interface ServiceOfProduct {
  id: number;
  name: string;
  isTerminated: boolean;
  terminationDate: string | null;
  terminationCause: string | null;
  "groups@odata.count"?: number;
  groups?: Group[];
  product?: Product | null;
  contract?: Contract | null;
}

export interface Session {
  id: number;
  address: string;
  userAgent: string;
  createdAt: string;
  lastSeen: string;
}

export interface SignedTime {
  time: string;
}

/** A user, identified by exactly one of the two. */
export interface SomeUser {
  emailAddress?: string | null;
  userId?: number | null;
}

/** Data that stays, and the reason as a code and a text. */
export interface Stays {
  kind: "person" | "answers" | "receivers";
  code: "shared-or-left-lately" | "until-forgotten" | "was-sent";
  text: string;
}

/** A period in which an assignment was in force. */
export interface Stretch {
  assignmentId: number;
  carId: number;
  userId: number;
  since: string;
  until: string | null;
  knownFrom: string;
  knownUntil: string | null;
  boxId: number | null;
  serviceId: number | null;
}

export interface TakenEntries {
  receipts: BoxReceipt[];
  refused: RefusedEntry[];
}

export interface Telemetry {
  selectedCulture: string | null;
  deviceSerialNumber: string | null;
  vin: string | null;
  odometer: number;
  rpm: number;
  dtc: Trouble[];
  isDriving: boolean;
  carDataReadTime: string;
  isHybrid: boolean | null;
  chargeState: boolean | null;
  ignition: boolean | null;
  driverSeatbelt: boolean | null;
  isTractionControlActive: boolean | null;
  isCruiseControlActive: boolean | null;
  isCruiseControlEnabled: boolean | null;
  isParkingBrakeEngaged: boolean | null;
  isLeftTurnSignalActive: boolean | null;
  isRightTurnSignalActive: boolean | null;
  fuelType: string | null;
  timeToNextService: string | null;
  currentLongitude: number | null;
  currentLatitude: number | null;
  fuelConsumption: number | null;
  totalFuelUsed: number | null;
  fuelLevelVolume: number | null;
  fuelLevelPercent: number | null;
  engineHours: number | null;
  distanceToNextService: number | null;
  adBlueLevel: number | null;
  fuelFilterLifeRemaining: number | null;
  oilLevel: number | null;
  oilTemperature: number | null;
  oilLifeRemaining: number | null;
  transmissionOilTemperature: number | null;
  engineTemperature: number | null;
  engineCoolantTemperature: number | null;
  batteryVoltage: number | null;
  currentSpeed: number | null;
  tirePressureFrontLeft: number | null;
  tirePressureFrontRight: number | null;
  tirePressureRearLeft: number | null;
  tirePressureRearRight: number | null;
  interiorTemperature: number | null;
  outsideTemperature: number | null;
  frontBrakeLifeRemaining: number | null;
  rearBrakeLifeRemaining: number | null;
}

/** A test in the form of an event type. `set` replaces members of the example. */
export interface TestMessage {
  type: "assignment.created" | "assignment.updated" | "assignment.deleted" | "customer.updated" | "car.created" | "car.updated" | "car.deleted" | "user.created" | "user.updated" | "user.deleted" | "product.created" | "product.updated" | "product.deleted" | "box.installed" | "box.uninstalled" | "iq.installed" | "iq.uninstalled" | "service.created" | "service.updated" | "service.deleted" | "service.paired" | "service.unpaired" | "service.terminated" | "contract.created" | "contract.updated" | "contract.deleted" | "group.created" | "group.updated" | "group.deleted" | "group.carAdded" | "group.carRemoved" | "group.productAdded" | "group.productRemoved" | "group.serviceAdded" | "group.serviceRemoved" | "group.userAdded" | "group.userRemoved" | "assignmentRequest.created" | "assignmentRequest.granted" | "assignmentRequest.rejected" | "assignmentRequest.withdrawn" | "assignmentRequest.updated" | "assignmentRequest.deleted" | "webhook.created" | "webhook.updated" | "webhook.deleted" | "deviceKey.created" | "deviceKey.updated" | "deviceKey.deleted" | "sdkKey.created" | "sdkKey.updated" | "sdkKey.deleted" | "device.created" | "device.updated" | "device.approved" | "device.lost" | "device.deleted" | "key.issued" | "key.updated" | "key.revoked" | "key.deleted" | "enrolment.created" | "enrolment.updated" | "enrolment.confirmed" | "enrolment.deleted" | "boxReport.created" | "boxReport.updated" | "boxReport.deleted" | "keyAuthority.created" | "keyAuthority.updated" | "keyAuthority.deleted" | "issuingKey.created" | "issuingKey.updated" | "issuingKey.deleted" | "serviceKey.created" | "serviceKey.updated" | "serviceKey.deleted" | "manager.granted" | "manager.withdrawn" | "role.granted" | "role.updated" | "role.withdrawn" | "invitation.created" | "invitation.updated" | "invitation.deleted" | "client.created" | "client.updated" | "client.deleted" | "scopes.granted" | "scopes.updated" | "scopes.withdrawn" | "clientSecret.created" | "clientSecret.updated" | "clientSecret.deleted" | "factorRule.set" | "factorRule.lifted" | "permission.refused" | "event.opened" | "event.closed" | "changes.checkpoint" | "webhook.test";
  set?: Record<string, string | number | boolean | null>;
}

export type Theme = "light" | "dark";

/** The time range of outcomes and changes, from `from` up to, but not including, `to`. */
export interface TimeRange {
  from: string | Date;
  to?: string | Date | null;
  undelivered?: boolean;
}

/** The name and the nonce in the box's challenge. */
export interface TimeWanted {
  box: string;
  nonce: string;
}

export interface Track {
  carId: number;
  from: string;
  to: string;
  count: number;
  thinned: boolean;
  points: TrackPoint[];
}

export interface TrackPoint {
  utcDateTime: string;
  until: string;
  latitude: number;
  longitude: number;
  odometer: number | null;
}

/** A diagnostic trouble code. */
export interface Trouble {
  key: string;
  value: string;
}

export interface User {
  id: number;
  emailAddress: string;
  userData: PersonName;
  externalId?: string | null;
  metadata?: Record<string, string> | null;
  "assignments@odata.count"?: number;
  assignments?: AssignmentOfUser[];
  "groups@odata.count"?: number;
  groups?: Group[];
}

/** The cars that a user could open. */
export interface UserAccess {
  at?: string | null;
  from?: string | null;
  to?: string | null;
  asOf: AsOf;
  assigned: Stretch[];
  events: Change[];
  moreEvents: boolean;
  userId: number;
}

export interface UserBatch {
  atomic?: boolean;
  dryRun?: boolean;
  kind: "users";
  items: (UserCreation | UserChange | End)[];
}

export interface UserChange {
  op: "change";
  id: number;
  patch: UserPatch[];
}

export interface UserCreated {
  id: number;
  password: string | null;
}

export interface UserCreation {
  op: "create";
  body: NewUser;
}

export interface UserData {
  firstName: string;
  lastName: string;
}

export interface UserLossOutcome {
  cars: OpenableCarOfUser[] | null;
}

/** The lost phones; null for all phones of the user. */
export interface UserLossReport {
  phones?: string[] | null;
  endSessions?: boolean;
}

export interface UserOfGroup {
  userId: number;
}

export interface UserPatch {
  op: "remove" | "replace";
  path: "/externalId" | "/metadata" | string;
  value?: Record<string, string> | string | null;
}

export type UserType = "Normal" | "Anonymous";

/** The properties to change. Null removes a value. */
export interface UserUpdate {
  externalId?: string | null;
  metadata?: Record<string, unknown> | null | null;
}

/** A waiting message: its headers, with the static secret, and its body. */
export interface WaitingMessage {
  number: number;
  type: string;
  headers: Record<string, string>;
  body: string;
}

export interface Webhook {
  id: number;
  url: string | null;
  kinds: OutcomeKind[];
  dialect: WebhookDialect;
  enabled: boolean;
  externalId?: string | null;
  metadata?: Record<string, string> | null;
  name: string | null;
  pull: boolean;
  deleteUnusedAfterDays: number | null;
  disabledReason: string | null;
  hasSecret: boolean;
  oldSigningSecretUntil: string | null;
  pulled: string | null;
  created: string;
  waiting: number;
  dead: number;
}

export interface WebhookCreated {
  id: number;
  signingSecret: string;
}

export type WebhookDialect = "keyrack" | "standard-webhooks" | "cloudevents";

export interface WebhookPatch {
  op: PatchOperation;
  path: "/url" | "/dialect" | "/secret" | "/kinds" | "/enabled" | "/externalId" | "/metadata" | "/name" | string;
  value?: unknown;
}

/** The properties to change. Null removes a value. */
export interface WebhookUpdate {
  url?: string | null;
  dialect?: WebhookDialect | null;
  secret?: string | null;
  kinds?: OutcomeKind[] | null | null;
  enabled?: boolean | null;
  externalId?: string | null;
  metadata?: Record<string, unknown> | null | null;
  name?: string | null;
}

export interface Why {
  code: string;
  detail: string;
  previousCode?: string;
}

/** An assignment that gets no new key, and the reason. */
export interface Withheld {
  assignmentId: number;
  reason: WithheldReason;
}

export type WithheldReason = "too-many-keys" | "status-list-full";

/** The bodies and answers of the operations. */
export interface Operations {
  /** Get the public keys of tokens */
  getJwks: { body: undefined; answer: JsonWebKeySet; ids: [] };
  /** Get the OpenID Connect metadata */
  getOpenIdConfiguration: { body: undefined; answer: OpenIdConfiguration; ids: [] };
  /** Get the authorization server metadata */
  getAuthorizationServer: { body: undefined; answer: AuthorizationServer; ids: [] };
  /** List customers */
  listCustomers: { body: undefined; answer: Customer[]; ids: [] };
  /** Get the retention of the customer's data */
  getRetention: { body: undefined; answer: Kept[]; ids: [] };
  /** Get the settings for drivers */
  getDriverSettings: { body: undefined; answer: DriverSettings; ids: [] };
  /** Set the settings for drivers */
  setDriverSettings: { body: DriverSettings; answer: undefined; ids: [] };
  /** List cars */
  listCars: { body: undefined; answer: Car[]; ids: [] };
  /** Create a car */
  createCar: { body: NewCar; answer: Created; ids: [] };
  /** List the cars that are free within a period */
  listAvailableCars: { body: undefined; answer: AvailableCar[]; ids: [] };
  /** Get a car */
  getCar: { body: undefined; answer: Car; ids: [carId: string | number] };
  /** Update a car */
  updateCar: { body: CarPatch[]; answer: undefined; ids: [carId: string | number] };
  /** Delete a car */
  deleteCar: { body: undefined; answer: undefined; ids: [carId: string | number] };
  /** List the products of a car */
  listProductsOfCar: { body: undefined; answer: Product[]; ids: [carId: string | number] };
  /** Get the newest telemetry of a car */
  getCarTelemetry: { body: undefined; answer: Telemetry; ids: [carId: string | number] };
  /** Get the newest location of a car */
  getCarLocation: { body: undefined; answer: Location; ids: [carId: string | number] };
  /** Get the location of a car at a date */
  getCarLocationAt: { body: undefined; answer: Location; ids: [carId: string | number, searchDate: string | number] };
  /** List the assignments of a car */
  listAssignmentsOfCar: { body: undefined; answer: AssignmentOfCar[]; ids: [carId: string | number] };
  /** List the events of a car */
  listEventsOfCar: { body: undefined; answer: Event[]; ids: [carId: string | number] };
  /** List users */
  listUsers: { body: undefined; answer: User[]; ids: [] };
  /** Create a user in the customer */
  createUser: { body: NewUser; answer: UserCreated; ids: [] };
  /** Get a user */
  getUser: { body: undefined; answer: User; ids: [userId: string | number] };
  /** Update the references of a user */
  updateUser: { body: UserPatch[]; answer: undefined; ids: [userId: string | number] };
  /** List the assignments of a user */
  listAssignmentsOfUser: { body: undefined; answer: AssignmentOfUser[]; ids: [userId: string | number] };
  /** Add an existing user to the customer */
  addUserToCustomer: { body: SomeUser; answer: undefined; ids: [] };
  /** Remove a user from the customer */
  removeUserFromCustomer: { body: SomeUser; answer: undefined; ids: [] };
  /** Preview the erasure of a user */
  previewErasure: { body: undefined; answer: Preview; ids: [userId: string | number] };
  /** Erase a user from the customer */
  eraseUser: { body: undefined; answer: undefined; ids: [userId: string | number] };
  /** List the phones of a user */
  listDevicesOfUser: { body: undefined; answer: Device[]; ids: [userId: string | number] };
  /** Remove a phone of a user */
  removeDeviceOfUser: { body: undefined; answer: undefined; ids: [userId: string | number, deviceId: string | number] };
  /** Free the keys of a user's removed phones */
  forgetRemovedDevicesOfUser: { body: undefined; answer: undefined; ids: [userId: string | number] };
  /** Approve a phone of a user */
  approveDeviceOfUser: { body: undefined; answer: undefined; ids: [userId: string | number, deviceId: string | number] };
  /** Invite a user to the app */
  inviteUserToApp: { body: AppInvitationRequest; answer: AppInvitation; ids: [userId: string | number] };
  /** Get the app access of a user */
  getAppAccessOfUser: { body: undefined; answer: AppAccessState; ids: [userId: string | number] };
  /** Withdraw the app access of a user */
  withdrawAppAccessOfUser: { body: undefined; answer: undefined; ids: [userId: string | number] };
  /** Report lost phones of a user */
  reportLostPhonesOfUser: { body: UserLossReport; answer: UserLossOutcome; ids: [userId: string | number] };
  /** List assignments */
  listAssignments: { body: undefined; answer: Assignment[]; ids: [] };
  /** Create an assignment */
  createAssignment: { body: NewAssignment; answer: undefined; ids: [] };
  /** Get an assignment */
  getAssignment: { body: undefined; answer: Assignment; ids: [assignmentId: string | number] };
  /** Update an assignment */
  updateAssignment: { body: AssignmentPatch[]; answer: undefined; ids: [assignmentId: string | number] };
  /** End an assignment */
  deleteAssignment: { body: undefined; answer: undefined; ids: [assignmentId: string | number] };
  /** List times at which users outside the groups have cars */
  listHiddenAssignments: { body: undefined; answer: HiddenAssignment[]; ids: [] };
  /** Get the booking settings */
  getBookingSettings: { body: undefined; answer: BookingSettings; ids: [] };
  /** Set the booking settings */
  setBookingSettings: { body: BookingSettings; answer: undefined; ids: [] };
  /** Get the booking settings of a car */
  getCarBookingSettings: { body: undefined; answer: CarBookingSettings; ids: [carId: string | number] };
  /** Set the booking settings of a car */
  setCarBookingSettings: { body: CarBookingSettings; answer: undefined; ids: [carId: string | number] };
  /** List groups */
  listGroups: { body: undefined; answer: Group[]; ids: [] };
  /** Create a group */
  createGroup: { body: NewGroup; answer: Created; ids: [] };
  /** Get a group */
  getGroup: { body: undefined; answer: Group; ids: [groupId: string | number] };
  /** Rename a group */
  updateGroup: { body: GroupPatch[]; answer: undefined; ids: [groupId: string | number] };
  /** Delete an empty group */
  deleteGroup: { body: undefined; answer: undefined; ids: [groupId: string | number] };
  /** List the cars of a group */
  listCarsOfGroup: { body: undefined; answer: Car[]; ids: [groupId: string | number] };
  /** Add a car to a group */
  addCarToGroup: { body: CarOfGroup; answer: undefined; ids: [groupId: string | number] };
  /** List the users of a group */
  listUsersOfGroup: { body: undefined; answer: User[]; ids: [groupId: string | number] };
  /** Add a user to a group */
  addUserToGroup: { body: UserOfGroup; answer: undefined; ids: [groupId: string | number] };
  /** List the services of a group */
  listServicesOfGroup: { body: undefined; answer: ServiceOfProduct[]; ids: [groupId: string | number] };
  /** Add a service to a group */
  addServiceToGroup: { body: ServiceOfGroup; answer: undefined; ids: [groupId: string | number] };
  /** List the products of a group */
  listProductsOfGroup: { body: undefined; answer: Product[]; ids: [groupId: string | number] };
  /** Add a product to a group */
  addProductToGroup: { body: ProductOfGroup; answer: undefined; ids: [groupId: string | number] };
  /** Remove a car from a group */
  removeCarFromGroup: { body: undefined; answer: undefined; ids: [groupId: string | number, carId: string | number] };
  /** Remove a user from a group */
  removeUserFromGroup: { body: undefined; answer: undefined; ids: [groupId: string | number, userId: string | number] };
  /** Remove a service from a group */
  removeServiceFromGroup: { body: undefined; answer: undefined; ids: [groupId: string | number, serviceId: string | number] };
  /** Remove a product from a group */
  removeProductFromGroup: { body: undefined; answer: undefined; ids: [groupId: string | number, productId: string | number] };
  /** List products */
  listProducts: { body: undefined; answer: ProductListed[]; ids: [] };
  /** Get a product */
  getProduct: { body: undefined; answer: Product; ids: [productId: string | number] };
  /** Update the references of a product */
  updateProduct: { body: ProductPatch[]; answer: undefined; ids: [productId: string | number] };
  /** Get the service of a product */
  getServiceOfProduct: { body: undefined; answer: ServiceOfProduct; ids: [productId: string | number] };
  /** Get the car of a product */
  getCarOfProduct: { body: undefined; answer: Car; ids: [productId: string | number] };
  /** List services */
  listServices: { body: undefined; answer: Service[]; ids: [] };
  /** Get a service */
  getService: { body: undefined; answer: Service; ids: [serviceId: string | number] };
  /** Get the product of a service */
  getProductOfService: { body: undefined; answer: Product; ids: [serviceId: string | number] };
  /** Get the contract of a service */
  getContractOfService: { body: undefined; answer: Contract; ids: [serviceId: string | number] };
  /** Install a product in a car */
  installProduct: { body: Installation; answer: undefined; ids: [] };
  /** Uninstall a product from a car */
  uninstallProduct: { body: Installation; answer: undefined; ids: [] };
  /** Pair a service with a product */
  pairService: { body: Pairing; answer: undefined; ids: [] };
  /** Unpair a service from its product */
  unpairService: { body: Pairing; answer: undefined; ids: [] };
  /** List brands */
  listBrands: { body: undefined; answer: string[]; ids: [] };
  /** List the keys of all brands */
  listKeys: { body: undefined; answer: Key[]; ids: [] };
  /** List the keys of a brand */
  listKeysOfBrand: { body: undefined; answer: Key[]; ids: [brand: string | number] };
  /** Get an id token for a user */
  getSdkToken: { body: SdkTokenRequest; answer: SdkToken; ids: [] };
  /** Get a nonce for the registration of a phone */
  beginRegistration: { body: undefined; answer: RegistrationNonce; ids: [] };
  /** List the phones of the user */
  listOwnDevices: { body: undefined; answer: AppDevice[]; ids: [] };
  /** Register or rename a phone */
  registerDevice: { body: Registration; answer: AppDevice; ids: [] };
  /** Remove a phone of the user */
  removeOwnDevice: { body: undefined; answer: undefined; ids: [deviceId: string | number] };
  /** Get the keys of a phone */
  getPhoneKeys: { body: undefined; answer: PhoneKeys; ids: [] };
  /** Deliver entries of box logs */
  deliverBoxLog: { body: Entries; answer: TakenEntries; ids: [] };
  /** Get the time, signed for a box and its nonce */
  getSignedTime: { body: TimeWanted; answer: SignedTime; ids: [] };
  /** Get an enrolled box */
  getEnrolledBox: { body: undefined; answer: BoxState; ids: [productId: string | number] };
  /** Enrol a box */
  enrolBox: { body: Enrolment; answer: EnrolledBox; ids: [productId: string | number] };
  /** Get a nonce for the enrolment of a box */
  beginEnrolment: { body: undefined; answer: EnrolmentNonce; ids: [productId: string | number] };
  /** Undo the pending enrolment of a box */
  undoEnrolment: { body: undefined; answer: undefined; ids: [productId: string | number] };
  /** Approve the pending enrolment of a box as a second person */
  approveEnrolment: { body: EnrolmentApproval; answer: undefined; ids: [productId: string | number] };
  /** Get the provisioning of a box */
  getProvisioning: { body: undefined; answer: BoxProvisioning; ids: [productId: string | number] };
  /** Get the status list of a box */
  getStatusList: { body: undefined; answer: BoxStatusList; ids: [productId: string | number] };
  /** List the issued keys of a car */
  listKeysOfCar: { body: undefined; answer: IssuedKey[]; ids: [carId: string | number] };
  /** List events */
  listEvents: { body: undefined; answer: Event[]; ids: [] };
  /** Record that a car was opened or closed */
  createEvent: { body: NewEvent; answer: Created; ids: [] };
  /** Get an event */
  getEvent: { body: undefined; answer: Event; ids: [eventId: string | number] };
  /** Deliver offline events */
  deliverEvents: { body: OfflineEvent[]; answer: DeliveredEvents; ids: [] };
  /** List changes of the customer's data */
  listChanges: { body: undefined; answer: Change[]; ids: [] };
  /** Get the newest checkpoint of the change log */
  getCheckpoint: { body: undefined; answer: ChangeCheckpoint; ids: [] };
  /** Get the proof that a change is in the log */
  getChangeProof: { body: undefined; answer: ChangeProof; ids: [changeId: string | number] };
  /** Get the users who could open a car */
  getCarAccess: { body: undefined; answer: CarAccess; ids: [carId: string | number] };
  /** Get the cars that a user could open */
  getUserAccess: { body: undefined; answer: UserAccess; ids: [userId: string | number] };
  /** Deliver samples of units */
  deliverTelemetry: { body: Sample[]; answer: Delivered; ids: [] };
  /** List the newest positions of all cars */
  listPositions: { body: undefined; answer: Position[]; ids: [] };
  /** Get the track of a car */
  getCarTrack: { body: undefined; answer: Track; ids: [carId: string | number] };
  /** Get telemetry series of a car for charts */
  getCarSamples: { body: undefined; answer: Samples; ids: [carId: string | number] };
  /** List the requests of drivers */
  listAssignmentRequests: { body: undefined; answer: AssignmentRequest[]; ids: [] };
  /** Get a request of a driver */
  getAssignmentRequest: { body: undefined; answer: AssignmentRequest; ids: [requestId: string | number] };
  /** Grant or reject a request of a driver */
  decideAssignmentRequest: { body: RequestDecision; answer: undefined; ids: [requestId: string | number] };
  /** List operations */
  listOperations: { body: undefined; answer: Operation[]; ids: [] };
  /** Get an operation */
  getOperation: { body: undefined; answer: Operation; ids: [operationId: string | number] };
  /** Run a batch */
  runBatch: { body: Batch; answer: BatchResult; ids: [] };
  /** List event types and wildcards */
  listWebhookKinds: { body: undefined; answer: KindListed[]; ids: [] };
  /** List webhooks */
  listWebhooks: { body: undefined; answer: Webhook[]; ids: [] };
  /** Create a webhook */
  createWebhook: { body: NewWebhook; answer: WebhookCreated; ids: [] };
  /** Get a webhook */
  getWebhook: { body: undefined; answer: Webhook; ids: [webhookId: string | number] };
  /** Update a webhook */
  updateWebhook: { body: WebhookPatch[]; answer: undefined; ids: [webhookId: string | number] };
  /** Delete a webhook and its deliveries */
  deleteWebhook: { body: undefined; answer: undefined; ids: [webhookId: string | number] };
  /** List the deliveries of a webhook */
  listDeliveriesOfWebhook: { body: undefined; answer: Delivery[]; ids: [webhookId: string | number] };
  /** List the deliveries of all webhooks */
  listDeliveries: { body: undefined; answer: DeliveryListed[]; ids: [] };
  /** Rotate the signing secret of a webhook */
  rotateWebhookSecret: { body: undefined; answer: SecretRotated; ids: [webhookId: string | number] };
  /** Send a test to a webhook */
  testWebhook: { body: TestMessage | undefined; answer: Created; ids: [webhookId: string | number] };
  /** Send a delivery again */
  replayDelivery: { body: undefined; answer: undefined; ids: [webhookId: string | number, deliveryId: string | number] };
  /** Send the outcomes and changes of a time range again */
  replayDeliveries: { body: TimeRange; answer: Replayed; ids: [webhookId: string | number] };
  /** Fetch the messages of a pull webhook */
  listMessagesOfWebhook: { body: undefined; answer: WaitingMessage[]; ids: [webhookId: string | number] };
  /** Acknowledge messages of a pull webhook */
  acknowledgeMessagesOfWebhook: { body: Acknowledgement; answer: Acknowledged; ids: [webhookId: string | number] };
  /** List managers */
  listManagers: { body: undefined; answer: Manager[]; ids: [] };
  /** Invite a manager */
  inviteManager: { body: NewManager; answer: ManagerInvited; ids: [] };
  /** Get a manager */
  getManager: { body: undefined; answer: Manager; ids: [managerId: string | number] };
  /** Change the role or the groups of a manager */
  updateManager: { body: ManagerPatch[]; answer: undefined; ids: [managerId: string | number] };
  /** Remove a manager from the customer */
  removeManager: { body: undefined; answer: undefined; ids: [managerId: string | number] };
  /** List open invitations */
  listInvitations: { body: undefined; answer: Invitation[]; ids: [] };
  /** Withdraw an invitation */
  withdrawInvitation: { body: undefined; answer: undefined; ids: [invitationId: string | number] };
  /** Get the roles that require a second factor */
  getFactorRules: { body: undefined; answer: FactorRules; ids: [] };
  /** Set the roles that require a second factor */
  setFactorRules: { body: FactorRules; answer: undefined; ids: [] };
  /** List machine clients */
  listClients: { body: undefined; answer: MachineClient[]; ids: [] };
  /** Create a machine client */
  createClient: { body: NewClient; answer: ClientCreated; ids: [] };
  /** Get a machine client */
  getClient: { body: undefined; answer: MachineClient; ids: [clientId: string | number] };
  /** Update a machine client */
  updateClient: { body: ClientPatch[]; answer: undefined; ids: [clientId: string | number] };
  /** Delete a machine client */
  deleteClient: { body: undefined; answer: undefined; ids: [clientId: string | number] };
  /** List the secrets of a client */
  listClientSecrets: { body: undefined; answer: ClientSecret[]; ids: [clientId: string | number] };
  /** Create another secret of a client */
  createClientSecret: { body: undefined; answer: SecretCreated; ids: [clientId: string | number] };
  /** Delete a secret of a client */
  deleteClientSecret: { body: undefined; answer: undefined; ids: [clientId: string | number, secretId: string | number] };
  /** Get the calling manager */
  getMe: { body: undefined; answer: Me; ids: [] };
  /** List the browser sessions of the manager */
  listSessions: { body: undefined; answer: Session[]; ids: [] };
  /** End all sessions */
  endSessions: { body: undefined; answer: undefined; ids: [] };
  /** Set the language, the time zone and the theme of the pages */
  setPreferences: { body: Preferences; answer: undefined; ids: [] };
  /** Change your password */
  changePassword: { body: NewPassword; answer: undefined; ids: [] };
  /** End a session */
  endSession: { body: undefined; answer: undefined; ids: [sessionId: string | number] };
  /** List connected accounts */
  listIdentities: { body: undefined; answer: Identity[]; ids: [] };
  /** Disconnect an account */
  disconnectIdentity: { body: undefined; answer: undefined; ids: [identityId: string | number] };
  /** Get the second factors of the calling manager */
  getFactors: { body: undefined; answer: Factors; ids: [] };
  /** List the passkeys of the manager */
  listPasskeys: { body: undefined; answer: Passkey[]; ids: [] };
  /** Add a passkey */
  addPasskey: { body: NewPasskey; answer: PasskeyMade; ids: [] };
  /** Begin to add a passkey */
  beginPasskey: { body: undefined; answer: PasskeyOptions; ids: [] };
  /** Remove a passkey */
  removePasskey: { body: undefined; answer: undefined; ids: [passkeyId: string | number] };
  /** Confirm an authenticator app */
  confirmApp: { body: Code; answer: undefined; ids: [] };
  /** Begin to set up an authenticator app */
  beginApp: { body: undefined; answer: NewApp; ids: [] };
  /** Remove the authenticator app */
  removeApp: { body: undefined; answer: undefined; ids: [] };
  /** Create ten recovery codes */
  renewRecoveryCodes: { body: undefined; answer: RecoveryCodes; ids: [] };
  /** Get information about the server */
  getAbout: { body: undefined; answer: About; ids: [] };
  /** Get the OpenAPI document */
  getOpenApi: { body: undefined; answer: OpenApiDocument; ids: [] };
  /** Check whether the server can read and write its database */
  getHealth: { body: undefined; answer: Healthy; ids: [] };
  /** Check whether the process responds */
  getLiveness: { body: undefined; answer: Healthy; ids: [] };
  /** Check whether the server is ready, with all reasons and warnings */
  getReadiness: { body: undefined; answer: Ready; ids: [] };
}

/** The method and path of each operation. */
export const OPERATIONS = {
  getJwks: ["GET", "/.well-known/jwks.json"],
  getOpenIdConfiguration: ["GET", "/.well-known/openid-configuration"],
  getAuthorizationServer: ["GET", "/.well-known/oauth-authorization-server"],
  listCustomers: ["GET", "/customers"],
  getRetention: ["GET", "/retention"],
  getDriverSettings: ["GET", "/driver-settings"],
  setDriverSettings: ["PUT", "/driver-settings"],
  listCars: ["GET", "/cars"],
  createCar: ["PUT", "/cars"],
  listAvailableCars: ["GET", "/cars/available"],
  getCar: ["GET", "/cars/{carId}"],
  updateCar: ["PATCH", "/cars/{carId}"],
  deleteCar: ["DELETE", "/cars/{carId}"],
  listProductsOfCar: ["GET", "/cars/{carId}/products"],
  getCarTelemetry: ["GET", "/cars/{carId}/telemetry"],
  getCarLocation: ["GET", "/cars/{carId}/location"],
  getCarLocationAt: ["GET", "/cars/{carId}/location/{searchDate}"],
  listAssignmentsOfCar: ["GET", "/cars/{carId}/assignments"],
  listEventsOfCar: ["GET", "/cars/{carId}/events"],
  listUsers: ["GET", "/users"],
  createUser: ["PUT", "/users"],
  getUser: ["GET", "/users/{userId}"],
  updateUser: ["PATCH", "/users/{userId}"],
  listAssignmentsOfUser: ["GET", "/users/{userId}/assignments"],
  addUserToCustomer: ["PUT", "/users/assignments/customers"],
  removeUserFromCustomer: ["DELETE", "/users/assignments/customers"],
  previewErasure: ["GET", "/users/{userId}/erasure"],
  eraseUser: ["POST", "/users/{userId}/erase"],
  listDevicesOfUser: ["GET", "/users/{userId}/devices"],
  removeDeviceOfUser: ["DELETE", "/users/{userId}/devices/{deviceId}"],
  forgetRemovedDevicesOfUser: ["DELETE", "/users/{userId}/removed-devices"],
  approveDeviceOfUser: ["PUT", "/users/{userId}/devices/{deviceId}/approval"],
  inviteUserToApp: ["POST", "/users/{userId}/app-invitation"],
  getAppAccessOfUser: ["GET", "/users/{userId}/app-access"],
  withdrawAppAccessOfUser: ["DELETE", "/users/{userId}/app-access"],
  reportLostPhonesOfUser: ["POST", "/users/{userId}/lost-phones"],
  listAssignments: ["GET", "/assignments"],
  createAssignment: ["PUT", "/assignments"],
  getAssignment: ["GET", "/assignments/{assignmentId}"],
  updateAssignment: ["PATCH", "/assignments/{assignmentId}"],
  deleteAssignment: ["DELETE", "/assignments/{assignmentId}"],
  listHiddenAssignments: ["GET", "/hidden-assignments"],
  getBookingSettings: ["GET", "/booking-settings"],
  setBookingSettings: ["PUT", "/booking-settings"],
  getCarBookingSettings: ["GET", "/cars/{carId}/booking-settings"],
  setCarBookingSettings: ["PUT", "/cars/{carId}/booking-settings"],
  listGroups: ["GET", "/groups"],
  createGroup: ["PUT", "/groups"],
  getGroup: ["GET", "/groups/{groupId}"],
  updateGroup: ["PATCH", "/groups/{groupId}"],
  deleteGroup: ["DELETE", "/groups/{groupId}"],
  listCarsOfGroup: ["GET", "/groups/{groupId}/cars"],
  addCarToGroup: ["PUT", "/groups/{groupId}/cars"],
  listUsersOfGroup: ["GET", "/groups/{groupId}/users"],
  addUserToGroup: ["PUT", "/groups/{groupId}/users"],
  listServicesOfGroup: ["GET", "/groups/{groupId}/services"],
  addServiceToGroup: ["PUT", "/groups/{groupId}/services"],
  listProductsOfGroup: ["GET", "/groups/{groupId}/products"],
  addProductToGroup: ["PUT", "/groups/{groupId}/products"],
  removeCarFromGroup: ["DELETE", "/groups/{groupId}/cars/{carId}"],
  removeUserFromGroup: ["DELETE", "/groups/{groupId}/users/{userId}"],
  removeServiceFromGroup: ["DELETE", "/groups/{groupId}/services/{serviceId}"],
  removeProductFromGroup: ["DELETE", "/groups/{groupId}/products/{productId}"],
  listProducts: ["GET", "/products"],
  getProduct: ["GET", "/products/{productId}"],
  updateProduct: ["PATCH", "/products/{productId}"],
  getServiceOfProduct: ["GET", "/products/{productId}/services"],
  getCarOfProduct: ["GET", "/products/{productId}/cars"],
  listServices: ["GET", "/services"],
  getService: ["GET", "/services/{serviceId}"],
  getProductOfService: ["GET", "/services/{serviceId}/products"],
  getContractOfService: ["GET", "/services/{serviceId}/contracts"],
  installProduct: ["PUT", "/installations"],
  uninstallProduct: ["DELETE", "/installations"],
  pairService: ["PUT", "/pairings"],
  unpairService: ["DELETE", "/pairings"],
  listBrands: ["GET", "/brands"],
  listKeys: ["GET", "/keys"],
  listKeysOfBrand: ["GET", "/brands/{brand}/keys"],
  getSdkToken: ["POST", "/sdk/token"],
  beginRegistration: ["POST", "/sdk/devices/nonce"],
  listOwnDevices: ["GET", "/sdk/devices"],
  registerDevice: ["PUT", "/sdk/devices"],
  removeOwnDevice: ["DELETE", "/sdk/devices/{deviceId}"],
  getPhoneKeys: ["GET", "/sdk/keys"],
  deliverBoxLog: ["PUT", "/sdk/boxlog"],
  getSignedTime: ["POST", "/sdk/time"],
  getEnrolledBox: ["GET", "/boxes/{productId}/enrolment"],
  enrolBox: ["PUT", "/boxes/{productId}/enrolment"],
  beginEnrolment: ["POST", "/boxes/{productId}/enrolment"],
  undoEnrolment: ["DELETE", "/boxes/{productId}/enrolment"],
  approveEnrolment: ["POST", "/boxes/{productId}/enrolment/approval"],
  getProvisioning: ["GET", "/boxes/{productId}/provisioning"],
  getStatusList: ["GET", "/boxes/{productId}/status"],
  listKeysOfCar: ["GET", "/cars/{carId}/keys"],
  listEvents: ["GET", "/events"],
  createEvent: ["PUT", "/events"],
  getEvent: ["GET", "/events/{eventId}"],
  deliverEvents: ["POST", "/ingest/events"],
  listChanges: ["GET", "/changes"],
  getCheckpoint: ["GET", "/changes/checkpoint"],
  getChangeProof: ["GET", "/changes/{changeId}/proof"],
  getCarAccess: ["GET", "/cars/{carId}/access"],
  getUserAccess: ["GET", "/users/{userId}/access"],
  deliverTelemetry: ["POST", "/ingest/telemetry"],
  listPositions: ["GET", "/positions"],
  getCarTrack: ["GET", "/cars/{carId}/track"],
  getCarSamples: ["GET", "/cars/{carId}/samples"],
  listAssignmentRequests: ["GET", "/assignment-requests"],
  getAssignmentRequest: ["GET", "/assignment-requests/{requestId}"],
  decideAssignmentRequest: ["PUT", "/assignment-requests/{requestId}/decision"],
  listOperations: ["GET", "/operations"],
  getOperation: ["GET", "/operations/{operationId}"],
  runBatch: ["POST", "/batch"],
  listWebhookKinds: ["GET", "/webhooks/kinds"],
  listWebhooks: ["GET", "/webhooks"],
  createWebhook: ["PUT", "/webhooks"],
  getWebhook: ["GET", "/webhooks/{webhookId}"],
  updateWebhook: ["PATCH", "/webhooks/{webhookId}"],
  deleteWebhook: ["DELETE", "/webhooks/{webhookId}"],
  listDeliveriesOfWebhook: ["GET", "/webhooks/{webhookId}/deliveries"],
  listDeliveries: ["GET", "/deliveries"],
  rotateWebhookSecret: ["POST", "/webhooks/{webhookId}/rotate-secret"],
  testWebhook: ["POST", "/webhooks/{webhookId}/test"],
  replayDelivery: ["POST", "/webhooks/{webhookId}/deliveries/{deliveryId}/replay"],
  replayDeliveries: ["POST", "/webhooks/{webhookId}/replay"],
  listMessagesOfWebhook: ["GET", "/webhooks/{webhookId}/messages"],
  acknowledgeMessagesOfWebhook: ["POST", "/webhooks/{webhookId}/messages/ack"],
  listManagers: ["GET", "/managers"],
  inviteManager: ["PUT", "/managers"],
  getManager: ["GET", "/managers/{managerId}"],
  updateManager: ["PATCH", "/managers/{managerId}"],
  removeManager: ["DELETE", "/managers/{managerId}"],
  listInvitations: ["GET", "/invitations"],
  withdrawInvitation: ["DELETE", "/invitations/{invitationId}"],
  getFactorRules: ["GET", "/factor-rules"],
  setFactorRules: ["PUT", "/factor-rules"],
  listClients: ["GET", "/clients"],
  createClient: ["PUT", "/clients"],
  getClient: ["GET", "/clients/{clientId}"],
  updateClient: ["PATCH", "/clients/{clientId}"],
  deleteClient: ["DELETE", "/clients/{clientId}"],
  listClientSecrets: ["GET", "/clients/{clientId}/secrets"],
  createClientSecret: ["PUT", "/clients/{clientId}/secrets"],
  deleteClientSecret: ["DELETE", "/clients/{clientId}/secrets/{secretId}"],
  getMe: ["GET", "/me"],
  listSessions: ["GET", "/sessions"],
  endSessions: ["DELETE", "/sessions"],
  setPreferences: ["PUT", "/me/preferences"],
  changePassword: ["PUT", "/me/password"],
  endSession: ["DELETE", "/sessions/{sessionId}"],
  listIdentities: ["GET", "/me/identities"],
  disconnectIdentity: ["DELETE", "/me/identities/{identityId}"],
  getFactors: ["GET", "/me/factors"],
  listPasskeys: ["GET", "/me/passkeys"],
  addPasskey: ["PUT", "/me/passkeys"],
  beginPasskey: ["POST", "/me/passkeys/options"],
  removePasskey: ["DELETE", "/me/passkeys/{passkeyId}"],
  confirmApp: ["PUT", "/me/totp"],
  beginApp: ["POST", "/me/totp"],
  removeApp: ["DELETE", "/me/totp"],
  renewRecoveryCodes: ["POST", "/me/recovery-codes"],
  getAbout: ["GET", "/"],
  getOpenApi: ["GET", "/openapi.json"],
  getHealth: ["GET", "/health"],
  getLiveness: ["GET", "/health/live"],
  getReadiness: ["GET", "/health/ready"],
} as const satisfies Record<keyof Operations, readonly [string, string]>;

/** The codes of errors. */
export type ErrorCode =
  | "access-history-expired"
  | "access-history-pending"
  | "already-a-manager"
  | "answer-too-long"
  | "answer-too-slow"
  | "assignment-conflict"
  | "assignment-not-found"
  | "assignment-of-driver-not-found"
  | "assignment-request-decided"
  | "assignment-request-not-found"
  | "assignment-without-end"
  | "at-or-range"
  | "batch-refused"
  | "batch-too-slow"
  | "batch-with-query"
  | "body-too-large"
  | "body-too-packed"
  | "body-too-slow"
  | "box-key-differs"
  | "box-key-used"
  | "box-keys-inconsistent"
  | "box-not-enrolled"
  | "brand-not-found"
  | "car-already-in-group"
  | "car-not-found"
  | "car-not-in-group"
  | "change-not-found"
  | "change-not-proven"
  | "checkpoint-ahead"
  | "client-authentication-required"
  | "client-managed-elsewhere"
  | "client-not-found"
  | "client-secret-not-found"
  | "cursor-gone"
  | "customer-busy"
  | "customer-not-found"
  | "database-interrupted"
  | "database-read-only"
  | "database-silent"
  | "database-too-slow"
  | "database-unreachable"
  | "delivery-not-found"
  | "device-not-approved"
  | "device-not-found"
  | "device-of-other-user"
  | "device-removed"
  | "drawing-not-found"
  | "driver-account-exists"
  | "driver-account-of-other-fleets"
  | "driver-passkey-not-found"
  | "driver-provider-not-found"
  | "driver-session-not-found"
  | "driver-sign-in-again"
  | "email-address-taken"
  | "empty-time-range"
  | "end-before-start"
  | "enrolment-in-use"
  | "enrolment-nonce-unknown"
  | "enrolment-not-pending"
  | "event-not-found"
  | "expansion-too-large"
  | "extension-out-of-range"
  | "external-id-taken"
  | "for-people-only"
  | "form-too-long"
  | "group-limits-managers"
  | "group-name-taken"
  | "group-name-too-long"
  | "group-not-empty"
  | "group-not-found"
  | "head-too-large"
  | "head-too-slow"
  | "host-header"
  | "http-too-old"
  | "idempotency-key-in-flight"
  | "idempotency-key-of-other-caller"
  | "idempotency-key-reused"
  | "identity-not-found"
  | "ingest-overloaded"
  | "ingest-overloaded-by-key"
  | "internal-error"
  | "invalid-api-key"
  | "invalid-brand"
  | "invalid-client"
  | "invalid-customer-id"
  | "invalid-device-key"
  | "invalid-form"
  | "invalid-gzip"
  | "invalid-header"
  | "invalid-host"
  | "invalid-http"
  | "invalid-idempotency-key"
  | "invalid-if-match"
  | "invalid-json"
  | "invalid-lines"
  | "invalid-members"
  | "invalid-parameter"
  | "invalid-position"
  | "invalid-query"
  | "invalid-query-parameter"
  | "invalid-scope"
  | "invalid-sdk-combination"
  | "invalid-search-date"
  | "invalid-token"
  | "invalid-user-parameters"
  | "invitation-needed"
  | "invitation-not-found"
  | "item-undone"
  | "last-factor-needed"
  | "last-owner"
  | "last-sign-in-method"
  | "lifetime-out-of-range"
  | "limited-to-groups"
  | "link-expired"
  | "log-altered"
  | "mail-not-configured"
  | "manager-not-found"
  | "manager-of-customer-not-found"
  | "method-not-allowed"
  | "missing-customer-id"
  | "missing-parameter"
  | "missing-scope"
  | "named-product-not-found"
  | "named-user-not-found"
  | "no-app-access"
  | "no-car-of-product"
  | "no-checkpoint"
  | "no-contract-of-service"
  | "no-credential-given"
  | "no-iq-in-car"
  | "no-key-for-box"
  | "no-product-named"
  | "no-product-of-service"
  | "no-products-in-car"
  | "no-second-factor"
  | "no-service-of-product"
  | "no-steps"
  | "no-stream-for-limited"
  | "no-telemetry-yet"
  | "not-ready"
  | "old-worker-running"
  | "operation-not-found"
  | "operation-retried"
  | "other-origin"
  | "outcome-unknown"
  | "overloaded"
  | "owner-not-limited"
  | "parameter-given-twice"
  | "passkey-known"
  | "passkey-not-found"
  | "passkey-not-verified"
  | "passkeys-unavailable"
  | "password-not-enough"
  | "path-not-found"
  | "permission-missing"
  | "precondition-failed"
  | "precondition-only-for-reads"
  | "precondition-unsupported"
  | "primary-unconfirmed"
  | "product-already-in-group"
  | "product-already-installed"
  | "product-already-paired"
  | "product-in-other-car"
  | "product-not-found"
  | "product-not-in-group"
  | "product-not-installed"
  | "product-takes-no-keys"
  | "product-type-already-in-car"
  | "product-without-service"
  | "provider-account-unknown"
  | "provider-session-limited"
  | "provider-sign-in-failed"
  | "push-disabled"
  | "push-keys-invalid"
  | "push-service-not-allowed"
  | "query-not-ascii"
  | "query-not-supported"
  | "query-too-long"
  | "query-too-slow"
  | "query-value-out-of-range"
  | "rate-limited"
  | "registration-nonce-unknown"
  | "renewable-after-out-of-range"
  | "repeated-members"
  | "schema-not-current"
  | "second-factor-needed"
  | "second-factor-not-used"
  | "second-person-needed"
  | "secrets-unavailable"
  | "service-already-in-group"
  | "service-already-paired"
  | "service-not-found"
  | "service-not-in-group"
  | "service-not-paired"
  | "session-not-found"
  | "sign-in-again"
  | "signed-out"
  | "similar-address-invited"
  | "status-list-not-found"
  | "stopping"
  | "stream-with-options"
  | "time-in-future"
  | "time-range-too-long"
  | "token-before-removal"
  | "token-of-another"
  | "too-many-access-periods"
  | "too-many-client-secrets"
  | "too-many-clients"
  | "too-many-connections"
  | "too-many-connections-of-address"
  | "too-many-devices"
  | "too-many-driver-passkeys"
  | "too-many-errors"
  | "too-many-invitations"
  | "too-many-items"
  | "too-many-lines"
  | "too-many-long-answers"
  | "too-many-overlaps"
  | "too-many-passkeys"
  | "too-many-passwords"
  | "too-many-steps"
  | "too-many-streams"
  | "too-many-streams-of-caller"
  | "too-many-streams-of-customer"
  | "too-many-waiting"
  | "too-many-webhooks"
  | "totp-already-set-up"
  | "totp-not-set-up"
  | "transfer-coding"
  | "two-client-authentications"
  | "unknown-members"
  | "unsupported-grant-type"
  | "unsupported-media-type"
  | "user-already-in-customer"
  | "user-already-in-group"
  | "user-not-found"
  | "user-not-in-customer"
  | "user-not-in-group"
  | "user-without-app"
  | "waited-too-long"
  | "webhook-disabled"
  | "webhook-is-pulled"
  | "webhook-is-pushed"
  | "webhook-not-found"
  | "wrong-code"
  | "wrong-credentials"
  | "wrong-driver-password"
  | "wrong-form-of-body"
  | "wrong-password";
