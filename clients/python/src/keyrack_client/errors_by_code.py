"""A class for each error code of the API. Made by clients/generate.py from the OpenAPI document of the server. Do not edit."""

from __future__ import annotations

from ._errors import ApiError, BadRequest, Conflict, Forbidden, NotFound, ServerError, TooManyRequests, Unauthorized

__all__ = ["AccessHistoryExpired", "AccessHistoryPending", "AlreadyAManager", "AnswerTooLong", "AnswerTooSlow", "AssignmentConflict", "AssignmentNotFound", "AssignmentOfDriverNotFound", "AssignmentRequestDecided", "AssignmentRequestNotFound", "AssignmentWithoutEnd", "AtOrRange", "BatchRefused", "BatchTooSlow", "BatchWithQuery", "BodyTooLarge", "BodyTooPacked", "BodyTooSlow", "BoxKeyDiffers", "BoxKeyUsed", "BoxKeysInconsistent", "BoxNotEnrolled", "BrandNotFound", "CarAlreadyInGroup", "CarNotFound", "CarNotInGroup", "ChangeNotFound", "ChangeNotProven", "CheckpointAhead", "ClientAuthenticationRequired", "ClientManagedElsewhere", "ClientNotFound", "ClientSecretNotFound", "CursorGone", "CustomerBusy", "CustomerNotFound", "DatabaseInterrupted", "DatabaseReadOnly", "DatabaseSilent", "DatabaseTooSlow", "DatabaseUnreachable", "DeliveryNotFound", "DeviceNotApproved", "DeviceNotFound", "DeviceOfOtherUser", "DeviceRemoved", "DrawingNotFound", "DriverAccountExists", "DriverAccountOfOtherFleets", "DriverPasskeyNotFound", "DriverProviderNotFound", "DriverSessionNotFound", "DriverSignInAgain", "EmailAddressTaken", "EmptyTimeRange", "EndBeforeStart", "EnrolmentInUse", "EnrolmentNonceUnknown", "EnrolmentNotPending", "EventNotFound", "ExpansionTooLarge", "ExtensionOutOfRange", "ExternalIdTaken", "ForPeopleOnly", "FormTooLong", "GroupLimitsManagers", "GroupNameTaken", "GroupNameTooLong", "GroupNotEmpty", "GroupNotFound", "HeadTooLarge", "HeadTooSlow", "HostHeader", "HttpTooOld", "IdempotencyKeyInFlight", "IdempotencyKeyOfOtherCaller", "IdempotencyKeyReused", "IdentityNotFound", "IngestOverloaded", "IngestOverloadedByKey", "InternalError", "InvalidApiKey", "InvalidBrand", "InvalidClient", "InvalidCustomerId", "InvalidDeviceKey", "InvalidForm", "InvalidGzip", "InvalidHeader", "InvalidHost", "InvalidHttp", "InvalidIdempotencyKey", "InvalidIfMatch", "InvalidJson", "InvalidLines", "InvalidMembers", "InvalidParameter", "InvalidPosition", "InvalidQuery", "InvalidQueryParameter", "InvalidScope", "InvalidSdkCombination", "InvalidSearchDate", "InvalidToken", "InvalidUserParameters", "InvitationNeeded", "InvitationNotFound", "ItemUndone", "LastFactorNeeded", "LastOwner", "LastSignInMethod", "LifetimeOutOfRange", "LimitedToGroups", "LinkExpired", "LogAltered", "MailNotConfigured", "ManagerNotFound", "ManagerOfCustomerNotFound", "MethodNotAllowed", "MissingCustomerId", "MissingParameter", "MissingScope", "NamedProductNotFound", "NamedUserNotFound", "NoAppAccess", "NoCarOfProduct", "NoCheckpoint", "NoContractOfService", "NoCredentialGiven", "NoIqInCar", "NoKeyForBox", "NoProductNamed", "NoProductOfService", "NoProductsInCar", "NoSecondFactor", "NoServiceOfProduct", "NoSteps", "NoStreamForLimited", "NoTelemetryYet", "NotReady", "OldWorkerRunning", "OperationNotFound", "OperationRetried", "OtherOrigin", "OutcomeUnknown", "Overloaded", "OwnerNotLimited", "ParameterGivenTwice", "PasskeyKnown", "PasskeyNotFound", "PasskeyNotVerified", "PasskeysUnavailable", "PasswordNotEnough", "PathNotFound", "PermissionMissing", "PreconditionFailed", "PreconditionOnlyForReads", "PreconditionUnsupported", "PrimaryUnconfirmed", "ProductAlreadyInGroup", "ProductAlreadyInstalled", "ProductAlreadyPaired", "ProductInOtherCar", "ProductNotFound", "ProductNotInGroup", "ProductNotInstalled", "ProductTakesNoKeys", "ProductTypeAlreadyInCar", "ProductWithoutService", "ProviderAccountUnknown", "ProviderSessionLimited", "ProviderSignInFailed", "PushDisabled", "PushKeysInvalid", "PushServiceNotAllowed", "QueryNotAscii", "QueryNotSupported", "QueryTooLong", "QueryTooSlow", "QueryValueOutOfRange", "RateLimited", "RegistrationNonceUnknown", "RenewableAfterOutOfRange", "RepeatedMembers", "SchemaNotCurrent", "SecondFactorNeeded", "SecondFactorNotUsed", "SecondPersonNeeded", "SecretsUnavailable", "ServiceAlreadyInGroup", "ServiceAlreadyPaired", "ServiceNotFound", "ServiceNotInGroup", "ServiceNotPaired", "SessionNotFound", "SignInAgain", "SignedOut", "SimilarAddressInvited", "StatusListNotFound", "Stopping", "StreamWithOptions", "TimeInFuture", "TimeRangeTooLong", "TokenBeforeRemoval", "TokenOfAnother", "TooManyAccessPeriods", "TooManyClientSecrets", "TooManyClients", "TooManyConnections", "TooManyConnectionsOfAddress", "TooManyDevices", "TooManyDriverPasskeys", "TooManyErrors", "TooManyInvitations", "TooManyItems", "TooManyLines", "TooManyLongAnswers", "TooManyOverlaps", "TooManyPasskeys", "TooManyPasswords", "TooManySteps", "TooManyStreams", "TooManyStreamsOfCaller", "TooManyStreamsOfCustomer", "TooManyWaiting", "TooManyWebhooks", "TotpAlreadySetUp", "TotpNotSetUp", "TransferCoding", "TwoClientAuthentications", "UnknownMembers", "UnsupportedGrantType", "UnsupportedMediaType", "UserAlreadyInCustomer", "UserAlreadyInGroup", "UserNotFound", "UserNotInCustomer", "UserNotInGroup", "UserWithoutApp", "WaitedTooLong", "WebhookDisabled", "WebhookIsPulled", "WebhookIsPushed", "WebhookNotFound", "WrongCode", "WrongCredentials", "WrongDriverPassword", "WrongFormOfBody", "WrongPassword"]

