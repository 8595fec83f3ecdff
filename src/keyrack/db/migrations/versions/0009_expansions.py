"""Expansions are bounded: a row whose relation has too many rows is refused, and never shown with a part of them."""

from alembic import op

revision = "0009"
down_revision = "0008"

# The state is that of `keyrack.odata.sql.TOO_MANY`; volatile, so that it is not called while a statement is planned
REFUSE = """
create function refuse_expansion(most bigint) returns json language plpgsql volatile as $$
begin
  raise exception 'A relation that is expanded has more than % rows. Give it a $top of its own, or ask for less.', most
    using errcode = 'KR001';
end $$
"""


def upgrade() -> None:
    op.execute(REFUSE)
