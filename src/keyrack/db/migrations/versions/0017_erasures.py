"""Erasing: whom a customer has erased."""

from alembic import op

revision = "0017"
down_revision = "0016"

# Whom a customer has erased: until events and logs do not say any more who it was. It may be a person who is gone
ERASURES = (
    """
    create table erasure (
      customer_id integer not null references customer on delete cascade,
      user_id integer not null,
      asked_at timestamptz not null default now(),
      last_event integer not null,
      looked_at timestamptz not null default '-infinity',
      primary key (customer_id, user_id)
    )
    """,
    "create index erasure_looked on erasure (looked_at)",
)


def upgrade() -> None:
    for statement in ERASURES:
        op.execute(statement)
