"""Erasure of a person from one customer: preview, erasure, and the later clean-up of logs.

It counts and changes only this customer's rows, and `left_at` of the person. Another customer's data about the same
person remain, and no answer reveals whether there are any. The operator's command erases everywhere (`global_erasure`).
"""

from __future__ import annotations

from typing import LiteralString

from keyrack.api.request_origin import RequestOrigin
from keyrack.assignments.submission import end_all_of_user
from keyrack.changelog import erasure as changes
from keyrack.core.settings import Settings
from keyrack.db.connection import Database, Statements
from keyrack.fleet import global_erasure
from keyrack.fleet.global_erasure import OPERATION_NAMES_USER, WITHOUT_USER
from keyrack.webhooks import erasure as deliveries
from keyrack.webhooks.erasure import without_person

# Deliveries are found by webhook, as their index begins with it
COUNTS: LiteralString = (
    """
select
  (select count(*) from group_user where customer_id = $1 and user_id = $2::integer) as groups,
  (select count(*) from assignment where customer_id = $1 and user_id = $2::integer) as assignments,
  (select count(*) from app_device where customer_id = $1 and user_id = $2::integer) as devices,
  (select count(*) from box_key where customer_id = $1 and user_id = $2::integer) as keys,
  (select count(*) from event where customer_id = $1 and user_id = $2::integer) as events,
  (select count(*) from operation o where customer_id = $1 and """
    + OPERATION_NAMES_USER
    + """) as operations,
  (select count(*) from operation o join webhook w on w.customer_id = o.customer_id
   join delivery d on d.customer_id = w.customer_id and d.webhook_id = w.webhook_id and d.message_id = o.operation_id
   where o.customer_id = $1 and """
    + OPERATION_NAMES_USER
    + """) as deliveries,
  (select count(*) from change where customer_id = $1 and resource = 'user' and resource_id = $2::integer::text
   and person is not null)
  + (select count(*) from change where customer_id = $1 and resource in ('assignment', 'assignmentRequest', 'group')
     and (before ->> 'userId' = $2::integer::text or after ->> 'userId' = $2::integer::text))
  + (select count(*) from change_inbox
     where customer_id = $1 and (resource = 'user' and resource_id = $2::integer::text
     or resource in ('assignment', 'assignmentRequest', 'group')
     and $2::integer::text in (before ->> 'userId', after ->> 'userId'))
    ) as changes
where exists (select from customer_user where customer_id = $1 and user_id = $2::integer)
"""
)
# At once, unlike events: a person who returns gets new keys, and never uses these again
ERASE_KEYS: LiteralString = "update box_key set user_id = $3, token = '' where customer_id = $1 and user_id = $2"
ERASE_REPORTS: LiteralString = "update box_report set user_id = null where customer_id = $1 and user_id = $2"
LEAVE: LiteralString = "delete from customer_user where customer_id = $1 and user_id = $2"
# The time and the customer's last event: if the person returns, later data remain
REMEMBER: LiteralString = """
insert into erasure (customer_id, user_id, last_event)
select $1, $2, last_id from event_counter where customer_id = $1
on conflict (customer_id, user_id) do update set asked_at = now(), last_event = excluded.last_event
"""
# A customer that recently removed the person may still add the person again, and another customer must not prevent that
LET_GO: LiteralString = """
update person p set left_at = '-infinity'
where user_id = $1 and (left_at is null or left_at < now() - make_interval(days => $2))
and not exists (select from customer_user u where u.user_id = p.user_id)
"""

