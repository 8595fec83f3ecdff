"""Labels of event types, for webhook forms and deliveries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from keyrack.console.changes.labels import KINDS
from keyrack.core.text import N_
from keyrack.http.page_router import Visit

OUTCOMES = {
    "assignment.created": N_("New bookings"),
    "assignment.updated": N_("Changed bookings"),
    "assignment.deleted": N_("Ended bookings"),
}
# In the order of the form
EVERYTHING = {
    "customer.*": N_("Everything about the customer"),
    "car.*": N_("Everything about cars"),
    "user.*": N_("Everything about people"),
    "product.*": N_("Everything about key boxes and trackers"),
    "box.*": N_("Key boxes put in and taken out"),
    "iq.*": N_("Trackers put in and taken out"),
    "service.*": N_("Everything about services"),
    "contract.*": N_("Everything about contracts"),
    "group.*": N_("Everything about groups"),
    "event.*": N_("Everything about openings and closings"),
    "assignmentRequest.*": N_("Everything about requests of drivers"),
    "manager.*": N_("Everything about accounts"),
    "invitation.*": N_("Everything about invitations"),
    "role.*": N_("Everything about roles"),
    "scopes.*": N_("Everything about the permissions of clients"),
    "clientSecret.*": N_("Everything about secrets of clients"),
    "client.*": N_("Everything about clients"),
    "factorRule.*": N_("Everything about second factors"),
    "webhook.*": N_("Everything about webhooks"),
    "deviceKey.*": N_("Everything about device keys"),
    "sdkKey.*": N_("Everything about SDK keys"),
    "device.*": N_("Everything about phones"),
    "key.*": N_("Everything about keys on phones"),
    "enrolment.*": N_("Everything about enrolled key boxes"),
    "boxReport.*": N_("Everything about invalid logs of key boxes"),
    "keyAuthority.*": N_("Everything about the key authority"),
    "issuingKey.*": N_("Everything about issuing keys"),
    "serviceKey.*": N_("Everything about service keys"),
    "changes.*": N_("Everything about the history of changes"),
}
# Event types of a later release have no label, so pages show the API's name
NAMES: Mapping[str, str] = {
    **{kind: words.label for kind, words in KINDS.items()},
    **OUTCOMES,
    **EVERYTHING,
    "event.opened": N_("Car opened"),
    "event.closed": N_("Car closed"),
    "changes.checkpoint": N_("Checkpoint of the history of changes"),
    "webhook.test": N_("Test"),
}
ALL = ".*"


@dataclass(frozen=True, slots=True)
class Kinds:
    """The event types of `GET /webhooks/kinds`."""

    listed: Sequence[Mapping[str, Any]]

    def groups(self, chosen: Iterable[str]) -> list[list[str]]:
        """The event types to choose from, by resource except assignments.

        The wildcard for all is first, if there are several.

        Other wildcards are included only if they are chosen already.
        """
        kinds_by_resource: dict[str, list[str]] = {}
        for row in self.listed:
            kind, resource = row["kind"], row["resource"]
            if kind in OUTCOMES or kind == "assignment" + ALL:
                continue
            if row["isWildcard"] and kind not in chosen and (kind != resource + ALL or len(row["takes"]) == 1):
                continue
            kinds_by_resource.setdefault(resource, []).append(kind)
        return sorted((_everything_first(resource, group) for resource, group in kinds_by_resource.items()), key=_place)

    def sent(self, visit: Visit) -> list[str]:
        """The event types that the form chose. Those that a chosen wildcard includes are left out."""
        chosen = {row["kind"]: row["takes"] for row in self.listed if visit.form_value(row["kind"])}
        taken = {kind for takes in chosen.values() for kind in takes}
        return [kind for kind in chosen if kind not in taken]


def _everything_first(resource: str, group: list[str]) -> list[str]:
    return sorted(group, key=lambda kind: kind != resource + ALL)


def _place(group: Sequence[str]) -> int:
    order, everything = list(EVERYTHING), group[0].partition(".")[0] + ALL
    return order.index(everything) if everything in order else len(order)


async def kinds(visit: Visit) -> Kinds:
    """The event types of the server."""
    return Kinds((await visit.call("GET", "/webhooks/kinds")).json)
