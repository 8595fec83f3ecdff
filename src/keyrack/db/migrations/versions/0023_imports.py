"""Where a customer was imported from, and which number stands for which one there."""

from alembic import op

from keyrack.db.migrations.frozen.statements import statements

revision = "0023"
down_revision = "0022"

TABLES = """
create table customer_import (
  customer_id integer constraint customer_import_pkey primary key
    constraint customer_import_customer_id_fkey references customer (customer_id) on delete cascade,
  source text not null,
  began_at timestamptz not null default now(),
  ended_at timestamptz
);
create table imported_id (
  customer_id integer not null
    constraint imported_id_customer_id_fkey references customer (customer_id) on delete cascade,
  kind text not null,
  old_id bigint not null,
  new_id bigint not null,
  constraint imported_id_pkey primary key (customer_id, kind, old_id)
);
"""


def upgrade() -> None:
    for statement in statements(TABLES):
        op.execute(statement)