class AccessHistoryExpired(ApiError, code="access-history-expired"):
    """Request that time (`oldestTime` of the problem) or a later one."""

class AccessHistoryPending(ServerError, code="access-history-pending"):
    """Retry in a moment; if the error persists, `keyrack status` shows the cause."""

class AlreadyAManager(Conflict, code="already-a-manager"):
    """Change the role by `PATCH /managers/{managerId}` instead."""

class AnswerTooLong(BadRequest, code="answer-too-long"):
    """Narrow the list with `$filter`, `$select` or `$top`, or leave out `$orderby`."""

class AnswerTooSlow(BadRequest, code="answer-too-slow"):
    """Narrow the list with `$filter`, or reduce `$top`."""

class AssignmentConflict(Conflict, code="assignment-conflict"):
    """Choose another time or car; `conflicts` lists the other assignments. Only exclusive assignments, and batches with `refuse`, are rejected for it."""

class AssignmentNotFound(NotFound, code="assignment-not-found"):
    """Use an id that `GET /cars/{carId}/assignments` returns; it does not list ended assignments."""

class AssignmentOfDriverNotFound(NotFound, code="assignment-of-driver-not-found"):
    """Use an `assignmentId` that `GET /drive/api/cars` returns."""

class AssignmentRequestDecided(Conflict, code="assignment-request-decided"):
    """Read the request again; its `state` says what became of it."""

class AssignmentRequestNotFound(NotFound, code="assignment-request-not-found"):
    """Use an id that `GET /assignment-requests` returns."""

class AssignmentWithoutEnd(Conflict, code="assignment-without-end"):
    """Keep the car; the assignment lasts until it is ended."""

class AtOrRange(BadRequest, code="at-or-range"):
    """Send `at` for one time, `from` and `to` for a time range, or none of them for now."""

class BatchRefused(ApiError, code="batch-refused"):
    """Correct the rejected items in `results`, or send the batch without `atomic`."""

class BatchTooSlow(ServerError, code="batch-too-slow"):
    """Split the items into several batches."""

class BatchWithQuery(BadRequest, code="batch-with-query"):
    """Send `atomic`, `dryRun` and `conflicts` in the body."""

class BodyTooLarge(ApiError, code="body-too-large"):
    """Split the body into several requests."""

class BodyTooPacked(ApiError, code="body-too-packed"):
    """Send fewer lines per request, or send them uncompressed."""

class BodyTooSlow(ApiError, code="body-too-slow"):
    """Send the request again, with a smaller body if possible."""

class BoxKeyDiffers(Conflict, code="box-key-differs"):
    """Compare the thumbprint with the one that the box shows; a different thumbprint means a different box."""

class BoxKeyUsed(Conflict, code="box-key-used"):
    """Reset the box, so that it generates another key pair."""

class BoxKeysInconsistent(ServerError, code="box-keys-inconsistent"):
    """Ask the operator to run `keyrack doctor`, which names the keys that differ."""

class BoxNotEnrolled(NotFound, code="box-not-enrolled"):
    """Enrol the box first, by `POST` and then `PUT /boxes/{productId}/enrolment`."""

class BrandNotFound(NotFound, code="brand-not-found"):
    """Send a name that `GET /brands` returns."""

