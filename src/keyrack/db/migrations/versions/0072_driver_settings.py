"""A customer's settings for its drivers: a phone number, the place of the car, the rule for extensions.

Extensions of up to `driver_extension_hours` need no decision of a manager; with 0, each one does. A lost phone is
marked before it is removed, so that its loss has an event type of its own.
"""

from dataclasses import replace

from alembic import op

from keyrack.db.migrations import module
from keyrack.db.migrations.frozen.audit_triggers_v1 import AuditedTable

revision = "0072"
down_revision = "0071"

COLUMNS = (
    "alter table customer add column driver_phone text, add column driver_shows_place boolean not null default false,"
    " add column driver_extension_hours integer not null default 0",
    "alter table customer add constraint customer_driver_extension_hours_check"
    " check (driver_extension_hours between 0 and 720) not valid",
    "alter table app_device add column is_lost boolean not null default false",
)
# New members and event types by table. Members that are null are not recorded, so older rows equal their older changes
CHANGED: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "customer": (
        {
            "driverPhone": "{r}.driver_phone",
            "driverShowsPlace": "case when {r}.driver_shows_place then true end",
            "driverExtensionHours": "nullif({r}.driver_extension_hours, 0)",
        },
        {},
    ),
    "app_device": (
        {"isLost": "case when {r}.is_lost then true end"},
        {"device.lost": "not o.is_lost and n.is_lost"},
    ),
}


def _with_members(table: AuditedTable) -> AuditedTable:
    members, kinds = CHANGED.get(table.table, ({}, {}))
    return replace(table, members={**table.members, **members}, kinds={**table.kinds, **kinds})


def tables() -> list[AuditedTable]:
    """The audited tables, as the view `recorded_state` compares them with the change log."""
    return [_with_members(table) for table in module("0071").tables()]


def upgrade() -> None:
    for statement in COLUMNS:
        op.execute(statement)
    for table in tables():
        if table.table in CHANGED:
            op.execute(table.statements[0].replace("create function", "create or replace function", 1))
    op.execute("create or replace view recorded_state as " + " union all ".join(table.state for table in tables()))
