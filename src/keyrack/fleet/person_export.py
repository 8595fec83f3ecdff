"""Export of everything stored about a person, in all customers, as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, LiteralString

from keyrack.core.addresses import address_form
from keyrack.db.connection import Statements
from keyrack.fleet.global_erasure import OPERATION_NAMES_USER
from keyrack.fleet.person_lookup import PERSONS

# The sections of the document: SQL of one JSON value about the person $1. `changelog/column_decisions` lists the
# columns in each
SECTIONS: Mapping[LiteralString, LiteralString] = {
    "person": """(select to_json(r) from (
    select user_id as id, email_address as "emailAddress", first_name as "firstName", last_name as "lastName", type,
      password_hash is not null as "hasPassword", password_customer as "passwordCustomerId", created_at as "createdAt",
      left_at as "leftAt"
    from person where user_id = $1) r)""",
    "customers": """(select coalesce(json_agg(r order by r.id), '[]') from (
    select c.customer_id as id, c.name, subject_at(c.customer_id, p.seed) as subject, u.external_id as "externalId",
      u.metadata
    from customer_user u join customer c using (customer_id) join person p using (user_id)
    where u.user_id = $1) r)""",
    "driverAccount": """(select to_json(r) from (
    select password_hash is not null as "hasPassword", is_proven as "isProven", language, created_at as "createdAt",
      (select coalesce(json_agg(json_build_object('customerId', customer_id, 'granted', granted_at)
        order by customer_id), '[]') from driver_access where user_id = $1) as accesses,
      (select coalesce(json_agg(json_build_object('id', passkey_id, 'name', name, 'isBackedUp', is_backed_up,
        'isRefused', is_refused, 'created', created_at, 'lastUsed', used_at) order by passkey_id), '[]')
        from driver_passkey where user_id = $1) as passkeys,
      (select coalesce(json_agg(json_build_object('id', session_id, 'customerId', customer_id,
        'providerId', provider_id, 'device', device, 'methods', amr, 'created', created_at,
        'seen', seen_at, 'pushSince', (select p.created_at from driver_push p where p.session_id = s.session_id))
        order by session_id), '[]')
        from driver_session s where user_id = $1) as sessions,
      (select coalesce(json_agg(json_build_object('providerId', provider_id, 'subject', subject, 'created', created_at)
        order by provider_id), '[]') from driver_identity where user_id = $1) as identities
    from driver_account where user_id = $1) r)""",
    "driverLinks": """(select coalesce(json_agg(r order by r.created), '[]') from (
    select customer_id as "customerId", kind, created_at as created, expires_at as expires
    from driver_link where user_id = $1) r)""",
    "withdrawnAccesses": """(select coalesce(json_agg(r order by r."customerId"), '[]') from (
    select customer_id as "customerId", withdrawn_at as withdrawn from driver_withdrawn where user_id = $1) r)""",
    "groups": """(select coalesce(json_agg(r order by r."customerId", r.id), '[]') from (
    select g.customer_id as "customerId", g.group_id as id, g.name
    from group_user u join fleet_group g using (customer_id, group_id) where u.user_id = $1) r)""",
    "assignments": """(select coalesce(json_agg(r order by r."customerId", r.id), '[]') from (
    select customer_id as "customerId", assignment_id as id, car_id as "carId", starts_at as start, ends_at as "end",
      lifetime, coalesce(renewable_after, lifetime / 2) as "renewableAfter", is_exclusive as exclusive,
      booking_gap as "bookingGap", external_id as "externalId", metadata
    from assignment where user_id = $1) r)""",
    "assignmentRequests": """(select coalesce(json_agg(r order by r."customerId", r.id), '[]') from (
    select customer_id as "customerId", request_id as id, assignment_id as "assignmentId", car_id as "carId", kind,
      wanted_end as "end", comment, state, decided_by as "decidedBy", decision_comment as "decisionComment",
      created_at as created, decided_at as decided
    from assignment_request where user_id = $1) r)""",
    "accessHistory": """(select coalesce(json_agg(r order by r."customerId", r.since, r."knownFrom"), '[]') from (
    select h.* from customer c cross join lateral (
      select customer_id as "customerId", assignment_id as "assignmentId", car_id as "carId", since,
        nullif(until, 'infinity') as until, known_from as "knownFrom", nullif(known_until, 'infinity') as "knownUntil"
      from custody where custody.customer_id = c.customer_id and user_id = $1 and ended > began) h) r)""",
    "devices": """(select coalesce(json_agg(r order by r."customerId", r.registered), '[]') from (
    select customer_id as "customerId", encode(device_id, 'hex') as thumbprint, name,
      protection as "claimedProtection", registered_at as registered, is_approved as "isApproved"
    from app_device where user_id = $1) r)""",
    "keys": """(select coalesce(json_agg(r order by r."customerId", r.issued), '[]') from (
    select customer_id as "customerId", key_id as id, product_id as "productId", car_id as "carId",
      assignment_id as "assignmentId", encode(device_id, 'hex') as thumbprint, issued_at as issued,
      begins_at as begins, expires_at as expires, revoked_at as revoked
    from customer c cross join lateral (
      select key_id, product_id, car_id, assignment_id, device_id, issued_at, begins_at, expires_at, revoked_at
      from box_key where box_key.customer_id = c.customer_id and user_id = $1) k) r)""",
    "boxReports": """(select coalesce(json_agg(r order by r."customerId", r.reported), '[]') from (
    select customer_id as "customerId", product_id as "productId", kind, number, times, reported_at as reported
    from box_report where user_id = $1) r)""",
    "events": """(select coalesce(json_agg(r order by r."customerId", r.id), '[]') from (
    select customer_id as "customerId", event_id as id, car_id as "carId", type, local_text as "dateTime",
      utc_at as "utcDateTime", user_agent as "userAgent", latitude, longitude
    from event where user_id = $1) r)""",
    "operations": """(select coalesce(json_agg(r order by r."requestedAt"), '[]') from (
    select customer_id as "customerId", operation_id as id, kind, state, error_code as "errorCode", car_id as "carId",
      assignment_id as "assignmentId", request, result, requested_at as "requestedAt", finished_at as "finishedAt"
    from operation o where customer_id = any(array(select customer_id from customer)) and """
    + OPERATION_NAMES_USER.replace("$2", "$1")
    + """) r)""",
    # Changes of the user and of the user's assignments, groups, phones and keys. The newest ones have no number yet
    "changes": """(select coalesce(json_agg(r order by r."customerId", r.id nulls last, r.time), '[]') from (
    with named as materialized (
      select customer_id, 'user' as resource, $1::integer::text as resource_id from change_log
      union all
      select customer_id, 'device', translate(encode(device_id, 'base64'), '+/=', '-_') from app_device
      where user_id = $1
      union all
      select c.customer_id, 'key', k.key_id::text from customer c cross join lateral (
        select key_id from box_key where box_key.customer_id = c.customer_id and user_id = $1) k
    ), listed as (
      select c.* from named n join change c using (customer_id, resource, resource_id)
      union
      select c.* from change_log l join change c using (customer_id)
      where c.resource in ('assignment', 'assignmentRequest', 'group')
      and (c.before ->> 'userId' = $1::integer::text or c.after ->> 'userId' = $1::integer::text)
    )
    select customer_id as "customerId", change_id as id, at as time, kind, resource, resource_id as "resourceId",
      coalesce(before || nullif(person -> 'before', 'null'), before, nullif(person -> 'before', 'null')) as before,
      coalesce(after || nullif(person -> 'after', 'null'), after, nullif(person -> 'after', 'null')) as after
    from listed
    union all
    select customer_id, null, at, kind, resource, resource_id, before, after from change_inbox i
    where (resource in ('assignment', 'assignmentRequest', 'group')
      and $1::integer::text in (before ->> 'userId', after ->> 'userId'))
    or exists (select from named n where n.resource = i.resource and n.resource_id = i.resource_id
      and (n.customer_id = i.customer_id or i.resource = 'user'))) r)""",
    "deliveries": """(select coalesce(json_agg(r order by r."createdAt"), '[]') from (
    select customer_id as "customerId", delivery_id as id, type, payload::json as payload, created_at as "createdAt"
    from delivery where payload::jsonb ->> 'userId' = $1::integer::text
    or payload::jsonb #>> '{data,resource}' = 'user' and payload::jsonb #>> '{data,resourceId}' = $1::integer::text
    or $1::integer::text in (payload::jsonb #>> '{data,before,userId}', payload::jsonb #>> '{data,after,userId}')
    ) r)""",
}
EXPORT: LiteralString = (
    "select json_build_object(" + ", ".join(["'" + name + "', " + sql for name, sql in SECTIONS.items()]) + ")"
)
FIND: LiteralString = """
select coalesce((select user_id from person where user_id::text = $1), {by_form})
""".replace("{by_form}", PERSONS.key_by_form("$2"))


async def find(statements: Statements, id_or_address: str) -> int | None:
    """The id of the person with this id or e-mail address; None if there is none."""
    return await statements.fetchval(FIND, id_or_address, address_form(id_or_address))


async def export(statements: Statements, user: int) -> dict[str, Any]:
    """Everything that is stored about a person, in all customers."""
    return json.loads(await statements.fetchval(EXPORT, user))
