"""The operations of the API, for `call`. Made by clients/generate.py from the OpenAPI document of the server. Do not edit."""

from __future__ import annotations

from typing import Any

from . import _types as t
from ._operation import Operation

getJwks: Operation[None, t.JsonWebKeySet] = Operation("getJwks", "GET", "/.well-known/jwks.json")
"""Get the public keys of tokens"""
getOpenIdConfiguration: Operation[None, t.OpenIdConfiguration] = Operation("getOpenIdConfiguration", "GET", "/.well-known/openid-configuration")
"""Get the OpenID Connect metadata"""
getAuthorizationServer: Operation[None, t.AuthorizationServer] = Operation("getAuthorizationServer", "GET", "/.well-known/oauth-authorization-server")
"""Get the authorization server metadata"""
listCustomers: Operation[None, list[t.Customer]] = Operation("listCustomers", "GET", "/customers")
"""List customers"""
getRetention: Operation[None, list[t.Kept]] = Operation("getRetention", "GET", "/retention")
"""Get the retention of the customer's data"""
getDriverSettings: Operation[None, t.DriverSettings] = Operation("getDriverSettings", "GET", "/driver-settings")
"""Get the settings for drivers"""
setDriverSettings: Operation[t.DriverSettings, None] = Operation("setDriverSettings", "PUT", "/driver-settings")
"""Set the settings for drivers"""
listCars: Operation[None, list[t.Car]] = Operation("listCars", "GET", "/cars")
"""List cars"""
createCar: Operation[t.NewCar, t.Created] = Operation("createCar", "PUT", "/cars")
"""Create a car"""
listAvailableCars: Operation[None, list[t.AvailableCar]] = Operation("listAvailableCars", "GET", "/cars/available")
"""List the cars that are free within a period"""
getCar: Operation[None, t.Car] = Operation("getCar", "GET", "/cars/{carId}")
"""Get a car"""
updateCar: Operation[list[t.CarPatch], None] = Operation("updateCar", "PATCH", "/cars/{carId}")
"""Update a car"""
deleteCar: Operation[None, None] = Operation("deleteCar", "DELETE", "/cars/{carId}")
"""Delete a car"""
listProductsOfCar: Operation[None, list[t.Product]] = Operation("listProductsOfCar", "GET", "/cars/{carId}/products")
"""List the products of a car"""
getCarTelemetry: Operation[None, t.Telemetry] = Operation("getCarTelemetry", "GET", "/cars/{carId}/telemetry")
"""Get the newest telemetry of a car"""
getCarLocation: Operation[None, t.Location] = Operation("getCarLocation", "GET", "/cars/{carId}/location")
"""Get the newest location of a car"""
getCarLocationAt: Operation[None, t.Location] = Operation("getCarLocationAt", "GET", "/cars/{carId}/location/{searchDate}")
"""Get the location of a car at a date"""
listAssignmentsOfCar: Operation[None, list[t.AssignmentOfCar]] = Operation("listAssignmentsOfCar", "GET", "/cars/{carId}/assignments")
"""List the assignments of a car"""
listEventsOfCar: Operation[None, list[t.Event]] = Operation("listEventsOfCar", "GET", "/cars/{carId}/events")
"""List the events of a car"""
listUsers: Operation[None, list[t.User]] = Operation("listUsers", "GET", "/users")
"""List users"""
createUser: Operation[t.NewUser, t.UserCreated] = Operation("createUser", "PUT", "/users")
"""Create a user in the customer"""
getUser: Operation[None, t.User] = Operation("getUser", "GET", "/users/{userId}")
"""Get a user"""
updateUser: Operation[list[t.UserPatch], None] = Operation("updateUser", "PATCH", "/users/{userId}")
"""Update the references of a user"""
listAssignmentsOfUser: Operation[None, list[t.AssignmentOfUser]] = Operation("listAssignmentsOfUser", "GET", "/users/{userId}/assignments")
"""List the assignments of a user"""
addUserToCustomer: Operation[t.SomeUser, None] = Operation("addUserToCustomer", "PUT", "/users/assignments/customers")
"""Add an existing user to the customer"""
removeUserFromCustomer: Operation[t.SomeUser, None] = Operation("removeUserFromCustomer", "DELETE", "/users/assignments/customers")
"""Remove a user from the customer"""
previewErasure: Operation[None, t.Preview] = Operation("previewErasure", "GET", "/users/{userId}/erasure")
"""Preview the erasure of a user"""
eraseUser: Operation[None, None] = Operation("eraseUser", "POST", "/users/{userId}/erase")
"""Erase a user from the customer"""
listDevicesOfUser: Operation[None, list[t.Device]] = Operation("listDevicesOfUser", "GET", "/users/{userId}/devices")
"""List the phones of a user"""
removeDeviceOfUser: Operation[None, None] = Operation("removeDeviceOfUser", "DELETE", "/users/{userId}/devices/{deviceId}")
"""Remove a phone of a user"""
forgetRemovedDevicesOfUser: Operation[None, None] = Operation("forgetRemovedDevicesOfUser", "DELETE", "/users/{userId}/removed-devices")
"""Free the keys of a user's removed phones"""
approveDeviceOfUser: Operation[None, None] = Operation("approveDeviceOfUser", "PUT", "/users/{userId}/devices/{deviceId}/approval")
"""Approve a phone of a user"""
inviteUserToApp: Operation[t.AppInvitationRequest, t.AppInvitation] = Operation("inviteUserToApp", "POST", "/users/{userId}/app-invitation")
"""Invite a user to the app"""
getAppAccessOfUser: Operation[None, t.AppAccessState] = Operation("getAppAccessOfUser", "GET", "/users/{userId}/app-access")
"""Get the app access of a user"""
withdrawAppAccessOfUser: Operation[None, None] = Operation("withdrawAppAccessOfUser", "DELETE", "/users/{userId}/app-access")
"""Withdraw the app access of a user"""
reportLostPhonesOfUser: Operation[t.UserLossReport, t.UserLossOutcome] = Operation("reportLostPhonesOfUser", "POST", "/users/{userId}/lost-phones")
"""Report lost phones of a user"""
listAssignments: Operation[None, list[t.Assignment]] = Operation("listAssignments", "GET", "/assignments")
"""List assignments"""
createAssignment: Operation[t.NewAssignment, None] = Operation("createAssignment", "PUT", "/assignments")
"""Create an assignment"""
getAssignment: Operation[None, t.Assignment] = Operation("getAssignment", "GET", "/assignments/{assignmentId}")
"""Get an assignment"""
updateAssignment: Operation[list[t.AssignmentPatch], None] = Operation("updateAssignment", "PATCH", "/assignments/{assignmentId}")
"""Update an assignment"""
deleteAssignment: Operation[None, None] = Operation("deleteAssignment", "DELETE", "/assignments/{assignmentId}")
"""End an assignment"""
listHiddenAssignments: Operation[None, list[t.HiddenAssignment]] = Operation("listHiddenAssignments", "GET", "/hidden-assignments")
"""List times at which users outside the groups have cars"""
getBookingSettings: Operation[None, t.BookingSettings] = Operation("getBookingSettings", "GET", "/booking-settings")
"""Get the booking settings"""
setBookingSettings: Operation[t.BookingSettings, None] = Operation("setBookingSettings", "PUT", "/booking-settings")
"""Set the booking settings"""
getCarBookingSettings: Operation[None, t.CarBookingSettings] = Operation("getCarBookingSettings", "GET", "/cars/{carId}/booking-settings")
"""Get the booking settings of a car"""
setCarBookingSettings: Operation[t.CarBookingSettings, None] = Operation("setCarBookingSettings", "PUT", "/cars/{carId}/booking-settings")
"""Set the booking settings of a car"""
listGroups: Operation[None, list[t.Group]] = Operation("listGroups", "GET", "/groups")
"""List groups"""
createGroup: Operation[t.NewGroup, t.Created] = Operation("createGroup", "PUT", "/groups")
"""Create a group"""
getGroup: Operation[None, t.Group] = Operation("getGroup", "GET", "/groups/{groupId}")
"""Get a group"""
updateGroup: Operation[list[t.GroupPatch], None] = Operation("updateGroup", "PATCH", "/groups/{groupId}")
"""Rename a group"""
deleteGroup: Operation[None, None] = Operation("deleteGroup", "DELETE", "/groups/{groupId}")
"""Delete an empty group"""
listCarsOfGroup: Operation[None, list[t.Car]] = Operation("listCarsOfGroup", "GET", "/groups/{groupId}/cars")
"""List the cars of a group"""
addCarToGroup: Operation[t.CarOfGroup, None] = Operation("addCarToGroup", "PUT", "/groups/{groupId}/cars")
"""Add a car to a group"""
listUsersOfGroup: Operation[None, list[t.User]] = Operation("listUsersOfGroup", "GET", "/groups/{groupId}/users")
"""List the users of a group"""
addUserToGroup: Operation[t.UserOfGroup, None] = Operation("addUserToGroup", "PUT", "/groups/{groupId}/users")
"""Add a user to a group"""
listServicesOfGroup: Operation[None, list[t.ServiceOfProduct]] = Operation("listServicesOfGroup", "GET", "/groups/{groupId}/services")
"""List the services of a group"""
addServiceToGroup: Operation[t.ServiceOfGroup, None] = Operation("addServiceToGroup", "PUT", "/groups/{groupId}/services")
"""Add a service to a group"""
listProductsOfGroup: Operation[None, list[t.Product]] = Operation("listProductsOfGroup", "GET", "/groups/{groupId}/products")
"""List the products of a group"""
addProductToGroup: Operation[t.ProductOfGroup, None] = Operation("addProductToGroup", "PUT", "/groups/{groupId}/products")
"""Add a product to a group"""
removeCarFromGroup: Operation[None, None] = Operation("removeCarFromGroup", "DELETE", "/groups/{groupId}/cars/{carId}")
"""Remove a car from a group"""
removeUserFromGroup: Operation[None, None] = Operation("removeUserFromGroup", "DELETE", "/groups/{groupId}/users/{userId}")
"""Remove a user from a group"""
removeServiceFromGroup: Operation[None, None] = Operation("removeServiceFromGroup", "DELETE", "/groups/{groupId}/services/{serviceId}")
"""Remove a service from a group"""
removeProductFromGroup: Operation[None, None] = Operation("removeProductFromGroup", "DELETE", "/groups/{groupId}/products/{productId}")
"""Remove a product from a group"""
listProducts: Operation[None, list[t.ProductListed]] = Operation("listProducts", "GET", "/products")
"""List products"""
getProduct: Operation[None, t.Product] = Operation("getProduct", "GET", "/products/{productId}")
"""Get a product"""
updateProduct: Operation[list[t.ProductPatch], None] = Operation("updateProduct", "PATCH", "/products/{productId}")
"""Update the references of a product"""
getServiceOfProduct: Operation[None, t.ServiceOfProduct] = Operation("getServiceOfProduct", "GET", "/products/{productId}/services")
"""Get the service of a product"""
getCarOfProduct: Operation[None, t.Car] = Operation("getCarOfProduct", "GET", "/products/{productId}/cars")
"""Get the car of a product"""
listServices: Operation[None, list[t.Service]] = Operation("listServices", "GET", "/services")
"""List services"""
getService: Operation[None, t.Service] = Operation("getService", "GET", "/services/{serviceId}")
"""Get a service"""
getProductOfService: Operation[None, t.Product] = Operation("getProductOfService", "GET", "/services/{serviceId}/products")
"""Get the product of a service"""
getContractOfService: Operation[None, t.Contract] = Operation("getContractOfService", "GET", "/services/{serviceId}/contracts")
"""Get the contract of a service"""
installProduct: Operation[t.Installation, None] = Operation("installProduct", "PUT", "/installations")
"""Install a product in a car"""
uninstallProduct: Operation[t.Installation, None] = Operation("uninstallProduct", "DELETE", "/installations")
"""Uninstall a product from a car"""
pairService: Operation[t.Pairing, None] = Operation("pairService", "PUT", "/pairings")
"""Pair a service with a product"""
unpairService: Operation[t.Pairing, None] = Operation("unpairService", "DELETE", "/pairings")
"""Unpair a service from its product"""
listBrands: Operation[None, list[str]] = Operation("listBrands", "GET", "/brands")
"""List brands"""
listKeys: Operation[None, list[t.Key]] = Operation("listKeys", "GET", "/keys")
"""List the keys of all brands"""
listKeysOfBrand: Operation[None, list[t.Key]] = Operation("listKeysOfBrand", "GET", "/brands/{brand}/keys")
"""List the keys of a brand"""
getSdkToken: Operation[t.SdkTokenRequest, t.SdkToken] = Operation("getSdkToken", "POST", "/sdk/token")
"""Get an id token for a user"""
beginRegistration: Operation[None, t.RegistrationNonce] = Operation("beginRegistration", "POST", "/sdk/devices/nonce")
"""Get a nonce for the registration of a phone"""
listOwnDevices: Operation[None, list[t.AppDevice]] = Operation("listOwnDevices", "GET", "/sdk/devices")
"""List the phones of the user"""
registerDevice: Operation[t.Registration, t.AppDevice] = Operation("registerDevice", "PUT", "/sdk/devices")
"""Register or rename a phone"""
removeOwnDevice: Operation[None, None] = Operation("removeOwnDevice", "DELETE", "/sdk/devices/{deviceId}")
"""Remove a phone of the user"""
getPhoneKeys: Operation[None, t.PhoneKeys] = Operation("getPhoneKeys", "GET", "/sdk/keys")
"""Get the keys of a phone"""
deliverBoxLog: Operation[t.Entries, t.TakenEntries] = Operation("deliverBoxLog", "PUT", "/sdk/boxlog")
"""Deliver entries of box logs"""
getSignedTime: Operation[t.TimeWanted, t.SignedTime] = Operation("getSignedTime", "POST", "/sdk/time")
"""Get the time, signed for a box and its nonce"""
getEnrolledBox: Operation[None, t.BoxState] = Operation("getEnrolledBox", "GET", "/boxes/{productId}/enrolment")
"""Get an enrolled box"""
enrolBox: Operation[t.Enrolment, t.EnrolledBox] = Operation("enrolBox", "PUT", "/boxes/{productId}/enrolment")
"""Enrol a box"""
beginEnrolment: Operation[None, t.EnrolmentNonce] = Operation("beginEnrolment", "POST", "/boxes/{productId}/enrolment")
"""Get a nonce for the enrolment of a box"""
undoEnrolment: Operation[None, None] = Operation("undoEnrolment", "DELETE", "/boxes/{productId}/enrolment")
"""Undo the pending enrolment of a box"""
approveEnrolment: Operation[t.EnrolmentApproval, None] = Operation("approveEnrolment", "POST", "/boxes/{productId}/enrolment/approval")
"""Approve the pending enrolment of a box as a second person"""
getProvisioning: Operation[None, t.BoxProvisioning] = Operation("getProvisioning", "GET", "/boxes/{productId}/provisioning")
"""Get the provisioning of a box"""
getStatusList: Operation[None, t.BoxStatusList] = Operation("getStatusList", "GET", "/boxes/{productId}/status")
"""Get the status list of a box"""
listKeysOfCar: Operation[None, list[t.IssuedKey]] = Operation("listKeysOfCar", "GET", "/cars/{carId}/keys")
"""List the issued keys of a car"""
listEvents: Operation[None, list[t.Event]] = Operation("listEvents", "GET", "/events")
"""List events"""
createEvent: Operation[t.NewEvent, t.Created] = Operation("createEvent", "PUT", "/events")
"""Record that a car was opened or closed"""
getEvent: Operation[None, t.Event] = Operation("getEvent", "GET", "/events/{eventId}")
"""Get an event"""
deliverEvents: Operation[list[t.OfflineEvent], t.DeliveredEvents] = Operation("deliverEvents", "POST", "/ingest/events")
"""Deliver offline events"""
listChanges: Operation[None, list[t.Change]] = Operation("listChanges", "GET", "/changes")
"""List changes of the customer's data"""
getCheckpoint: Operation[None, t.ChangeCheckpoint] = Operation("getCheckpoint", "GET", "/changes/checkpoint")
"""Get the newest checkpoint of the change log"""
getChangeProof: Operation[None, t.ChangeProof] = Operation("getChangeProof", "GET", "/changes/{changeId}/proof")
"""Get the proof that a change is in the log"""
getCarAccess: Operation[None, t.CarAccess] = Operation("getCarAccess", "GET", "/cars/{carId}/access")
"""Get the users who could open a car"""
getUserAccess: Operation[None, t.UserAccess] = Operation("getUserAccess", "GET", "/users/{userId}/access")
"""Get the cars that a user could open"""
deliverTelemetry: Operation[list[t.Sample], t.Delivered] = Operation("deliverTelemetry", "POST", "/ingest/telemetry")
"""Deliver samples of units"""
listPositions: Operation[None, list[t.Position]] = Operation("listPositions", "GET", "/positions")
"""List the newest positions of all cars"""
getCarTrack: Operation[None, t.Track] = Operation("getCarTrack", "GET", "/cars/{carId}/track")
"""Get the track of a car"""
getCarSamples: Operation[None, t.Samples] = Operation("getCarSamples", "GET", "/cars/{carId}/samples")
"""Get telemetry series of a car for charts"""
listAssignmentRequests: Operation[None, list[t.AssignmentRequest]] = Operation("listAssignmentRequests", "GET", "/assignment-requests")
"""List the requests of drivers"""
getAssignmentRequest: Operation[None, t.AssignmentRequest] = Operation("getAssignmentRequest", "GET", "/assignment-requests/{requestId}")
"""Get a request of a driver"""
decideAssignmentRequest: Operation[t.RequestDecision, None] = Operation("decideAssignmentRequest", "PUT", "/assignment-requests/{requestId}/decision")
"""Grant or reject a request of a driver"""
listOperations: Operation[None, list[t.Operation]] = Operation("listOperations", "GET", "/operations")
"""List operations"""
getOperation: Operation[None, t.Operation] = Operation("getOperation", "GET", "/operations/{operationId}")
"""Get an operation"""
runBatch: Operation[t.Batch, t.BatchResult] = Operation("runBatch", "POST", "/batch")
"""Run a batch"""
listWebhookKinds: Operation[None, list[t.KindListed]] = Operation("listWebhookKinds", "GET", "/webhooks/kinds")
"""List event types and wildcards"""
listWebhooks: Operation[None, list[t.Webhook]] = Operation("listWebhooks", "GET", "/webhooks")
"""List webhooks"""
createWebhook: Operation[t.NewWebhook, t.WebhookCreated] = Operation("createWebhook", "PUT", "/webhooks")
"""Create a webhook"""
getWebhook: Operation[None, t.Webhook] = Operation("getWebhook", "GET", "/webhooks/{webhookId}")
"""Get a webhook"""
updateWebhook: Operation[list[t.WebhookPatch], None] = Operation("updateWebhook", "PATCH", "/webhooks/{webhookId}")
"""Update a webhook"""
deleteWebhook: Operation[None, None] = Operation("deleteWebhook", "DELETE", "/webhooks/{webhookId}")
"""Delete a webhook and its deliveries"""
listDeliveriesOfWebhook: Operation[None, list[t.Delivery]] = Operation("listDeliveriesOfWebhook", "GET", "/webhooks/{webhookId}/deliveries")
"""List the deliveries of a webhook"""
listDeliveries: Operation[None, list[t.DeliveryListed]] = Operation("listDeliveries", "GET", "/deliveries")
"""List the deliveries of all webhooks"""
rotateWebhookSecret: Operation[None, t.SecretRotated] = Operation("rotateWebhookSecret", "POST", "/webhooks/{webhookId}/rotate-secret")
"""Rotate the signing secret of a webhook"""
testWebhook: Operation[t.TestMessage, t.Created] = Operation("testWebhook", "POST", "/webhooks/{webhookId}/test")
"""Send a test to a webhook"""
replayDelivery: Operation[None, None] = Operation("replayDelivery", "POST", "/webhooks/{webhookId}/deliveries/{deliveryId}/replay")
"""Send a delivery again"""
replayDeliveries: Operation[t.TimeRange, t.Replayed] = Operation("replayDeliveries", "POST", "/webhooks/{webhookId}/replay")
"""Send the outcomes and changes of a time range again"""
listMessagesOfWebhook: Operation[None, list[t.WaitingMessage]] = Operation("listMessagesOfWebhook", "GET", "/webhooks/{webhookId}/messages")
"""Fetch the messages of a pull webhook"""
acknowledgeMessagesOfWebhook: Operation[t.Acknowledgement, t.Acknowledged] = Operation("acknowledgeMessagesOfWebhook", "POST", "/webhooks/{webhookId}/messages/ack")
"""Acknowledge messages of a pull webhook"""
listManagers: Operation[None, list[t.Manager]] = Operation("listManagers", "GET", "/managers")
"""List managers"""
inviteManager: Operation[t.NewManager, t.ManagerInvited] = Operation("inviteManager", "PUT", "/managers")
"""Invite a manager"""
getManager: Operation[None, t.Manager] = Operation("getManager", "GET", "/managers/{managerId}")
"""Get a manager"""
updateManager: Operation[list[t.ManagerPatch], None] = Operation("updateManager", "PATCH", "/managers/{managerId}")
"""Change the role or the groups of a manager"""
removeManager: Operation[None, None] = Operation("removeManager", "DELETE", "/managers/{managerId}")
"""Remove a manager from the customer"""
listInvitations: Operation[None, list[t.Invitation]] = Operation("listInvitations", "GET", "/invitations")
"""List open invitations"""
withdrawInvitation: Operation[None, None] = Operation("withdrawInvitation", "DELETE", "/invitations/{invitationId}")
"""Withdraw an invitation"""
getFactorRules: Operation[None, t.FactorRules] = Operation("getFactorRules", "GET", "/factor-rules")
"""Get the roles that require a second factor"""
setFactorRules: Operation[t.FactorRules, None] = Operation("setFactorRules", "PUT", "/factor-rules")
"""Set the roles that require a second factor"""
listClients: Operation[None, list[t.MachineClient]] = Operation("listClients", "GET", "/clients")
"""List machine clients"""
createClient: Operation[t.NewClient, t.ClientCreated] = Operation("createClient", "PUT", "/clients")
"""Create a machine client"""
getClient: Operation[None, t.MachineClient] = Operation("getClient", "GET", "/clients/{clientId}")
"""Get a machine client"""
updateClient: Operation[list[t.ClientPatch], None] = Operation("updateClient", "PATCH", "/clients/{clientId}")
"""Update a machine client"""
deleteClient: Operation[None, None] = Operation("deleteClient", "DELETE", "/clients/{clientId}")
"""Delete a machine client"""
listClientSecrets: Operation[None, list[t.ClientSecret]] = Operation("listClientSecrets", "GET", "/clients/{clientId}/secrets")
"""List the secrets of a client"""
createClientSecret: Operation[None, t.SecretCreated] = Operation("createClientSecret", "PUT", "/clients/{clientId}/secrets")
"""Create another secret of a client"""
deleteClientSecret: Operation[None, None] = Operation("deleteClientSecret", "DELETE", "/clients/{clientId}/secrets/{secretId}")
"""Delete a secret of a client"""
getMe: Operation[None, t.Me] = Operation("getMe", "GET", "/me")
"""Get the calling manager"""
listSessions: Operation[None, list[t.Session]] = Operation("listSessions", "GET", "/sessions")
"""List the browser sessions of the manager"""
endSessions: Operation[None, None] = Operation("endSessions", "DELETE", "/sessions")
"""End all sessions"""
setPreferences: Operation[t.Preferences, None] = Operation("setPreferences", "PUT", "/me/preferences")
"""Set the language, the time zone and the theme of the pages"""
changePassword: Operation[t.NewPassword, None] = Operation("changePassword", "PUT", "/me/password")
"""Change your password"""
endSession: Operation[None, None] = Operation("endSession", "DELETE", "/sessions/{sessionId}")
"""End a session"""
listIdentities: Operation[None, list[t.Identity]] = Operation("listIdentities", "GET", "/me/identities")
"""List connected accounts"""
disconnectIdentity: Operation[None, None] = Operation("disconnectIdentity", "DELETE", "/me/identities/{identityId}")
"""Disconnect an account"""
getFactors: Operation[None, t.Factors] = Operation("getFactors", "GET", "/me/factors")
"""Get the second factors of the calling manager"""
listPasskeys: Operation[None, list[t.Passkey]] = Operation("listPasskeys", "GET", "/me/passkeys")
"""List the passkeys of the manager"""
addPasskey: Operation[t.NewPasskey, t.PasskeyMade] = Operation("addPasskey", "PUT", "/me/passkeys")
"""Add a passkey"""
beginPasskey: Operation[None, t.PasskeyOptions] = Operation("beginPasskey", "POST", "/me/passkeys/options")
"""Begin to add a passkey"""
removePasskey: Operation[None, None] = Operation("removePasskey", "DELETE", "/me/passkeys/{passkeyId}")
"""Remove a passkey"""
confirmApp: Operation[t.Code, None] = Operation("confirmApp", "PUT", "/me/totp")
"""Confirm an authenticator app"""
beginApp: Operation[None, t.NewApp] = Operation("beginApp", "POST", "/me/totp")
"""Begin to set up an authenticator app"""
removeApp: Operation[None, None] = Operation("removeApp", "DELETE", "/me/totp")
"""Remove the authenticator app"""
renewRecoveryCodes: Operation[None, t.RecoveryCodes] = Operation("renewRecoveryCodes", "POST", "/me/recovery-codes")
"""Create ten recovery codes"""
getAbout: Operation[None, t.About] = Operation("getAbout", "GET", "/")
"""Get information about the server"""
getOpenApi: Operation[None, t.OpenApiDocument] = Operation("getOpenApi", "GET", "/openapi.json")
"""Get the OpenAPI document"""
getHealth: Operation[None, t.Healthy] = Operation("getHealth", "GET", "/health")
"""Check whether the server can read and write its database"""
getLiveness: Operation[None, t.Healthy] = Operation("getLiveness", "GET", "/health/live")
"""Check whether the process responds"""
getReadiness: Operation[None, t.Ready] = Operation("getReadiness", "GET", "/health/ready")
"""Check whether the server is ready, with all reasons and warnings"""

