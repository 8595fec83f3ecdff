"""Proofs of managers' addresses, links that prove them, and addresses of accepting identities.

Nothing is proven by default: neither existing accounts nor those that an older release makes meanwhile.
"""

from dataclasses import replace

from alembic import op

from keyrack.db.migrations import module
from keyrack.db.migrations.frozen.audit_triggers_v1 import AuditedTable

revision = "0041"
down_revision = "0040"

PROOF = (
    "alter table manager add column proven_at timestamptz, add column proven_by text",
    "alter table manager add constraint manager_proof check (case when proven_at is null then proven_by is null"
    " else proven_by is not null and proven_by in ('mail', 'provider', 'operator') end) not valid",
)
# The proof ends with the address, unless the statement sets a new proof
ADDRESS_CHANGE = (
    """
create function end_address_proof() returns trigger language plpgsql as $$
begin
  new.proven_at := null;
  new.proven_by := null;
  return new;
end $$
""",
    "create trigger end_address_proof before update of username on manager for each row"
    " when (new.username is distinct from old.username and new.proven_at is not distinct from old.proven_at)"
    " execute function end_address_proof()",
)
# The hash of a link that was mailed. The link of a command proves nothing, nor does that of an older release, which
# replaces `hash` alone
LINK = "alter table password_link add column mailed_hash bytea"
# The address that the provider had verified when the identity was connected, '' for none; null for older identities
IDENTITY = "alter table manager_identity add column address text"
# The account at a provider that accepted the invitation, if its verified address is not the invited one
ACCEPTED = "alter table manager_customer add column accepted_provider text, add column accepted_address text"

BEFORE = {table.table: table for table in module("0039").tables()}
MANAGER = replace(BEFORE["manager"], members=BEFORE["manager"].members | {"provenBy": "{r}.proven_by"})
MEMBERSHIP = replace(
    BEFORE["manager_customer"],
    members=BEFORE["manager_customer"].members
    | {"acceptedProvider": "{r}.accepted_provider", "acceptedAddress": "{r}.accepted_address"},
    events=("insert", "delete"),  # written once: how the invitation was accepted
)
CONNECTED = replace(
    BEFORE["manager_identity"], members=BEFORE["manager_identity"].members | {"emailAddress": "nullif({r}.address, '')"}
)


def tables() -> list[AuditedTable]:
    """The audited tables, as the view `recorded_state` compares them with the change log."""
    changed = {table.table: table for table in (MANAGER, MEMBERSHIP, CONNECTED)}
    return [changed.get(table.table, table) for table in module("0039").tables()]


def upgrade() -> None:
    for statement in (*PROOF, *ADDRESS_CHANGE, LINK, IDENTITY, ACCEPTED):
        op.execute(statement.strip())
    for table in (MANAGER, MEMBERSHIP, CONNECTED):
        op.execute(table.statements[0].replace("create function", "create or replace function", 1))
    op.execute("create or replace view recorded_state as " + " union all ".join(table.state for table in tables()))
