"""Labels of the history of changes: kinds, fields, values and authors."""

from __future__ import annotations

from typing import NamedTuple

from keyrack.changelog.declared_tables import TABLES
from keyrack.console.forbidden import NAMES as ROLES
from keyrack.core.text import N_


class Words(NamedTuple):
    """The label and the sentence of a kind of change.

    The sentence has the placeholders `who` and `thing`, and those of its kind.
    """

    label: str
    sentence: str


class MemberLabel(NamedTuple):
    """The label of a field, and its name within a sentence."""

    label: str
    changed: str


ADDED, DELETED = N_("%(who)s added %(thing)s"), N_("%(who)s deleted %(thing)s")
REMOVED = N_("%(who)s removed %(thing)s")
CHANGED = N_("%(who)s changed %(members)s of %(thing)s")
INTO, OUT_OF = N_("%(who)s put %(thing)s into %(car)s"), N_("%(who)s took %(thing)s out of %(car)s")
JOINED, LEFT = N_("%(who)s added %(item)s to %(thing)s"), N_("%(who)s removed %(item)s from %(thing)s")
OTHER = Words(N_("Other change"), N_("%(who)s changed %(thing)s"))  # for a kind without words

KINDS = {
    "customer.created": Words(N_("Customer added"), N_("%(who)s added this customer")),
    "customer.updated": Words(N_("Customer changed"), N_("%(who)s changed %(members)s of this customer")),
    "customer.deleted": Words(N_("Customer deleted"), N_("%(who)s deleted this customer")),
    "car.created": Words(N_("Car added"), ADDED),
    "car.updated": Words(N_("Car changed"), CHANGED),
    "car.deleted": Words(N_("Car deleted"), DELETED),
    "user.created": Words(N_("Person added"), ADDED),
    "user.updated": Words(N_("Person changed"), CHANGED),
    "user.deleted": Words(N_("Person removed"), REMOVED),
    "product.created": Words(N_("Key box or tracker added"), ADDED),
    "product.updated": Words(N_("Key box or tracker changed"), CHANGED),
    "product.deleted": Words(N_("Key box or tracker removed"), REMOVED),
    "box.installed": Words(N_("Key box put in"), INTO),
    "box.uninstalled": Words(N_("Key box taken out"), OUT_OF),
    "iq.installed": Words(N_("Tracker put in"), INTO),
    "iq.uninstalled": Words(N_("Tracker taken out"), OUT_OF),
    "service.created": Words(N_("Service added"), ADDED),
    "service.updated": Words(N_("Service changed"), CHANGED),
    "service.deleted": Words(N_("Service removed"), REMOVED),
    "service.paired": Words(N_("Service paired"), N_("%(who)s paired %(thing)s with %(product)s")),
    "service.unpaired": Words(N_("Service unpaired"), N_("%(who)s unpaired %(thing)s from %(product)s")),
    "service.terminated": Words(N_("Service ended"), N_("%(who)s ended %(thing)s")),
    "contract.created": Words(N_("Contract added"), N_("%(who)s added the contract of %(thing)s")),
    "contract.updated": Words(N_("Contract changed"), N_("%(who)s changed %(members)s of the contract of %(thing)s")),
    "contract.deleted": Words(N_("Contract removed"), N_("%(who)s removed the contract of %(thing)s")),
    "assignment.created": Words(N_("Booking added"), N_("%(who)s booked %(car)s for %(user)s, %(times)s")),
    "assignment.updated": Words(
        N_("Booking changed"), N_("%(who)s changed %(members)s of the booking of %(car)s for %(user)s")
    ),
    "assignment.deleted": Words(N_("Booking deleted"), N_("%(who)s deleted the booking of %(car)s for %(user)s")),
    "group.created": Words(N_("Group added"), ADDED),
    "group.updated": Words(N_("Group changed"), CHANGED),
    "group.deleted": Words(N_("Group deleted"), DELETED),
    "group.carAdded": Words(N_("Car added to a group"), JOINED),
    "group.carRemoved": Words(N_("Car removed from a group"), LEFT),
    "group.productAdded": Words(N_("Key box or tracker added to a group"), JOINED),
    "group.productRemoved": Words(N_("Key box or tracker removed from a group"), LEFT),
    "group.serviceAdded": Words(N_("Service added to a group"), JOINED),
    "group.serviceRemoved": Words(N_("Service removed from a group"), LEFT),
    "group.userAdded": Words(N_("Person added to a group"), JOINED),
    "group.userRemoved": Words(N_("Person removed from a group"), LEFT),
    "webhook.created": Words(N_("Webhook added"), ADDED),
    "webhook.updated": Words(N_("Webhook changed"), CHANGED),
    "webhook.deleted": Words(N_("Webhook deleted"), DELETED),
    "deviceKey.created": Words(N_("Device key issued"), N_("%(who)s issued %(thing)s")),
    "deviceKey.updated": Words(N_("Device key changed"), CHANGED),
    "deviceKey.deleted": Words(N_("Device key removed"), REMOVED),
    "sdkKey.created": Words(N_("SDK key issued"), N_("%(who)s issued %(thing)s")),
    "sdkKey.updated": Words(N_("SDK key changed"), CHANGED),
    "sdkKey.deleted": Words(N_("SDK key removed"), REMOVED),
    "device.created": Words(N_("Phone registered"), N_("%(who)s registered %(thing)s")),
    "device.updated": Words(N_("Phone changed"), CHANGED),
    "device.approved": Words(N_("Phone approved"), N_("%(who)s approved %(thing)s")),
    "device.lost": Words(N_("Phone reported lost"), N_("%(who)s reported the loss of %(thing)s")),
    "device.deleted": Words(N_("Phone removed"), REMOVED),
    "key.issued": Words(N_("Key issued"), N_("%(who)s got a key to %(car)s")),
    "key.updated": Words(N_("Key changed"), N_("%(who)s changed %(members)s of a key to %(car)s")),
    "key.revoked": Words(N_("Key revoked"), N_("%(who)s revoked a key to %(car)s")),
    "key.deleted": Words(N_("Key record deleted"), N_("%(who)s deleted the record of an old key to %(car)s")),
    "enrolment.created": Words(N_("Key box enrolled"), N_("%(who)s enrolled %(product)s")),
    "enrolment.updated": Words(N_("Enrolment changed"), CHANGED),
    "enrolment.confirmed": Words(N_("Enrolment confirmed"), N_("The enrolment of %(product)s is now in use")),
    "enrolment.deleted": Words(N_("Enrolment removed"), N_("%(who)s removed the enrolment of %(product)s")),
    "boxReport.created": Words(N_("Invalid log of a key box"), N_("%(who)s uploaded an invalid log of %(product)s")),
    "boxReport.updated": Words(N_("Report on a log changed"), CHANGED),
    "boxReport.deleted": Words(N_("Report on a log removed"), N_("%(who)s removed a report on the log of %(product)s")),
    "keyAuthority.created": Words(N_("Key authority created"), N_("%(who)s created %(thing)s")),
    "keyAuthority.updated": Words(N_("Key authority changed"), CHANGED),
    "keyAuthority.deleted": Words(N_("Key authority removed"), REMOVED),
    "issuingKey.created": Words(N_("Issuing key created"), N_("%(who)s created %(thing)s")),
    "issuingKey.updated": Words(N_("Issuing key changed"), CHANGED),
    "issuingKey.deleted": Words(N_("Issuing key removed"), REMOVED),
    "serviceKey.created": Words(N_("Service key created"), N_("%(who)s created %(thing)s")),
    "serviceKey.updated": Words(N_("Service key changed"), CHANGED),
    "serviceKey.deleted": Words(N_("Service key removed"), REMOVED),
    "assignmentRequest.created": Words(N_("Request of a driver"), N_("%(who)s sent %(thing)s")),
    "assignmentRequest.granted": Words(N_("Request of a driver granted"), N_("%(who)s granted %(thing)s")),
    "assignmentRequest.rejected": Words(N_("Request of a driver rejected"), N_("%(who)s rejected %(thing)s")),
    "assignmentRequest.withdrawn": Words(N_("Request of a driver withdrawn"), N_("%(who)s withdrew %(thing)s")),
    "assignmentRequest.updated": Words(N_("Request of a driver changed"), CHANGED),
    "assignmentRequest.deleted": Words(N_("Request of a driver removed"), REMOVED),
    "manager.granted": Words(N_("Account added to the customer"), N_("%(who)s gave %(thing)s access to this customer")),
    "manager.updated": Words(N_("Account changed"), CHANGED),
    "manager.withdrawn": Words(
        N_("Account removed from the customer"), N_("%(who)s removed the access of %(thing)s to this customer")
    ),
    "role.granted": Words(N_("Role granted"), N_("%(who)s granted %(thing)s the role %(role)s")),
    "role.updated": Words(N_("Role changed"), CHANGED),
    "role.withdrawn": Words(N_("Role withdrawn"), N_("%(who)s withdrew the role %(role)s from %(thing)s")),
    "invitation.created": Words(N_("Person invited"), N_("%(who)s invited %(thing)s as %(role)s")),
    "invitation.updated": Words(N_("Invitation changed"), CHANGED),
    "invitation.deleted": Words(N_("Invitation ended"), N_("%(who)s ended the invitation of %(thing)s")),
    "client.created": Words(N_("Client created"), ADDED),
    "client.updated": Words(N_("Client changed"), CHANGED),
    "client.deleted": Words(N_("Client removed"), REMOVED),
    "scopes.granted": Words(N_("Permissions granted"), N_("%(who)s granted %(thing)s permissions")),
    "scopes.updated": Words(N_("Permissions changed"), CHANGED),
    "scopes.withdrawn": Words(N_("Permissions withdrawn"), N_("%(who)s withdrew the permissions of %(thing)s")),
    "clientSecret.created": Words(N_("Client secret created"), N_("%(who)s created %(thing)s")),
    "clientSecret.updated": Words(N_("Client secret changed"), CHANGED),
    "clientSecret.deleted": Words(N_("Client secret removed"), REMOVED),
    "factorRule.set": Words(N_("Second factor required"), N_("%(who)s required a second factor for %(thing)s")),
    "factorRule.lifted": Words(
        N_("Second factor no longer required"), N_("%(who)s no longer requires a second factor for %(thing)s")
    ),
    "permission.refused": Words(N_("Rejected"), N_("%(who)s lacked the permission for %(thing)s")),
}

