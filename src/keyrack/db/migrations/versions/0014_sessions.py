"""Sessions: where managers are signed in with a browser, and how they like the pages to be."""

from alembic import op

revision = "0014"
down_revision = "0013"

PREFERENCES = (
    "alter table manager add column language text",
    "alter table manager add column time_zone text",
    "alter table manager add column theme text",
)

# Of the secret there is only its digest. `sign_outs` are those of the manager before it, as in tokens
SESSIONS = (
    """
    create table session (
      session_id bigint generated always as identity primary key,
      manager_id integer not null,
      hash bytea not null,
      sign_outs integer not null,
      address text not null,
      agent text not null,
      time_zone text,
      created_at timestamptz not null default now(),
      seen_at timestamptz not null default now(),
      constraint session_hash_key unique (hash),
      constraint session_manager_id_fkey foreign key (manager_id) references manager on delete cascade
    )
    """,
    "create index session_manager_id_idx on session (manager_id, session_id)",
    "create index session_seen_at_idx on session (seen_at)",
)


def upgrade() -> None:
    for statement in (*PREFERENCES, *SESSIONS):
        op.execute(statement)
