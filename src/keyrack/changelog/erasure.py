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
  select from change_inbox where customer_id = $1 and resource = 'user' and resource_id = $2::integer::text)
"""


async def erase(statements: Statements, user: int) -> None:
    """Erase a user's personal data from the logs of all customers, in the caller's transaction.

    Assignments and groups still contain the bare number, as operations do.
    """
    await statements.execute(UNNUMBERED, user, MEMBERS)
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
        while await statements.fetchval(NAMING, customer, user, last, rows) >= rows:
            pass
    return not waits