class CarAlreadyInGroup(Conflict, code="car-already-in-group"):
    """Treat this as success: the car is in the group."""

class CarNotFound(NotFound, code="car-not-found"):
    """Use an id that `GET /cars` returns for this customer."""

class CarNotInGroup(NotFound, code="car-not-in-group"):
    """Treat this as success: the car is not in the group."""

class ChangeNotFound(NotFound, code="change-not-found"):
    """Use the id of a change that `GET /changes` returns."""

class ChangeNotProven(NotFound, code="change-not-proven"):
    """Retry in some minutes, when there is a newer checkpoint."""

class CheckpointAhead(NotFound, code="checkpoint-ahead"):
    """If you have a checkpoint of that size, keep it and report it to the operator: the log has lost changes."""

class ClientAuthenticationRequired(Unauthorized, code="client-authentication-required"):
    """Send the id and the secret of the client."""

class ClientManagedElsewhere(Conflict, code="client-managed-elsewhere"):
    """Ask the operator to change its name, its expiry or its secrets."""

class ClientNotFound(NotFound, code="client-not-found"):
    """Use an id that `GET /clients` returns for this customer."""

class ClientSecretNotFound(NotFound, code="client-secret-not-found"):
    """Use an id that `GET /clients/{clientId}/secrets` returns."""

class CursorGone(ApiError, code="cursor-gone"):
    """Note `newest` and `epoch`, read all your resources again, then continue after that number."""

class CustomerBusy(ServerError, code="customer-busy"):
    """Retry the request after the seconds in `Retry-After`."""

class CustomerNotFound(NotFound, code="customer-not-found"):
    """Use a customer id that `GET /customers` returns."""

class DatabaseInterrupted(ServerError, code="database-interrupted"):
    """Retry the request after the seconds in `Retry-After`."""

class DatabaseReadOnly(ServerError, code="database-read-only"):
    """Ask the operator to check the database: its disk is full, or it is a standby."""

class DatabaseSilent(ServerError, code="database-silent"):
    """Ask the operator to check the database: it is stuck, overloaded or unreachable."""

class DatabaseTooSlow(ServerError, code="database-too-slow"):
    """Retry the request after the seconds in `Retry-After`."""

class DatabaseUnreachable(ServerError, code="database-unreachable"):
    """Retry the request after the seconds in `Retry-After`."""

class DeliveryNotFound(NotFound, code="delivery-not-found"):
    """Use an id that `GET /webhooks/{webhookId}/deliveries` returns; old deliveries are deleted."""

class DeviceNotApproved(Forbidden, code="device-not-approved"):
    """Ask a manager to approve the phone in the console, or by `PUT /users/{userId}/devices/{deviceId}/approval`."""

class DeviceNotFound(NotFound, code="device-not-found"):
    """Register the phone first: `PUT /sdk/devices`."""

class DeviceOfOtherUser(Conflict, code="device-of-other-user"):
    """Generate another key pair on the phone; each user needs its own."""

class DeviceRemoved(Conflict, code="device-removed"):
    """Generate another key pair on the phone, unless the phone was lost or stolen."""

class DrawingNotFound(NotFound, code="drawing-not-found"):
    """Use the address in the key form."""

class DriverAccountExists(Conflict, code="driver-account-exists"):
    """Sign in and join by `POST /drive/api/links/join`, or send `reset` as true."""

class DriverAccountOfOtherFleets(Conflict, code="driver-account-of-other-fleets"):
    """Sign in and join by `POST /drive/api/links/join`, or request a mail by `POST /drive/api/forgot`."""

class DriverPasskeyNotFound(NotFound, code="driver-passkey-not-found"):
    """Use an id that `GET /drive/api/passkeys` returns."""

class DriverProviderNotFound(NotFound, code="driver-provider-not-found"):
    """Use an id of `providers` in `GET /drive/api/settings`."""

class DriverSessionNotFound(NotFound, code="driver-session-not-found"):
    """Use an id that `GET /drive/api/sessions` returns."""

class DriverSignInAgain(Forbidden, code="driver-sign-in-again"):
    """Sign in again, then repeat the request."""

class EmailAddressTaken(Conflict, code="email-address-taken"):
    """Assign the existing user to the customer: `PUT /users/assignments/customers`."""

class EmptyTimeRange(BadRequest, code="empty-time-range"):
    """Send a `to` that is later than `from`, or leave it out."""

class EndBeforeStart(BadRequest, code="end-before-start"):
    """Send an `end` that is not earlier than `start`, or leave it out."""

class EnrolmentInUse(Conflict, code="enrolment-in-use"):
    """Compare its thumbprint with the one that the box shows, then send it as `thumbprint` of `DELETE` or as `replaces` of `PUT`."""

class EnrolmentNonceUnknown(Conflict, code="enrolment-nonce-unknown"):
    """Get a nonce by `POST /boxes/{productId}/enrolment`, and have the box sign it within ten minutes."""

class EnrolmentNotPending(Conflict, code="enrolment-not-pending"):
    """Read the enrolment by `GET /boxes/{productId}/enrolment`: it is in force, or was discarded."""

