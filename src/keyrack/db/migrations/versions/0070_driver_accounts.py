"""The app accounts of drivers: credentials, sessions, passkeys and links.

An account belongs to a person, whom several customers share. So each customer's access has a row of its own, unless the
person has proven the mailbox of the account's address. The password of `PUT /users` stays in `person`, with the
customer whose manager chose it. It is null for older rows, whose password then opens nothing.
"""

from alembic import op

revision = "0070"
down_revision = "0069"

CHOOSER = "alter table person add column password_customer integer"
ACCOUNT = """
create table driver_account (
  user_id integer primary key references person on delete cascade,
  handle uuid not null default gen_random_uuid() constraint driver_account_handle_key unique,
  password_hash text,
  is_proven boolean not null default false,
  sign_outs integer not null default 0,
  language text constraint driver_account_language_check check (language in ('en', 'de')),
  created_at timestamptz not null default now()
)
"""
ACCESS = """
create table driver_access (
  customer_id integer not null,
  user_id integer not null references driver_account on delete cascade,
  granted_at timestamptz not null default now(),
  primary key (customer_id, user_id),
  constraint driver_access_of_user foreign key (customer_id, user_id) references customer_user on delete cascade
)
"""
WITHDRAWAL = """
create table driver_withdrawal (
  customer_id integer not null,
  user_id integer not null,
  withdrawn_at timestamptz not null default now(),
  primary key (customer_id, user_id),
  constraint driver_withdrawal_of_user foreign key (customer_id, user_id) references customer_user on delete cascade
)
"""
LINK = """
create table driver_link (
  link_id bigint generated always as identity primary key,
  hash bytea not null constraint driver_link_hash_key unique,
  user_id integer not null references person on delete cascade,
  customer_id integer,
  kind text not null constraint driver_link_kind_check check (kind in ('invitation', 'mailed', 'setup')),
  created_at timestamptz not null default now(),
  expires_at timestamptz not null,
  constraint driver_link_of_user foreign key (customer_id, user_id) references customer_user on delete cascade
)
"""
SESSION = """
create table driver_session (
  session_id bigint generated always as identity primary key,
  user_id integer not null references driver_account on delete cascade,
  customer_id integer,
  hash bytea not null constraint driver_session_hash_key unique,
  sign_outs integer not null,
  device text not null,
  amr text[] not null,
  created_at timestamptz not null default now(),
  seen_at timestamptz not null default now(),
  constraint driver_session_of_user foreign key (customer_id, user_id) references customer_user on delete cascade
)
"""
PASSKEY = """
create table driver_passkey (
  passkey_id integer generated always as identity primary key,
  user_id integer not null references driver_account on delete cascade,
  credential_id bytea not null constraint driver_passkey_credential_id_key unique,
  public_key bytea not null,
  sign_count bigint not null,
  transports text[] not null,
  aaguid text not null,
  name text not null,
  is_backed_up boolean not null,
  is_refused boolean not null default false,
  created_at timestamptz not null default now(),
  used_at timestamptz
)
"""
INDEXES = (
    "create index driver_access_user on driver_access (user_id)",
    "create index driver_withdrawal_user on driver_withdrawal (user_id)",
    "create unique index driver_link_newest on driver_link (user_id, kind, coalesce(customer_id, 0))",
    "create index driver_link_of_customer on driver_link (customer_id, user_id)",
    "create index driver_link_expires_at on driver_link (expires_at)",
    "create index driver_session_user on driver_session (user_id, session_id)",
    "create index driver_session_of_customer on driver_session (customer_id, user_id)",
    "create index driver_session_seen_at on driver_session (seen_at)",
    "create index driver_passkey_user on driver_passkey (user_id)",
)


def upgrade() -> None:
    for statement in (CHOOSER, ACCOUNT, ACCESS, WITHDRAWAL, LINK, SESSION, PASSKEY, *INDEXES):
        op.execute(statement)
