"""Erases a person from the change log, and from deliveries about it.

The personal part of a change is deleted with its salt, and the log still verifies.
"""

from __future__ import annotations

from typing import LiteralString

from keyrack.changelog.personal_data import PERSONAL
from keyrack.db.connection import Statements
from keyrack.webhooks import erasure as deliveries

MEMBERS = sorted(PERSONAL["user"])

# Changes without a number first. This waits for a running sequencer, whose rows the log then has
UNNUMBERED: LiteralString = """
update change_inbox set before = before - $2::text[], after = after - $2::text[]
where resource = 'user' and resource_id = $1::integer::text
"""
EVERYWHERE: LiteralString = """
update change set person = null, person_salt = null
where customer_id = any(array(select customer_id from change_log)) and resource = 'user'
and resource_id = $1::integer::text and person is not null
"""
# References of the user's assignments. A change of them alone does not name the user
_HAS_REFERENCES: LiteralString = (
    "(before ?| array['externalId', 'metadata'] or after ?| array['externalId', 'metadata'])"
)
_ASSIGNMENTS: LiteralString = """
  select h.customer_id, h.assignment_id::text as resource_id from change_log l join custody h using (customer_id)
  where h.user_id = $1::integer and h.ended > h.began
  union
  select customer_id, resource_id from change_log join change using (customer_id)
  where resource = 'assignment' and before ->> 'userId' = $1::integer::text
  union
  select customer_id, resource_id from change_log join change using (customer_id)
  where resource = 'assignment' and after ->> 'userId' = $1::integer::text
  union
  select customer_id, resource_id from change_inbox where resource = 'assignment'
  and $1::integer::text in (before ->> 'userId', after ->> 'userId')
"""
UNNUMBERED_REFERENCES: LiteralString = (
    "update change_inbox i set before = before - array['externalId', 'metadata'],"
    " after = after - array['externalId', 'metadata'] from (" + _ASSIGNMENTS + ") a"
    " where i.customer_id = a.customer_id and i.resource = 'assignment' and i.resource_id = a.resource_id"
)
REFERENCES: LiteralString = (
    "update change c set before = null, after = null, content_salt = null from (" + _ASSIGNMENTS + ") a"
    " where c.customer_id = a.customer_id and c.resource = 'assignment' and c.resource_id = a.resource_id and "
    + _HAS_REFERENCES
)
# In one customer's log. Assignments that the person has after a return still exist
REFERENCES_OF_CUSTOMER: LiteralString = (
    """
with gone as (
  update change set before = null, after = null, content_salt = null
  where customer_id = $1 and change_id = any(array(
    select change_id from change c where customer_id = $1 and resource = 'assignment' and """
    + _HAS_REFERENCES
    + """
    and resource_id in (
      select resource_id from change where customer_id = $1 and resource = 'assignment'
      and (before ->> 'userId' = $2::integer::text or after ->> 'userId' = $2::integer::text)
      union
      select assignment_id::text from custody where customer_id = $1 and user_id = $2::integer and ended > began)
    and not exists (
      select from assignment a where a.customer_id = $1 and a.assignment_id = c.resource_id::integer)
    limit $3)) returning 1
)
select count(*)::integer from gone
"""
)
# In one customer's log, up to the last time that the person was removed from it
LAST: LiteralString = """
select max(change_id) from change
where customer_id = $1 and resource = 'user' and resource_id = $2::integer::text and kind = 'user.deleted'
"""
OF_CUSTOMER: LiteralString = """
update change set person = null, person_salt = null
where customer_id = $1 and resource = 'user' and resource_id = $2::integer::text and change_id <= $3
and person is not null
"""
NAMING: LiteralString = """
with gone as (
  update change set before = null, after = null, content_salt = null
  where customer_id = $1 and change_id = any(array(
    select change_id from change where customer_id = $1 and change_id <= $3
    and resource in ('assignment', 'assignmentRequest', 'group')
    and (before ->> 'userId' = $2::integer::text or after ->> 'userId' = $2::integer::text) limit $4)) returning 1
)
select count(*)::integer from gone
"""
WAITING: LiteralString = """
select exists (
  select from change_inbox where customer_id = $1 and (resource = 'user' and resource_id = $2::integer::text
  or resource = 'assignment' and $2::integer::text in (before ->> 'userId', after ->> 'userId')))
"""


async def erase(statements: Statements, user: int) -> None:
    """Erase a user's personal data from the logs of all customers, in the caller's transaction.

    Assignments and groups still contain the bare number, as operations do. Changes of assignments that have an
    `externalId` or `metadata` lose their content.
    """
    await statements.execute(UNNUMBERED, user, MEMBERS)
    await statements.execute(REFERENCES, user)
    await statements.execute(UNNUMBERED_REFERENCES, user)
    await deliveries.erase(statements, user, MEMBERS)
    await statements.execute(EVERYWHERE, user)


async def finish(statements: Statements, customer: int, user: int, rows: int) -> bool:
    """Erase a removed user from a customer's log, `rows` at a time. Returns whether nothing is left."""
    # Before the log is read: a change that gets its number in between is in the log then
    waits = await statements.fetchval(WAITING, customer, user)
    last = await statements.fetchval(LAST, customer, user)
    if last is not None:
        await deliveries.erase_of_customer(statements, customer, user, last, MEMBERS)
        await statements.execute(OF_CUSTOMER, customer, user, last)
        while await statements.fetchval(REFERENCES_OF_CUSTOMER, customer, user, rows) >= rows:
            pass
        while await statements.fetchval(NAMING, customer, user, last, rows) >= rows:
            pass
    return not waits