class EventNotFound(NotFound, code="event-not-found"):
    """Use an id that `GET /cars/{carId}/events` returns."""

class ExpansionTooLarge(BadRequest, code="expansion-too-large"):
    """Give the `$expand` a `$top`, or read the relation by its own endpoint."""

class ExtensionOutOfRange(Conflict, code="extension-out-of-range"):
    """Send an `end` within these limits."""

class ExternalIdTaken(Conflict, code="external-id-taken"):
    """Use the resource whose `id` the error has, or send another `externalId`."""

class ForPeopleOnly(Forbidden, code="for-people-only"):
    """Use the token of a manager."""

class FormTooLong(BadRequest, code="form-too-long"):
    """Send only the parameters of the endpoint."""

class GroupLimitsManagers(Conflict, code="group-limits-managers"):
    """Give these managers other groups first; `GET /managers` lists them."""

class GroupNameTaken(Conflict, code="group-name-taken"):
    """Choose another name, or use the group that has it."""

class GroupNameTooLong(BadRequest, code="group-name-too-long"):
    """Send a name of at most 250 characters."""

class GroupNotEmpty(Conflict, code="group-not-empty"):
    """Remove its cars, users, services and products first."""

class GroupNotFound(NotFound, code="group-not-found"):
    """Use an id that `GET /groups` returns for this customer."""

class HeadTooLarge(ApiError, code="head-too-large"):
    """Send fewer or shorter headers, or a shorter URL."""

class HeadTooSlow(ApiError, code="head-too-slow"):
    """Send the request again without pauses."""

class HostHeader(BadRequest, code="host-header"):
    """Send exactly one `Host` header (RFC 9112, section 3.2)."""

class HttpTooOld(BadRequest, code="http-too-old"):
    """Use HTTP/1.1 in the client and in each proxy; for nginx, set `proxy_http_version 1.1`."""

class IdempotencyKeyInFlight(Conflict, code="idempotency-key-in-flight"):
    """Send the same request again in a moment; it returns the response of the first one."""

class IdempotencyKeyOfOtherCaller(ApiError, code="idempotency-key-of-other-caller"):
    """Send a unique key for each change, such as a UUID."""

class IdempotencyKeyReused(ApiError, code="idempotency-key-reused"):
    """Use a new key for a new request; a repeat has the same method, address, body, `Prefer: return` and `If-Match`."""

class IdentityNotFound(NotFound, code="identity-not-found"):
    """Use an id that `GET /me/identities` returns."""

class IngestOverloaded(ServerError, code="ingest-overloaded"):
    """Send the same delivery again after the seconds in `Retry-After`."""

class IngestOverloadedByKey(ServerError, code="ingest-overloaded-by-key"):
    """Send one delivery at a time."""

class InternalError(ServerError, code="internal-error"):
    """Report the `traceId` to the operator, who finds the cause in the log."""

class InvalidApiKey(Unauthorized, code="invalid-api-key"):
    """Send an API key that is neither revoked nor expired."""

class InvalidBrand(BadRequest, code="invalid-brand"):
    """Send a name that `GET /brands` returns, percent-encoded."""

class InvalidClient(Unauthorized, code="invalid-client"):
    """Check the id and the secret; `GET /clients` shows whether the client is disabled or expired."""

class InvalidCustomerId(BadRequest, code="invalid-customer-id"):
    """Send the header `Customer-ID` once, with an id that `GET /customers` returns."""

class InvalidDeviceKey(Unauthorized, code="invalid-device-key"):
    """Send a device key that is not revoked in the header `Device-Key`."""

class InvalidForm(BadRequest, code="invalid-form"):
    """Send the parameters as `name=value`, joined by `&` and percent-encoded as UTF-8."""

class InvalidGzip(BadRequest, code="invalid-gzip"):
    """Send one complete gzip file (RFC 1952), or leave out `Content-Encoding`."""

class InvalidHeader(BadRequest, code="invalid-header"):
    """Correct the headers of the request."""

class InvalidHost(BadRequest, code="invalid-host"):
    """Send the host name and its port in `Host` (RFC 9112, section 3.2)."""

class InvalidHttp(BadRequest, code="invalid-http"):
    """Send HTTP/1.1 as RFC 9112 defines it."""

class InvalidIdempotencyKey(BadRequest, code="invalid-idempotency-key"):
    """Send a unique key for each change, such as a UUID."""

class InvalidIfMatch(BadRequest, code="invalid-if-match"):
    """Send the `ETag` of the read unchanged, with its quotes."""

class InvalidJson(BadRequest, code="invalid-json"):
    """Send valid JSON in UTF-8; `errors` shows the position."""

class InvalidLines(BadRequest, code="invalid-lines"):
    """Send one JSON object per line, or one array of objects."""

class InvalidMembers(BadRequest, code="invalid-members"):
    """Correct the properties that `errors` points to."""

class InvalidParameter(BadRequest, code="invalid-parameter"):
    """Send at most 1000 characters (a token: 8000), without U+0000."""

class InvalidPosition(BadRequest, code="invalid-position"):
    """Send the `Keyrack-Position` of the newest response unchanged, or leave it out."""

