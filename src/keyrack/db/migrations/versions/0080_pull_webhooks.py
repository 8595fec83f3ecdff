"""Pull webhooks: clients fetch and acknowledge their messages, and no worker sends them.

Workers find work only through lanes, so a trigger keeps lanes of pull webhooks from being written. The release before
writes the deliveries of these webhooks during an upgrade, and never sends them. The address of a pull webhook is empty,
because that release needs a text.
"""

from dataclasses import replace

from alembic import op

from keyrack.db.migrations import module
from keyrack.db.migrations.frozen.audit_triggers_v1 import AuditedTable

revision = "0080"
down_revision = "0079"

WEBHOOK = """
alter table webhook
  add column name text,
  add column is_pull boolean not null default false,
  add column delete_unused_after_days integer,
  add column pulled_at timestamptz
"""
# The number of a message is given when a client first fetches it: so a message that is committed later never has a
# smaller number than one that was fetched. There is no foreign key, because a webhook is deleted without its deliveries
MESSAGES = """
create table pulled_message (
  customer_id integer not null,
  webhook_id integer not null,
  number bigint generated always as identity,
  delivery_id bigint not null,
  constraint pulled_message_pkey primary key (customer_id, webhook_id, number),
  constraint pulled_message_delivery_key unique (customer_id, webhook_id, delivery_id)
)
"""
LANES = (
    """
    create function skip_pulled_lane() returns trigger language plpgsql as $$
    begin
      if exists (select from webhook w
        where w.customer_id = new.customer_id and w.webhook_id = new.webhook_id and w.is_pull) then
        return null;
      end if;
      return new;
    end $$
    """,
    "create trigger skip_pulled before insert on delivery_lane for each row execute function skip_pulled_lane()",
)
# Null is not recorded, so older rows equal their older changes
MEMBERS = {
    "name": "{r}.name",
    "pull": "nullif({r}.is_pull, false)",
    "deleteUnusedAfterDays": "{r}.delete_unused_after_days",
}


def tables() -> list[AuditedTable]:
    """The audited tables, as the view `recorded_state` compares them with the change log."""
    return [
        replace(table, members={**table.members, **MEMBERS}) if table.table == "webhook" else table
        for table in module("0078").tables()
    ]


def upgrade() -> None:
    for statement in (WEBHOOK, MESSAGES, *LANES):
        op.execute(statement.strip())
    for table in tables():
        if table.table == "webhook":
            op.execute(table.statements[0].replace("create function", "create or replace function", 1))
    op.execute("create or replace view recorded_state as " + " union all ".join(table.state for table in tables()))
