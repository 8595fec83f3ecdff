"""The table of all endpoints, in the order of the spec's contents.

The type checker compares what each handler needs of the process with `ServeServices`, and names what is missing.
"""

from __future__ import annotations

from keyrack.api.endpoint import Endpoint
from keyrack.assignments.endpoints import assignments, batch, operations
from keyrack.auth.endpoints import clients, identities, managers, me, mfa, mfa_rules, oauth2, sdk_token, well_known
from keyrack.changelog.endpoints import access_history, changes, checkpoints, live
from keyrack.fleet.endpoints import (
    brands,
    cars,
    customers,
    erasure,
    groups,
    installations,
    pairings,
    products,
    retention,
    services,
    users,
)
from keyrack.http.endpoints import documents, health
from keyrack.http.services import ServeServices
from keyrack.offline_keys.endpoints import app_devices, app_keys, boxes, car_keys, status_lists, user_devices
from keyrack.telemetry.endpoints import events, ingest, positions
from keyrack.webhooks.endpoints import event_types, webhooks

MODULES = (
    oauth2, well_known, customers, retention, cars, users, erasure, user_devices, assignments, groups, products,
    services, installations, pairings, brands, sdk_token, app_devices, app_keys, boxes, status_lists, car_keys, events,
    changes, checkpoints, access_history, ingest, positions, operations, batch, event_types, webhooks, managers,
    mfa_rules, clients, live, me, identities, mfa, documents, health,
)  # fmt: skip
ALL: tuple[Endpoint[ServeServices], ...] = tuple(row for module in MODULES for row in module.endpoints.rows)
