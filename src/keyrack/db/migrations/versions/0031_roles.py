"""What a manager may do in a customer is its role there: an explicit row. Who was a manager until now is an owner."""

from alembic import op

from keyrack.db.migrations import module
from keyrack.db.migrations.frozen.audit_triggers_v1 import AuditedTable

revision = "0031"
down_revision = "0030"

ROLE = """
create table manager_role (
  customer_id integer not null,
  manager_id integer not null,
  role text not null constraint manager_role_role_check
    check (role in ('Owner', 'Manager', 'Dispatcher', 'Technician', 'Auditor', 'Viewer')),
  is_limited boolean not null default false,
  constraint manager_role_pkey primary key (customer_id, manager_id),
  constraint manager_role_of_customer foreign key (customer_id, manager_id)
    references manager_customer (customer_id, manager_id) on delete cascade
)
"""
BY_MANAGER = "create index manager_role_manager on manager_role (manager_id, customer_id)"
NOTE = (
    "create trigger note_access after insert or update or delete on manager_role"
    " for each statement execute function note_access()"
)
# How somebody has signed in (RFC 8176): until now by a password
AMR = "alter table session add column amr text[] not null default '{pwd}'"
RECORDED = AuditedTable(
    "manager_role", "role", "{r}.manager_id::text", ("customer_id", "manager_id"),
    {"managerId": "{r}.manager_id", "role": "{r}.role", "isLimited": "{r}.is_limited"},
    created="granted", deleted="withdrawn",
)  # fmt: skip
ACTS = 'select set_config(\'keyrack.who\', \'{"type": "system", "name": "upgrade"}\', true)'
OWNERS = """
insert into manager_role (customer_id, manager_id, role)
select customer_id, manager_id, 'Owner' from manager_customer order by 1, 2
"""


def tables() -> list[AuditedTable]:
    """Of what the state is compared with the log."""
    customer = module("0029").CUSTOMER
    return [customer if one.table == customer.table else one for one in module("0026").TABLES] + [RECORDED]


def upgrade() -> None:
    for statement in (ROLE, BY_MANAGER, NOTE, AMR, *RECORDED.statements):
        op.execute(statement.strip())
    op.execute("create or replace view recorded_state as " + " union all ".join(one.state for one in tables()))
    op.execute(ACTS)
    op.execute(OWNERS.strip())
