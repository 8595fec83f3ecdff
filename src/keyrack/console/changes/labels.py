"""In charge of the words of the log of changes: what each kind, each member and whoever acts is called by people."""

from __future__ import annotations

from typing import NamedTuple

from keyrack.changelog.declared_tables import TABLES
from keyrack.console.forbidden import NAMES as ROLES
from keyrack.core.text import N_


class Words(NamedTuple):
    """What a kind of change is called, and the sentence that tells of one. Its places are filled with `who` did it, the
    `thing` that it was done to, and of some kinds what else it is about."""

    label: str
    sentence: str


class MemberLabel(NamedTuple):
    """What a member is called in a table, and within a sentence, as what was changed."""

    label: str
    changed: str


ADDED, DELETED = N_("%(who)s added %(thing)s"), N_("%(who)s deleted %(thing)s")
REMOVED = N_("%(who)s removed %(thing)s")
CHANGED = N_("%(who)s changed %(members)s of %(thing)s")
INTO, OUT_OF = N_("%(who)s installed %(thing)s in %(car)s"), N_("%(who)s took %(thing)s out of %(car)s")
JOINED, LEFT = N_("%(who)s added %(item)s to %(thing)s"), N_("%(who)s took %(item)s out of %(thing)s")
OTHER = Words(N_("Other change"), N_("%(who)s changed %(thing)s"))  # of a kind that there are no words for yet

