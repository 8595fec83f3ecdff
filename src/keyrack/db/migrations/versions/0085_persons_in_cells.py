"""Persons that several cells have, and the outbox of their changes.

`person.version` is null while this cell alone has the person. So the triggers call no function for such a person. A
change of a copied person gets a greater version, whose remainder by 64 is the number of the cell that made the change:
versions of two cells are never equal, and the greatest one wins.

The outbox has one row for each person and cell: a delivery sends the present state of the person, so a later change
needs no second row. It holds no personal data, and an erasure outlasts the person.
"""

from alembic import op

revision = "0085"
down_revision = "0084"

VERSION = "alter table person add column version bigint"
# The other cells that have the person
CELLS = """
create table person_cell (
  user_id integer not null references person on delete cascade,
  cell integer not null constraint person_cell_number check (cell between 0 and 63),
  constraint person_cell_pkey primary key (user_id, cell)
)
"""
# A delivery compares `changes` afterwards, since the person may have changed again meanwhile
OUTBOX = """
create table person_change_outbox (
  user_id integer not null,
  cell integer not null,
  is_erasure boolean not null default false,
  changes integer not null default 1,
  created_at timestamptz not null default now(),
  due_at timestamptz not null default now(),
  attempts integer not null default 0,
  last_error text,
  constraint person_change_outbox_pkey primary key (user_id, cell)
)
"""
INDEXES = (
    "create index person_change_outbox_due on person_change_outbox (due_at)",
    "create index person_change_outbox_created on person_change_outbox (created_at)",
)
QUEUE = """
create function queue_person_changes(id integer) returns void language sql as $$
  insert into person_change_outbox as o (user_id, cell) select user_id, cell from person_cell where user_id = id
  on conflict (user_id, cell) do update set changes = o.changes + 1, due_at = now(), attempts = 0
$$
"""
NEXT_VERSION = (
    """
create function set_person_version() returns trigger language plpgsql as $$
begin
  new.version := (old.version / 64 + 1) * 64 + (select number from cell);
  return new;
end $$
""",
    "create trigger set_version before update of email_address, first_name, last_name, type on person for each row"
    " when (old.version is not null and new.version = old.version"
    " and (old.email_address, old.first_name, old.last_name, old.type)"
    " is distinct from (new.email_address, new.first_name, new.last_name, new.type))"
    " execute function set_person_version()",
)
# A change that came from another cell goes to all cells from there
QUEUE_CHANGE = (
    """
create function queue_person_change() returns trigger language plpgsql as $$
begin
  if new.version % 64 = (select number from cell) then
    perform queue_person_changes(new.user_id);
  end if;
  return null;
end $$
""",
    "create trigger queue_change after update on person for each row when (new.version > old.version)"
    " execute function queue_person_change()",
)
# All cells of the person learn of a new one
QUEUE_CELL = (
    """
create function queue_person_cell() returns trigger language plpgsql as $$
begin
  perform queue_person_changes(new.user_id);
  return null;
end $$
""",
    "create trigger queue_cell after insert on person_cell for each row execute function queue_person_cell()",
)


def upgrade() -> None:
    for statement in (VERSION, CELLS, OUTBOX, *INDEXES, QUEUE, *NEXT_VERSION, *QUEUE_CHANGE, *QUEUE_CELL):
        op.execute(statement.strip())
