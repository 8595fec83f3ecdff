"""Epochs: a log begins a new one if numbers may have been published that are missing now.

That is the case after a restore. It is also the case if the sequencer finds another server, or another timeline of it,
than at its last number. A promotion begins a timeline. After a promotion nothing is missing if commits waited for the
standby: then the epoch stays. The server's setting is recorded with the numbers, so it is as recent as they are.

A new epoch begins far behind the last number, so that no number is used twice. Its first change, `log.begun`, names the
previous epoch, its last number and the hash of its last record. So a proof of the new epoch proves the end of the old
one.
"""

from __future__ import annotations

from typing import Literal, LiteralString

import structlog

from keyrack.changelog.visibility_watermark import ALONE
from keyrack.db.audit_context import acting, system
from keyrack.db.connection import Connection

log = structlog.get_logger("keyrack.changelog")

Why = Literal["restore", "promotion", "server"]

JUMP = 1_000_000_000  # numbers to skip: more than can have been published after the last one that survived
BEFORE = -1  # before the whole outbox: `log.begun` has seq 0, and sequences begin with 1

# The name of a WAL file begins with the timeline. A commit that only reached a standby's memory does not count as safe
SERVER: LiteralString = """
with now as (
  select (select system_identifier from pg_control_system()) as system,
    ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::integer as timeline,
    current_setting('synchronous_standby_names') <> ''
      and current_setting('synchronous_commit') in ('on', 'remote_apply') as is_synchronous
)
select n.system is distinct from s.system as is_other, n.timeline is distinct from s.timeline as is_promoted,
  n.is_synchronous is distinct from s.is_synchronous as is_kept_otherwise,
  s.system is null as is_first, coalesce(s.is_synchronous, false) as was_synchronous,
  exists (select from change_inbox where seq = 0) as begins
from now n left join change_server s on true
"""
REMEMBER: LiteralString = """
insert into change_server (system, timeline, is_synchronous)
select (select system_identifier from pg_control_system()),
  ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::integer,
  current_setting('synchronous_standby_names') <> ''
    and current_setting('synchronous_commit') in ('on', 'remote_apply')
on conflict (only_row) do update
set system = excluded.system, timeline = excluded.timeline, is_synchronous = excluded.is_synchronous
"""
# seq 0 sorts before all waiting changes. A log without a record in its epoch has no epoch to end: its `log.begun` still
# waits, and gets the new epoch
BEGIN: LiteralString = """
with ended as (
  insert into change_epoch (customer_id, epoch, first_id, last_id, hash, tree)
  select customer_id, epoch, first_id, last_id, hash, tree from change_log
  where hash is not null and ($4::integer is null or customer_id = $4)
  returning customer_id, epoch, last_id, hash
), begun as (
  update change_log set epoch = gen_random_uuid(), first_id = last_id + $1 + 1, last_id = last_id + $1,
    hash = null, tree = ''
  where last_id > 0 and ($4::integer is null or customer_id = $4)
  returning customer_id, epoch
), waiting as (
  update change_inbox i set after = i.after || jsonb_build_object('epoch', b.epoch) from begun b
  where i.seq = 0 and i.customer_id = b.customer_id
), told as (
  insert into change_inbox (seq, customer_id, kind, resource, resource_id, who, before, after)
  select 0, e.customer_id, 'log.begun', 'log', e.customer_id::text, convert_from(decode($2, 'base64'), 'UTF8')::jsonb,
    jsonb_build_object('epoch', e.epoch, 'newest', e.last_id, 'hash', encode(e.hash, 'base64')),
    jsonb_build_object('epoch', b.epoch, 'why', $3::text)
  from ended e join begun b using (customer_id)
)
select count(*)::integer from begun
"""


async def begin(connection: Connection, reason: Why, customer: int | None = None) -> int:
    """Begin a new epoch of the customer's log, or of every log.

    It runs in the caller's transaction. Returns the number of logs.

    The caller gives no numbers meanwhile. The change names the current actor, or else the sequencer itself.
    """
    await connection.lift_timeouts()
    await connection.execute(ALONE)  # the sequencer has this lock already
    count: int = await connection.fetchval(BEGIN, JUMP, (acting.get() or system("numbering")).encoded, reason, customer)
    if customer is None:
        await connection.execute(REMEMBER)
    if count:
        log.warning("changelog epoch changed", reason=reason, logs=count)
    return count


async def check_epochs(connection: Connection) -> bool:
    """Begin a new epoch if numbers may be missing. Returns whether `log.begun` changes wait in the outbox.

    It runs in the transaction of the numbers, before them, under the sequencer's lock.
    """
    (row,) = await connection.fetch(SERVER)
    if not row["is_first"]:
        if row["is_other"]:
            return await begin(connection, "server") > 0
        if row["is_promoted"] and not row["was_synchronous"]:
            return await begin(connection, "promotion") > 0
    if row["is_first"] or row["is_promoted"] or row["is_kept_otherwise"]:
        await connection.execute(REMEMBER)
    return row["begins"]
