"""What a customer decides for its drivers: the phone number for help, the place of the car, the rule for extensions.

Extensions of up to `driver_extension_hours` need no decision of a manager; with 0, each one does.
"""

from alembic import op

revision = "0072"
down_revision = "0071"

COLUMNS = """
alter table customer
  add column driver_phone text,
  add column driver_shows_place boolean not null default false,
  add column driver_extension_hours integer not null default 0
    constraint customer_driver_extension_hours_check check (driver_extension_hours between 0 and 720)
"""


def upgrade() -> None:
    op.execute(COLUMNS)
