"""Retention: the data of a customer, how long each kind is kept, and its oldest entry. An extension of the spec."""

from __future__ import annotations

from typing import Literal, LiteralString

from pydantic import ConfigDict

from keyrack.api import conditional_requests
from keyrack.api.auth_schemes import CustomerAuth
from keyrack.api.endpoint import TAGGED, Doc, Responses
from keyrack.api.endpoint_registry import Endpoints
from keyrack.api.exchange import Request, Response, answer
from keyrack.api.permissions import Permission
from keyrack.api.schema.request_body import Body, Moment, format_timestamp
from keyrack.api.services import ReadServices
from keyrack.core.error_codes import NO_CUSTOMER
from keyrack.core.errors import NotFound
from keyrack.core.settings import Settings, variable
from keyrack.db.connection import Row
from keyrack.fleet.endpoints.customers import TAG

endpoints = Endpoints[ReadServices](
    TAG, CustomerAuth(Permission.CUSTOMER_READ, is_group_scoped=True), is_extension=True
)

# Each value is the first entry of an index; for positions and readings this would need one look-up per car. A
# group-limited caller ($2 is false) gets no value: the oldest row may be out of scope
REACH: LiteralString = """
select history_days, keeps_positions, changes_days,
  (select min(starts_at) from assignment where customer_id = $1 and $2) as assignments,
  (select min(utc_at) from event where customer_id = $1 and $2) as events,
  (select min(issued_at) from box_key where customer_id = $1 and not is_placed and $2) as keys,
  (select min(finished_at) from operation where customer_id = $1 and finished_at is not null and $2) as operations,
  (select min(d.created_at) from webhook w cross join lateral (
     select created_at from delivery d where d.customer_id = w.customer_id and d.webhook_id = w.webhook_id
     order by delivery_id limit 1) d
   where w.customer_id = $1 and $2) as deliveries
from customer where customer_id = $1
"""

Kind = Literal[
    "assignments",
    "events",
    "keys",
    "operations",
    "deliveries",
    "changes",
    "positions",
    "odometer",
    "telemetry",
    "series",
    "answers",
    "people",
    "sessions",
]


class RetentionBody(Body):
    """The retention of one kind of data: its time, the event from which it counts, and the time of the oldest data, if
    known. A group-limited caller gets null for the oldest."""

    model_config = ConfigDict(title="Kept")

    kind: Kind
    kept: bool
    kept_for: str | None
    counts_from: str
    setting: str | None
    oldest: Moment | None


@endpoints.get(
    "/retention",
    Doc(
        "getRetention",
        "Get the retention of the customer's data",
        "Returns each kind of data with its retention time, the setting that determines it, and the time of the"
        " oldest data.",
    ),
    responses=Responses(200, list[RetentionBody], headers=TAGGED),
)
async def retention(request: Request, services: ReadServices) -> Response:
    row = await request.db.fetchrow(REACH, request.customer, request.scope is None)
    if row is None:  # removed after the authorisation check
        raise NotFound(NO_CUSTOMER)
    days = row["history_days"] or services.settings.telemetry_retention_days
    # None: the customer has its own value
    history = variable("telemetry_retention_days") if row["history_days"] is None else None
    changes = variable("changelog_retention_days") if row["changes_days"] is None else None
    changes_days = row["changes_days"] or services.settings.changelog_retention_days
    positions = row["keeps_positions"]
    rows = [
        _kept(row, "assignments", None, "They stay until they are ended, or their car or user goes."),
        _kept(row, "events", None, "They stay; the person goes from them when the person is erased."),
        _by_setting(
            row, "keys", services.settings, "offline_key_retention_days", "When it was issued, once it opens nothing."
        ),
        _by_setting(row, "operations", services.settings, "operation_retention_days", "When they were done."),
        _by_setting(row, "deliveries", services.settings, "delivery_retention_days", "The last attempt."),
        _kept(row, "changes", f"P{changes_days}D", "When it got its number.", changes),
        _kept(row, "positions", f"P{days}D", "When the car was there.", history, kept=positions),
        _kept(row, "odometer", f"P{days}D", "When it was read.", history),
        _kept(row, "telemetry", None, "The newest values stay as long as the car."),
        _kept(row, "series", f"P{days}D", "When it was read.", history),
        _by_setting(row, "answers", services.settings, "idempotency_hours", "The first request."),
        _by_setting(
            row, "people", services.settings, "orphaned_person_retention_days", "When they left the last customer."
        ),
        _by_setting(row, "sessions", services.settings, "session_hours", "When the manager signed in."),
    ]
    return conditional_requests.document(request, answer(rows, headers=conditional_requests.FRESH))


def _by_setting(row: Row, kind: Kind, settings: Settings, name: str, counts_from: str) -> dict[str, str | bool | None]:
    """The retention of a kind that only the setting `name` decides; its suffix is the unit."""
    amount = getattr(settings, name)
    period = f"P{amount}D" if name.endswith("_days") else f"PT{amount}H"
    return _kept(row, kind, period, counts_from, variable(name))


def _kept(
    row: Row, kind: Kind, kept_for: str | None, counts_from: str, setting: str | None = None, *, kept: bool = True
) -> dict[str, str | bool | None]:
    oldest = row.get(kind)
    return {
        "kind": kind,
        "kept": kept,
        "keptFor": kept_for if kept else None,
        "countsFrom": counts_from,
        "setting": setting,
        "oldest": oldest and format_timestamp(oldest),
    }
