"""Columns for the normal forms of addresses, and for conflicts.

A release before this one writes no form. A housekeeping step fills it.
"""

from alembic import op

revision = "0042"
down_revision = "0041"

# Table -> its address
ADDRESSES = {"manager": "username", "person": "email_address", "invitation": "address"}
COLUMN = "alter table {table} add column address_form text"
MARKS = (
    "alter table manager add column has_address_conflict boolean not null default false",
    "alter table person add column has_address_conflict boolean not null default false",
)
# The form ends with its address, unless the statement sets another form
RESET = """
create function reset_address_form() returns trigger language plpgsql as $$
begin
  if new.address_form is not distinct from old.address_form then
    new.address_form := null;
  end if;
  return new;
end $$
"""
TRIGGER = (
    "create trigger reset_address_form before update of {address} on {table} for each row"
    " when (new.{address} is distinct from old.{address}) execute function reset_address_form()"
)


def upgrade() -> None:
    for table in ADDRESSES:
        op.execute(COLUMN.format(table=table))
    for statement in (*MARKS, RESET.strip()):
        op.execute(statement)
    for table, address in ADDRESSES.items():
        op.execute(TRIGGER.format(table=table, address=address))
