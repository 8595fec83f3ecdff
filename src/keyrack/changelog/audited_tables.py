"""In charge of what is recorded: that each table is, or stands here with its reason, and that nothing was switched off.

The triggers themselves are made by migrations (`db.migrations.frozen.audit_triggers_v1`); who acts is told by
`db.audit_context`.
"""

from __future__ import annotations

from typing import LiteralString

from keyrack.db.connection import Statements
from keyrack.db.schema_version import SchemaError

RECORDED = (
    "api_key", "app_device", "assignment", "box_epoch", "box_key", "box_report", "brand_key", "car", "client",
    "client_customer", "client_secret", "contract", "customer", "customer_user", "device_key", "factor_rule",
    "fleet_group", "group_car", "group_product", "group_service", "group_user", "invitation", "issuing_key",
    "key_authority", "key_form", "manager", "manager_customer", "manager_identity", "manager_role", "passkey",
    "person", "product", "provider", "provider_domain", "recovery", "sdk_key", "service", "signing_key", "totp",
    "webhook",
)  # fmt: skip
_LOG = "the log of changes itself"
_READINGS = "what units tell: a log itself"
_WORK = "work that waits, of which its outcome is recorded"
_LIMIT = "what is in groups that somebody is limited to, which both are recorded"
_PROCESSES = "how processes go about their work"
NOT_RECORDED = {
    "access_change": "the numbers by which processes hear that access has changed",
    "alembic_version": "the schema's revision",
    "app_subject": "by what the tokens of apps name users",
    "box_entry": "a log itself, of boxes",
    "car_state": _READINGS,
    "change": _LOG, "change_checkpoint": _LOG, "change_edge": _LOG, "change_epoch": _LOG, "change_inbox": _LOG,
    "change_log": _LOG, "change_server": _PROCESSES, "change_tile": _LOG, "change_tree": _LOG, "custody": _LOG,
    "custody_log": _LOG, "fitting": _LOG,
    "compatibility": "which releases work with the schema",
    "customer_hold": _WORK,
    "customer_import": "how far an import is, whose rows are recorded",
    "enrolment_nonce": "what a box is to sign, of which its enrolment is recorded",
    "data_key": "what closes secrets; the change of the master key says nothing of a resource",
    "delivery": "a log itself",
    "delivery_lane": _WORK,
    "erasure": _WORK,
    "event": "a log itself",
    "event_counter": "the number of the newest event",
    "heartbeat": _PROCESSES,
    "housekeeping": _PROCESSES,
    "idempotency_key": "answers that are kept for a repeat",
    "imported_id": "which number stood for which one elsewhere",
    "login_state": "without a use: sign-ins under way, in the release before",
    "mail": _WORK,
    "odometer": _READINGS,
    "operation": "a log itself, and each change that comes of it names it",
    "password_link": "a link on its way; that it was used is recorded of the manager",
    "position": _READINGS,
    "rate_limit": "what is used of a rate",
    "removed_webhook": _WORK,
    "revoked_token": "tokens that are refused for as long as they would have been good",
    "scope": _LIMIT, "scope_group": _LIMIT, "scope_member": _LIMIT,
    "status_generation": "what is made of keys, which are recorded",
    "session": "who is signed in; the next look at it may be the last",
    "sign_in_step": "who is about to sign in: what comes of it is a session",
    "telemetry": _READINGS,
    "used_login_state": "digests by which a sign-in is finished once: what comes of it is a session",
    "write_check": _PROCESSES,
}  # fmt: skip
# Of a person the updates: it comes and goes by being a customer's user
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
    "Changes would not be recorded: these triggers are missing, altered or switched off: {missing}. "
    '`alter table TABLE enable trigger "NAME"` switches one on; who switched it off has changed rows unseen since.'
)


SKIPS_TRIGGERS: LiteralString = "select current_setting('session_replication_role') = 'replica'"
TRIGGERS_SKIPPED = (
    "Changes would not be recorded: session_replication_role is 'replica', so no trigger runs. Remove that default of "
    "the server, the database or the role; `alter role ROLE reset session_replication_role` removes the role's."
)


async def require(statements: Statements) -> None:
    """Check that each change which must be recorded is recorded. Raises `SchemaError`."""
    if await statements.fetchval(SKIPS_TRIGGERS):
        raise SchemaError(TRIGGERS_SKIPPED)
    if missing := await statements.fetchval(MISSING, list(RECORDED)):
        raise SchemaError(SWITCHED_OFF.format(missing=missing))
