"""In charge of epochs: a log begins another one where numbers may have been told that are not there any more.

That is after a restore, and where numbering finds itself on another server or in another history of it (a timeline,
which a promotion begins) than when it gave a number last. After a promotion nothing is missing if commits waited for
the standby: then the epoch stays. Whether they did is noted with the numbers, and so is as new as they are.

A new epoch begins far behind the last number, so that none is ever given twice. Its first change, `log.begun`, names
the epoch before, its last number and the hash of its last record: what proves the new one proves where the old one
ended.
"""

from __future__ import annotations

from typing import Literal, LiteralString

import structlog

from keyrack.changelog.visibility_watermark import ALONE
from keyrack.db.audit_context import acting, system
from keyrack.db.connection import Connection

log = structlog.get_logger("keyrack.changelog")

Why = Literal["restore", "promotion", "server"]

JUMP = 1_000_000_000  # numbers that are left out: more than were ever told behind the last one that is still there
BEFORE = -1  # the place before the whole inbox: a log's beginning stands at 0, and sequences begin with 1

# The timeline is the beginning of the name of a file of the log. What only reached a standby's memory is not safe there
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
# At 0 it comes before all that waits for a number. A log without a record in its epoch has nothing to end: what it was
# to begin with waits still
BEGIN: LiteralString = """
with ended as (
  insert into change_epoch (customer_id, epoch, first_id, last_id, hash, tree)
  select customer_id, epoch, first_id, last_id, hash, tree from change_log where hash is not null
  returning customer_id, epoch, last_id, hash
), begun as (
  update change_log set epoch = gen_random_uuid(), first_id = last_id + $1 + 1, last_id = last_id + $1,
    hash = null, tree = ''
  where last_id > 0
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


async def begin(connection: Connection, reason: Why) -> int:
    """Begin another epoch of every log, in the caller's transaction, and number nothing meanwhile; of how many.

    Who acts is told as the one who began it; numbering does it itself where nobody is.
    """
    await connection.lift_timeouts()
    await connection.execute(ALONE)  # which whoever numbers has already
    count: int = await connection.fetchval(BEGIN, JUMP, (acting.get() or system("numbering")).encoded, reason)
    await connection.execute(REMEMBER)
    if count:
        log.warning("changelog epoch changed", reason=reason, logs=count)
    return count


async def check_epochs(connection: Connection) -> bool:
    """Begin another epoch where numbers may be missing here; in the transaction of the numbers, before them, and while
    nobody else numbers. Whether a log begins with what stands at the beginning of the inbox."""
    (row,) = await connection.fetch(SERVER)
    if not row["is_first"]:
        if row["is_other"]:
            return await begin(connection, "server") > 0
        if row["is_promoted"] and not row["was_synchronous"]:
            return await begin(connection, "promotion") > 0
    if row["is_first"] or row["is_promoted"] or row["is_kept_otherwise"]:
        await connection.execute(REMEMBER)
    return row["begins"]
