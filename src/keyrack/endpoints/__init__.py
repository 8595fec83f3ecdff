"""In charge of the table of all endpoints, in the order of the spec's contents."""

from __future__ import annotations

from keyrack.api.endpoint import Endpoint
from keyrack.endpoints import (
    access,
    assignments,
    batch,
    box_status,
    boxes,
    brands,
    car_keys,
    cars,
    changes,
    checkpoints,
    clients,
    customers,
    documents,
    erasure,
    events,
    factor_rules,
    factors,
    groups,
    health,
    identities,
    ingest,
    installations,
    live,
    managers,
    me,
    oauth2,
    operations,
    pairings,
    positions,
    products,
    retention,
    sdk,
    sdk_devices,
    sdk_keys,
    services,
    user_devices,
    users,
    webhook_kinds,
    webhooks,
    well_known,
)

MODULES = (
    oauth2, well_known, customers, retention, cars, users, erasure, user_devices, assignments, groups, products,
    services, installations, pairings, brands, sdk, sdk_devices, sdk_keys, boxes, box_status, car_keys, events,
    changes, checkpoints, access, ingest, positions, operations, batch, webhook_kinds, webhooks, managers,
    factor_rules, clients, live, me, identities, factors, documents, health,
)  # fmt: skip
ALL: tuple[Endpoint, ...] = tuple(row for module in MODULES for row in module.endpoints.rows)
