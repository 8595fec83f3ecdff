"""The actors of phones whose keys are issued in one transaction.

`keyrack.phone_actors` has them for the transaction: for each phone a colon, its id in hexadecimal digits, a blank, and
the actor in base64. The release before sets one actor for its transaction, which still counts.
"""

from dataclasses import replace

from alembic import op

from keyrack.db.migrations import module
from keyrack.db.migrations.frozen.audit_triggers_v1 import AuditedTable

revision = "0084"
down_revision = "0082"

# The text is searched instead of parsed, because it has as many actors as keys are issued
ACTOR = """
create function acting_for_phone(customer integer, assignment integer, device bytea) returns jsonb
language plpgsql stable as $$
declare
  actors text := current_setting('keyrack.phone_actors', true);
  name text := ':' || encode(device, 'hex') || ' ';
  place integer := strpos(actors, name);
begin
  if place > 0 then
    return convert_from(decode(split_part(substr(actors, place + length(name)), ':', 1), 'base64'), 'UTF8')::jsonb;
  end if;
  return acting_on(customer, assignment);
end $$
"""
WHO = "acting_for_phone({r}.customer_id, {r}.assignment_id, {r}.device_id)"


def tables() -> list[AuditedTable]:
    """The audited tables, as the view `recorded_state` compares them with the change log."""
    return [replace(table, who=WHO) if table.table == "box_key" else table for table in module("0080").tables()]


def upgrade() -> None:
    op.execute(ACTOR.strip())
    for table in tables():
        if table.table == "box_key":
            op.execute(table.statements[0].replace("create function", "create or replace function", 1))
