"""A log goes on in another epoch where what it had told is not there any more, and in another class of retention where
its customer wants that; what was before stays provable."""

from alembic import op

from keyrack.db.migrations import module
from keyrack.db.migrations.frozen.audit_triggers_v1 import AuditedTable
from keyrack.db.migrations.frozen.statements import statements

revision = "0029"
down_revision = "0028"

# The records of an epoch are the leaves of a tree of its own, and `first_id` is the number of the first
TABLES = """
create table change_epoch (
  customer_id integer not null,
  epoch uuid not null,
  first_id bigint not null,
  last_id bigint not null,
  hash bytea not null,
  tree bytea not null,
  ended_at timestamptz not null default now(),
  constraint change_epoch_pkey primary key (customer_id, epoch)
);
create table change_edge (
  customer_id integer not null,
  behind bigint not null,
  hash bytea not null,
  tree bytea not null,
  constraint change_edge_pkey primary key (customer_id, behind)
);
create table change_server (
  only_row boolean not null default true constraint change_server_pkey primary key check (only_row),
  system bigint not null,
  timeline integer not null,
  is_synchronous boolean not null
)
"""
COLUMNS = (
    "alter table change_log add column first_id bigint not null default 1,"
    " add column erased_id bigint not null default 0",
    "alter table customer add column changes_days integer",
    "alter table customer add constraint customer_changes_days_check"
    " check (changes_days in (100, 400, 800, 3660)) not valid",
)
CUSTOMER = AuditedTable(
    "customer", "customer", "{r}.customer_id::text", ("customer_id",),
    {"name": "{r}.name", "historyDays": "{r}.history_days", "keepsPositions": "{r}.keeps_positions",
     "changesDays": "{r}.changes_days"},
)  # fmt: skip


def upgrade() -> None:
    for statement in (*statements(TABLES), *COLUMNS):
        op.execute(statement)
    function, *_ = CUSTOMER.statements
    op.execute(function.replace("create function", "create or replace function", 1))
    # Each resource as its creation would be recorded now, to compare it with what the log says last
    tables = [CUSTOMER if one.table == CUSTOMER.table else one for one in module("0026").TABLES]
    op.execute("create view recorded_state as " + " union all ".join(one.state for one in tables))