# Resource -> its label, and its name in a sentence, with the label if the name alone is unclear
RESOURCES = {
    "customer": Words(N_("Customer"), "%(name)s"),
    "car": Words(N_("Car"), "%(name)s"),
    "user": Words(N_("Person"), "%(name)s"),
    "product": Words(N_("Key box or tracker"), "%(name)s"),
    "service": Words(N_("Service"), N_("service %(name)s")),
    "contract": Words(N_("Contract"), "%(name)s"),
    "assignment": Words(N_("Booking"), N_("booking %(name)s")),
    "group": Words(N_("Group"), N_("group %(name)s")),
    "webhook": Words(N_("Webhook"), N_("webhook %(name)s")),
    "deviceKey": Words(N_("Device key"), N_("device key %(name)s")),
    "sdkKey": Words(N_("SDK key"), N_("SDK key %(name)s")),
    "device": Words(N_("Phone"), N_("a phone")),  # its number means nothing to people
    "key": Words(N_("Key"), N_("a key")),
    "enrolment": Words(N_("Enrolment"), N_("enrolment %(name)s")),
    "boxReport": Words(N_("Report on the log of a key box"), N_("report %(name)s on the log of a key box")),
    "keyAuthority": Words(N_("Key authority"), N_("the key authority")),
    "issuingKey": Words(N_("Issuing key"), N_("issuing key %(name)s")),
    "serviceKey": Words(N_("Service key"), N_("service key %(name)s")),
    "assignmentRequest": Words(N_("Request of a driver"), N_("request %(name)s of a driver")),
    "manager": Words(N_("Account"), "%(name)s"),
    "role": Words(N_("Role"), N_("the account %(name)s")),
    "invitation": Words(N_("Invitation"), "%(name)s"),
    "client": Words(N_("Client"), N_("the client %(name)s")),
    "scopes": Words(N_("Permissions"), N_("the client %(name)s")),
    "clientSecret": Words(N_("Client secret"), N_("secret %(name)s of a client")),
    "factorRule": Words(N_("Second factor"), N_("the role %(name)s")),
    "permission": Words(N_("Permission"), "%(name)s"),
}