class InvalidQuery(BadRequest, code="invalid-query"):
    """Correct the query as the message says; docs/odata.md describes the options."""

class InvalidQueryParameter(BadRequest, code="invalid-query-parameter"):
    """Correct the parameter that `errors` names, and percent-encode its value."""

class InvalidScope(BadRequest, code="invalid-scope"):
    """Send scopes of the client, separated by blanks, or no scope for all of them."""

class InvalidSdkCombination(BadRequest, code="invalid-sdk-combination"):
    """Send a key and a user of the same customer, to which you must have access."""

class InvalidSearchDate(BadRequest, code="invalid-search-date"):
    """Send a time of RFC 3339 with `Z` or an offset, percent-encoded."""

class InvalidToken(Unauthorized, code="invalid-token"):
    """Get a new token by `POST /oauth2/token` (an app: by `POST /sdk/token`), and send it as `Authorization: Bearer`."""

class InvalidUserParameters(BadRequest, code="invalid-user-parameters"):
    """Send either `emailAddress` or `userId`."""

class InvitationNeeded(Forbidden, code="invitation-needed"):
    """Ask your fleet for an invitation to the app."""

class InvitationNotFound(NotFound, code="invitation-not-found"):
    """Use an id that `GET /invitations` returns; it does not list accepted or withdrawn invitations."""

class ItemUndone(ApiError, code="item-undone"):
    """Correct the rejected items, and send the whole batch again."""

class LastFactorNeeded(Conflict, code="last-factor-needed"):
    """Add another factor first, or ask an owner of the customer to remove the rule."""

class LastOwner(Conflict, code="last-owner"):
    """Make another manager an owner first, and wait until the invitation is accepted."""

class LastSignInMethod(Conflict, code="last-sign-in-method"):
    """Set a password or connect another account first."""

class LifetimeOutOfRange(BadRequest, code="lifetime-out-of-range"):
    """Send seconds within these limits, or leave `lifetime` out for the default of 604800."""

class LimitedToGroups(Forbidden, code="limited-to-groups"):
    """Ask a manager who is not limited to groups; docs/access.md lists the permissions of group-limited managers."""

class LinkExpired(NotFound, code="link-expired"):
    """Ask your fleet for a new invitation, or request a mail on the sign-in page."""

class LogAltered(Conflict, code="log-altered"):
    """Keep your checkpoints, and report the error to the operator: `keyrack audit verify` shows what was altered."""

class MailNotConfigured(Conflict, code="mail-not-configured"):
    """Invite without `mail`, and pass the link on. Or configure a mail server: `KEYRACK_MAIL_HOST`."""

class ManagerNotFound(NotFound, code="manager-not-found"):
    """Sign in as a manager who is neither removed nor disabled."""

class ManagerOfCustomerNotFound(NotFound, code="manager-of-customer-not-found"):
    """Use an id that `GET /managers` returns for this customer."""

class MethodNotAllowed(ApiError, code="method-not-allowed"):
    """Use a method that the header `Allow` lists."""

class MissingCustomerId(BadRequest, code="missing-customer-id"):
    """Send the header `Customer-ID` with an id that `GET /customers` returns."""

class MissingParameter(BadRequest, code="missing-parameter"):
    """Send all parameters that the grant requires."""

class MissingScope(Forbidden, code="missing-scope"):
    """Grant the scope to the key by `keyrack device-key change`."""

class NamedProductNotFound(NotFound, code="named-product-not-found"):
    """Use values that `GET /products` returns; several names must identify the same product."""

class NamedUserNotFound(NotFound, code="named-user-not-found"):
    """Create the user by `PUT /users`; a `userId` finds only users of your own customers."""

class NoAppAccess(Forbidden, code="no-app-access"):
    """Ask your fleet for an invitation to the app."""

class NoCarOfProduct(NotFound, code="no-car-of-product"):
    """Install it first: `PUT /installations`."""

class NoCheckpoint(NotFound, code="no-checkpoint"):
    """Retry in some minutes; if a change still gets no checkpoint, ask the operator to check the signing key."""

class NoContractOfService(NotFound, code="no-contract-of-service"):
    """Ask the operator to add a contract to the service."""

class NoCredentialGiven(BadRequest, code="no-credential-given"):
    """Send `password`, or `credential` for a passkey."""

class NoIqInCar(NotFound, code="no-iq-in-car"):
    """Install an IQ unit into the car first: `PUT /installations`."""

class NoKeyForBox(NotFound, code="no-key-for-box"):
    """Use the name of a box that `GET /sdk/keys` returns."""

class NoProductNamed(BadRequest, code="no-product-named"):
    """Send `productId`, `serialNumber` or `uniqueId`."""

class NoProductOfService(NotFound, code="no-product-of-service"):
    """Pair it with a product first: `PUT /pairings`."""

class NoProductsInCar(NotFound, code="no-products-in-car"):
    """Install a product first: `PUT /installations`."""

class NoSecondFactor(Conflict, code="no-second-factor"):
    """Set up an authenticator app or a passkey first."""

