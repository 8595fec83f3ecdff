"""Erasure of a person from deliveries, before that of their logs.

An interrupted erasure can be repeated: as long as the log has the content, its deliveries are found. Waiting deliveries
are sent without the content, in their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import LiteralString

from keyrack.api.schema.request_body import INT64_MAX
from keyrack.db.connection import Statements
from keyrack.webhooks import event_payload
from keyrack.webhooks.change_payload import MESSAGE

# `$1`: customers; `$2`: user; `$3`: the last change number
_OF_PERSON: LiteralString = """
select customer_id, record from change where customer_id = any($1::integer[]) and resource = 'user'
and resource_id = $2::integer::text and change_id <= $3 and person is not null
"""
# Changes of assignments are not sent to webhooks as changes
_NAMING: LiteralString = """
select customer_id, record from change where customer_id = any($1::integer[]) and resource = 'group' and change_id <= $3
and $2::integer::text in (before ->> 'userId', after ->> 'userId')
"""
# Deliveries to removed webhooks exist until housekeeping deletes them
_WEBHOOKS: LiteralString = """
(select customer_id, webhook_id from webhook union all select customer_id, webhook_id from removed_webhook)
"""


def _deliveries(changes: LiteralString) -> LiteralString:
    """SQL of the deliveries of these changes, found by webhook and message id."""
    return (
        "(select w.customer_id, w.webhook_id, " + MESSAGE + " as message_id from (" + changes + ") t join " + _WEBHOOKS
        + " w using (customer_id)) m where d.customer_id = m.customer_id and d.webhook_id = m.webhook_id"
        " and d.message_id = m.message_id"
    )  # fmt: skip


def _without(side: LiteralString) -> LiteralString:
    """SQL of one side of the change in the payload.

    `side` is `before` or `after`. The members `$4` are left out.
    """
    return "coalesce(nullif(d.payload::jsonb #> '{data," + side + "}', 'null') - $4::text[], 'null')"


PERSONAL: LiteralString = (
    "update delivery d set answer = null, payload = jsonb_set(jsonb_set(d.payload::jsonb, '{data,before}', "
    + _without("before") + "), '{data,after}', " + _without("after") + ")::text from " + _deliveries(_OF_PERSON)
)  # fmt: skip
NAMING: LiteralString = (
    "update delivery d set answer = null, payload ="
    " jsonb_set(jsonb_set(d.payload::jsonb, '{data,before}', 'null'), '{data,after}', 'null')::text from "
    + _deliveries(_NAMING)
)
COUNT: LiteralString = "select count(*)::integer from delivery d, " + _deliveries(_OF_PERSON + " union all " + _NAMING)
_EVENTS_OF_USER: LiteralString = """
select customer_id, event_id, recorded_at from event where customer_id = $1 and user_id = $2
"""
COUNT_EVENTS: LiteralString = (
    "select count(*)::integer from delivery d, (select w.customer_id, w.webhook_id, " + event_payload.MESSAGE
    + " as message_id from (" + _EVENTS_OF_USER + ") t join " + _WEBHOOKS + " w using (customer_id)) m"
    " where d.customer_id = m.customer_id and d.webhook_id = m.webhook_id and d.message_id = m.message_id"
)  # fmt: skip
POSITIONS: LiteralString = """
update delivery set payload = jsonb_set(payload::jsonb, '{data}',
  (payload::jsonb -> 'data') || '{"latitude": null, "longitude": null}')::text
where customer_id = $1 and type like 'event.%'
"""
CUSTOMERS: LiteralString = "select distinct customer_id from " + _WEBHOOKS + " w"


def without_person(events: LiteralString, user: LiteralString, agent: LiteralString) -> LiteralString:
    """SQL that removes the person from the deliveries of events.

    `events` is a relation with `customer_id`, `event_id` and `recorded_at`. `user` and `agent` are the values that
    the erased events get.
    """
    return (
        "update delivery d set answer = null, payload = jsonb_set(d.payload::jsonb, '{data}',"
        " (d.payload::jsonb -> 'data') || jsonb_build_object('userId', " + user + ", 'userAgent', " + agent
        + ", 'userExternalId', null, 'latitude', null, 'longitude', null, 'assignmentId', null))::text"
        " from (select w.customer_id, w.webhook_id, " + event_payload.MESSAGE + " as message_id from " + events
        + " t join " + _WEBHOOKS + " w using (customer_id)) m where d.customer_id = m.customer_id"
        " and d.webhook_id = m.webhook_id and d.message_id = m.message_id"
    )  # fmt: skip


async def count(statements: Statements, customer: int, user: int) -> int:
    """The number of deliveries of changes and events that name a user."""
    events: int = await statements.fetchval(COUNT_EVENTS, customer, user)
    return events + await statements.fetchval(COUNT, [customer], user, INT64_MAX)


async def remove_positions(statements: Statements, customer: int) -> None:
    """Remove the positions from a customer's deliveries of events."""
    await statements.execute(POSITIONS, customer)


async def erase(statements: Statements, user: int, members: Sequence[str]) -> None:
    """Remove these members of a user from all customers' deliveries of changes. The log must still have them.

    The stored answers of these deliveries are removed as well.
    """
    customers = [row["customer_id"] for row in await statements.fetch(CUSTOMERS)]
    await statements.execute(PERSONAL, customers, user, INT64_MAX, members)


async def erase_of_customer(
    statements: Statements, customer: int, user: int, last: int, members: Sequence[str]
) -> None:
    """The same for one customer, up to the change number `last`.

    Changes of groups that name the user lose `before` and `after`.
    """
    await statements.execute(PERSONAL, [customer], user, last, members)
    await statements.execute(NAMING, [customer], user, last)
