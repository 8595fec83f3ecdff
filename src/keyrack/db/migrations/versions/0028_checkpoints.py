"""What proves a log to others: its tree's hashes, and the checkpoints that were signed."""

from alembic import op

from keyrack.db.migrations.frozen.statements import statements

revision = "0028"
down_revision = "0027"

# The hashes do not compress, and each row of them is read as a whole
TABLES = """
create table change_tree (
  customer_id integer not null,
  epoch uuid not null,
  size bigint not null default 0,
  edge bytea not null default '',
  signed bigint,
  recorded_at timestamptz,
  refused text,
  refused_at timestamptz,
  constraint change_tree_pkey primary key (customer_id, epoch)
);
create index change_tree_refused on change_tree (refused_at) where refused is not null;
create table change_tile (
  customer_id integer not null,
  epoch uuid not null,
  level smallint not null,
  place bigint not null,
  hashes bytea not null,
  constraint change_tile_pkey primary key (customer_id, epoch, level, place)
);
create table change_checkpoint (
  customer_id integer not null,
  epoch uuid not null,
  size bigint not null,
  root bytea not null,
  at timestamptz not null,
  note text not null,
  is_published boolean not null default false,
  is_of_day boolean not null default false,
  constraint change_checkpoint_pkey primary key (customer_id, epoch, size)
);
create index change_checkpoint_unpublished on change_checkpoint (at) where not is_published;
create index change_checkpoint_recent on change_checkpoint (at) where not is_of_day
"""


def upgrade() -> None:
    for statement in statements(TABLES):
        op.execute(statement)
    op.execute("alter table change_tile alter column hashes set storage external")
