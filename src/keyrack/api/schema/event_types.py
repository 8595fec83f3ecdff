"""Event types of a customer's resources, for the change log and webhooks.

The recording triggers write the same names (`db.migrations.frozen.audit_triggers_v1`); a test compares them. Each name
begins with a domain word, mostly its resource. A wildcard includes all event types of one word or one resource, also
those of later releases.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

ALL = ".*"  # the suffix of a wildcard
OUTCOMES = ("assignment.created", "assignment.updated", "assignment.deleted")
CHECKPOINT = "changes.checkpoint"
TEST = "webhook.test"
LONGEST = 60  # maximum characters of a given name in an error and in the search for similar names
NEAREST = 3  # maximum number of event types that an error suggests

# Resource -> event type -> description, for the change logs of customers. Deleting a customer also deletes its webhooks
RECORDED: Mapping[str, Mapping[str, str]] = {
    "customer": {
        "customer.created": "A customer was created.",
        "customer.updated": (
            "The name of the customer, its retention of history or positions, or its settings for drivers were changed."
        ),
        "customer.deleted": "A customer was deleted.",
    },
    "car": {
        "car.created": "A car was created.",
        "car.updated": "The name, description, VIN, license plate, brand or model of a car was changed.",
        "car.deleted": "A car was deleted.",
    },
    "user": {
        "user.created": "A person was added to the customer as a user.",
        "user.updated": "The name, e-mail address, type or password of a user was changed.",
        "user.deleted": "A user was removed from the customer.",
    },
    "product": {
        "product.created": "A box or a unit was added.",
        "product.updated": "Another property of a box or a unit was changed.",
        "product.deleted": "A box or a unit was deleted.",
        "box.installed": "A box was installed in a car.",
        "box.uninstalled": "A box was uninstalled from its car.",
        "iq.installed": "An IQ unit was installed in a car.",
        "iq.uninstalled": "An IQ unit was uninstalled from its car.",
    },
    "service": {
        "service.created": "A service was added.",
        "service.updated": "Another property of a service was changed.",
        "service.deleted": "A service was deleted.",
        "service.paired": "A service was paired with a product.",
        "service.unpaired": "A service was unpaired from its product.",
        "service.terminated": "A service was terminated.",
    },
    "contract": {
        "contract.created": "The contract of a service was added.",
        "contract.updated": "The contract of a service was changed.",
        "contract.deleted": "The contract of a service was deleted.",
    },
    "assignment": {
        "assignment.created": "An assignment was created, or its creation failed.",
        "assignment.updated": "An assignment was updated, or its update failed.",
        "assignment.deleted": "An assignment was ended, or its end failed.",
    },
    "group": {
        "group.created": "A group was created.",
        "group.updated": "A group was renamed.",
        "group.deleted": "A group was deleted.",
        "group.carAdded": "A car was added to a group.",
        "group.carRemoved": "A car was removed from a group.",
        "group.productAdded": "A product was added to a group.",
        "group.productRemoved": "A product was removed from a group.",
        "group.serviceAdded": "A service was added to a group.",
        "group.serviceRemoved": "A service was removed from a group.",
        "group.userAdded": "A user was added to a group.",
        "group.userRemoved": "A user was removed from a group.",
    },
    "assignmentRequest": {
        "assignmentRequest.created": "A driver asked to extend an assignment, or ended it early.",
        "assignmentRequest.granted": "A driver's request was granted. The event of its assignment follows.",
        "assignmentRequest.rejected": "A driver's request was rejected.",
        "assignmentRequest.withdrawn": "A driver withdrew a request.",
        "assignmentRequest.updated": "A driver replaced an open request by another one.",
        "assignmentRequest.deleted": "An old request of a driver was deleted, or its user left the customer.",
    },
    "webhook": {
        "webhook.created": "A webhook was created.",
        "webhook.updated": "A webhook was changed by a caller, or disabled by Keyrack.",
        "webhook.deleted": "A webhook was deleted.",
    },
    "deviceKey": {
        "deviceKey.created": "A key of a device or a gateway was created.",
        "deviceKey.updated": "A key of a device or a gateway was changed or revoked.",
        "deviceKey.deleted": "A key of a device or a gateway was deleted.",
    },
    "sdkKey": {
        "sdkKey.created": "An SDK key was created.",
        "sdkKey.updated": "An SDK key was changed or revoked.",
        "sdkKey.deleted": "An SDK key was deleted.",
    },
    "device": {
        "device.created": "A phone of a user was registered. It gets keys, unless a manager must approve it first.",
        "device.updated": "The key protection of a user's phone was changed.",
        "device.approved": "A manager approved a phone of a user, which now gets keys.",
        "device.lost": "A user's phone was reported lost. `device.deleted` follows at once.",
        "device.deleted": "A user's phone was removed.",
    },
    "key": {
        "key.issued": "A key that opens a box without a network was issued to a phone.",
        "key.updated": "Another property of a key was changed.",
        "key.revoked": "A key was revoked, in the status list of its box.",
        "key.deleted": "The data of an old key was deleted.",
    },
    "enrolment": {
        "enrolment.created": "A box was enrolled, or its enrolment came back. It is pending if the box is in use.",
        "enrolment.updated": "The enrolment of a box was changed.",
        "enrolment.confirmed": "A pending enrolment of a box came into force, and the previous epoch ended.",
        "enrolment.deleted": "A pending enrolment was undone or replaced, or an enrolment was deleted with its box.",
    },
    "boxReport": {
        "boxReport.created": "A fault in the log of a box was reported.",
        "boxReport.updated": "A report on the log of a box was changed.",
        "boxReport.deleted": "A report on the log of a box was deleted with the box.",
    },
    "keyAuthority": {
        "keyAuthority.created": "An authority for keys that open boxes without a network was created for the customer.",
        "keyAuthority.updated": "The key set of the authority, or the customer's key policy, was changed.",
        "keyAuthority.deleted": "The authority was deleted. Boxes must be enrolled again.",
    },
    "issuingKey": {
        "issuingKey.created": "An issuing key of the authority was created.",
        "issuingKey.updated": "An issuing key of the authority was revoked.",
        "issuingKey.deleted": "An issuing key of the authority was deleted.",
    },
    "serviceKey": {
        "serviceKey.created": "A service key of the authority, for times, receipts and provisionings, was created.",
        "serviceKey.updated": "A service key of the authority was revoked.",
        "serviceKey.deleted": "A service key of the authority was deleted.",
    },
    "manager": {
        "manager.granted": "A manager got access to the customer.",
        "manager.withdrawn": "A manager lost access to the customer.",
    },
    "role": {
        "role.granted": "A manager got a role in the customer.",
        "role.updated": "The role or the group limit of a manager in the customer was changed.",
        "role.withdrawn": "A manager lost the role in the customer.",
    },
    "invitation": {
        "invitation.created": "A person was invited to act for the customer.",
        "invitation.updated": "An invitation was changed.",
        "invitation.deleted": "An invitation was accepted, withdrawn or replaced, or it expired.",
    },
    "client": {
        "client.created": "A machine client was created.",
        "client.updated": "The name or the expiry of a machine client was changed, or it was disabled or enabled.",
        "client.deleted": "A machine client was deleted.",
    },
    "scopes": {
        "scopes.granted": "A machine client got access to the customer, with scopes.",
        "scopes.updated": "The scopes of a machine client in the customer were changed.",
        "scopes.withdrawn": "A machine client lost access to the customer.",
    },
    "clientSecret": {
        "clientSecret.created": "A secret of a machine client was created.",
        "clientSecret.updated": "A secret of a machine client was changed.",
        "clientSecret.deleted": "A secret of a machine client was deleted.",
    },
    "factorRule": {
        "factorRule.set": "A second factor was made mandatory for a role.",
        "factorRule.lifted": "A second factor is no longer mandatory for a role.",
    },
    "permission": {
        "permission.refused": "Requests were rejected because a permission is missing. The change has their number.",
    },
}
# Event types of the installation's log, which no webhook receives
INSTALLATION: Mapping[str, tuple[str, ...]] = {
    "manager": ("manager.created", "manager.updated", "manager.deleted"),
    "passkey": ("passkey.created", "passkey.updated", "passkey.deleted"),
    "totp": ("totp.created", "totp.updated", "totp.deleted", "totp.wrongCodes"),
    "recovery": ("recovery.created", "recovery.updated", "recovery.deleted"),
    "provider": (
        "provider.created",
        "provider.updated",
        "provider.deleted",
        "provider.domainAdded",
        "provider.domainRemoved",
    ),
    "identity": ("identity.created", "identity.updated", "identity.deleted"),
    "apiKey": ("apiKey.created", "apiKey.updated", "apiKey.deleted"),
    "signingKey": ("signingKey.created", "signingKey.updated", "signingKey.deleted"),
    "brandKey": ("brandKey.created", "brandKey.updated", "brandKey.deleted"),
    "keyForm": ("keyForm.created", "keyForm.updated", "keyForm.deleted"),
}
# The customer has no webhooks yet, or no longer
NOT_FOR_WEBHOOKS = frozenset(("customer.created", "customer.deleted"))


@dataclass(frozen=True, slots=True)
class EventType:
    """An event type or a wildcard: its resource and description, and the event types of a wildcard."""

    name: str
    resource: str
    meaning: str
    takes: tuple[str, ...] = ()


# Event types of the change log for webhooks. Assignments are reported as outcomes, so their changes are excluded
CHANGES: Mapping[str, EventType] = {
    name: EventType(name, resource, meaning)
    for resource, kinds in RECORDED.items()
    for name, meaning in kinds.items()
    if name not in NOT_FOR_WEBHOOKS and name not in OUTCOMES
}
# Openings and closings. Their resource is not the car: `car.*` must not include them
OPENED, CLOSED = "event.opened", "event.closed"
EVENTS: Mapping[str, EventType] = {
    OPENED: EventType(OPENED, "event", "A user opened a car. The event may be reported days later."),
    CLOSED: EventType(CLOSED, "event", "A user closed a car. The event may be reported days later."),
}
_EXACT: Mapping[str, EventType] = {
    **{name: EventType(name, "assignment", RECORDED["assignment"][name]) for name in OUTCOMES},
    **CHANGES,
    **EVENTS,
    CHECKPOINT: EventType(CHECKPOINT, "changes", "A new checkpoint proves the change log up to a number."),
}


def word(name: str) -> str:
    """The first word of an event type: box.installed -> box."""
    return name.partition(".")[0]


def wildcards(name: str, resource: str) -> tuple[str, ...]:
    """The wildcards that include an event type.

    >>> wildcards("box.installed", "product")
    ('box.*', 'product.*')
    """
    return tuple(dict.fromkeys((word(name) + ALL, resource + ALL)))


def _taken() -> dict[str, list[str]]:
    names_by_wildcard: dict[str, list[str]] = {}
    for kind in _EXACT.values():
        for wildcard in wildcards(kind.name, kind.resource):
            names_by_wildcard.setdefault(wildcard, []).append(kind.name)
    return names_by_wildcard


def _meant(wildcard: str, taken: list[str]) -> EventType:
    resource = _EXACT[taken[0]].resource
    return EventType(
        wildcard, resource, f"All event types that begin with `{wildcard[:-1]}`{_also(wildcard, taken)}.", tuple(taken)
    )


def _also(wildcard: str, taken: Iterable[str]) -> str:
    others = dict.fromkeys(word(name) for name in taken if not name.startswith(wildcard[:-1]))
    return "".join(f" or `{other}.`" for other in others)


# Valid values for `kinds` of a webhook: event types, then wildcards
TAKEN: Mapping[str, EventType] = _EXACT | {name: _meant(name, taken) for name, taken in _taken().items()}
# The event types of deliveries
SENT = (*_EXACT, TEST)


def stored(kinds: Iterable[str]) -> list[str]:
    """Event types as stored: sorted, without duplicates.

    `assignment.*` is stored as its event types, because older releases know no wildcards.

    >>> stored(["car.*", "assignment.*", "car.*"])
    ['assignment.created', 'assignment.deleted', 'assignment.updated', 'car.*']
    """
    every = "assignment" + ALL
    return sorted({kind for name in kinds for kind in (OUTCOMES if name == every else (name,))})


def check(name: str) -> str:
    """The name of an event type or a wildcard. Raises `ValueError` with the nearest names."""
    if name in TAKEN:
        return name
    given = name[:LONGEST]
    near = difflib.get_close_matches(given, TAKEN, NEAREST, 0.5)
    if near:
        raise ValueError(f"{given!r} is not an event type. Did you mean {_listed(near)}?")
    raise ValueError(f"{given!r} is not an event type. `GET /webhooks/kinds` lists the event types.")


def _listed(names: list[str]) -> str:
    quoted = [f"'{name}'" for name in names]
    return quoted[0] if len(quoted) == 1 else ", ".join(quoted[:-1]) + " or " + quoted[-1]
