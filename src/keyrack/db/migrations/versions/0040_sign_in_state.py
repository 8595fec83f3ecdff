"""State of sign-ins moves into sealed cookies: the database has only what was used, until it expires.

Rate limits get periods other than a minute. `login_state` and rows of the kind `passkey` in `sign_in_step` have no use
any more; a later release drops them.
"""

from alembic import op

revision = "0040"
down_revision = "0039"

# As `take` and `give_back` of 0013 and 0001 do, for the time in which one token is refilled
# Names of their own: with a second function of the old name, calls of an older process would be ambiguous
TAKE = """
create function take_token(bucket text, step interval, burst integer, wanted integer, beyond boolean default false,
                     out allowed integer, out remaining integer, out wait double precision,
                     out reset double precision)
language plpgsql as $$
declare
  t timestamptz;
  stored timestamptz;
  debt integer;
  was timestamptz;
begin
  loop
    select full_at, owed into stored, debt from rate_limit where key = bucket for update;
    exit when found;
    insert into rate_limit (key, full_at) values (bucket, clock_timestamp()) on conflict (key) do nothing;
  end loop;
  t := clock_timestamp();
  was := case when stored > t + step * (burst + debt) + interval '1 second' then t + step * (burst - 1)
              else greatest(stored, t) end;
  remaining := greatest(
    floor(extract(epoch from step * burst - (was - t)) / extract(epoch from step) + 1e-6), 0);
  allowed := case when beyond and remaining > 0 then wanted else least(wanted, remaining) end;
  was := was + step * allowed;
  update rate_limit set full_at = was, owed = greatest(allowed - remaining, 0) where key = bucket and allowed > 0;
  remaining := greatest(remaining - allowed, 0);
  wait := case when allowed = wanted then 0 else extract(epoch from was + step - step * burst - t) end;
  reset := extract(epoch from was - t);
end $$
"""
GIVE_BACK = """
create function give_back_token(bucket text, step interval) returns void language sql as $$
  update rate_limit set full_at = full_at - step where key = bucket
$$
"""
USED = """
create table used_login_state (
  hash bytea constraint used_login_state_pkey primary key,
  expires_at timestamptz not null
)
"""
USED_BY_TIME = "create index used_login_state_expires_at on used_login_state (expires_at)"
# A mail about the receiver's own account. Its kind is `invitation` without one: an older process drops such a mail
NOTICE = "alter table mail add column notice text"


def upgrade() -> None:
    for statement in (TAKE, GIVE_BACK, USED, USED_BY_TIME, NOTICE):
        op.execute(statement.strip())