KINDS = {
    "customer.created": Words(N_("Customer added"), N_("%(who)s added this customer")),
    "customer.updated": Words(N_("Customer changed"), N_("%(who)s changed %(members)s of this customer")),
    "customer.deleted": Words(N_("Customer deleted"), N_("%(who)s deleted this customer")),
    "car.created": Words(N_("Car added"), ADDED),
    "car.updated": Words(N_("Car changed"), CHANGED),
    "car.deleted": Words(N_("Car deleted"), DELETED),
    "user.created": Words(N_("User added"), ADDED),
    "user.updated": Words(N_("User changed"), CHANGED),
    "user.deleted": Words(N_("User removed"), REMOVED),
    "product.created": Words(N_("Box or unit added"), ADDED),
    "product.updated": Words(N_("Box or unit changed"), CHANGED),
    "product.deleted": Words(N_("Box or unit removed"), REMOVED),
    "box.installed": Words(N_("Box installed"), INTO),
    "box.uninstalled": Words(N_("Box taken out"), OUT_OF),
    "iq.installed": Words(N_("Unit installed"), INTO),
    "iq.uninstalled": Words(N_("Unit taken out"), OUT_OF),
    "service.created": Words(N_("Service added"), ADDED),
    "service.updated": Words(N_("Service changed"), CHANGED),
    "service.deleted": Words(N_("Service removed"), REMOVED),
    "service.paired": Words(N_("Service paired"), N_("%(who)s gave %(thing)s to %(product)s")),
    "service.unpaired": Words(N_("Service unpaired"), N_("%(who)s took %(thing)s from %(product)s")),
    "service.terminated": Words(N_("Service ended"), N_("%(who)s ended %(thing)s")),
    "contract.created": Words(N_("Contract added"), N_("%(who)s added the contract of %(thing)s")),
    "contract.updated": Words(N_("Contract changed"), N_("%(who)s changed %(members)s of the contract of %(thing)s")),
    "contract.deleted": Words(N_("Contract removed"), N_("%(who)s removed the contract of %(thing)s")),
    "assignment.created": Words(N_("Assignment begun"), N_("%(who)s assigned %(car)s to %(user)s, %(times)s")),
    "assignment.updated": Words(
        N_("Assignment changed"), N_("%(who)s changed %(members)s of the assignment of %(car)s to %(user)s")
    ),
    "assignment.deleted": Words(N_("Assignment deleted"), N_("%(who)s deleted the assignment of %(car)s to %(user)s")),
    "group.created": Words(N_("Group added"), ADDED),
    "group.updated": Words(N_("Group changed"), CHANGED),
    "group.deleted": Words(N_("Group deleted"), DELETED),
    "group.carAdded": Words(N_("Car added to a group"), JOINED),
    "group.carRemoved": Words(N_("Car taken out of a group"), LEFT),
    "group.productAdded": Words(N_("Box or unit added to a group"), JOINED),
    "group.productRemoved": Words(N_("Box or unit taken out of a group"), LEFT),
    "group.serviceAdded": Words(N_("Service added to a group"), JOINED),
    "group.serviceRemoved": Words(N_("Service taken out of a group"), LEFT),
    "group.userAdded": Words(N_("User added to a group"), JOINED),
    "group.userRemoved": Words(N_("User taken out of a group"), LEFT),
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
    "device.deleted": Words(N_("Phone removed"), REMOVED),
    "key.issued": Words(N_("Key issued"), N_("%(who)s got a key to %(car)s")),
    "key.updated": Words(N_("Key changed"), N_("%(who)s changed %(members)s of a key to %(car)s")),
    "key.revoked": Words(N_("Key revoked"), N_("%(who)s revoked a key to %(car)s")),
    "key.deleted": Words(N_("Key forgotten"), N_("%(who)s forgot an old key to %(car)s")),
    "enrolment.created": Words(N_("Box enrolled"), N_("%(who)s enrolled %(product)s")),
    "enrolment.updated": Words(N_("Enrolment changed"), CHANGED),
    "enrolment.confirmed": Words(N_("Enrolment confirmed"), N_("The enrolment of %(product)s came into force")),
    "enrolment.deleted": Words(N_("Enrolment removed"), N_("%(who)s removed the enrolment of %(product)s")),
    "boxReport.created": Words(N_("Wrong log of a box"), N_("%(who)s brought a log of %(product)s that is wrong")),
    "boxReport.updated": Words(N_("Report on a log changed"), CHANGED),
    "boxReport.deleted": Words(N_("Report on a log removed"), N_("%(who)s removed a report on the log of %(product)s")),
    "keyAuthority.created": Words(N_("Authority for keys made"), N_("%(who)s made %(thing)s")),
    "keyAuthority.updated": Words(N_("Authority for keys changed"), CHANGED),
    "keyAuthority.deleted": Words(N_("Authority for keys removed"), REMOVED),
    "issuingKey.created": Words(N_("Issuing key made"), N_("%(who)s made %(thing)s")),
    "issuingKey.updated": Words(N_("Issuing key changed"), CHANGED),
    "issuingKey.deleted": Words(N_("Issuing key removed"), REMOVED),
    "serviceKey.created": Words(N_("Service key made"), N_("%(who)s made %(thing)s")),
    "serviceKey.updated": Words(N_("Service key changed"), CHANGED),
    "serviceKey.deleted": Words(N_("Service key removed"), REMOVED),
    "manager.granted": Words(N_("Manager let in"), N_("%(who)s let %(thing)s act for this customer")),
    "manager.updated": Words(N_("Manager changed"), CHANGED),
    "manager.withdrawn": Words(N_("Manager shut out"), N_("%(who)s lets %(thing)s no longer act for this customer")),
    "role.granted": Words(N_("Role given"), N_("%(who)s gave %(thing)s the role %(role)s")),
    "role.updated": Words(N_("Role changed"), CHANGED),
    "role.withdrawn": Words(N_("Role withdrawn"), N_("%(who)s took the role %(role)s of %(thing)s away")),
    "invitation.created": Words(N_("Manager invited"), N_("%(who)s invited %(thing)s as %(role)s")),
    "invitation.updated": Words(N_("Invitation changed"), CHANGED),
    "invitation.deleted": Words(N_("Invitation over"), N_("The invitation of %(thing)s is over, by %(who)s")),
    "client.created": Words(N_("Client made"), ADDED),
    "client.updated": Words(N_("Client changed"), CHANGED),
    "client.deleted": Words(N_("Client removed"), REMOVED),
    "scopes.granted": Words(N_("Scopes given"), N_("%(who)s gave %(thing)s scopes")),
    "scopes.updated": Words(N_("Scopes changed"), CHANGED),
    "scopes.withdrawn": Words(N_("Scopes withdrawn"), N_("%(who)s took the scopes of %(thing)s away")),
    "clientSecret.created": Words(N_("Client secret made"), N_("%(who)s made %(thing)s")),
    "clientSecret.updated": Words(N_("Client secret changed"), CHANGED),
    "clientSecret.deleted": Words(N_("Client secret removed"), REMOVED),
    "factorRule.set": Words(N_("Second factor needed"), N_("%(who)s made a second factor needed for %(thing)s")),
    "factorRule.lifted": Words(N_("Second factor not needed"), N_("%(who)s lifted the second factor of %(thing)s")),
    "permission.refused": Words(N_("Refused"), N_("%(who)s was refused what needs %(thing)s")),
}

