"""Device keys open one unit or all, with scopes; an event's wall clock is compared as it was read."""

from alembic import op

revision = "0007"
down_revision = "0006"

# A key opens what one unit tells, or as a gateway's what all units of its customer tell, as far as its scopes go. A key
# of before could tell of everything: it opens nothing until somebody says what it is for.
DEVICE_KEYS = (
    """
    alter table device_key
      add column product_id integer,
      add column is_gateway boolean not null default false,
      add column scopes text[] not null default '{}'
    """,
    """
    alter table device_key add constraint device_key_product_fkey
      foreign key (customer_id, product_id) references product on delete cascade
    """,
    "alter table device_key add constraint device_key_scopes check (scopes <@ '{telemetry,events}')",
    """
    alter table device_key add constraint device_key_opens
      check (case when is_gateway then product_id is null else product_id is not null or scopes = '{}' end)
    """,
    "create index device_key_of_product on device_key (customer_id, product_id)",
    # the numbers by which a unit calls itself are remembered with its key
    """
    create trigger note_access after update of serial_number, unique_id on product
      for each statement execute function note_access()
    """,
)

# `local_at` is what the wall clock showed, as if it were UTC, whatever offset was sent with it. The text was checked
# when it came; of its fraction, microseconds count.
WALL_CLOCKS = """
update event set local_at = left(regexp_replace(upper(local_text), '(Z|[+-][0-9:]{5})$', ''), 26)::timestamp
  at time zone 'UTC'
where local_text ~ '[+-][0-9]{2}:[0-9]{2}$'
"""


def upgrade() -> None:
    for statement in (*DEVICE_KEYS, WALL_CLOCKS):
        op.execute(statement)
