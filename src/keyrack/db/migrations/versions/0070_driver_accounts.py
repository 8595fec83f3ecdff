"""The app accounts of drivers: credentials, sessions, passkeys and links.

An account belongs to a person, whom several customers share. So each customer's access has a row of its own, unless the
person has proven the mailbox of the account's address. The start password of `PUT /users` stays in `person`, with the
customer whose manager knows it. It is null for older rows, whose password then opens nothing.
"""

from alembic import op

revision = "0070"
down_revision = "0069"

ORIGIN = "alter table person add column password_customer integer"
# The release before sends no mail of a row of the kind `invitation` without an invitation, and deletes it
MAIL = "alter table mail add column audience text"
ACCOUNT = """
create table driver_account (
  user_id integer not null references person on delete cascade,
  handle uuid not null default gen_random_uuid(),
  password_hash text,
  is_proven boolean not null default false,
  sign_outs integer not null default 0,
  language text constraint driver_account_language_check check (language in ('en', 'de')),
  created_at timestamptz not null default now(),
  constraint driver_account_pkey primary key (user_id),
  constraint driver_account_handle_key unique (handle)
)
"""
ACCESS = """
create table driver_access (
  customer_id integer not null,
  user_id integer not null references driver_account on delete cascade,
  granted_at timestamptz not null default now(),
  constraint driver_access_pkey primary key (customer_id, user_id),
  constraint driver_access_of_user foreign key (customer_id, user_id) references customer_user on delete cascade
)
"""
# An access that a manager of the customer has withdrawn. It outlasts the account
WITHDRAWN = """
create table driver_withdrawn (
  customer_id integer not null,
  user_id integer not null,
  withdrawn_at timestamptz not null default now(),
  constraint driver_withdrawn_pkey primary key (customer_id, user_id),
  constraint driver_withdrawn_of_user foreign key (customer_id, user_id) references customer_user on delete cascade
)
"""
# `handle` is that of the account which the link creates, and `challenge` that of its first passkey
LINK = """
create table driver_link (
  link_id bigint not null generated always as identity,
  hash bytea not null,
  user_id integer not null references person on delete cascade,
  customer_id integer,
  kind text not null constraint driver_link_kind_check check (kind in ('invitation', 'mailed', 'setup')),
  handle uuid not null default gen_random_uuid(),
  challenge bytea,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null,
  constraint driver_link_pkey primary key (link_id),
  constraint driver_link_hash_key unique (hash),
  constraint driver_link_of_user foreign key (customer_id, user_id) references customer_user on delete cascade
)
"""
# `customer_id` is that of the provider that has signed the driver in. `challenge` is that of the next passkey
SESSION = """
create table driver_session (
  session_id bigint not null generated always as identity,
  user_id integer not null references driver_account on delete cascade,
  customer_id integer,
  hash bytea not null,
  sign_outs integer not null,
  device text not null,
  amr text[] not null,
  challenge bytea,
  challenged_at timestamptz,
  created_at timestamptz not null default now(),
  seen_at timestamptz not null default now(),
  constraint driver_session_pkey primary key (session_id),
  constraint driver_session_hash_key unique (hash),
  constraint driver_session_of_user foreign key (customer_id, user_id) references customer_user on delete cascade
)
"""
PASSKEY = """
create table driver_passkey (
  passkey_id integer not null generated always as identity,
  user_id integer not null references driver_account on delete cascade,
  credential_id bytea not null,
  public_key bytea not null,
  sign_count bigint not null,
  transports text[] not null,
  aaguid text not null,
  name text not null,
  is_backed_up boolean not null,
  is_refused boolean not null default false,
  created_at timestamptz not null default now(),
  used_at timestamptz,
  constraint driver_passkey_pkey primary key (passkey_id),
  constraint driver_passkey_credential_id_key unique (credential_id)
)
"""
INDEXES = (
    "create index driver_access_user on driver_access (user_id)",
    "create index driver_withdrawn_user on driver_withdrawn (user_id)",
    "create unique index driver_link_newest on driver_link (user_id, kind, coalesce(customer_id, 0))",
    "create index driver_link_of_customer on driver_link (customer_id, user_id)",
    "create index driver_link_expires_at on driver_link (expires_at)",
    "create index driver_session_user on driver_session (user_id, session_id)",
    "create index driver_session_of_customer on driver_session (customer_id, user_id)",
    "create index driver_session_seen_at on driver_session (seen_at)",
    "create index driver_passkey_user on driver_passkey (user_id)",
)
# A mailed link has proven the mailbox of the address that the person had
END_PROOF = (
    """
create function end_driver_proof() returns trigger language plpgsql as $$
begin
  update driver_account set is_proven = false where user_id = new.user_id;
  delete from driver_link where user_id = new.user_id and kind = 'mailed';
  return null;
end $$
""",
    "create trigger end_driver_proof after update of email_address on person for each row"
    " when (old.email_address is distinct from new.email_address) execute function end_driver_proof()",
)


def upgrade() -> None:
    for statement in (ORIGIN, MAIL, ACCOUNT, ACCESS, WITHDRAWN, LINK, SESSION, PASSKEY, *INDEXES, *END_PROOF):
        op.execute(statement)
