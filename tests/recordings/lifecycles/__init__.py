"""Lifecycles: sequences of requests from the creation of a row to its end."""

from __future__ import annotations

from tests.recordings.bench import Bench
from tests.recordings.lifecycles import accounts, assignments, deliveries, fleets, phones, reports
from tests.recordings.script import Script

PARTS = (
    assignments.assignments,
    assignments.batches,
    fleets.groups,
    fleets.fitting,
    fleets.users,
    reports.telemetry,
    reports.access,
    reports.changes,
    deliveries.webhooks,
    deliveries.streams,
    phones.phones,
    accounts.clients,
    accounts.managers,
    accounts.tokens,
    accounts.factors,
    accounts.sessions,
)


def run(bench: Bench) -> None:
    """Send the requests of each lifecycle, one after the other."""
    for part in PARTS:
        part(Script(bench, f"Lifecycle {part.__name__}"))
