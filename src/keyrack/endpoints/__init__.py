"""In charge of the table of all endpoints, in the order of the spec's contents."""

from __future__ import annotations

from keyrack.api.endpoint import Endpoint
from keyrack.endpoints import (
    assignments,
    batch,
    brands,
    cars,
    customers,
    documents,
    events,
    groups,
    ingest,
    installations,
    oauth2,
    operations,
    pairings,
    products,
    sdk,
    services,
    users,
    webhooks,
)

MODULES = (
    oauth2, customers, cars, users, assignments, groups, products, services, installations, pairings, brands, sdk,
    events, ingest, operations, batch, webhooks, documents,
)  # fmt: skip
ALL: tuple[Endpoint, ...] = tuple(row for module in MODULES for row in module.endpoints.rows)
