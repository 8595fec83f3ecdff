"""The recorded tables, and the check of their triggers at startup.

`changelog.column_decisions` has the reason for each column that is not recorded.

The triggers themselves are made by migrations (`db.migrations.frozen.audit_triggers_v1`); `db.audit_context`
names the actor.
"""

from __future__ import annotations

from typing import LiteralString

from keyrack.changelog.column_decisions import COLUMNS
from keyrack.db.connection import Statements
from keyrack.db.schema_version import SchemaError

RECORDED = tuple(
    table for table, columns in COLUMNS.items() if any(decisions.audit.is_included for decisions in columns.values())
)
# `person` needs only the triggers of updates and truncation: a person is created and deleted as a customer's user
MISSING: LiteralString = """
select string_agg(wanted.name || ' of ' || wanted.relation, ', ' order by wanted.relation, wanted.name)
from (
  select relation, 'RECORD_' || event as name,
    to_regproc(case event when 'truncate' then 'refuse_truncate' else 'record_' || relation end) as function
  from unnest($1::text[]) relation, unnest('{insert,update,delete,truncate}'::text[]) event
  where relation <> 'person' or event in ('update', 'truncate')
) wanted
left join pg_trigger t on t.tgrelid = to_regclass(wanted.relation) and t.tgname = wanted.name
  and t.tgfoid = wanted.function and t.tgenabled in ('O', 'A')
where t.oid is null
"""
SWITCHED_OFF = (
    "Changes would not be recorded, because these triggers are missing, altered or disabled: {missing}. "
    '`alter table TABLE enable trigger "NAME"` enables a trigger. The log lacks the changes since it was disabled.'
)


SKIPS_TRIGGERS: LiteralString = "select current_setting('session_replication_role') = 'replica'"
TRIGGERS_SKIPPED = (
    "Changes would not be recorded: session_replication_role is 'replica', so no trigger runs. Remove that default of "
    "the server, the database or the role; `alter role ROLE reset session_replication_role` removes the role's."
)


async def require_triggers(statements: Statements) -> None:
    """Check that the session runs triggers, also on a schema without tables. Raises `SchemaError`."""
    if await statements.fetchval(SKIPS_TRIGGERS):
        raise SchemaError(TRIGGERS_SKIPPED)


async def require(statements: Statements) -> None:
    """Check that each change to a recorded table is recorded. Raises `SchemaError`."""
    await require_triggers(statements)
    if missing := await statements.fetchval(MISSING, list(RECORDED)):
        raise SchemaError(SWITCHED_OFF.format(missing=missing))