class NoServiceOfProduct(NotFound, code="no-service-of-product"):
    """Pair it with a service first: `PUT /pairings`."""

class NoSteps(BadRequest, code="no-steps"):
    """Send at least one step."""

class NoStreamForLimited(Forbidden, code="no-stream-for-limited"):
    """Read the list with `wait`, and continue from the header `Changes-Newest` of each response."""

class NoTelemetryYet(NotFound, code="no-telemetry-yet"):
    """Retry after the unit in the car has reported."""

class NotReady(ServerError, code="not-ready"):
    """Look up each code in `reasons`, and follow its remedy."""

class OldWorkerRunning(Conflict, code="old-worker-running"):
    """Stop the processes of the older release, and send the request again a minute later."""

class OperationNotFound(NotFound, code="operation-not-found"):
    """Use the `Operation-Id` of the response to the change."""

class OperationRetried(ServerError, code="operation-retried"):
    """Retry the request after the seconds in `Retry-After`."""

class OtherOrigin(Forbidden, code="other-origin"):
    """Open the page at the public address of this server; a proxy must forward the headers Host and Origin."""

class OutcomeUnknown(ServerError, code="outcome-unknown"):
    """Send the same request again with the same `Idempotency-Key`; without a key, check first whether the change was made."""

class Overloaded(ServerError, code="overloaded"):
    """Retry after the seconds in `Retry-After`, with fewer concurrent requests."""

class OwnerNotLimited(Conflict, code="owner-not-limited"):
    """Choose another role, or remove the groups in the same change."""

class ParameterGivenTwice(BadRequest, code="parameter-given-twice"):
    """Send each parameter once."""

class PasskeyKnown(Conflict, code="passkey-known"):
    """Use it, or choose another device."""

class PasskeyNotFound(NotFound, code="passkey-not-found"):
    """Use an id that `GET /me/passkeys` returns."""

class PasskeyNotVerified(ApiError, code="passkey-not-verified"):
    """Request new options and try again; the device must verify its user by fingerprint, face or PIN."""

class PasskeysUnavailable(Conflict, code="passkeys-unavailable"):
    """Set `KEYRACK_PUBLIC_URL`, for drivers `KEYRACK_DRIVE_URL`, to an https address with a host name, or to localhost for tests."""

class PasswordNotEnough(BadRequest, code="password-not-enough"):
    """Sign in to the console, or use a machine client in programs."""

class PathNotFound(NotFound, code="path-not-found"):
    """Look up the path in the API reference; paths are case-sensitive."""

class PermissionMissing(Forbidden, code="permission-missing"):
    """Ask an owner of the customer for a role, or a scope of the machine client, with this permission; docs/access.md lists the permissions of each role."""

class PreconditionFailed(ApiError, code="precondition-failed"):
    """Read the resource again, and send its new `ETag` if the change is still wanted."""

class PreconditionOnlyForReads(ApiError, code="precondition-only-for-reads"):
    """Send the request without `If-None-Match`."""

class PreconditionUnsupported(ApiError, code="precondition-unsupported"):
    """Send the request without `If-Match`."""

class PrimaryUnconfirmed(ServerError, code="primary-unconfirmed"):
    """Retry the request after the seconds in `Retry-After`; a failover is in progress, or the standbys are unreachable."""

class ProductAlreadyInGroup(Conflict, code="product-already-in-group"):
    """Treat this as success: the product is in the group."""

class ProductAlreadyInstalled(Conflict, code="product-already-installed"):
    """Remove it from the other car first: `DELETE /installations`."""

class ProductAlreadyPaired(Conflict, code="product-already-paired"):
    """Unlink its service first: `DELETE /pairings`."""

class ProductInOtherCar(Conflict, code="product-in-other-car"):
    """Use the car that `GET /products/{productId}/cars` returns."""

class ProductNotFound(NotFound, code="product-not-found"):
    """Use an id that `GET /products` returns for this customer."""

class ProductNotInGroup(NotFound, code="product-not-in-group"):
    """Treat this as success: the product is not in the group."""

class ProductNotInstalled(Conflict, code="product-not-installed"):
    """Treat this as success: the product is in no car."""

class ProductTakesNoKeys(Conflict, code="product-takes-no-keys"):
    """Use a product that is a key box."""

class ProductTypeAlreadyInCar(Conflict, code="product-type-already-in-car"):
    """Remove the other product first: `DELETE /installations`."""

class ProductWithoutService(Conflict, code="product-without-service"):
    """Pair it first with a service that is not terminated: `PUT /pairings`."""

class ProviderAccountUnknown(Forbidden, code="provider-account-unknown"):
    """Ask your fleet which e-mail address it has of you."""

class ProviderSessionLimited(Forbidden, code="provider-session-limited"):
    """Sign in with the password or a passkey of the account. Without one, request a link by `POST /drive/api/forgot`."""

class ProviderSignInFailed(Forbidden, code="provider-sign-in-failed"):
    """Begin again. If it fails again, ask the operator, whose log has the reason."""

class PushDisabled(Conflict, code="push-disabled"):
    """Subscribe only if `pushKey` of `GET /drive/api/settings` is not null."""

