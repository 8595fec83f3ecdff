"""In charge of kinds: what can happen to a customer's things, as the log of changes and webhooks name it.

The triggers that record write these words (`db.migrations.frozen.audit_triggers_v1`); a test compares. Each begins with
a word of the domain, mostly the resource that it is about. A wildcard takes all of one word, or of one resource, those
of later releases too.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

ALL = ".*"  # how a wildcard ends
OUTCOMES = ("assignment.created", "assignment.updated", "assignment.deleted")
CHECKPOINT = "changes.checkpoint"
TEST = "webhook.test"
LONGEST = 60  # characters of what was given that a refusal shows, and that it is compared by
NEAREST = 3  # kinds that a refusal names

# Resource -> kind -> what it means. Of customers' logs; who deletes a customer deletes its webhooks along with it
RECORDED: Mapping[str, Mapping[str, str]] = {
    "customer": {
        "customer.created": "A customer was made.",
        "customer.updated": "The customer has another name, or keeps its history or positions otherwise.",
        "customer.deleted": "A customer was deleted.",
    },
    "car": {
        "car.created": "A car was added.",
        "car.updated": "A car has another name, description, VIN, license plate, brand or model.",
        "car.deleted": "A car was deleted.",
    },
    "user": {
        "user.created": "A person became a user of the customer.",
        "user.updated": "A user has another name, e-mail address, type or password.",
        "user.deleted": "A user was taken out of the customer.",
    },
    "product": {
        "product.created": "A box or a unit was added.",
        "product.updated": "Something else of a box or a unit has changed.",
        "product.deleted": "A box or a unit was deleted.",
        "box.installed": "A box was installed in a car.",
        "box.uninstalled": "A box was taken out of its car.",
        "iq.installed": "An IQ unit was installed in a car.",
        "iq.uninstalled": "An IQ unit was taken out of its car.",
    },
    "service": {
        "service.created": "A service was added.",
        "service.updated": "Something else of a service has changed.",
        "service.deleted": "A service was deleted.",
        "service.paired": "A service was paired with a product.",
        "service.unpaired": "A service is no longer paired with its product.",
        "service.terminated": "A service was terminated.",
    },
    "contract": {
        "contract.created": "The contract of a service was added.",
        "contract.updated": "The contract of a service has changed.",
        "contract.deleted": "The contract of a service was deleted.",
    },
    "assignment": {
        "assignment.created": "An assignment was created, or could not be.",
        "assignment.updated": "An assignment was changed, or could not be.",
        "assignment.deleted": "An assignment has ended, or could not be ended.",
    },
    "group": {
        "group.created": "A group was made.",
        "group.updated": "A group has another name.",
        "group.deleted": "A group was deleted.",
        "group.carAdded": "A car was put into a group.",
        "group.carRemoved": "A car was taken out of a group.",
        "group.productAdded": "A product was put into a group.",
        "group.productRemoved": "A product was taken out of a group.",
        "group.serviceAdded": "A service was put into a group.",
        "group.serviceRemoved": "A service was taken out of a group.",
        "group.userAdded": "A user was put into a group.",
        "group.userRemoved": "A user was taken out of a group.",
    },
    "webhook": {
        "webhook.created": "A webhook was registered.",
        "webhook.updated": "A webhook was changed: by somebody, or disabled by Keyrack.",
        "webhook.deleted": "A webhook was removed.",
    },
    "deviceKey": {
        "deviceKey.created": "A key of a device or a gateway was made.",
        "deviceKey.updated": "A key of a device or a gateway was changed or revoked.",
        "deviceKey.deleted": "A key of a device or a gateway was deleted.",
    },
    "sdkKey": {
        "sdkKey.created": "An SDK key was made.",
        "sdkKey.updated": "An SDK key was changed or revoked.",
        "sdkKey.deleted": "An SDK key was deleted.",
    },
    "device": {
        "device.created": "A user's phone was registered. It gets keys, unless a manager has to approve it first.",
        "device.updated": "A user's phone protects its key otherwise.",
        "device.approved": "A manager approved a user's phone, so that it gets keys.",
        "device.deleted": "A user's phone was removed.",
    },
    "key": {
        "key.issued": "A phone got a key that opens a box without a network.",
        "key.updated": "Something else of a key has changed.",
        "key.revoked": "A key was revoked: the box's status list says so.",
        "key.deleted": "What was known of an old key was forgotten.",
    },
    "enrolment": {
        "enrolment.created": "A box was enrolled, or its enrolment came back. It is pending beside a box at work.",
        "enrolment.updated": "Something of a box's enrolment has changed.",
        "enrolment.confirmed": "A pending enrolment of a box came into force, and the epoch before has ended.",
        "enrolment.deleted": "A pending enrolment was undone or replaced, or an enrolment was deleted with its box.",
    },
    "boxReport": {
        "boxReport.created": "Something is wrong with the log of a box.",
        "boxReport.updated": "A report on the log of a box was changed.",
        "boxReport.deleted": "A report on the log of a box went with the box.",
    },
    "keyAuthority": {
        "keyAuthority.created": "The customer got an authority for keys that open boxes without a network.",
        "keyAuthority.updated": "The authority has another set of keys, or the customer has chosen otherwise.",
        "keyAuthority.deleted": "The authority is gone: boxes have to be enrolled anew.",
    },
    "issuingKey": {
        "issuingKey.created": "The authority got another key that signs.",
        "issuingKey.updated": "A key of the authority was revoked.",
        "issuingKey.deleted": "A key of the authority was deleted.",
    },
    "serviceKey": {
        "serviceKey.created": "The authority got another key that signs times, receipts and provisionings.",
        "serviceKey.updated": "A service key of the authority was revoked.",
        "serviceKey.deleted": "A service key of the authority was deleted.",
    },
    "manager": {
        "manager.granted": "A manager may act for the customer.",
        "manager.withdrawn": "A manager may not act for the customer any more.",
    },
    "role": {
        "role.granted": "A manager got a role in the customer.",
        "role.updated": "A manager has another role in the customer, or another limit.",
        "role.withdrawn": "A manager has no role in the customer any more.",
    },
    "invitation": {
        "invitation.created": "Somebody was invited to act for the customer.",
        "invitation.updated": "An invitation was changed.",
        "invitation.deleted": "An invitation was accepted, withdrawn or replaced, or its time was over.",
    },
    "client": {
        "client.created": "A machine client was made.",
        "client.updated": "A machine client has another name or another end, or was disabled or enabled.",
        "client.deleted": "A machine client was removed.",
    },
    "scopes": {
        "scopes.granted": "A machine client may act for the customer, with some scopes.",
        "scopes.updated": "A machine client has other scopes in the customer.",
        "scopes.withdrawn": "A machine client may not act for the customer any more.",
    },
    "clientSecret": {
        "clientSecret.created": "A machine client got another secret.",
        "clientSecret.updated": "A secret of a machine client was changed.",
        "clientSecret.deleted": "A secret of a machine client was removed.",
    },
    "factorRule": {
        "factorRule.set": "A role needs a second factor.",
        "factorRule.lifted": "A role needs no second factor any more.",
    },
    "permission": {
        "permission.refused": "Somebody was refused what a permission is wanted for, so many times within a minute.",
    },
}
# The same of the log of the installation, which no webhook is told
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
# No webhook is there yet, or any more
UNTOLD = frozenset(("customer.created", "customer.deleted"))


@dataclass(frozen=True, slots=True)
class EventType:
    """What a webhook may take: of which resource, and what it means; of a wildcard the kinds that it stands for."""

    name: str
    resource: str
    meaning: str
    takes: tuple[str, ...] = ()


# What webhooks are told of the log of changes. Assignments are told as outcomes: their changes would say the same again
CHANGES: Mapping[str, EventType] = {
    name: EventType(name, resource, meaning)
    for resource, kinds in RECORDED.items()
    for name, meaning in kinds.items()
    if name not in UNTOLD and name not in OUTCOMES
}
_EXACT: Mapping[str, EventType] = {
    **{name: EventType(name, "assignment", RECORDED["assignment"][name]) for name in OUTCOMES},
    **CHANGES,
    CHECKPOINT: EventType(CHECKPOINT, "changes", "A new checkpoint proves the log of changes up to a number."),
}


def word(name: str) -> str:
    """What a kind begins with: box.installed -> box."""
    return name.partition(".")[0]


def wildcards(name: str, resource: str) -> tuple[str, ...]:
    """The wildcards that take a kind.

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
        wildcard, resource, f"All that begins with `{wildcard[:-1]}`{_also(wildcard, taken)}.", tuple(taken)
    )


def _also(wildcard: str, taken: Iterable[str]) -> str:
    others = dict.fromkeys(word(name) for name in taken if not name.startswith(wildcard[:-1]))
    return "".join(f" or `{other}.`" for other in others)


# What a webhook may take: kinds, and behind them wildcards
TAKEN: Mapping[str, EventType] = _EXACT | {name: _meant(name, taken) for name, taken in _taken().items()}
# What a delivery may be of
SENT = (*_EXACT, TEST)


def stored(kinds: Iterable[str]) -> list[str]:
    """Kinds as they are kept, in order and each once. `assignment.*` as what it takes: so do older releases, which know
    no wildcards, go on telling of assignments.

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
