"""Codes of failed operations.

A release before this one writes texts. The trigger adds the code of each.
"""

from alembic import op

revision = "0052"
down_revision = "0048"

COLUMN = "alter table operation add column error_code text"
# The texts of all releases before this one; they do not change any more
CODE = """
create function failure_code(message text) returns text language sql immutable parallel safe as $$
  select case message
    when 'The car does not exist or is not assigned to the customer.' then 'no-car'
    when 'The user does not exist or is not assigned to the customer.' then 'no-user'
    when 'There is no key box installed in the car.' then 'no-key-box'
    when 'The key box in the car has no service assigned.' then 'no-service'
    when 'The service of the key box in the car is terminated.' then 'service-terminated'
    when 'The assignment does not exist any more.' then 'assignment-gone'
    when 'The end lies before the start.' then 'end-before-start'
    when 'renewableAfter must be less than lifetime.' then 'renewable-after-out-of-range'
    when 'The operation could not be carried out for an internal reason.' then 'internal-error'
  end
$$
"""
ADD = """
create function add_failure_code() returns trigger language plpgsql as $$
begin
  new.error_code := failure_code(new.error_message);
  return new;
end $$
"""
TRIGGER = """
create trigger add_failure_code before insert or update of error_message on operation for each row
when (new.error_message is not null and new.error_code is null) execute function add_failure_code()
"""


def upgrade() -> None:
    for statement in (COLUMN, CODE, ADD, TRIGGER):
        op.execute(statement.strip())
