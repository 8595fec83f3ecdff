"""The heartbeats of the processes: who serves and who works, and the commit that proves that the leader is asked."""

from alembic import op

from keyrack.db.migrations.frozen.statements import statements

revision = "0020"
down_revision = "0019"

# Logged: the commit has to reach the synchronous standby. Room in each page lets a beat stay in it and leave the index
# alone
HEARTBEAT = """
create table heartbeat (
  heartbeat_id uuid constraint heartbeat_pkey primary key,
  role text not null constraint heartbeat_role_check check (role in ('serve', 'work')),
  host text not null,
  pid integer not null,
  version text not null,
  started_at timestamptz not null default now(),
  beat_at timestamptz not null default now()
) with (fillfactor = 50);
"""


def upgrade() -> None:
    for statement in statements(HEARTBEAT):
        op.execute(statement)
