"""Restore tests: restore a backup into a temporary directory, and check its data.

The server of a test listens only on its own socket and archives nothing. The real database may run at the same time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import LiteralString

from keyrack.core.settings import Settings
from keyrack.db import schema_version
from keyrack.db.embedded.layout import Layout
from keyrack.ops.backups import restore
from keyrack.ops.backups.base_backup import REVISION, SCHEMA
from keyrack.ops.backups.connection import connected
from keyrack.ops.backups.post_restore import key_fault
from keyrack.ops.backups.recovery_plan import plan
from keyrack.ops.backups.repository import BackupContext, BackupError, ReportProgress

# Each table with its rows; partitions count for their table
COUNT: LiteralString = """
create function pg_temp.counted() returns table (name text, rows bigint) language plpgsql as $$
begin
  for name in select c.relname from pg_class c
    where c.relnamespace = current_schema()::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
    order by c.relname
  loop
    execute format('select count(*) from %I', name) into rows;
    return next;
  end loop;
end $$
"""
COUNTED: LiteralString = "select name, rows from pg_temp.counted()"
# Unvalidated constraints and invalid indexes, which a sound database does not have
UNSOUND: LiteralString = """
select array(
  select conname::text from pg_constraint where connamespace = current_schema()::regnamespace and not convalidated
  union all
  select c.relname::text from pg_index i join pg_class c on c.oid = i.indexrelid
  where c.relnamespace = current_schema()::regnamespace and not i.indisvalid
  order by 1)
"""


@dataclass(frozen=True, slots=True)
class RestoreTest:
    """The result of a restore test; `steps` are durations in seconds, `key` is the error of the master key."""

    backup: str
    reached: datetime
    revision: str
    tables: Sequence[tuple[str, int]]
    steps: Sequence[tuple[str, float]]
    key: str | None


def drill(
    house: BackupContext, name: str | None, to: datetime | None, timeline: int | None, report: ReportProgress
) -> RestoreTest:
    """Restore into a temporary directory, and check the data.

    Raises `BackupError` or `EmbeddedServerError` if the restore fails or the restored database is not sound.
    """
    scratch = Layout(house.layout.state / "drill")
    steps: list[tuple[str, float]] = []
    begun = time.monotonic()

    def done(step: str) -> None:
        nonlocal begun
        now = time.monotonic()
        steps.append((step, now - begun))
        begun = now

    with house.shelf.held():
        with restore.discard_partial_restore(scratch):
            chosen = plan(house, name, to, timeline, None)
            done("find the way")
            with restore.recovered(house, chosen, scratch, other=None, archives=False, report=report) as server:
                done("restore and recover")
                report("counting rows")
                revision, tables = asyncio.run(_looked(house.settings, server.dsn))
                done("look at the data")
                key = asyncio.run(key_fault(house.settings, server.dsn))
            reached = restore.recovery_target(scratch, chosen)
        done("end and remove")
    return RestoreTest(chosen.backup.name, reached, revision, tables, steps, key)


async def _looked(settings: Settings, dsn: str) -> tuple[str, list[tuple[str, int]]]:
    """The revision of the schema, and the rows of each table. Raises `BackupError` if the database is not sound."""
    async with connected(settings, dsn) as database, database.transaction() as connection:
        await connection.lift_timeouts()
        if not await connection.fetchval(SCHEMA):
            raise BackupError("The restored database is empty: it has no tables of Keyrack.")
        revision: str = await connection.fetchval(REVISION)
        if revision > schema_version.head():
            raise BackupError(
                f"The schema of the restored database is at revision {revision}, but this release supports at most "
                f"{schema_version.head()}. Use the newer release that made the backup."
            )
        if unsound := await connection.fetchval(UNSOUND):
            raise BackupError(
                f"The restored database is not sound. Invalid constraints or indexes: {', '.join(unsound)}."
            )
        await connection.execute(COUNT)
        return revision, [(row["name"], row["rows"]) for row in await connection.fetch(COUNTED)]
