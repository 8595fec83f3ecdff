"""The standbys of the primary, with their lag."""

from __future__ import annotations

from dataclasses import dataclass
from typing import LiteralString

from keyrack.db.connection import Statements

MOST = 100  # maximum standbys in an answer

# A silent standby's last report becomes stale, so its age counts as lag. Several standbys may have one name. Without
# the rights of pg_read_all_stats the server only shows that a client is connected. Backups stream as well, and are no
# standbys.
FOUND: LiteralString = """
select coalesce(nullif(application_name, ''), 'pid ' || pid)
    || case when count(*) over (partition by application_name) > 1 then ' ' || coalesce(host(client_addr), 'local')
       else '' end as name, host(client_addr) as address, state,
  sync_state as sync, case when behind is not null then greatest(0, behind)::bigint end as bytes,
  case when behind <= 0 then 0
    when behind > 0 then greatest(0, extract(epoch from replay_lag), extract(epoch from clock_timestamp() - reply_time))
    end::float8 as seconds
from pg_stat_replication, lateral (select pg_wal_lsn_diff(
  case when pg_is_in_recovery() then pg_last_wal_replay_lsn() else pg_current_wal_lsn() end, replay_lsn) as behind) b
where state is null or state in ('startup', 'catchup', 'streaming') and application_name <> 'pg_basebackup'
  and application_name <> 'pg_receivewal'
order by 1, 2 limit $1
"""


@dataclass(frozen=True, slots=True)
class Standby:
    """A standby. None: the role may not read the value, or the standby has not reported it yet."""

    name: str
    address: str | None  # none over a socket
    state: str | None
    sync: str | None  # `sync`, `quorum`, `potential`, `async`
    bytes: int | None  # WAL that it has not replayed yet
    seconds: float | None


async def standbys(statements: Statements) -> tuple[Standby, ...]:
    """The standbys of the connected server. Raises the database's errors."""
    return tuple(Standby(**dict(row)) for row in await statements.fetch(FOUND, MOST))
