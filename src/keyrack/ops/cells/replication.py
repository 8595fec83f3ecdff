"""Copies rows by logical replication, and follows their changes.

The source has a publication with a filter and a slot, the target a subscription. Their names contain the customer.
Replication runs no trigger in the target, so nothing is recorded, scheduled or sent twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, LiteralString

from keyrack.ops.cells.side import MoveRefused, Side

Report = Callable[[Mapping[str, Any]], None]

POLL = 0.005  # seconds between two looks at the position of the target
LOOK = 0.2  # seconds between two looks at the tables that are being copied

IS_PUBLISHED: LiteralString = "select exists (select from pg_publication where pubname = $1)"
PUBLISH: LiteralString = """
select format('create publication %I for table %s with (publish_via_partition_root = true)', $1::text,
  string_agg(name::regclass || case $3::integer when 0 then '' else format(' where (customer_id = %s)', $3) end, ', '
    order by name))
from unnest($2::text[]) name
"""
WITHDRAW: LiteralString = "select format('drop publication if exists %I', $1::text)"
IS_SLOT_GOOD: LiteralString = """
select exists (select from pg_replication_slots where slot_name = $1 and wal_status is distinct from 'lost')
"""
ERRORS: LiteralString = """
select apply_error_count + sync_error_count from pg_stat_subscription_stats where subname = $1
"""
MOST_ERRORS = 20  # attempts that fail, some of which are normal
LOST = (
    "The replication slot {name} of the source is lost, so the copy is incomplete. Undo the move, raise "
    "`max_slot_wal_keep_size` of the source, and begin again."
)
HAS_SLOT: LiteralString = "select exists (select from pg_replication_slots where slot_name = $1)"
MAKE_SLOT: LiteralString = "select pg_create_logical_replication_slot($1, 'pgoutput')"
# A slot of a table that was being copied has the number of the subscription
SLOTS: LiteralString = """
select slot_name, active_pid from pg_replication_slots
where slot_name = $1 or slot_name like 'pg\\_' || $2::bigint || '\\_sync\\_%'
"""
DROP_SLOT: LiteralString = """
select pg_drop_replication_slot(slot_name) from pg_replication_slots where slot_name = $1 and active_pid is null
"""
END_SENDER: LiteralString = "select pg_terminate_backend($1)"
SUBSCRIPTION: LiteralString = """
select oid::bigint from pg_subscription
where subname = $1 and subdbid = (select oid from pg_database where datname = current_database())
"""
# Each commit waits for the disk, so that the position that the target confirms is not older than what it has
SUBSCRIBE: LiteralString = """
select format('create subscription %I connection %L publication %I with (create_slot = false, slot_name = %L,'
  ' synchronous_commit = on)', $1::text, $2::text, $1, $1)
"""
DISABLE: LiteralString = """
select unnest(array[format('alter subscription %I disable', $1::text),
  format('alter subscription %I set (slot_name = none)', $1)])
"""
UNSUBSCRIBE: LiteralString = "select format('drop subscription %I', $1::text)"
END_WORKERS: LiteralString = """
select count(pg_terminate_backend(pid)) from pg_stat_subscription where subid = $1::bigint::oid and pid is not null
"""
# `r`: the rows are copied and follow the changes
TABLES: LiteralString = """
select srrelid::regclass::text as table, srsubstate::text as state from pg_subscription_rel
where srsubid = $1::bigint::oid order by 1
"""
POSITION: LiteralString = "select pg_current_wal_insert_lsn()::text"
# A transactional message makes the sender send at once, and the target confirm
NUDGE: LiteralString = "select pg_logical_emit_message(true, 'keyrack', '')"
IS_CONFIRMED: LiteralString = """
select confirmed_flush_lsn >= $2::text::pg_lsn from pg_replication_slots where slot_name = $1
"""


def name_of(customer: int) -> str:
    """The name of publication, slot and subscription."""
    return f"keyrack_move_{customer}"


async def is_subscribed(target: Side, customer: int) -> bool:
    """Whether the target has the subscription."""
    return await target.fetchval(SUBSCRIPTION, name_of(customer)) is not None


async def begin_copying(source: Side, target: Side, customer: int, tables: list[str]) -> None:
    """Make publication, slot and subscription of these tables, each unless it exists."""
    name = name_of(customer)
    if not await source.fetchval(IS_PUBLISHED, name):
        await source.execute(await source.fetchval(PUBLISH, name, tables, customer))
    # The slot before the subscription: both may be in one server, where the subscription would wait for itself
    if not await source.fetchval(HAS_SLOT, name):
        if await is_subscribed(target, customer):
            raise MoveRefused(LOST.format(name=name))
        await source.fetchval(MAKE_SLOT, name)
    if not await is_subscribed(target, customer):
        await target.execute(await target.fetchval(SUBSCRIBE, name, source.address))


async def wait_for_copies(source: Side, target: Side, customer: int, report: Report) -> None:
    """Wait until every table is copied and follows; report each one. Raises `MoveRefused` if it never will."""
    subscription = await target.fetchval(SUBSCRIPTION, name_of(customer))
    copied: set[str] = set()
    while True:
        rows = await target.fetch(TABLES, subscription)
        for row in rows:
            if row["state"] == "r" and row["table"] not in copied:
                copied.add(row["table"])
                report({"step": "copied", "table": row["table"], "tables": len(copied), "of": len(rows)})
        if rows and len(copied) == len(rows):
            return
        await _refuse_failure(source, target, customer)
        await asyncio.sleep(LOOK)


async def _refuse_failure(source: Side, target: Side, customer: int) -> None:
    name = name_of(customer)
    if not await source.fetchval(IS_SLOT_GOOD, name):
        raise MoveRefused(LOST.format(name=name))
    if (await target.fetchval(ERRORS, name) or 0) > MOST_ERRORS:
        raise MoveRefused(
            f"The subscription {name} of cell {target.cell.name} fails again and again. The log of its PostgreSQL has "
            "the reason. Correct it and run the command again, or undo the move."
        )


async def wait_for_position(source: Side, customer: int) -> None:
    """Wait until the target has everything that the source has committed."""
    name = name_of(customer)
    await source.execute(NUDGE)
    position = await source.fetchval(POSITION)
    while not await source.fetchval(IS_CONFIRMED, name, position):
        await source.execute(NUDGE)
        await asyncio.sleep(POLL)


async def end_copying(source: Side, target: Side, customer: int) -> None:
    """Remove subscription, slot and publication, each if it exists.

    The slots go before the subscription. A table that is being copied waits with its slot for all transactions of the
    source. In one server, `drop subscription` is one of them, and waits for that slot.
    """
    name = name_of(customer)
    subscription = await target.fetchval(SUBSCRIPTION, name)
    if subscription is not None:
        for row in await target.fetch(DISABLE, name):
            await target.execute(row[0])
    await _drop_slots(source, target, name, subscription or 0)
    if subscription is not None:
        await target.execute(await target.fetchval(UNSUBSCRIBE, name))
    await source.execute(await source.fetchval(WITHDRAW, name))


async def _drop_slots(source: Side, target: Side, name: str, subscription: int) -> None:
    """Drop all slots of a disabled subscription, and end its workers."""
    while True:
        workers = await target.fetchval(END_WORKERS, subscription)
        rows = await source.fetch(SLOTS, name, subscription)
        if not rows and not workers:
            return
        for row in rows:
            if row["active_pid"] is not None:
                await source.execute(END_SENDER, row["active_pid"])
            await source.execute(DROP_SLOT, row["slot_name"])
        await asyncio.sleep(POLL)