# Resource -> the word for one, and its name with the word where that is needed to tell what it is
RESOURCES = {
    "customer": Words(N_("Customer"), "%(name)s"),
    "car": Words(N_("Car"), "%(name)s"),
    "user": Words(N_("User"), "%(name)s"),
    "product": Words(N_("Box or unit"), "%(name)s"),
    "service": Words(N_("Service"), N_("service %(name)s")),
    "contract": Words(N_("Contract"), "%(name)s"),
    "assignment": Words(N_("Assignment"), N_("assignment %(name)s")),
    "group": Words(N_("Group"), N_("group %(name)s")),
    "webhook": Words(N_("Webhook"), N_("webhook %(name)s")),
    "deviceKey": Words(N_("Device key"), N_("device key %(name)s")),
    "sdkKey": Words(N_("SDK key"), N_("SDK key %(name)s")),
    "device": Words(N_("Phone"), N_("a phone")),  # whose number says nothing to people
    "key": Words(N_("Key"), N_("a key")),
    "enrolment": Words(N_("Enrolment"), N_("enrolment %(name)s")),
    "boxReport": Words(N_("Report on the log of a box"), N_("report %(name)s on the log of a box")),
    "keyAuthority": Words(N_("Authority for keys"), N_("the authority for keys")),
    "issuingKey": Words(N_("Issuing key"), N_("issuing key %(name)s")),
    "serviceKey": Words(N_("Service key"), N_("service key %(name)s")),
    "manager": Words(N_("Manager"), "%(name)s"),
    "role": Words(N_("Role"), N_("the manager %(name)s")),
    "invitation": Words(N_("Invitation"), "%(name)s"),
    "client": Words(N_("Client"), N_("the client %(name)s")),
    "scopes": Words(N_("Scopes"), N_("the client %(name)s")),
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
    "approvesPhones": MemberLabel(N_("Managers approve phones"), N_("the approval of phones")),
    "assignmentId": MemberLabel(N_("Assignment"), N_("the assignment")),
    "begins": MemberLabel(N_("Good from"), N_("the beginning")),
    "clientId": MemberLabel(N_("Client"), N_("the client")),
    "invitedBy": MemberLabel(N_("Invited by"), N_("who invited")),
    "hasReturned": MemberLabel(N_("Came back"), N_("whether it came back")),
    "isApproved": MemberLabel(N_("Approved"), N_("the approval")),
    "isCounted": MemberLabel(N_("Counts against the limit of keys"), N_("whether it counts")),
    "isPending": MemberLabel(N_("Pending"), N_("the state")),
    "carId": MemberLabel(N_("Car"), N_("the car")),
    "changesDays": MemberLabel(N_("Days that changes are kept"), N_("the days of changes")),
    "count": MemberLabel(N_("How often"), N_("the number")),
    "deviceId": MemberLabel(N_("Phone"), N_("the phone")),
    "epoch": MemberLabel(N_("Epoch"), N_("the epoch")),
    "freshness": MemberLabel(N_("Good without word from the server"), N_("the time without word from the server")),
    "historyDays": MemberLabel(N_("Days that history is kept"), N_("the days of history")),
    "isGateway": MemberLabel(N_("Gateway"), N_("the role as gateway")),
    "groups": MemberLabel(N_("Groups"), N_("the groups")),
    "isLimited": MemberLabel(N_("Limited to groups"), N_("the limit")),
    "issuingKeyId": MemberLabel(N_("Issuing key"), N_("the issuing key")),
    "keepsPositions": MemberLabel(N_("Keeps positions"), N_("the keeping of positions")),
    "key": MemberLabel(N_("Key"), N_("the key")),
    "kind": MemberLabel(N_("Kind"), N_("the kind")),
    "link": MemberLabel(N_("Link"), N_("the link")),
    "lifetime": MemberLabel(N_("Lifetime of its keys"), N_("the lifetime of the keys")),
    "managerId": MemberLabel(N_("Manager"), N_("the manager")),
    "needsSecondPerson": MemberLabel(N_("A second person for boxes"), N_("the need for a second person")),
    "number": MemberLabel(N_("Number"), N_("the number of the entry")),
    "opensUncertain": MemberLabel(N_("Opens while its clock is uncertain"), N_("what an uncertain clock means")),
    "otherPublicKey": MemberLabel(N_("Public key that is not its own"), N_("its public key, which is not its own")),
    "password": MemberLabel(N_("Password"), N_("the password")),
    "privateKey": MemberLabel(N_("Private key"), N_("the private key")),
    "productId": MemberLabel(N_("Box or unit"), N_("the box or unit")),
    "protection": MemberLabel(N_("Claimed protection of its key"), N_("the claimed protection of its key")),
    "publicKey": MemberLabel(N_("Public key"), N_("the public key")),
    "provenBy": MemberLabel(N_("Address proven by"), N_("the proof of the address")),
    "renewableAfter": MemberLabel(N_("Keys renewable after"), N_("the renewal of the keys")),
    "revoked": MemberLabel(N_("Revoked at"), N_("the revocation")),
    "role": MemberLabel(N_("Role"), N_("the role")),
    "scopes": MemberLabel(N_("Rights"), N_("the rights")),
    "sequence": MemberLabel(N_("Number of the set of keys"), N_("the set of keys")),
    "serviceId": MemberLabel(N_("Service"), N_("the service")),
    "signingSecret": MemberLabel(N_("Signing secret"), N_("the signing secret")),
    "type": MemberLabel(N_("Type"), N_("the type")),
    "userId": MemberLabel(N_("User"), N_("the user")),
    "username": MemberLabel(N_("User name"), N_("the user name")),
}

# Member -> the words for its values, where they are few
VALUES = {
    "role": {str(role): name for role, name in ROLES.items()},
    "protection": {
        "Software": N_("software alone"),
        "TrustedEnvironment": N_("secure hardware"),
        "SecureElement": N_("a chip of its own"),
    },
    "kind": {
        "Fork": N_("two entries with one number"),
        "Break": N_("an entry that does not follow"),
        "Forgery": N_("entries that the box has not signed"),
        "UnknownKey": N_("a key that was never issued"),
        "GivenUp": N_("entries that were written over"),
        "Late": N_("entries that arrived late"),
        "UnknownList": N_("a list that was never signed here"),
    },
}

# Type of who acts -> the word for one
ACTORS = {
    "manager": N_("Manager"),
    "client": N_("Client"),
    "device": N_("Device"),
    "user": N_("User"),
    "operator": N_("Operator"),
    "system": N_("Keyrack"),
}
# Parts of Keyrack that act by themselves
PARTS = {
    "worker": N_("The worker"),
    "server": N_("The server"),
    "housekeeping": N_("Housekeeping"),
    "an older release": N_("An older release"),
    "upgrade": N_("An upgrade"),
}
