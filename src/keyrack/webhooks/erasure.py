"""In charge of taking a person out of the deliveries that tell of changes, before the log itself forgets.

So what is cut off in between is done again: as long as the log has the content, its deliveries are found. Those that
wait go out without it, in their place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import LiteralString

from keyrack.api.schema.request_body import INT64_MAX
from keyrack.db.connection import Statements
from keyrack.webhooks.change_payload import MESSAGE

# Of customers ($1), a user ($2), up to a number ($3)
_OF_PERSON: LiteralString = """
select customer_id, record from change where customer_id = any($1::integer[]) and resource = 'user'
and resource_id = $2::integer::text and change_id <= $3 and person is not null
"""
# Those of assignments are no webhook's
_NAMING: LiteralString = """
select customer_id, record from change where customer_id = any($1::integer[]) and resource = 'group' and change_id <= $3
and $2::integer::text in (before ->> 'userId', after ->> 'userId')
"""
# What was sent to removed webhooks is there until it is thrown away
_WEBHOOKS: LiteralString = """
(select customer_id, webhook_id from webhook union all select customer_id, webhook_id from removed_webhook)
"""


def _deliveries(changes: LiteralString) -> LiteralString:
    """SQL of the deliveries that tell of changes, each found by its webhook and message."""
    return (
        "(select w.customer_id, w.webhook_id, " + MESSAGE + " as message_id from (" + changes + ") t join " + _WEBHOOKS
        + " w using (customer_id)) m where d.customer_id = m.customer_id and d.webhook_id = m.webhook_id"
        " and d.message_id = m.message_id"
    )  # fmt: skip


def _without(side: LiteralString) -> LiteralString:
    """SQL of a side of what was told, less the members `$4`."""
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
CUSTOMERS: LiteralString = "select distinct customer_id from " + _WEBHOOKS + " w"


async def count(statements: Statements, customer: int, user: int) -> int:
    """How many deliveries of changes of the customer tell of a user, or name the user."""
    return await statements.fetchval(COUNT, [customer], user, INT64_MAX)


async def erase(statements: Statements, user: int, members: Sequence[str]) -> None:
    """Take these members out of what is told of a user, of whatever customer. The log must still have them."""
    customers = [row["customer_id"] for row in await statements.fetch(CUSTOMERS)]
    await statements.execute(PERSONAL, customers, user, INT64_MAX, members)


async def erase_of_customer(
    statements: Statements, customer: int, user: int, last: int, members: Sequence[str]
) -> None:
    """The same of one customer, up to the change with the number `last`; and take out who was put into groups."""
    await statements.execute(PERSONAL, [customer], user, last, members)
    await statements.execute(NAMING, [customer], user, last)
