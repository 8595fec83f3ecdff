"""Single sign-on of drivers: the customer whose drivers a provider signs in, and the identities of drivers.

An identity belongs to a driver or to a manager, never to both: each table is asked by its own sign-in alone. The new
columns refer to nothing, because a foreign key reads the table. A session whose provider is gone sees no customer.
"""

from dataclasses import replace

from alembic import op

from keyrack.db.migrations import module
from keyrack.db.migrations.frozen.audit_triggers_v1 import AuditedTable

revision = "0075"
down_revision = "0074"

# Null: the provider signs in managers alone
PROVIDER = "alter table provider add column driver_customer_id integer"
IDENTITY = """
create table driver_identity (
  provider_id integer not null references provider on delete cascade,
  subject text not null constraint driver_identity_subject_check check (length(subject) between 1 and 255),
  user_id integer not null references driver_account on delete cascade,
  created_at timestamptz not null default now(),
  constraint driver_identity_pkey primary key (provider_id, subject),
  constraint driver_identity_of_driver unique (user_id, provider_id)
)
"""
SESSION = "alter table driver_session add column provider_id integer"


def tables() -> list[AuditedTable]:
    """The audited tables, as the view `recorded_state` compares them with the change log."""
    return [
        replace(table, members={**table.members, "driverCustomerId": "{r}.driver_customer_id"})
        if table.table == "provider"
        else table
        for table in module("0072").tables()
    ]


def upgrade() -> None:
    for statement in (PROVIDER, IDENTITY, SESSION):
        op.execute(statement)
    for table in tables():
        if table.table == "provider":
            op.execute(table.statements[0].replace("create function", "create or replace function", 1))
    op.execute("create or replace view recorded_state as " + " union all ".join(table.state for table in tables()))
