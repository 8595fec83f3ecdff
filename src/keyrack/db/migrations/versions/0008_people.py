"""People: a subject per customer, when somebody left; and limits that bear a clock which is set back."""

from alembic import op

revision = "0008"
down_revision = "0007"

# The subjects of id tokens are made of the seed and the customer. The seed never leaves the database; the column that
# it replaces stood in the tokens of every customer, and was no secret any more.
# `left_at` is when the person last left a customer, whether there are others or not.
PEOPLE = (
    "alter table person drop column subject",
    "alter table person add column seed uuid not null default gen_random_uuid()",
    "alter table person add column left_at timestamptz",
    """
    update person p set left_at = now()
    where not exists (select from customer_user u where u.user_id = p.user_id)
    """,
    "create index person_left on person (left_at) where left_at is not null",
)

# A UUID of version 8 (RFC 9562, section 5.8): the first bits of a digest of the seed, which has 122 random bits, and
# the customer. Both have a fixed length, so no two pairs make the same text.
SUBJECT = (
    """
    create function subject_at(customer integer, seed uuid) returns uuid
    language sql immutable strict parallel safe as $$
      select encode(set_byte(set_byte(h, 6, get_byte(h, 6) & 15 | 128), 8, get_byte(h, 8) & 63 | 128), 'hex')::uuid
      from substr(sha256(uuid_send(seed) || int4send(customer)), 1, 16) h
    $$
    """,
)

# Whoever waits for the bucket's row reads the clock when the row is theirs, so what stands there is never ahead of the
# clock by more than the whole bucket - unless the clock was set back, by more than a clock that is not quite even is:
# then one is left, and the rest comes back in its time.
TAKE = (
    """
    create or replace function take(bucket text, rate integer, burst integer, wanted integer, out allowed integer,
                                    out remaining integer, out wait double precision, out reset double precision)
    language plpgsql as $$
    declare
      t timestamptz;
      step interval := interval '1 minute' / rate;
      stored timestamptz;
      was timestamptz;
    begin
      loop
        select full_at into stored from rate_limit where key = bucket for update;
        exit when found;
        insert into rate_limit (key, full_at) values (bucket, clock_timestamp()) on conflict (key) do nothing;
      end loop;
      t := clock_timestamp();
      was := case when stored > t + step * burst + interval '1 second' then t + step * (burst - 1)
                  else greatest(stored, t) end;
      remaining := floor(extract(epoch from step * burst - (was - t)) / extract(epoch from step) + 1e-6);
      allowed := least(wanted, greatest(remaining, 0));
      was := was + step * allowed;
      update rate_limit set full_at = was where key = bucket and allowed > 0;
      remaining := greatest(remaining - allowed, 0);
      wait := case when allowed = wanted then 0 else extract(epoch from was + step - step * burst - t) end;
      reset := extract(epoch from was - t);
    end $$
    """,
)


def upgrade() -> None:
    for statement in (*PEOPLE, *SUBJECT, *TAKE):
        op.execute(statement)
