"""A row that is written to find out whether the database takes writes."""

from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    op.execute(
        "create table write_check (only_row boolean primary key default true check (only_row),"
        " at timestamptz not null) with (fillfactor = 10)"
    )
    op.execute("insert into write_check (at) values (now())")
