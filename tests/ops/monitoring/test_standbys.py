"""The lag of a standby, as measured on its primary."""

from __future__ import annotations

import asyncio
import signal

import asyncpg
import pytest

from keyrack.core.settings import Settings
from keyrack.db.connection import Connection, Database
from keyrack.db.standbys import Standby, standbys
from tests.db.replication.cluster import running_cluster
from tests.support.servers import eventually

pytestmark = pytest.mark.cluster


async def seen_by_a_plain_role(dsn: str) -> tuple[Standby, ...]:
    """The standbys that a role without `pg_monitor` can see."""
    raw = await asyncpg.connect(dsn)
    try:
        await raw.execute("create role plain; set role plain")
        return await standbys(Connection(raw))
    finally:
        await raw.close()


def test_a_stopped_standby_is_reported_as_lagging() -> None:
    """The standby's last report was positive. The age of the report grows."""
    with running_cluster() as cluster:

        def one() -> Standby:
            async def ask() -> tuple[Standby, ...]:
                db = await Database.connect(cluster.leader.dsn, Settings(), size=1)
                try:
                    return await standbys(db)
                finally:
                    await db.close()

            (found,) = asyncio.run(ask())
            return found

        follows = eventually(lambda: (found := one()).bytes == 0 and found, "the replica")
        assert (follows.name, follows.seconds, follows.sync) == ("walreceiver", 0, "async")
        (hidden,) = asyncio.run(seen_by_a_plain_role(cluster.leader.dsn))
        assert (hidden.state, hidden.bytes, hidden.seconds) == (None, None, None)  # unknown, not 0
        cluster.replica.signal(signal.SIGSTOP)
        try:
            cluster.leader.ask("create table a_change ()")
            behind = eventually(lambda: (found := one()).bytes and (found.seconds or 0) > 1 and found, "the lag")
            assert behind.state == "streaming"
        finally:
            cluster.replica.signal(signal.SIGCONT)
        eventually(lambda: one().bytes == 0, "the end")
