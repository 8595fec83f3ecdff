"""A standby is promoted: logs of changes go on in another epoch where it may lack numbers that were told, else in the
same."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from keyrack.changes.epochs import JUMP
from keyrack.changes.feed import Extent, look
from keyrack.changes.fence import Fence
from tests.changes.inbox import IDS, WRITE, house
from tests.database.cluster import Cluster, running_cluster
from tests.servers import eventually


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with running_cluster() as cluster:
        yield cluster


def numbered(cluster: Cluster, customer: int, version: int) -> Extent:
    """The log after one more change of the leader's."""

    async def main() -> Extent:
        async with house(cluster.leader.dsn) as home:
            await home.db.fetchval(WRITE, customer, "1", version)
            await home.numbering().round(Fence(home.db))
            return await look(home.db, customer)

    return asyncio.run(main())


def test_a_standby_that_lagged_begins_another_epoch(cluster: Cluster) -> None:
    """What it had not got is lost: its numbers are not given again. One that commits waited for has everything."""
    customer = next(IDS)
    first = numbered(cluster, customer, 1)
    has = "select count(*) from change where customer_id = $1"
    eventually(lambda: cluster.replica.ask(has, customer) == 1, "the first number at the standby")
    cluster.replica.kill()
    lost = numbered(cluster, customer, 2)
    assert (lost.epoch, lost.newest) == (first.epoch, 2)
    cluster.leader.kill()
    cluster.replica.start()
    cluster.hand_over()
    assert cluster.leader.ask(has, customer) == 1
    new = numbered(cluster, customer, 3)
    assert new.epoch != first.epoch and (new.oldest, new.newest) == (JUMP + 2, JUMP + 3)
    # with a standby that commits wait for
    cluster.begin_replica()
    cluster.leader.waits_for("*")
    kept = numbered(cluster, customer, 4)
    before = cluster.hand_over()
    before.kill()
    cluster.leader.waits_for("")
    after = numbered(cluster, customer, 5)
    assert (after.epoch, after.newest) == (kept.epoch, kept.newest + 1) == (new.epoch, JUMP + 5)
