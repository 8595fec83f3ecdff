"""Moves of a customer to another cell: their state in both cells, and the guard of its rows meanwhile."""

from alembic import op

revision = "0082"
down_revision = "0081"

# Both cells have a row with the same id. `moved_customer` is 0 if the whole database is moved
MOVE = """
create table cell_move (
  move_id uuid not null,
  moved_customer integer not null,
  role text not null constraint cell_move_role check (role in ('source', 'target')),
  other_cell text not null,
  state text not null default 'copying'
    constraint cell_move_state check (state in ('copying', 'held', 'switched', 'finished', 'undone')),
  started_at timestamp with time zone not null default now(),
  held_at timestamp with time zone,
  switched_at timestamp with time zone,
  ended_at timestamp with time zone,
  constraint cell_move_pkey primary key (move_id)
)
"""
OPEN = """
create unique index cell_move_open on cell_move (moved_customer) where state in ('copying', 'held', 'switched')
"""
# A move adds triggers with this function to the tables, and removes them at its end. Arguments: the move, its customer,
# and for tables of accounts the column that identifies the account.
#
# A writer shares the lock with other writers until its transaction ends, and reads the state after it has the lock. The
# move takes the lock alone to change the state, so no transaction sees two states. An error has the class of a
# passing state, so that callers get 503.
#
# A worker writes rows of several customers in one statement, so that it skips the row instead. The row is still there
# when the customer is writable again. Rows that a switch has left in the source are deleted: otherwise housekeeping
# would find them again and again.
GUARD = """
create function guard_cell_move() returns trigger language plpgsql as $$
declare
  moved integer := tg_argv[1]::integer;
  account integer;
  is_closed boolean;
  is_left boolean;
begin
  if current_setting('keyrack.moved_customer', true) = tg_argv[1] then
    return coalesce(new, old);
  end if;
  if tg_nargs > 2 then
    account := to_jsonb(coalesce(new, old)) ->> tg_argv[2];
    if not (case tg_argv[2]
      when 'user_id' then exists (select from customer_user where customer_id = moved and user_id = account)
      when 'manager_id' then exists (select from manager_customer where customer_id = moved and manager_id = account)
      when 'client_id' then exists (select from client_customer where customer_id = moved and client_id = account)
    end) then
      return coalesce(new, old);
    end if;
  end if;
  perform pg_advisory_xact_lock_shared(7260927, moved);
  select case m.role
    when 'source' then m.state = 'held' or m.state = 'switched' and tg_nargs = 2
    else m.state in ('copying', 'undone')
  end, m.role = 'source' and m.state = 'switched'
  into is_closed, is_left from cell_move m where m.move_id = tg_argv[0]::uuid;
  if not coalesce(is_closed, true) then
    return coalesce(new, old);
  end if;
  if current_setting('application_name') = 'keyrack worker' then
    return case when is_left and tg_op = 'DELETE' then old end;
  end if;
  raise exception using errcode = '55M01', message = format('customer %s is being moved to another cell', moved);
end $$
"""


def upgrade() -> None:
    op.execute(MOVE.strip())
    op.execute(OPEN.strip())
    op.execute(GUARD.strip())
