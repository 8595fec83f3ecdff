"""In charge of privacy: what is stored about a person, told and erased whole; customers who want no positions kept."""

from __future__ import annotations

import json
from typing import Any, LiteralString

from keyrack.assignments.asking import Asker, checksum, end_all_of_user
from keyrack.database.connection import Statements

ERASED = 0  # in the place of a user's id: an event stays countable, and nobody has this id
ERASED_AGENT = "erased"

EXPORT: LiteralString = """
select json_build_object(
  'person', (select to_json(r) from (
    select user_id as id, email_address as "emailAddress", first_name as "firstName", last_name as "lastName", type,
      password_hash is not null as "hasPassword", subject, created_at as "createdAt"
    from person where user_id = $1) r),
  'customers', (select coalesce(json_agg(r order by r.id), '[]') from (
    select c.customer_id as id, c.name from customer_user u join customer c using (customer_id)
    where u.user_id = $1) r),
  'groups', (select coalesce(json_agg(r order by r."customerId", r.id), '[]') from (
    select g.customer_id as "customerId", g.group_id as id, g.name
    from group_user u join fleet_group g using (customer_id, group_id) where u.user_id = $1) r),
  'assignments', (select coalesce(json_agg(r order by r."customerId", r.id), '[]') from (
    select customer_id as "customerId", assignment_id as id, car_id as "carId", starts_at as start, ends_at as "end",
      lifetime, coalesce(renewable_after, lifetime / 2) as "renewableAfter"
    from assignment where user_id = $1) r),
  'events', (select coalesce(json_agg(r order by r."customerId", r.id), '[]') from (
    select customer_id as "customerId", event_id as id, car_id as "carId", type, local_text as "dateTime",
      utc_at as "utcDateTime", user_agent as "userAgent", latitude, longitude
    from event where user_id = $1) r),
  'operations', (select coalesce(json_agg(r order by r."requestedAt"), '[]') from (
    select customer_id as "customerId", operation_id as id, kind, state, car_id as "carId",
      assignment_id as "assignmentId", request, result, requested_at as "requestedAt", finished_at as "finishedAt"
    from operation where user_id = $1) r),
  'deliveries', (select coalesce(json_agg(r order by r."createdAt"), '[]') from (
    select customer_id as "customerId", delivery_id as id, type, payload::json as payload, created_at as "createdAt"
    from delivery where (payload::jsonb->>'userId')::integer = $1) r)
)
"""
FIND: LiteralString = """
select user_id from person where user_id::text = $1 or lower(email_address) = lower($1)
"""
MEMBERSHIPS: LiteralString = """
select customer_id from customer_user where user_id = $1 union select customer_id from assignment where user_id = $1
order by customer_id
"""
LEAVE: LiteralString = "delete from customer_user where user_id = $1"
# In the order of the counters, so that two who write many customers' events cannot wait for each other
ERASE_EVENTS: LiteralString = """
with gone as (
  update event set user_id = $2, user_agent = $3, latitude = null, longitude = null, client_id = null
  where user_id = $1 returning 1)
select count(*)::integer from gone
"""
# What has not been done yet needs to know whose assignment it ends; it is forgotten with the log of operations
ERASE_OPERATIONS: LiteralString = """
update operation set user_id = null, request = request - 'userId', result = result - 'userId'
where user_id = $1 and state <> 'Pending'
"""
ERASE_DELIVERIES: LiteralString = """
update delivery set payload = (payload::jsonb || '{"userId": null}')::text, answer = null
where state <> 'Waiting' and (payload::jsonb->>'userId')::integer = $1
"""
ERASE_PERSON: LiteralString = "delete from person where user_id = $1"

KEEP_POSITIONS: LiteralString = "update customer set keeps_positions = $2 where customer_id = $1 returning true"
STATES_WITHOUT: LiteralString = """
update car_state set position_at = null, latitude = null, longitude = null, position_since = null, position_times = null
where customer_id = $1 and (position_at is not null or position_since is not null)
"""
HISTORY_WITHOUT: LiteralString = "delete from position where customer_id = $1"
EVENTS_WITHOUT: LiteralString = """
update event set latitude = null, longitude = null
where customer_id = $1 and (latitude is not null or longitude is not null)
"""
SET_HISTORY: LiteralString = "update customer set history_days = $2 where customer_id = $1 returning true"


async def find(statements: Statements, who: str) -> int | None:
    """The id of the person with this id or e-mail address."""
    return await statements.fetchval(FIND, who)


async def export(statements: Statements, user: int) -> dict[str, Any]:
    """Everything that is stored about a person, of all customers."""
    return json.loads(await statements.fetchval(EXPORT, user))


async def memberships(statements: Statements, user: int) -> list[int]:
    """The customers that the person belongs to."""
    return [row["customer_id"] for row in await statements.fetch(MEMBERSHIPS, user)]


async def erase(statements: Statements, user: int) -> int:
    """Erase a person, in the caller's transaction, which holds the person's customers; the number of events that stay,
    without the person.

    Assignments end by webhook as they always do, so that boxes learn of it: those operations, and the deliveries that
    still wait, carry the person's bare number until the logs are tidied.
    """
    fingerprint = checksum(b"", "ERASE", f"/users/{user}")
    for customer in await memberships(statements, user):
        await end_all_of_user(statements, customer, user, fingerprint, Asker())
    await statements.execute(LEAVE, user)
    events: int = await statements.fetchval(ERASE_EVENTS, user, ERASED, ERASED_AGENT)
    await statements.execute(ERASE_OPERATIONS, user)
    await statements.execute(ERASE_DELIVERIES, user)
    await statements.execute(ERASE_PERSON, user)
    return events


async def keep_positions(statements: Statements, customer: int, keep: bool) -> bool:
    """Say whether a customer's positions are stored; those that are there go at once. False: no such customer."""
    if not await statements.fetchval(KEEP_POSITIONS, customer, keep):
        return False
    if not keep:
        await statements.execute(STATES_WITHOUT, customer)
        await statements.execute(HISTORY_WITHOUT, customer)
        await statements.execute(EVENTS_WITHOUT, customer)
    return True


async def keep_history(statements: Statements, customer: int, days: int | None) -> bool:
    """Say for how many days a customer's history is kept; None: as the setting says. False: no such customer."""
    return bool(await statements.fetchval(SET_HISTORY, customer, days))
