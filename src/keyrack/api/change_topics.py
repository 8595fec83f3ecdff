"""In charge of which topics a write tells of: what somebody who shows them would see otherwise afterwards."""

from __future__ import annotations

from collections.abc import Mapping

from keyrack.api.batch_items import BatchItems
from keyrack.api.endpoint import Endpoint
from keyrack.db.change_notifier import NOTHING, Topic, Topics

OF_TAG: Mapping[str, frozenset[Topic]] = {
    "Cars": frozenset(("cars",)),
    "Users": frozenset(("users",)),
    "Assignments": frozenset(("operations",)),  # the assignments follow, when the operation is applied
    "Groups": frozenset(("groups",)),
    "Installations": frozenset(("cars", "products")),
    "Pairings": frozenset(("products", "services")),
    "Events": frozenset(("events",)),
    "Boxes": frozenset(("products",)),
    "Webhooks": frozenset(("webhooks", "deliveries")),
}
# Rows that change more than their tag says, or something else
OF_ROW: Mapping[str, frozenset[Topic]] = {
    "DELETE /cars/{carId}": frozenset(("cars", "products", "groups")),
    "DELETE /users/assignments/customers": frozenset(("users", "groups")),
    "POST /users/{userId}/erase": frozenset(("users", "groups")),
    "POST /boxes/{productId}/enrolment": NOTHING,  # a nonce changes nothing that is shown
    "PUT /sdk/devices": frozenset(("users",)),
    "DELETE /sdk/devices/{deviceId}": frozenset(("users",)),
    "PUT /sdk/boxlog": frozenset(("events", "products")),  # openings, and what is wrong with the log
    "POST /ingest/telemetry": NOTHING,  # `telemetry` tells what comes by MQTT as well
    "POST /batch": NOTHING,  # its items do
}


def topics(endpoint: Endpoint, value: object) -> Topics:
    """What this write tells of, `value` being its checked body; several in one tell of all that they are about."""
    if isinstance(value, BatchItems):
        return NOTHING.union(*[_of(item.endpoint) for item in value.items])
    return _of(endpoint)


def _of(endpoint: Endpoint) -> Topics:
    of_row = OF_ROW.get(f"{endpoint.method} {endpoint.path}")
    return of_row if of_row is not None else OF_TAG.get(endpoint.tag, NOTHING)
