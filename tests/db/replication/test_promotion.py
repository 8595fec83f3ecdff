"""Promotion of a standby: a new epoch of the change log if numbers may be missing, else the same."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from keyrack.changelog.feed import Extent, load_extent
from keyrack.changelog.transparency.epochs import JUMP
from keyrack.changelog.visibility_watermark import VisibilityWatermark
from keyrack.core.settings import Settings
from tests.changelog.feed_readers import Listener, Poller, reading_beside
from tests.changelog.outbox import IDS, WRITE, house
from tests.db.replication.cluster import Cluster, running_cluster
from tests.db.replication.test_failover import WAITING, patient, serving
from tests.support.servers import DEADLINE, Sql, eventually

pytestmark = pytest.mark.cluster

LOCK_OF_NUMBERS = 7260925
# A sequencer that waits for the standby
NUMBERING = (
    "select exists (select from pg_locks l join pg_stat_activity a using (pid) where l.locktype = 'advisory'"
    f" and l.objid = {LOCK_OF_NUMBERS} and l.granted and a.wait_event = 'SyncRep')"
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with running_cluster() as cluster:
        yield cluster


def numbered(cluster: Cluster, customer: int, version: int) -> Extent:
    """The log after one more change on the primary."""

    async def main() -> Extent:
        async with house(cluster.leader.dsn) as home:
            await home.db.fetchval(WRITE, customer, "1", version)
            await home.numbering().sequence(VisibilityWatermark(home.db))
            return await load_extent(home.db, customer)

    return asyncio.run(main())


def test_promotion_of_a_lagging_standby_begins_a_new_epoch(cluster: Cluster) -> None:
    """Numbers that it lacks are lost and not reused. A synchronous standby has all numbers."""
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
    # with a synchronous standby
    cluster.begin_replica()
    cluster.leader.waits_for("*")
    kept = numbered(cluster, customer, 4)
    before = cluster.hand_over()
    before.kill()
    cluster.leader.waits_for("")
    after = numbered(cluster, customer, 5)
    assert (after.epoch, after.newest) == (kept.epoch, kept.newest + 1) == (new.epoch, JUMP + 5)


def number_changes(cluster: Cluster, begun: threading.Event) -> None:
    """Number the waiting changes like a worker.

    `begun` is set after an attempt that found another process at work.
    """

    async def main() -> None:
        async with house(cluster.leader.dsn) as home:
            sequencer, watermark = home.numbering(), VisibilityWatermark(home.db)
            while not await sequencer.sequence(watermark):
                begun.set()

    asyncio.run(main())


def test_a_number_is_published_only_after_the_standby_has_it(cluster: Cluster, settings: Settings) -> None:
    """A primary that comes back after a crash shows changes that were not acknowledged.

    Neither streams nor requests get them until the standby has them.
    """
    often = patient(settings, feed_poll_interval_seconds=0.1)
    newest = "select last_id from change_log where customer_id = $1"
    # The test numbers changes itself. A worker could write another change, whose waiting commit would block the number:
    # the sequencer skips no open writer
    with (
        serving(cluster.dsn, cluster.leader, often, worker=False) as (server, alice, _),
        ThreadPoolExecutor(1) as sequencer,
    ):
        alice.car("before")
        number_changes(cluster, threading.Event())
        readers = [kind(lambda: f"{server.url}/v3", lambda: alice.headers) for kind in (Listener, Poller)]
        with reading_beside(*readers):
            number = cluster.leader.ask(newest, alice.customer)
            eventually(lambda: all(reader.place == number for reader in readers), "what there is")
            try:
                # The lock keeps the sequencer from checking the server's settings, which is a commit of its own
                with closing(Sql(cluster.leader.dsn)) as lock:
                    lock.execute("select pg_advisory_lock($1)", LOCK_OF_NUMBERS)
                    lock.execute(
                        "insert into change_inbox (customer_id, kind, resource, resource_id, who)"
                        " values ($1, 'thing.made', 'thing', '1', '{}')", alice.customer,
                    )  # fmt: skip
                    cluster.leader.waits_for("nobody")
                    begun = threading.Event()
                    numbering = sequencer.submit(number_changes, cluster, begun)
                    assert begun.wait(DEADLINE), "the sequencer did not begin"
                eventually(lambda: cluster.leader.ask(NUMBERING), "the number's commit")
                cluster.leader.kill()
                assert numbering.exception(DEADLINE) is not None, "the number was acknowledged without a standby"
                cluster.leader.start()
                assert cluster.leader.ask(newest, alice.customer) == number + 1
                eventually(lambda: alice.get("/changes").status_code == 503, "the end of the proof")
                eventually(lambda: cluster.leader.ask(WAITING, "keyrack heartbeat"), "a heartbeat that waits")
                for _ in range(20):
                    assert alice.get("/changes").status_code == 503
                assert [reader.place for reader in readers] == [number, number]
            finally:
                cluster.leader.waits_for("")
            eventually(lambda: all(reader.place == number + 1 for reader in readers), "the number")
        assert [(reader.wrong, reader.gone) for reader in readers] == [([], []), ([], [])]