class PushKeysInvalid(BadRequest, code="push-keys-invalid"):
    """Send the values of `PushSubscription.toJSON().keys`."""

class PushServiceNotAllowed(BadRequest, code="push-service-not-allowed"):
    """Send `endpoint` of the browser's subscription, or ask the operator to add its host to `KEYRACK_PUSH_SERVICES`."""

class QueryNotAscii(BadRequest, code="query-not-ascii"):
    """Percent-encode the query string as UTF-8."""

class QueryNotSupported(ServerError, code="query-not-supported"):
    """Leave out the unsupported part; docs/odata.md lists the supported options."""

class QueryTooLong(ApiError, code="query-too-long"):
    """Split the query into several requests, or use shorter names."""

class QueryTooSlow(BadRequest, code="query-too-slow"):
    """Narrow the query with `$filter`, reduce `$top`, or order by an indexed property such as `id`."""

class QueryValueOutOfRange(BadRequest, code="query-value-out-of-range"):
    """Correct the numbers and times in the query."""

class RateLimited(TooManyRequests, code="rate-limited"):
    """Retry after the seconds in `Retry-After`; the `RateLimit` headers show the remaining quota."""

class RegistrationNonceUnknown(Conflict, code="registration-nonce-unknown"):
    """Get a nonce by `POST /sdk/devices/nonce`, and have the phone sign it within ten minutes."""

class RenewableAfterOutOfRange(BadRequest, code="renewable-after-out-of-range"):
    """Send seconds from 0 to less than `lifetime`, or leave it out for half of `lifetime`."""

class RepeatedMembers(BadRequest, code="repeated-members"):
    """Send each property of an object once."""

class SchemaNotCurrent(ServerError, code="schema-not-current"):
    """Ask the operator to run `keyrack migrate`."""

class SecondFactorNeeded(Forbidden, code="second-factor-needed"):
    """Sign in to the console with a passkey, or with a password and a code."""

class SecondFactorNotUsed(Conflict, code="second-factor-not-used"):
    """Sign in with a passkey or a code, then set the rule."""

class SecondPersonNeeded(Forbidden, code="second-person-needed"):
    """Ask another manager of the customer to approve it: `POST /boxes/{productId}/enrolment/approval`."""

class SecretsUnavailable(ServerError, code="secrets-unavailable"):
    """Ask the operator to give this server a master key of its database."""

class ServiceAlreadyInGroup(Conflict, code="service-already-in-group"):
    """Treat this as success: the service is in the group."""

class ServiceAlreadyPaired(Conflict, code="service-already-paired"):
    """Unlink it first: `DELETE /pairings`."""

class ServiceNotFound(NotFound, code="service-not-found"):
    """Use an id that `GET /services` returns for this customer."""

class ServiceNotInGroup(NotFound, code="service-not-in-group"):
    """Treat this as success: the service is not in the group."""

class ServiceNotPaired(Conflict, code="service-not-paired"):
    """Use the product that `GET /services/{serviceId}/products` returns."""

class SessionNotFound(NotFound, code="session-not-found"):
    """Use an id that `GET /sessions` returns."""

class SignInAgain(Forbidden, code="sign-in-again"):
    """Sign in again, then repeat the request."""

class SignedOut(Unauthorized, code="signed-out"):
    """Sign in again: sessions end after some hours, at a sign-out and when the password changes."""

class SimilarAddressInvited(Conflict, code="similar-address-invited"):
    """Withdraw that invitation first; `GET /invitations` lists it."""

class StatusListNotFound(NotFound, code="status-list-not-found"):
    """Leave out `epoch` and `generation` for the newest list; each key names its own."""

class Stopping(ServerError, code="stopping"):
    """Send requests to another server, or retry when this one is back."""

class StreamWithOptions(BadRequest, code="stream-with-options"):
    """Leave out the other options and filter in the client, or read the list with `wait`."""

class TimeInFuture(BadRequest, code="time-in-future"):
    """Send a past time, or none for now; `GET /assignments` returns future assignments."""

class TimeRangeTooLong(BadRequest, code="time-range-too-long"):
    """Request a shorter time range, or several ranges one after the other."""

class TokenBeforeRemoval(Unauthorized, code="token-before-removal"):
    """Get a new id token by `POST /sdk/token`, if the user is still signed in."""

class TokenOfAnother(BadRequest, code="token-of-another"):
    """Revoke the token as the client that got it, or remove the secret that it was issued for."""

class TooManyAccessPeriods(BadRequest, code="too-many-access-periods"):
    """Request a shorter time range, or the history of each user or car alone."""

class TooManyClientSecrets(Conflict, code="too-many-client-secrets"):
    """Remove the unused secret; `GET /clients/{clientId}/secrets` shows when each was last used."""

class TooManyClients(Conflict, code="too-many-clients"):
    """Remove an unused client; `GET /clients` shows when each was last used."""

class TooManyConnections(ServerError, code="too-many-connections"):
    """Retry the request after the seconds in `Retry-After`."""

class TooManyConnectionsOfAddress(ServerError, code="too-many-connections-of-address"):
    """Keep connections open, and send several requests over each."""

