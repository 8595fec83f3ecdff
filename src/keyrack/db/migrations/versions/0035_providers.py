"""Who signs in by a provider of OpenID Connect: the providers, whose account is whose, and sign-ins under way."""

from alembic import op

from keyrack.db.migrations import module
from keyrack.db.migrations.frozen.audit_triggers_v1 import AuditedTable

revision = "0035"
down_revision = "0034"

PROVIDER = """
create table provider (
  provider_id integer generated always as identity primary key,
  name text not null constraint provider_name_check check (name ~ '^[a-z][a-z0-9-]{0,31}$'),
  label text not null,
  issuer text not null,
  client_id text not null,
  client_secret bytea not null,
  algorithms text[] not null constraint provider_algorithms_check check (
    cardinality(algorithms) > 0 and algorithms <@ array[
      'RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512', 'ES256', 'ES384', 'ES512', 'EdDSA']),
  counts_mfa boolean not null default false,
  created_at timestamptz not null default now(),
  constraint provider_name_key unique (name)
)
"""
# A domain is one provider's: whoever may say of an address that it is verified
DOMAIN = """
create table provider_domain (
  domain text constraint provider_domain_pkey primary key
    constraint provider_domain_domain_check check (domain = lower(domain) and domain ~ '^[^@[:space:]]+$'),
  provider_id integer not null constraint provider_domain_of_provider references provider on delete cascade
)
"""
DOMAINS = "create index provider_domain_provider on provider_domain (provider_id, domain)"
IDENTITY = """
create table manager_identity (
  identity_id integer generated always as identity primary key,
  provider_id integer not null constraint manager_identity_of_provider references provider on delete cascade,
  subject text not null
    constraint manager_identity_subject_check check (length(subject) between 1 and 255),
  manager_id integer not null constraint manager_identity_of_manager references manager on delete cascade,
  created_at timestamptz not null default now(),
  constraint manager_identity_subject_key unique (provider_id, subject),
  constraint manager_identity_manager_key unique (manager_id, provider_id)
)
"""
STATE = """
create table login_state (
  state bytea constraint login_state_pkey primary key,
  provider_id integer not null constraint login_state_of_provider references provider on delete cascade,
  browser bytea not null,
  manager_id integer constraint login_state_of_manager references manager on delete cascade,
  next text not null,
  time_zone text,
  invitation bytea,
  created_at timestamptz not null default now()
)
"""
# Those of a provider, and of a manager, that goes; and those that are over
STATES = (
    "create index login_state_provider on login_state (provider_id)",
    "create index login_state_manager on login_state (manager_id)",
    "create index login_state_created_at on login_state (created_at)",
)
# By which provider a session was begun; it may be gone, so nothing refers to it
SESSION = "alter table session add column provider_id integer"
# How who waits for a second factor has signed in until now
STEP = "alter table sign_in_step add column provider_id integer, add column amr text[] not null default '{pwd}'"
# Who may come in by an account no more is out of what was begun by it
END_SESSIONS = """
create function end_sessions_of_identity() returns trigger language plpgsql as $$
begin
  delete from session where manager_id = old.manager_id and provider_id = old.provider_id;
  return null;
end $$
"""
ENDED = (
    "create trigger end_sessions after delete on manager_identity"
    " for each row execute function end_sessions_of_identity()"
)
# Who signs in by a provider need have no password
NO_PASSWORD = "alter table manager alter column password_hash drop not null"  # noqa: S105 - SQL
RECORDED = (
    AuditedTable(
        "provider", "provider", "{r}.provider_id::text", ("provider_id",),
        {"name": "{r}.name", "label": "{r}.label", "issuer": "{r}.issuer", "clientId": "{r}.client_id",
         "algorithms": "to_jsonb({r}.algorithms)", "countsMfa": "{r}.counts_mfa"},
        {"clientSecret": "{r}.client_secret"}, customer="0",
    ),
    AuditedTable(
        "provider_domain", "provider", "{r}.provider_id::text", ("domain",), {"domain": "{r}.domain"},
        customer="0", created="domainAdded", deleted="domainRemoved", events=("insert", "update", "delete"),
    ),
    AuditedTable(
        "manager_identity", "identity", "{r}.identity_id::text", ("identity_id",),
        {"providerId": "{r}.provider_id", "subject": "{r}.subject", "managerId": "{r}.manager_id"},
        customer="0",
    ),
)  # fmt: skip


def tables() -> list[AuditedTable]:
    """Of what the state is compared with the log."""
    return [*module("0034").tables(), *RECORDED]


def upgrade() -> None:
    for statement in (
        PROVIDER,
        DOMAIN,
        DOMAINS,
        IDENTITY,
        STATE,
        *STATES,
        SESSION,
        STEP,
        END_SESSIONS,
        ENDED,
        NO_PASSWORD,
    ):
        op.execute(statement.strip())
    for table in RECORDED:
        for statement in table.statements:
            op.execute(statement)
    op.execute("create or replace view recorded_state as " + " union all ".join(one.state for one in tables()))
