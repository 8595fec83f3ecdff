"""Passkeys and second factors of managers, what a sign-in waits for between two pages, and where an owner wants more
than a password."""

from alembic import op

from keyrack.db.migrations import module
from keyrack.db.migrations.frozen.audit_triggers_v1 import AuditedTable

revision = "0034"
down_revision = "0033"

PASSKEY = """
create table passkey (
  passkey_id integer generated always as identity primary key,
  manager_id integer not null references manager on delete cascade,
  credential_id bytea not null constraint passkey_credential_id_key unique,
  public_key bytea not null,
  sign_count bigint not null,
  transports text[] not null,
  aaguid text not null,
  name text not null,
  is_backed_up boolean not null,
  is_refused boolean not null default false,
  created_at timestamptz not null default now(),
  used_at timestamptz
)
"""
BY_MANAGER = "create index passkey_manager on passkey (manager_id)"
TOTP = """
create table totp (
  manager_id integer primary key references manager on delete cascade,
  secret bytea not null,
  last_step bigint not null default 0,
  created_at timestamptz not null default now(),
  confirmed_at timestamptz
)
"""
RECOVERY = """
create table recovery (
  manager_id integer primary key references manager on delete cascade,
  hashes bytea[] not null,
  created_at timestamptz not null default now()
)
"""
STEP = """
create table sign_in_step (
  hash bytea primary key,
  kind text not null check (kind in ('password', 'passkey', 'registration')),
  manager_id integer references manager on delete cascade,
  sign_outs integer,
  time_zone text,
  challenge bytea,
  tries integer not null default 0,
  created_at timestamptz not null default now()
)
"""
STEP_BY_MANAGER = "create index sign_in_step_manager on sign_in_step (manager_id, kind)"
STEP_BY_TIME = "create index sign_in_step_created on sign_in_step (kind, created_at desc)"
RULE = """
create table factor_rule (
  customer_id integer not null references customer on delete cascade,
  role text not null constraint factor_rule_role_check
    check (role in ('Owner', 'Manager', 'Dispatcher', 'Technician', 'Auditor', 'Viewer')),
  constraint factor_rule_pkey primary key (customer_id, role)
)
"""
NOTE = (
    "create trigger note_access after insert or update or delete on factor_rule"
    " for each statement execute function note_access()"
)
RECORDED = (
    AuditedTable(
        "passkey", "passkey", "{r}.passkey_id::text", ("passkey_id",),
        {"managerId": "{r}.manager_id", "name": "{r}.name", "isRefused": "{r}.is_refused"},
        customer="0",
    ),
    AuditedTable(
        "totp", "totp", "{r}.manager_id::text", ("manager_id",),
        {"managerId": "{r}.manager_id", "isConfirmed": "({r}.confirmed_at is not null)"}, {"secret": "{r}.secret"},
        customer="0",
    ),
    AuditedTable(
        "recovery", "recovery", "{r}.manager_id::text", ("manager_id",),
        {"managerId": "{r}.manager_id", "left": "cardinality({r}.hashes)"}, {"codes": "{r}.hashes"},
        customer="0",
    ),
    AuditedTable(
        "factor_rule", "factorRule", "{r}.role", ("customer_id", "role"), {"role": "{r}.role"},
        created="set", deleted="lifted",
    ),
)  # fmt: skip


def tables() -> list[AuditedTable]:
    """Of what the state is compared with the log."""
    return [*module("0033").tables(), *RECORDED]


def upgrade() -> None:
    for statement in (PASSKEY, BY_MANAGER, TOTP, RECOVERY, STEP, STEP_BY_MANAGER, STEP_BY_TIME, RULE, NOTE):
        op.execute(statement.strip())
    for recorded in RECORDED:
        for statement in recorded.statements:
            op.execute(statement)
    op.execute("create or replace view recorded_state as " + " union all ".join(one.state for one in tables()))