class TooManyDevices(Conflict, code="too-many-devices"):
    """Remove an unused device: `DELETE /sdk/devices/{deviceId}`."""

class TooManyDriverPasskeys(Conflict, code="too-many-driver-passkeys"):
    """Remove one by `DELETE /drive/api/passkeys/{passkeyId}`."""

class TooManyErrors(BadRequest, code="too-many-errors"):
    """Correct the body; a repeated error counts each time."""

class TooManyInvitations(Conflict, code="too-many-invitations"):
    """Withdraw an open invitation; `GET /invitations` lists them."""

class TooManyItems(BadRequest, code="too-many-items"):
    """Split the items into several batches."""

class TooManyLines(ApiError, code="too-many-lines"):
    """Split the lines into several deliveries."""

class TooManyLongAnswers(ServerError, code="too-many-long-answers"):
    """Retry after the seconds in `Retry-After`, or request less at once."""

class TooManyOverlaps(BadRequest, code="too-many-overlaps"):
    """Send fewer cars, or a shorter time range, in one batch."""

class TooManyPasskeys(Conflict, code="too-many-passkeys"):
    """Remove one by `DELETE /me/passkeys/{passkeyId}`."""

class TooManyPasswords(BadRequest, code="too-many-passwords"):
    """Split users of the type `Normal` into several batches."""

class TooManySteps(BadRequest, code="too-many-steps"):
    """Send one step for each property that changes."""

class TooManyStreams(ServerError, code="too-many-streams"):
    """Poll instead, or retry after the seconds in `Retry-After`."""

class TooManyStreamsOfCaller(TooManyRequests, code="too-many-streams-of-caller"):
    """Close unused streams; one per page or program is enough."""

class TooManyStreamsOfCustomer(TooManyRequests, code="too-many-streams-of-customer"):
    """Close unused streams; one per page or program is enough."""

class TooManyWaiting(ServerError, code="too-many-waiting"):
    """Send fewer requests at once, and retry after the seconds in `Retry-After`."""

class TooManyWebhooks(Conflict, code="too-many-webhooks"):
    """Remove a webhook, or change one by `PATCH /webhooks/{webhookId}`."""

class TotpAlreadySetUp(Conflict, code="totp-already-set-up"):
    """Remove it by `DELETE /me/totp`."""

class TotpNotSetUp(NotFound, code="totp-not-set-up"):
    """Set one up by `POST /me/totp`."""

class TransferCoding(ServerError, code="transfer-coding"):
    """Send the body with `Content-Length`, or with `Transfer-Encoding: chunked`."""

class TwoClientAuthentications(BadRequest, code="two-client-authentications"):
    """Send the id and the secret in the header `Authorization` or in the form, not in both (RFC 6749, section 2.3)."""

class UnknownMembers(BadRequest, code="unknown-members"):
    """Remove or rename the properties that `errors` points to."""

class UnsupportedGrantType(BadRequest, code="unsupported-grant-type"):
    """Send `grant_type=password` for a manager, or `grant_type=client_credentials` for a machine client."""

class UnsupportedMediaType(ApiError, code="unsupported-media-type"):
    """Send the body in a media type that `errors` lists."""

class UserAlreadyInCustomer(Conflict, code="user-already-in-customer"):
    """Treat this as success: the user is in the customer."""

class UserAlreadyInGroup(Conflict, code="user-already-in-group"):
    """Treat this as success: the user is in the group."""

class UserNotFound(NotFound, code="user-not-found"):
    """Use an id that `GET /users` returns for this customer."""

class UserNotInCustomer(NotFound, code="user-not-in-customer"):
    """Treat this as success: the user is not in the customer."""

class UserNotInGroup(NotFound, code="user-not-in-group"):
    """Treat this as success: the user is not in the group."""

class UserWithoutApp(Conflict, code="user-without-app"):
    """Create a user of the type `Normal` with another e-mail address, and invite that user."""

class WaitedTooLong(ServerError, code="waited-too-long"):
    """Send fewer requests at once, and retry after the seconds in `Retry-After`."""

class WebhookDisabled(Conflict, code="webhook-disabled"):
    """Enable it: `PATCH /webhooks/{webhookId}`."""

class WebhookIsPulled(Conflict, code="webhook-is-pulled"):
    """Create another webhook with a `url`, and delete this one."""

class WebhookIsPushed(Conflict, code="webhook-is-pushed"):
    """Create a webhook with `pull`: `PUT /webhooks`."""

class WebhookNotFound(NotFound, code="webhook-not-found"):
    """Use an id that `GET /webhooks` returns for this customer."""

class WrongCode(ApiError, code="wrong-code"):
    """Send the six digits that the app shows now, and check the clock of its device."""

class WrongCredentials(Unauthorized, code="wrong-credentials"):
    """Check the user name and the password."""

class WrongDriverPassword(Forbidden, code="wrong-driver-password"):
    """Send the current password as `current`."""

class WrongFormOfBody(BadRequest, code="wrong-form-of-body"):
    """Send the body that the API reference shows for this endpoint."""

class WrongPassword(Forbidden, code="wrong-password"):
    """Check the current password."""
