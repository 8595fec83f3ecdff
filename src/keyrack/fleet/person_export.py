"""In charge of privacy: what is stored about a person, told and erased whole; customers who want no positions kept.

A person who is in no customer any more is kept for a while, and found by the e-mail address alone; then erased.
"""

from __future__ import annotations

import json
from typing import Any, LiteralString

import structlog

from keyrack.api.request_origin import RequestOrigin, checksum
from keyrack.assignments.submission import end_all_of_user
from keyrack.changelog import erasure as changes
from keyrack.core.addresses import address_form
from keyrack.core.settings import Settings
from keyrack.db.connection import Database, Statements
from keyrack.db.row_batches import run_in_batches
from keyrack.fleet.person_lookup import user_id_by_form

log = structlog.get_logger("keyrack.privacy")

ERASED = 0  # in the place of a user's id: an event stays countable, and nobody has this id
ERASED_AGENT = "erased"

EXPORT: LiteralString = """
select json_build_object(
  'person', (select to_json(r) from (
    select user_id as id, email_address as "emailAddress", first_name as "firstName", last_name as "lastName", type,
      password_hash is not null as "hasPassword", created_at as "createdAt", left_at as "leftAt"
    from person where user_id = $1) r),
  'customers', (select coalesce(json_agg(r order by r.id), '[]') from (
    select c.customer_id as id, c.name, subject_at(c.customer_id, p.seed) as subject
    from customer_user u join customer c using (customer_id) join person p using (user_id)
    where u.user_id = $1) r),
  'groups', (select coalesce(json_agg(r order by r."customerId", r.id), '[]') from (
    select g.customer_id as "customerId", g.group_id as id, g.name
    from group_user u join fleet_group g using (customer_id, group_id) where u.user_id = $1) r),
  'assignments', (select coalesce(json_agg(r order by r."customerId", r.id), '[]') from (
    select customer_id as "customerId", assignment_id as id, car_id as "carId", starts_at as start, ends_at as "end",
      lifetime, coalesce(renewable_after, lifetime / 2) as "renewableAfter"
    from assignment where user_id = $1) r),
  'devices', (select coalesce(json_agg(r order by r."customerId", r.registered), '[]') from (
    select customer_id as "customerId", encode(device_id, 'hex') as thumbprint, name, protection,
      registered_at as registered
    from app_device where user_id = $1) r),
  'keys', (select coalesce(json_agg(r order by r."customerId", r.issued), '[]') from (
    select customer_id as "customerId", key_id as id, product_id as "productId", car_id as "carId",
      assignment_id as "assignmentId", encode(device_id, 'hex') as thumbprint, issued_at as issued,
      begins_at as begins, expires_at as expires, revoked_at as revoked
    from customer c cross join lateral (
      select key_id, product_id, car_id, assignment_id, device_id, issued_at, begins_at, expires_at, revoked_at
      from box_key where box_key.customer_id = c.customer_id and user_id = $1) k) r),
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
    from delivery where (payload::jsonb->>'userId')::integer = $1
    or payload::jsonb #>> '{data,resource}' = 'user' and payload::jsonb #>> '{data,resourceId}' = $1::integer::text
    or $1::integer::text in (payload::jsonb #>> '{data,before,userId}', payload::jsonb #>> '{data,after,userId}')) r)
)
"""
FIND: LiteralString = """
select coalesce((select user_id from person where user_id::text = $1), {by_form})
""".replace("{by_form}", user_id_by_form("$2"))
MEMBERSHIPS: LiteralString = """
select customer_id from customer_user where user_id = $1 union select customer_id from assignment where user_id = $1
order by customer_id
"""
LEAVE: LiteralString = "delete from customer_user where user_id = $1"
LOCK: LiteralString = "select true from person where user_id = $1 for update"
# An index finds them, and only customer by customer
CUSTOMERS_OF_EVENTS: LiteralString = """
select c.customer_id from customer c cross join lateral (
  select from event e where e.customer_id = c.customer_id and e.user_id = $1 limit 1) e
"""
ERASE_EVENTS: LiteralString = """
with gone as (
  update event set user_id = $3, user_agent = $4, latitude = null, longitude = null, client_id = null
  where customer_id = $1 and event_id = any(array(
    select event_id from event where customer_id = $1 and user_id = $2 limit $5)) returning 1)
select count(*)::integer from gone
"""
# What was issued stays, so that boxes can be told of it, and what they tell finds its car
ERASE_KEYS: LiteralString = """
update box_key set user_id = $2, token = ''
where user_id = $1 and customer_id = any(array(select customer_id from customer))
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
PIECE = 5_000  # events that one statement changes
ERASE_PERSON: LiteralString = "delete from person where user_id = $1"

# Who left one customer and is in another, or is there again
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
# Whoever links the person now has a lock of it already, or waits for this one and then finds nobody
LOCK_LEFT: LiteralString = """
select true from person where user_id = $1 and left_at < now() - make_interval(days => $2) for update skip locked
"""

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
    return await statements.fetchval(FIND, who, address_form(who))


async def export(statements: Statements, user: int) -> dict[str, Any]:
    """Everything that is stored about a person, of all customers."""
    return json.loads(await statements.fetchval(EXPORT, user))


async def memberships(statements: Statements, user: int) -> list[int]:
    """The customers that the person belongs to."""
    return [row["customer_id"] for row in await statements.fetch(MEMBERSHIPS, user)]


async def lock(statements: Statements, user: int) -> None:
    """Keep everybody from linking the person to a customer, until the transaction ends. Holds come before it."""
    await statements.fetchval(LOCK, user)


async def erase(statements: Statements, user: int) -> int:
    """Erase a person, in the caller's transaction, which holds the person's customers and then has the lock of the
    person; the number of events that stay, without the person.

    Assignments end by webhook as they always do, so that boxes learn of it: those operations, and the deliveries that
    still wait, carry the person's bare number until the logs are tidied.
    """
    fingerprint = checksum(b"", "ERASE", f"/users/{user}")
    for customer in await memberships(statements, user):
        await end_all_of_user(statements, customer, user, fingerprint, RequestOrigin())
    await statements.execute(LEAVE, user)
    await statements.execute(ERASE_OPERATIONS, user)
    await statements.execute(ERASE_DELIVERIES, user)
    return await _erase_nobodys(statements, user)


async def _erase_nobodys(statements: Statements, user: int) -> int:
    """Erase a person who is in no customer, in pieces; the number of events."""
    events = 0
    for row in await statements.fetch(CUSTOMERS_OF_EVENTS, user):
        piece = PIECE
        while piece >= PIECE:
            piece = await statements.fetchval(ERASE_EVENTS, row["customer_id"], user, ERASED, ERASED_AGENT, PIECE)
            events += piece
    await statements.execute(ERASE_KEYS, user, ERASED)
    await statements.execute(ERASE_PERSON, user)
    await changes.erase(statements, user)
    return events


async def forget_people(db: Database, settings: Settings) -> None:
    """Erase those who have been in no customer for as long as the settings keep them, each in its own transaction.
    A step of housekeeping.

    Logs of operations and deliveries go on to say their bare numbers until they are forgotten themselves: to look
    through all of them takes too long for something that happens every day.
    """
    await run_in_batches(db, settings.housekeeping_rows, STAY, settings.orphaned_person_retention_days)
    erased = 0
    for row in await db.fetch(LEFT, settings.orphaned_person_retention_days, settings.housekeeping_rows):
        user: int = row["user_id"]
        async with db.transaction() as connection:
            locked = await connection.fetchval(LOCK_LEFT, user, settings.orphaned_person_retention_days)
            # Lock first, read in the next statement: who was linked before the lock was ours is seen
            if locked and not await memberships(connection, user):
                await _erase_nobodys(connection, user)
                erased += 1
    if erased:
        log.info("people without a customer erased", count=erased)


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
