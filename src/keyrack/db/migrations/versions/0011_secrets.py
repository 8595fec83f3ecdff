"""Secrets: what must be readable is sealed, signing keys can be revoked, managers signed out."""

from alembic import op

revision = "0011"
down_revision = "0010"

# A data key seals the secrets below. It stands here wrapped, once under each master key that opens it; no master key is
# in the database.
DATA_KEYS = (
    """
    create table data_key (
      number integer not null,
      master text not null,
      wrapped bytea not null,
      created_at timestamptz not null default now(),
      primary key (number, master)
    )
    """,
    # 0: not sealed yet, as what an older release has written
    """
    create function data_key_of(sealed bytea) returns integer language sql immutable strict parallel safe as $$
      select case when get_byte(sealed, 0) = 1
        then ('x' || encode(substring(sealed from 2 for 4), 'hex'))::bit(32)::integer else 0 end
    $$
    """,
)

# Whoever has the master key seals the texts of before at its first start; until then a byte 0 marks them
SEALED = (
    """
    alter table webhook
      alter column secret type bytea using '\\x00'::bytea || convert_to(secret, 'UTF8'),
      alter column signing_secret type bytea using '\\x00'::bytea || convert_to(signing_secret, 'UTF8'),
      alter column old_signing_secret type bytea using '\\x00'::bytea || convert_to(old_signing_secret, 'UTF8')
    """,
    """
    alter table signing_key
      alter column private_jwk type bytea using '\\x00'::bytea || convert_to(private_jwk::text, 'UTF8')
    """,
    "alter table signing_key rename column private_jwk to private_key",
)

# A key that is revoked stays in the list, without its private part
REVOKED = (
    "alter table signing_key alter column private_key drop not null",
    "alter table signing_key add column revoked_at timestamptz",
    """
    alter table signing_key
      add constraint signing_key_revoked_check check ((private_key is null) = (revoked_at is not null))
    """,
)

# A token says how many sign-outs came before it, so that no clock decides which tokens are over
SIGN_OUTS = (
    "alter table manager add column sign_outs integer not null default 0",
    """
    create function sign_manager_out() returns trigger language plpgsql as $$
    begin
      new.sign_outs := old.sign_outs + 1;
      return new;
    end $$
    """,
    """
    create trigger sign_manager_out before update on manager for each row
      when (new.password_hash is distinct from old.password_hash or (new.is_disabled and not old.is_disabled))
      execute function sign_manager_out()
    """,
)


def upgrade() -> None:
    for statement in (*DATA_KEYS, *SEALED, *REVOKED, *SIGN_OUTS):
        op.execute(statement)
