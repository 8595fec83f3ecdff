"""Kinds in people's words: what a webhook may be told, and what a delivery was about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from keyrack.console.languages import N_
from keyrack.http.pages import Visit

OUTCOMES = {
    "assignment.created": N_("New assignments"),
    "assignment.updated": N_("Changed assignments"),
    "assignment.deleted": N_("Ended assignments"),
}
# In the order of the form; what a later release has beside them is shown as the API names it
NAMES: Mapping[str, str] = OUTCOMES | {
    "webhook.test": N_("Test"),
    "customer.*": N_("Everything about the customer"),
    "customer.updated": N_("Customer changed"),
    "car.*": N_("Everything about cars"),
    "car.created": N_("Car added"),
    "car.updated": N_("Car changed"),
    "car.deleted": N_("Car deleted"),
    "user.*": N_("Everything about users"),
    "user.created": N_("User added"),
    "user.updated": N_("User changed"),
    "user.deleted": N_("User removed"),
    "product.*": N_("Everything about boxes and units"),
    "product.created": N_("Box or unit added"),
    "product.updated": N_("Box or unit changed"),
    "product.deleted": N_("Box or unit removed"),
    "box.*": N_("Boxes installed and taken out"),
    "box.installed": N_("Box installed"),
    "box.uninstalled": N_("Box taken out"),
    "iq.*": N_("Units installed and taken out"),
    "iq.installed": N_("Unit installed"),
    "iq.uninstalled": N_("Unit taken out"),
    "service.*": N_("Everything about services"),
    "service.created": N_("Service added"),
    "service.updated": N_("Service changed"),
    "service.deleted": N_("Service removed"),
    "service.paired": N_("Service paired"),
    "service.unpaired": N_("Service unpaired"),
    "service.terminated": N_("Service ended"),
    "contract.*": N_("Everything about contracts"),
    "contract.created": N_("Contract added"),
    "contract.updated": N_("Contract changed"),
    "contract.deleted": N_("Contract removed"),
    "group.*": N_("Everything about groups"),
    "group.created": N_("Group added"),
    "group.updated": N_("Group changed"),
    "group.deleted": N_("Group deleted"),
    "group.carAdded": N_("Car added to a group"),
    "group.carRemoved": N_("Car taken out of a group"),
    "group.productAdded": N_("Box or unit added to a group"),
    "group.productRemoved": N_("Box or unit taken out of a group"),
    "group.serviceAdded": N_("Service added to a group"),
    "group.serviceRemoved": N_("Service taken out of a group"),
    "group.userAdded": N_("User added to a group"),
    "group.userRemoved": N_("User taken out of a group"),
    "manager.*": N_("Everything about managers"),
    "manager.granted": N_("Manager let in"),
    "manager.withdrawn": N_("Manager shut out"),
    "webhook.*": N_("Everything about webhooks"),
    "webhook.created": N_("Webhook added"),
    "webhook.updated": N_("Webhook changed"),
    "webhook.deleted": N_("Webhook deleted"),
    "deviceKey.*": N_("Everything about device keys"),
    "deviceKey.created": N_("Device key issued"),
    "deviceKey.updated": N_("Device key changed"),
    "deviceKey.deleted": N_("Device key removed"),
    "sdkKey.*": N_("Everything about SDK keys"),
    "sdkKey.created": N_("SDK key issued"),
    "sdkKey.updated": N_("SDK key changed"),
    "sdkKey.deleted": N_("SDK key removed"),
    "changes.*": N_("Everything about the log of changes"),
    "changes.checkpoint": N_("Checkpoint of the log of changes"),
}
ALL = ".*"


@dataclass(frozen=True, slots=True)
class Kinds:
    """The kinds that there are, as `GET /webhooks/kinds` lists them."""

    listed: Sequence[Mapping[str, Any]]

    def groups(self, chosen: Iterable[str]) -> list[list[str]]:
        """For each resource but assignments what can be chosen: everything first, where there is more than one. Other
        wildcards only where one is chosen already."""
        found: dict[str, list[str]] = {}
        for row in self.listed:
            kind, resource = row["kind"], row["resource"]
            if kind in OUTCOMES or kind == "assignment" + ALL:
                continue
            if row["isWildcard"] and kind not in chosen and (kind != resource + ALL or len(row["takes"]) == 1):
                continue
            found.setdefault(resource, []).append(kind)
        return sorted((_everything_first(resource, group) for resource, group in found.items()), key=_place)

    def sent(self, visit: Visit) -> list[str]:
        """What was chosen in the form; what a wildcard takes is not named beside it."""
        chosen = {row["kind"]: row["takes"] for row in self.listed if visit.sent(row["kind"])}
        taken = {kind for takes in chosen.values() for kind in takes}
        return [kind for kind in chosen if kind not in taken]


def _everything_first(resource: str, group: list[str]) -> list[str]:
    return sorted(group, key=lambda kind: kind != resource + ALL)


def _place(group: Sequence[str]) -> int:
    order = list(NAMES)
    return order.index(group[0]) if group[0] in NAMES else len(order)


async def kinds(visit: Visit) -> Kinds:
    """Those that there are."""
    return Kinds((await visit.call("GET", "/webhooks/kinds")).json)