ALL: dict[str, Operation[Any, Any]] = {
    "getJwks": getJwks,
    "getOpenIdConfiguration": getOpenIdConfiguration,
    "getAuthorizationServer": getAuthorizationServer,
    "listCustomers": listCustomers,
    "getRetention": getRetention,
    "getDriverSettings": getDriverSettings,
    "setDriverSettings": setDriverSettings,
    "listCars": listCars,
    "createCar": createCar,
    "listAvailableCars": listAvailableCars,
    "getCar": getCar,
    "updateCar": updateCar,
    "deleteCar": deleteCar,
    "listProductsOfCar": listProductsOfCar,
    "getCarTelemetry": getCarTelemetry,
    "getCarLocation": getCarLocation,
    "getCarLocationAt": getCarLocationAt,
    "listAssignmentsOfCar": listAssignmentsOfCar,
    "listEventsOfCar": listEventsOfCar,
    "listUsers": listUsers,
    "createUser": createUser,
    "getUser": getUser,
    "updateUser": updateUser,
    "listAssignmentsOfUser": listAssignmentsOfUser,
    "addUserToCustomer": addUserToCustomer,
    "removeUserFromCustomer": removeUserFromCustomer,
    "previewErasure": previewErasure,
    "eraseUser": eraseUser,
    "listDevicesOfUser": listDevicesOfUser,
    "removeDeviceOfUser": removeDeviceOfUser,
    "forgetRemovedDevicesOfUser": forgetRemovedDevicesOfUser,
    "approveDeviceOfUser": approveDeviceOfUser,
    "inviteUserToApp": inviteUserToApp,
    "getAppAccessOfUser": getAppAccessOfUser,
    "withdrawAppAccessOfUser": withdrawAppAccessOfUser,
    "reportLostPhonesOfUser": reportLostPhonesOfUser,
    "listAssignments": listAssignments,
    "createAssignment": createAssignment,
    "getAssignment": getAssignment,
    "updateAssignment": updateAssignment,
    "deleteAssignment": deleteAssignment,
    "listHiddenAssignments": listHiddenAssignments,
    "getBookingSettings": getBookingSettings,
    "setBookingSettings": setBookingSettings,
    "getCarBookingSettings": getCarBookingSettings,
    "setCarBookingSettings": setCarBookingSettings,
    "listGroups": listGroups,
    "createGroup": createGroup,
    "getGroup": getGroup,
    "updateGroup": updateGroup,
    "deleteGroup": deleteGroup,
    "listCarsOfGroup": listCarsOfGroup,
    "addCarToGroup": addCarToGroup,
    "listUsersOfGroup": listUsersOfGroup,
    "addUserToGroup": addUserToGroup,
    "listServicesOfGroup": listServicesOfGroup,
    "addServiceToGroup": addServiceToGroup,
    "listProductsOfGroup": listProductsOfGroup,
    "addProductToGroup": addProductToGroup,
    "removeCarFromGroup": removeCarFromGroup,
    "removeUserFromGroup": removeUserFromGroup,
    "removeServiceFromGroup": removeServiceFromGroup,
    "removeProductFromGroup": removeProductFromGroup,
    "listProducts": listProducts,
    "getProduct": getProduct,
    "updateProduct": updateProduct,
    "getServiceOfProduct": getServiceOfProduct,
    "getCarOfProduct": getCarOfProduct,
    "listServices": listServices,
    "getService": getService,
    "getProductOfService": getProductOfService,
    "getContractOfService": getContractOfService,
    "installProduct": installProduct,
    "uninstallProduct": uninstallProduct,
    "pairService": pairService,
    "unpairService": unpairService,
    "listBrands": listBrands,
    "listKeys": listKeys,
    "listKeysOfBrand": listKeysOfBrand,
    "getSdkToken": getSdkToken,
    "beginRegistration": beginRegistration,
    "listOwnDevices": listOwnDevices,
    "registerDevice": registerDevice,
    "removeOwnDevice": removeOwnDevice,
    "getPhoneKeys": getPhoneKeys,
    "deliverBoxLog": deliverBoxLog,
    "getSignedTime": getSignedTime,
    "getEnrolledBox": getEnrolledBox,
    "enrolBox": enrolBox,
    "beginEnrolment": beginEnrolment,
    "undoEnrolment": undoEnrolment,
    "approveEnrolment": approveEnrolment,
    "getProvisioning": getProvisioning,
    "getStatusList": getStatusList,
    "listKeysOfCar": listKeysOfCar,
    "listEvents": listEvents,
    "createEvent": createEvent,
    "getEvent": getEvent,
    "deliverEvents": deliverEvents,
    "listChanges": listChanges,
    "getCheckpoint": getCheckpoint,
    "getChangeProof": getChangeProof,
    "getCarAccess": getCarAccess,
    "getUserAccess": getUserAccess,
    "deliverTelemetry": deliverTelemetry,
    "listPositions": listPositions,
    "getCarTrack": getCarTrack,
    "getCarSamples": getCarSamples,
    "listAssignmentRequests": listAssignmentRequests,
    "getAssignmentRequest": getAssignmentRequest,
    "decideAssignmentRequest": decideAssignmentRequest,
    "listOperations": listOperations,
    "getOperation": getOperation,
    "runBatch": runBatch,
    "listWebhookKinds": listWebhookKinds,
    "listWebhooks": listWebhooks,
    "createWebhook": createWebhook,
    "getWebhook": getWebhook,
    "updateWebhook": updateWebhook,
    "deleteWebhook": deleteWebhook,
    "listDeliveriesOfWebhook": listDeliveriesOfWebhook,
    "listDeliveries": listDeliveries,
    "rotateWebhookSecret": rotateWebhookSecret,
    "testWebhook": testWebhook,
    "replayDelivery": replayDelivery,
    "replayDeliveries": replayDeliveries,
    "listMessagesOfWebhook": listMessagesOfWebhook,
    "acknowledgeMessagesOfWebhook": acknowledgeMessagesOfWebhook,
    "listManagers": listManagers,
    "inviteManager": inviteManager,
    "getManager": getManager,
    "updateManager": updateManager,
    "removeManager": removeManager,
    "listInvitations": listInvitations,
    "withdrawInvitation": withdrawInvitation,
    "getFactorRules": getFactorRules,
    "setFactorRules": setFactorRules,
    "listClients": listClients,
    "createClient": createClient,
    "getClient": getClient,
    "updateClient": updateClient,
    "deleteClient": deleteClient,
    "listClientSecrets": listClientSecrets,
    "createClientSecret": createClientSecret,
    "deleteClientSecret": deleteClientSecret,
    "getMe": getMe,
    "listSessions": listSessions,
    "endSessions": endSessions,
    "setPreferences": setPreferences,
    "changePassword": changePassword,
    "endSession": endSession,
    "listIdentities": listIdentities,
    "disconnectIdentity": disconnectIdentity,
    "getFactors": getFactors,
    "listPasskeys": listPasskeys,
    "addPasskey": addPasskey,
    "beginPasskey": beginPasskey,
    "removePasskey": removePasskey,
    "confirmApp": confirmApp,
    "beginApp": beginApp,
    "removeApp": removeApp,
    "renewRecoveryCodes": renewRecoveryCodes,
    "getAbout": getAbout,
    "getOpenApi": getOpenApi,
    "getHealth": getHealth,
    "getLiveness": getLiveness,
    "getReadiness": getReadiness,
}