OPEN: LiteralString = """
update erasure set looked_at = now() where (customer_id, user_id) in (
  select customer_id, user_id from erasure order by looked_at limit $1)
returning customer_id, user_id, asked_at, last_event
"""
# $1: customer; $2: person; $3: the limit (time or event id) if the person is in the customer again
_NOT_AGAIN: LiteralString = " not exists (select from customer_user where customer_id = $1 and user_id = $2)"
_EVENTS: LiteralString = (
    "select customer_id, event_id, recorded_at from event where customer_id = $1 and user_id = $2"
    " and (event_id <= $3::integer or" + _NOT_AGAIN + ")"
)
_OPERATIONS: LiteralString = (
    "select operation_id from operation o where customer_id = $1 and "
    + OPERATION_NAMES_USER
    + " and (requested_at <= $3::timestamptz or"
    + _NOT_AGAIN
    + ")"
)
ERASE_EVENTS: LiteralString = (
    "with chosen as materialized (" + _EVENTS + " limit $6), sent as ("
    + without_person("chosen", "$4::integer", "$5::text")
    + "), gone as (update event set user_id = $4, user_agent = $5, latitude = null, longitude = null, client_id = null,"
    " assignment_id = null where customer_id = $1 and event_id = any(array(select event_id from chosen)) returning 1)"
    " select count(*) from gone"
)  # fmt: skip
# Pending operations and waiting deliveries still need the user of their assignment
ERASE_OPERATIONS: LiteralString = (
    "with done as materialized ("
    + _OPERATIONS
    + """
  and state <> 'Pending' and not exists (
    select from webhook w join delivery d using (customer_id, webhook_id)
    where w.customer_id = $1 and d.message_id = o.operation_id and d.state = 'Waiting') limit $4
), sent as (
  update delivery d set answer = null, payload = case when payload::jsonb ->> 'userId' = $2::integer::text
    then (payload::jsonb || '{"userId": null, "externalId": null, "metadata": null}')::text else payload end
  from webhook w
  where w.customer_id = $1 and d.customer_id = $1 and d.webhook_id = w.webhook_id
  and d.message_id in (select operation_id from done)
), gone as (
  update operation set """
    + WITHOUT_USER
    + """
  where customer_id = $1 and operation_id in (select operation_id from done) returning 1
)
select count(*) from gone
"""
)
ANY_EVENT: LiteralString = "select exists (" + _EVENTS + ")"
ANY_OPERATION: LiteralString = "select exists (" + _OPERATIONS + ")"
# A transaction that saw the person in the customer may still write for a moment
FORGET: LiteralString = """
delete from erasure where customer_id = $1 and user_id = $2 and asked_at = $3 and asked_at < now() - interval '1 minute'
"""


async def count_rows(statements: Statements, customer: int, user: int) -> dict[str, int] | None:
    """The numbers of rows of the customer that name the user, by kind; None without such a user."""
    row = await statements.fetchrow(COUNTS, customer, user)
    if row is None:
        return None
    return {**row, "deliveries": row["deliveries"] + await deliveries.count(statements, customer, user)}


async def erase(
    statements: Statements, customer: int, user: int, checksum: str, asker: RequestOrigin, settings: Settings
) -> None:
    """Erase a user of the customer. The caller's transaction has locked the customer.

    The user leaves the customer at once. Assignments end with a webhook, as for any user who leaves. `finish` removes
    the person from events and logs. `global_erasure.erase_orphans` removes the person once no customer has the
    person, or has removed the person recently.
    """
    await global_erasure.lock_person(statements, user)
    await end_all_of_user(statements, customer, user, checksum, asker)
    await statements.execute(LEAVE, customer, user)
    await global_erasure.end_account(statements, user)
    await statements.execute(ERASE_KEYS, customer, user, global_erasure.ERASED)
    await statements.execute(ERASE_REPORTS, customer, user)
    await statements.execute(REMEMBER, customer, user)
    await statements.execute(LET_GO, user, settings.orphaned_person_retention_days)


async def finish(db: Database, settings: Settings) -> None:
    """Remove erased persons from events and logs, in batches. A step of housekeeping."""
    rows = settings.housekeeping_rows
    for row in await db.fetch(OPEN, rows):
        person = (row["customer_id"], row["user_id"])
        while await db.fetchval(
            ERASE_EVENTS, *person, row["last_event"], global_erasure.ERASED, global_erasure.ERASED_AGENT, rows
        ) >= rows:  # fmt: skip
            pass
        while await db.fetchval(ERASE_OPERATIONS, *person, row["asked_at"], rows) >= rows:
            pass
        if not await changes.finish(db, *person, rows):
            continue
        if await db.fetchval(ANY_EVENT, *person, row["last_event"]):
            continue
        if not await db.fetchval(ANY_OPERATION, *person, row["asked_at"]):
            await db.execute(FORGET, *person, row["asked_at"])
