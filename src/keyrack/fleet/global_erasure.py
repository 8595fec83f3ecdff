"""Erasure of a person from all customers.

The operator requests it, or it follows some time after the last membership ended. In this time the person can only be
found by e-mail address.
"""

from __future__ import annotations

from typing import LiteralString

import structlog

from keyrack.api.request_origin import RequestOrigin, checksum
from keyrack.assignments.submission import end_all_of_user
from keyrack.changelog import erasure as changes
from keyrack.core.settings import Settings
from keyrack.db.connection import Database, Statements
from keyrack.db.row_batches import run_in_batches
from keyrack.webhooks.erasure import without_person

log = structlog.get_logger("keyrack.privacy")

ERASED = 0  # replaces the user id of events, which still count, and of keys; no user has this id
ERASED_AGENT = "erased"

MEMBERSHIPS: LiteralString = """
select customer_id from customer_user where user_id = $1 union select customer_id from assignment where user_id = $1
order by customer_id
"""
# The other cells erase the person as well (fleet/person_changes.py)
LEAVE: LiteralString = """
with queued as (
  insert into person_change_outbox as o (user_id, cell, is_erasure)
  select user_id, cell, true from person_cell where user_id = $1
  on conflict (user_id, cell) do update
  set is_erasure = true, changes = o.changes + 1, created_at = now(), due_at = now(), attempts = 0)
delete from customer_user where user_id = $1
"""
# The account of a driver ends with the last membership. Each leave locks the person, so the later one of two finds no
# membership
END_ACCOUNT: LiteralString = """
delete from driver_account a where user_id = $1
and not exists (select from customer_user u where u.user_id = a.user_id)
"""
LOCK: LiteralString = "select true from person where user_id = $1 for update"
# The index of events by user begins with the customer, so each customer is searched
CUSTOMERS_OF_EVENTS: LiteralString = """
select c.customer_id from customer c cross join lateral (
  select from event e where e.customer_id = c.customer_id and e.user_id = $1 limit 1) e
"""
ERASE_EVENTS: LiteralString = (
    """
with chosen as materialized (
  select customer_id, event_id, recorded_at from event where customer_id = $1 and user_id = $2 limit $5),
sent as (""" + without_person("chosen", "$3::integer", "$4::text") + """),
gone as (
  update event set user_id = $3, user_agent = $4, latitude = null, longitude = null, client_id = null,
    assignment_id = null
  where customer_id = $1 and event_id = any(array(select event_id from chosen)) returning 1)
select count(*)::integer from gone
"""
)  # fmt: skip
# Rows of issued keys remain: boxes still receive their revocations, and events of the box still find their car
ERASE_KEYS: LiteralString = """
update box_key set user_id = $2, token = ''
where user_id = $1 and customer_id = any(array(select customer_id from customer))
"""
ERASE_REPORTS: LiteralString = """
update box_report set user_id = null
where user_id = $1 and customer_id = any(array(select customer_id from customer))
"""
# Whether the operation `o` names the user $2, as the assignment's user or as its new one
OPERATION_NAMES_USER: LiteralString = (
    "(o.user_id = $2::integer or o.kind = 'UpdateAssignment' and o.request ->> 'userId' = $2::integer::text)"
)
# The SET clause that removes the user $2 from an operation, with the references of the assignment. The other user of a
# hand-over remains
_REFERENCES: LiteralString = " - array['externalId', 'metadata']"
WITHOUT_USER: LiteralString = (
    "user_id = nullif(user_id, $2::integer),"
    " request = case when request ->> 'userId' = $2::integer::text then request - 'userId'" + _REFERENCES
    + " when user_id = $2::integer then request" + _REFERENCES + " else request end,"
    " result = case when result ->> 'userId' = $2::integer::text then result - 'userId'" + _REFERENCES
    + " else result end"
)  # fmt: skip
# A pending operation needs the user of the assignment that it ends; its row is deleted with the log of operations
ERASE_OPERATIONS: LiteralString = (
    "update operation o set " + WITHOUT_USER + " where customer_id = any(array(select customer_id from customer)) and "
    + OPERATION_NAMES_USER + " and state <> 'Pending'"
).replace("$2", "$1")  # fmt: skip
ERASE_DELIVERIES: LiteralString = """
update delivery set answer = null, payload = (payload::jsonb || '{"externalId": null, "metadata": null}'
  || case when state = 'Waiting' then '{}'::jsonb else '{"userId": null}' end)::text
where payload::jsonb ->> 'userId' = $1::integer::text
"""
BATCH = 5_000  # events that one statement changes
ERASE_PERSON: LiteralString = "delete from person where user_id = $1"