MEMBERS = {
    **{
        member.recorded_name: MemberLabel(member.info.label, member.info.in_sentence)
        for table in TABLES
        for member in table.members
    },
    "acceptedAddress": MemberLabel(N_("Accepted as"), N_("the address that accepted")),
    "acceptedProvider": MemberLabel(N_("Accepted with"), N_("the provider that accepted")),
    "approvesPhones": MemberLabel(N_("Phones need approval"), N_("the approval of phones")),
    "assignmentId": MemberLabel(N_("Booking"), N_("the booking")),
    "begins": MemberLabel(N_("Valid from"), N_("the start")),
    "clientId": MemberLabel(N_("Client"), N_("the client")),
    "invitedBy": MemberLabel(N_("Invited by"), N_("the inviting person")),
    "hasReturned": MemberLabel(N_("Returned"), N_("the return")),
    "isApproved": MemberLabel(N_("Approved"), N_("the approval")),
    "isCounted": MemberLabel(N_("Counts against the limit of keys"), N_("the count against the limit")),
    "isPending": MemberLabel(N_("Unconfirmed"), N_("the state")),
    "carId": MemberLabel(N_("Car"), N_("the car")),
    "changesDays": MemberLabel(N_("Retention of changes, in days"), N_("the retention of changes")),
    "count": MemberLabel(N_("Number of attempts"), N_("the number of attempts")),
    "decidedBy": MemberLabel(N_("Decided by"), N_("the decision")),
    "state": MemberLabel(N_("State"), N_("the state")),
    "bookingGap": MemberLabel(N_("Seconds between bookings"), N_("the gap between bookings")),
    "bookings": MemberLabel(N_("Kind of new bookings"), N_("the kind of new bookings")),
    "bookingsEnforced": MemberLabel(N_("Exclusive bookings enforced"), N_("the rule for shared bookings")),
    "deviceId": MemberLabel(N_("Phone"), N_("the phone")),
    "driverExtensionHours": MemberLabel(N_("Hours that drivers add without a decision"), N_("the rule for later ends")),
    "driverPhone": MemberLabel(N_("Phone number for drivers"), N_("the phone number for drivers")),
    "driverShowsPlace": MemberLabel(N_("Place of the car for drivers"), N_("the place of the car for drivers")),
    "epoch": MemberLabel(N_("Epoch"), N_("the epoch")),
    "exclusive": MemberLabel(N_("Exclusive"), N_("the exclusivity")),
    "freshness": MemberLabel(
        N_("Valid without contact to the server for"), N_("the validity without contact to the server")
    ),
    "historyDays": MemberLabel(N_("Retention of the history, in days"), N_("the retention of the history")),
    "isGateway": MemberLabel(N_("Gateway"), N_("the role as gateway")),
    "groups": MemberLabel(N_("Groups"), N_("the groups")),
    "isLost": MemberLabel(N_("Lost"), N_("the report of the loss")),
    "isLimited": MemberLabel(N_("Limited to groups"), N_("the group scope")),
    "issuingKeyId": MemberLabel(N_("Issuing key"), N_("the issuing key")),
    "keepsPositions": MemberLabel(N_("Keeps positions"), N_("the retention of positions")),
    "key": MemberLabel(N_("Key"), N_("the key")),
    "kind": MemberLabel(N_("Type"), N_("the type")),
    "link": MemberLabel(N_("Link"), N_("the link")),
    "lifetime": MemberLabel(N_("Key valid offline for"), N_("the offline validity of keys")),
    "managerId": MemberLabel(N_("Account"), N_("the account")),
    "needsSecondPerson": MemberLabel(N_("Second person for key boxes"), N_("the requirement of a second person")),
    "number": MemberLabel(N_("Number"), N_("the number of the entry")),
    "opensUncertain": MemberLabel(N_("Opens with an uncertain clock"), N_("the rule for an uncertain clock")),
    "otherPublicKey": MemberLabel(N_("Public key of another device"), N_("the public key of another device")),
    "password": MemberLabel(N_("Password"), N_("the password")),
    "privateKey": MemberLabel(N_("Private key"), N_("the private key")),
    "productId": MemberLabel(N_("Key box or tracker"), N_("the key box or tracker")),
    "protection": MemberLabel(N_("Claimed protection of its key"), N_("the claimed protection of its key")),
    "publicKey": MemberLabel(N_("Public key"), N_("the public key")),
    "provenBy": MemberLabel(N_("Address verified by"), N_("the verification of the address")),
    "renewableAfter": MemberLabel(N_("Renew after"), N_("the renewal of keys")),
    "revoked": MemberLabel(N_("Revoked at"), N_("the revocation")),
    "role": MemberLabel(N_("Role"), N_("the role")),
    "scopes": MemberLabel(N_("Permissions"), N_("the permissions")),
    "sequence": MemberLabel(N_("Number of the set of keys"), N_("the set of keys")),
    "serviceId": MemberLabel(N_("Service"), N_("the service")),
    "signingSecret": MemberLabel(N_("Signing secret"), N_("the signing secret")),
    "type": MemberLabel(N_("Type"), N_("the type")),
    "userId": MemberLabel(N_("Person"), N_("the person")),
    "username": MemberLabel(N_("User name"), N_("the user name")),
}

# Field -> the words of its values, if they are few
VALUES = {
    "role": {str(role): name for role, name in ROLES.items()},
    "protection": {
        "Software": N_("only software"),
        "TrustedEnvironment": N_("secure hardware"),
        "SecureElement": N_("a chip of its own"),
    },
    "kind": {
        "Fork": N_("two entries with one number"),
        "Break": N_("an entry that does not follow"),
        "Forgery": N_("entries that the key box did not sign"),
        "UnknownKey": N_("a key that was never issued"),
        "GivenUp": N_("overwritten entries"),
        "Late": N_("entries that arrived late"),
        "UnknownList": N_("a list that this server never signed"),
    },
}

# Type of author -> its label
ACTORS = {
    "manager": N_("Account"),
    "client": N_("Client"),
    "device": N_("Device"),
    "user": N_("Person"),
    "operator": N_("Operator"),
    "system": N_("Keyrack"),
}
# Parts of Keyrack that make changes
PARTS = {
    "worker": N_("The worker"),
    "server": N_("The server"),
    "housekeeping": N_("Clean-up"),
    "an older release": N_("An older release"),
    "upgrade": N_("An upgrade"),
}
