"""The oldest release that works with the schema, so that it may be started while a newer one takes over."""

from alembic import op

revision = "0021"
down_revision = "0020"


def upgrade() -> None:
    op.execute(
        "create table compatibility ("
        " only_row boolean constraint compatibility_pkey primary key default true"
        " constraint compatibility_only_row_check check (only_row),"
        " oldest_revision text not null)"
    )
    op.execute("insert into compatibility (oldest_revision) values ('0019')")