# Persons who left one customer and are in another one, or again in the same one
STAY: LiteralString = """
with stays as (
  update person set left_at = null where user_id = any(array(
    select user_id from person p where left_at < now() - make_interval(days => $1)
    and exists (select from customer_user u where u.user_id = p.user_id) limit $2
    for no key update skip locked)) returning true)
select count(*) from stays
"""
LEFT: LiteralString = """
select user_id from person p where left_at < now() - make_interval(days => $1)
and not exists (select from customer_user u where u.user_id = p.user_id) order by left_at limit $2
"""
# A transaction that links the person has locked the row already, which is then skipped, or waits for this one and then
# finds no person
LOCK_LEFT: LiteralString = """
select true from person where user_id = $1 and left_at < now() - make_interval(days => $2) for update skip locked
"""


async def memberships(statements: Statements, user: int) -> list[int]:
    """The customers in which the person is a user or has an assignment.

    They are ascending: locks are taken in this order.
    """
    return [row["customer_id"] for row in await statements.fetch(MEMBERSHIPS, user)]


async def lock_person(statements: Statements, user: int) -> None:
    """Prevent new links of the person until the transaction ends. Take customer locks before."""
    await statements.fetchval(LOCK, user)


async def end_account(statements: Statements, user: int) -> None:
    """Delete the app account of a person without a customer.

    The caller's transaction has locked the person, and removed a membership.
    """
    await statements.execute(END_ACCOUNT, user)


async def erase(statements: Statements, user: int) -> int:
    """Erase a person; return the number of events that remain, without the person.

    The caller's transaction has locked the person's customers, and then the person. The other cells that have the
    person follow later.

    Assignments end as usual, with a webhook, so that boxes learn of it. Those operations and the deliveries that still
    wait contain the person's id until the logs are cleaned up.
    """
    fingerprint = checksum(b"", "ERASE", f"/users/{user}")
    for customer in await memberships(statements, user):
        await end_all_of_user(statements, customer, user, fingerprint, RequestOrigin(), has_references=False)
    await statements.execute(LEAVE, user)
    await statements.execute(ERASE_OPERATIONS, user)
    await statements.execute(ERASE_DELIVERIES, user)
    return await _erase_orphan(statements, user)


async def _erase_orphan(statements: Statements, user: int) -> int:
    """Erase a person without a customer, in batches; return the number of events."""
    events = 0
    for row in await statements.fetch(CUSTOMERS_OF_EVENTS, user):
        batch = BATCH
        while batch >= BATCH:
            batch = await statements.fetchval(ERASE_EVENTS, row["customer_id"], user, ERASED, ERASED_AGENT, BATCH)
            events += batch
    await statements.execute(ERASE_KEYS, user, ERASED)
    await statements.execute(ERASE_REPORTS, user)
    await statements.execute(ERASE_PERSON, user)
    await changes.erase(statements, user)
    return events


async def erase_orphans(db: Database, settings: Settings) -> None:
    """Erase persons without a customer after the configured time, each in its own transaction.

    A step of housekeeping. Logs of operations and deliveries keep the bare ids until their own rows are deleted: a
    daily search through all of them would take too long.
    """
    await run_in_batches(db, settings.housekeeping_rows, STAY, settings.orphaned_person_retention_days)
    erased = 0
    for row in await db.fetch(LEFT, settings.orphaned_person_retention_days, settings.housekeeping_rows):
        user: int = row["user_id"]
        async with db.transaction() as connection:
            locked = await connection.fetchval(LOCK_LEFT, user, settings.orphaned_person_retention_days)
            # Lock first, read in the next statement: it sees every link that was committed before the lock
            if locked and not await memberships(connection, user):
                await _erase_orphan(connection, user)
                erased += 1
    if erased:
        log.info("orphaned persons erased", count=erased)
