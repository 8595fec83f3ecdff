"""Events of openings and closings, from the entries of box logs."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime
from uuid import UUID

from keyrack.db.connection import Connection
from keyrack.db.named_parameters import compile_statement
from keyrack.offline_keys.cose import SignedMessage
from keyrack.offline_keys.issuing_keys import box_name
from keyrack.webhooks.event_deliveries import EventPublisher, takes_events_sql

OPENED, CLOSED = 1, 2  # events of entries (docs/key-protocol.md, "Members")
KINDS = {OPENED: "CarOpened", CLOSED: "CarClosed"}
AGENT = "Keyrack key, {name}"
UNCERTAIN = ", clock uncertain"
LATE = ", reported late"  # the entry arrived after its number was given up
PENDING = ", enrolment pending"  # only the holder of the new key claims the opening
LAST_TIME = int(datetime(9999, 12, 31, tzinfo=UTC).timestamp())

# The counter's row stays locked until the commit, as for all events: numbers have no gaps, and a higher one is never
# visible first. A box reports on its own keys alone. Car and user are those of the issued key, even if they no longer
# exist. No caller can name an event like this, because names of callers have no control characters
TELL = compile_statement(
    """
with opened as (
  select o.*, k.car_id, k.user_id, k.assignment_id,
    row_number() over (partition by k.key_id is not null order by n)::integer as step
  from unnest(
    :key_id::uuid[], :device_id::bytea[], :at::timestamptz[], :local_text::text[], :type::text[], :user_agent::text[],
    :client_id::text[])
    with ordinality o (key_id, device_id, at, local_text, type, user_agent, client_id, n)
  left join box_key k on k.customer_id = :customer and k.key_id = o.key_id and k.device_id = o.device_id
    and k.product_id = :product and k.epoch = :epoch
), counter as (
  update event_counter set last_id = last_id + (select count(*) from opened where car_id is not null)
  where customer_id = :customer
  returning last_id - (select count(*) from opened where car_id is not null)::integer as before
), written as (
  insert into event (customer_id, event_id, car_id, user_id, local_at, local_text, utc_at, type, user_agent, client_id,
                     recorded_at, assignment_id)
  select :customer, before + step, car_id, user_id, at, local_text, at, type, user_agent, client_id,
    clock_timestamp(), assignment_id
  from opened, counter where car_id is not null
)
select n, type, case when car_id is not null then before + step end as id, {takes_events} as is_wanted
from opened, counter order by n
""".replace("{takes_events}", takes_events_sql(":customer"))
)


async def publish_openings(
    connection: Connection,
    publisher: EventPublisher,
    customer: int,
    box: tuple[int, int],
    entries: Sequence[SignedMessage],
    *,
    is_late: bool = False,
    is_pending: bool = False,
) -> list[tuple[str, int, bytes]]:
    """Record openings and closings of a box as events, in their order.

    `box` is a product in an epoch. Events mark late entries, and those of a pending enrolment. Returns reports of
    entries whose keys were never issued for the box to that phone.
    """
    marks = (LATE if is_late else "") + (PENDING if is_pending else "")
    opened = [entry for entry in entries if entry.claims["event"] in KINDS]
    if not opened:
        return []
    times = [datetime.fromtimestamp(min(entry.claims["iat"], LAST_TIME), UTC) for entry in opened]
    name = box_name(*box)
    product, epoch = box
    arguments = TELL.arguments(
        customer=customer,
        product=product,
        epoch=epoch,
        key_id=[UUID(bytes=entry.claims["cti"] or bytes(16)) for entry in opened],
        device_id=[entry.claims["device"] for entry in opened],
        at=times,
        local_text=[time.isoformat().replace("+00:00", "Z") for time in times],
        type=[KINDS[entry.claims["event"]] for entry in opened],
        user_agent=[_agent(name, entry) + marks for entry in opened],
        client_id=[f"{name}\x1f{entry.claims['number']}" for entry in opened],
    )
    rows = await connection.fetch(TELL.sql, *arguments)
    await publisher.publish(connection, customer, rows)
    unknown: list[SignedMessage] = [opened[row["n"] - 1] for row in rows if row["id"] is None]
    return [("UnknownKey", entry.claims["number"], hashlib.sha256(entry.raw).digest()) for entry in unknown]


def _agent(name: str, entry: SignedMessage) -> str:
    return AGENT.format(name=name) + ("" if entry.claims["certain"] else UNCERTAIN)
