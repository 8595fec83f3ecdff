"""The table of all endpoints, in the order of the spec.

The type checker compares the services that a handler needs with `ServeServices`, and reports missing ones.
"""

from __future__ import annotations

from keyrack.api.endpoint import Endpoint
from keyrack.assignments.endpoints import assignments, batch, booking_settings, operations
from keyrack.auth.endpoints import clients, identities, managers, me, mfa, mfa_rules, oauth2, sdk_token, well_known
from keyrack.changelog.endpoints import access_history, changes, checkpoints, live
from keyrack.drivers.endpoints import (
    account,
    app_access,
    data_export,
    driver_settings,
    links,
    phones,
    push,
    requests,
    session,
    simulated_radio,
    sso,
)
from keyrack.drivers.endpoints import (
    cars as driver_cars,
)
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
from keyrack.webhooks.endpoints import event_types, messages, webhooks

ALL: tuple[Endpoint[ServeServices], ...] = (
    *oauth2.endpoints.rows,
    *well_known.endpoints.rows,
    *customers.endpoints.rows,
    *retention.endpoints.rows,
    *driver_settings.endpoints.rows,
    *cars.endpoints.rows,
    *users.endpoints.rows,
    *erasure.endpoints.rows,
    *user_devices.endpoints.rows,
    *app_access.endpoints.rows,
    *assignments.endpoints.rows,
    *booking_settings.endpoints.rows,
    *groups.endpoints.rows,
    *products.endpoints.rows,
    *services.endpoints.rows,
    *installations.endpoints.rows,
    *pairings.endpoints.rows,
    *brands.endpoints.rows,
    *sdk_token.endpoints.rows,
    *app_devices.endpoints.rows,
    *app_keys.endpoints.rows,
    *boxes.endpoints.rows,
    *status_lists.endpoints.rows,
    *car_keys.endpoints.rows,
    *events.endpoints.rows,
    *changes.endpoints.rows,
    *checkpoints.endpoints.rows,
    *access_history.endpoints.rows,
    *ingest.endpoints.rows,
    *positions.endpoints.rows,
    *requests.endpoints.rows,
    *operations.endpoints.rows,
    *batch.endpoints.rows,
    *event_types.endpoints.rows,
    *webhooks.endpoints.rows,
    *messages.endpoints.rows,
    *managers.endpoints.rows,
    *mfa_rules.endpoints.rows,
    *clients.endpoints.rows,
    *live.endpoints.rows,
    *me.endpoints.rows,
    *identities.endpoints.rows,
    *mfa.endpoints.rows,
    *session.endpoints.rows,
    *sso.endpoints.rows,
    *driver_cars.endpoints.rows,
    *phones.endpoints.rows,
    *links.endpoints.rows,
    *requests.app.rows,
    *push.endpoints.rows,
    *account.endpoints.rows,
    *data_export.endpoints.rows,
    *simulated_radio.endpoints.rows,
    *documents.endpoints.rows,
    *health.endpoints.rows,
)
