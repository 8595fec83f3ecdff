"""Read routing: reads go to replicas, without stale answers. A real primary, a real replica."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import asyncpg
import httpx
import pytest

from keyrack.core.metrics.catalog import READ_LAG, READS
from keyrack.core.settings import Settings
from keyrack.db.connection import Database
from keyrack.db.replication.read_routing import ReplicaSession
from keyrack.db.replication.wal_positions import position
from keyrack.http.routes import ALL
from tests.changelog.feed.change_rows import made
from tests.db.replication.cluster import Cluster, Server, running_cluster
from tests.db.replication.test_failover import Asking
from tests.http.test_tenant_isolation import MAKE, client, member_of
from tests.offline_keys.offline_world import garage
from tests.ops.doctor.test_doctor import told as doctor
from tests.support.people import Person, Town, http_client, refused
from tests.support.servers import RunningServer, Sql, eventually

pytestmark = pytest.mark.cluster

HEADER = "keyrack-position"
INVALID = "The header Keyrack-Position must be the value from a response, or latest."
RENAME = "update car set name = $2 where car_id = $1"
NUMBERING = 7260925  # the lock of the sequencer
PAUSED = "select pg_get_wal_replay_pause_state() = 'paused'"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with running_cluster() as cluster:
        yield cluster


class House:
    """A server with a replica for reads, and its caller."""

    def __init__(self, running: RunningServer, sql: Sql, replica: Server) -> None:
        self.running = running
        self.sql = sql
        self.replica = replica
        self.alice = Town(sql, running).person("alice")

    def asked(self, person: Person, path: str, **options: Any) -> tuple[httpx.Response, str]:
        """The answer, and the server that gave it."""
        before = counts()
        answer = person.get(path, **options)
        changed = [server for server, count in counts().items() if count != before[server]]
        assert len(changed) == 1, answer.text
        return answer, changed[0]

    def car(self, name: str, person: Person | None = None) -> int:
        """A car without a notification: until it were confirmed, the primary would answer the reads."""
        customer = (person or self.alice).customer
        return self.sql.value("insert into car (customer_id, name) values ($1, $2) returning car_id", customer, name)

    def elsewhere(self, person: Person, path: str, **options: Any) -> httpx.Response:
        """The replica's answer, as soon as it gives one."""
        return eventually(
            lambda: (told := self.asked(person, path, **options))[1] == "replica" and told[0], "the replica's answer"
        )

    def alike(self, path: str, leaders: httpx.Response) -> bool:
        """Whether the replica answers, and exactly as the primary did."""
        answer, server = self.asked(self.alice, path)
        same = (answer.status_code, answer.content, answer.headers.get("etag"))
        return server == "replica" and same == (200, leaders.content, leaders.headers.get("etag"))

    def reads_elsewhere(self, person: Person | None = None) -> None:
        """Wait until reads go to the replica."""
        who = person or self.alice
        self.elsewhere(who, "/groups")


def counts() -> dict[str, float]:
    return {labels[0]: value for labels, value in READS.series()}


@contextmanager
def house(cluster: Cluster, settings: Settings, read: str | None = None, **values: Any) -> Iterator[House]:
    """A server that writes to the primary and reads from the replica, with a lag of up to a minute.

    No change gets a number, because its notification would send reads to the primary.
    """
    wanted = {"read_database_url": read or cluster.replica.dsn, "replica_max_lag_seconds": 60.0, **values}
    sql = Sql(cluster.leader.dsn)
    sql.execute("select pg_advisory_lock_shared($1)", NUMBERING)
    try:
        with RunningServer(settings.model_copy(update=wanted), cluster.leader.dsn) as running:
            yield House(running, sql, cluster.replica)
    finally:
        sql.close()


@pytest.fixture(scope="module")
def standing(cluster: Cluster, settings: Settings) -> Iterator[House]:
    with house(cluster, settings) as home:
        yield home


@pytest.fixture
def home(standing: House) -> House:
    """The shared server, with a new Alice for this test."""
    return House(standing.running, standing.sql, standing.replica)


@pytest.fixture(scope="module")
def other(standing: House, cluster: Cluster) -> Iterator[RunningServer]:
    """Another process."""
    with RunningServer(standing.running.settings, cluster.leader.dsn, worker=False) as running:
        yield running


@contextmanager
def paused(replica: Server) -> Iterator[None]:
    """Replay is paused within the block."""
    replica.ask("select pg_wal_replay_pause()")
    try:
        eventually(lambda: replica.ask(PAUSED), "the pause")
        yield
    finally:
        replica.ask("select pg_wal_replay_resume()")


@contextmanager
def behind(home: House, person: Person) -> Iterator[None]:
    """The replica has all data of the person so far, and nothing later."""
    now = home.sql.value("select pg_current_wal_flush_lsn()::text")
    eventually(lambda: home.replica.ask("select pg_last_wal_replay_lsn() >= $1::text::pg_lsn", now), "the replay")
    with paused(home.replica):
        home.reads_elsewhere(person)
        yield


# Read your writes


def test_reads_go_to_the_replica_and_return_their_position(cluster: Cluster, home: House) -> None:
    car = home.car("here")
    home.reads_elsewhere()
    system = cluster.leader.ask("select system_identifier from pg_control_system()")
    for path in ("/cars", f"/cars/{car}", "/cars?$apply=aggregate($count as n)", "/cars?$count=true", "/retention"):
        answer = home.elsewhere(home.alice, path)
        assert answer.status_code == 200, path
        told = position(answer.headers[HEADER])
        assert told.history == (system, 1) and told.at > 0
    seen = home.alice.get(f"/cars/{car}")
    again = home.elsewhere(home.alice, f"/cars/{car}", headers={"If-None-Match": seen.headers["etag"]})
    assert again.status_code == 304 and HEADER in again.headers
    for path in ("/operations", "/me"):  # the state of operations, and the caller itself
        answer, server = home.asked(home.alice, path)
        assert (answer.status_code, server) == (200, "leader-only") and HEADER in answer.headers
    match, server = home.asked(home.alice, f"/cars/{car}", headers={"If-Match": seen.headers["etag"]})
    assert (match.status_code, server) == (200, "leader-only")
    missing = home.alice.get("/cars/2147483647")
    assert missing.status_code == 404 and HEADER in missing.headers
    assert [labels for labels, _ in READ_LAG.series()] == [[f"127.0.0.1:{cluster.replica.port}"]]


def test_replica_and_primary_give_equal_answers(home: House) -> None:
    alice = home.alice
    car, user, group = alice.car("Car"), alice.user(), alice.group()
    ids = {"carId": car, "userId": user, "groupId": group, "productId": alice.box_in(car, "IQ")}
    ids |= {"assignmentId": alice.assignment(alice.car_with_box(), user), "eventId": alice.event(car, user)}
    ids |= {"webhookId": alice.put("/webhooks", {"url": "http://127.0.0.1:9/"}).json()["id"], "brand": "VW"}
    ids |= {"serviceId": alice.get("/services").json()[0]["id"]}
    ids |= {"searchDate": "2026-05-01T08:00:00Z", "managerId": member_of(alice), "clientId": client(alice)}
    ids |= {"requestId": MAKE["requestId"](alice)}
    span = "?from=2026-05-01T08:00:00Z&to=2026-05-02T08:00:00Z"
    _, box = garage(alice)
    found = 0

    def is_alike(path: str) -> bool:
        """Whether both give the same answer. It is asked for again, since a delivery is retried meanwhile."""
        return home.alike(path, alice.get(path, headers={HEADER: "latest"}))

    for row in (row for row in ALL if row.can_use_replica and "deliveryId" not in row.path):
        own = {"productId": box.product} if row.path.startswith("/boxes/") else {}
        has_span = {"from", "to"} <= {option.name for option in row.query_parameters}
        path = row.path.format(**ids | own) + (span if has_span else "")
        leaders = alice.get(path, headers={HEADER: "latest"})
        if leaders.status_code == 404:  # the primary gives it in any case
            continue
        eventually(partial(is_alike, path), path)
        found += 1
    assert found >= 30


def test_long_lists_come_from_a_replica_too(cluster: Cluster, settings: Settings) -> None:
    """In batches, and through a file: each is more than one statement."""
    with house(cluster, settings, list_chunk_rows=2) as home:
        cars = sorted(home.car(f"Car {number}") for number in range(7))
        home.elsewhere(home.alice, f"/cars/{cars[-1]}")
        for path in ("/cars", "/cars?$orderby=length(name),id"):
            answer = home.elsewhere(home.alice, path)
            assert [row["id"] for row in answer.json()] == cars
            assert position(answer.headers[HEADER])


def test_writers_read_their_writes(home: House, other: RunningServer) -> None:
    """In the same process without a header, in other processes with the position."""
    car = home.car("before")
    elsewhere = Person(**{**vars(home.alice), "client": http_client(base_url=other.url + "/v3")})
    home.reads_elsewhere(elsewhere)
    with behind(home, home.alice):
        written = home.alice.patch(f"/cars/{car}", [{"op": "replace", "path": "/name", "value": "after"}])
        answer, server = home.asked(home.alice, f"/cars/{car}")
        assert (answer.json()["name"], server) == ("after", "leader-ahead")
        seen = {HEADER: written.headers[HEADER]}
        answer, server = home.asked(elsewhere, f"/cars/{car}", headers=seen)
        assert (answer.json()["name"], server) == ("after", "leader-ahead")
        assert position(answer.headers[HEADER]) >= position(written.headers[HEADER])
        refusal = home.alice.patch(f"/cars/{car}", [{"op": "remove", "path": "/name"}])
        assert refusal.status_code == 400 and HEADER in refusal.headers
    answer = home.elsewhere(elsewhere, f"/cars/{car}", headers=seen)
    assert answer.json()["name"] == "after"
    elsewhere.client.close()


def test_reads_include_writes_announced_by_another_process(home: House, other: RunningServer) -> None:
    """A client that reads after a notification, without a position, gets the new state."""
    car = home.car("before")
    elsewhere = Person(**{**vars(home.alice), "client": http_client(base_url=other.url + "/v3")})
    with behind(home, elsewhere):
        home.alice.patch(f"/cars/{car}", [{"op": "replace", "path": "/name", "value": "after"}])
        eventually(lambda: elsewhere.get(f"/cars/{car}").json()["name"] == "after", "the notice")
        assert home.asked(elsewhere, f"/cars/{car}")[1] == "leader-ahead"
    elsewhere.client.close()


def test_a_position_rules_out_a_stale_read(home: House) -> None:
    car = home.car("before")
    with behind(home, home.alice):
        home.sql.execute(RENAME, car, "after")  # without a notification
        answer, server = home.asked(home.alice, f"/cars/{car}")
        assert (answer.json()["name"], server) == ("before", "replica")
        old = {HEADER: answer.headers[HEADER]}
        now = home.alice.get("/operations").headers[HEADER]
        assert position(now) > position(old[HEADER])
        for seen in (now, "latest"):
            answer, server = home.asked(home.alice, f"/cars/{car}", headers={HEADER: seen})
            assert (answer.json()["name"], server) == ("after", "leader-ahead")


def test_the_primary_answers_what_the_replica_does_not_find(home: House) -> None:
    with behind(home, home.alice):
        car = home.car("new")
        answer, server = home.asked(home.alice, f"/cars/{car}")
        assert (answer.json()["name"], server) == ("new", "leader-after") and HEADER in answer.headers


def test_the_change_feed_is_read_from_the_primary(home: House) -> None:
    """A replica may show a number that the next primary lacks, unless commits wait for it."""
    (number,) = made(home.alice)
    home.reads_elsewhere(home.alice)
    for query in (f"$filter=id ge {number}", f"$filter=id ge {number}&wait=60"):
        answer, server = home.asked(home.alice, f"/changes?{query}")
        assert (answer.json()[0]["id"], server) == (number, "leader-only")


def test_a_replica_with_too_much_lag_is_skipped(cluster: Cluster, settings: Settings) -> None:
    """Only heartbeats show the lag: nothing else writes."""
    with house(cluster, settings, replica_max_lag_seconds=0.7, primary_lease_seconds=0.4) as home:
        car = home.car("before")
        home.reads_elsewhere()
        with paused(cluster.replica):
            home.sql.execute(RENAME, car, "after")
            eventually(lambda: home.asked(home.alice, f"/cars/{car}")[1] == "leader-ahead", "the leader")
            assert home.alice.get(f"/cars/{car}").json()["name"] == "after"
        home.reads_elsewhere()


def test_console_pages_read_from_the_primary(home: House) -> None:
    car = home.car("before")
    with home.alice.browser() as browser, behind(home, home.alice):
        home.sql.execute(RENAME, car, "after")
        assert "after" in browser.get(f"/{home.alice.customer}/cars/{car}").text
        scripts = browser.get(f"/api/v3/cars/{car}", headers={"Customer-ID": str(home.alice.customer)})
        assert scripts.json()["name"] == "after"


def test_another_customer_sees_nothing_and_changes_nothing(home: House) -> None:
    bob = Town(home.sql, home.running).person("bob")
    car = home.car("hers")
    home.reads_elsewhere(bob)
    with behind(home, home.alice):
        seen = home.alice.get(f"/cars/{car}").headers[HEADER]
        hers, nobodys = (bob.get(path, headers={HEADER: seen}) for path in (f"/cars/{car}", "/cars/2147483647"))
        assert (hers.status_code, hers.content) == (nobodys.status_code, nobodys.content) == (404, hers.content)
        assert home.asked(bob, "/cars", headers={HEADER: seen})[0].json() == []
        bob.car("his")
        assert home.asked(bob, "/cars")[1] == "leader-ahead"
        assert home.asked(home.alice, "/cars")[1] == "replica"


# The header


def test_an_invalid_position_is_rejected(cluster: Cluster, home: House) -> None:
    none = ("x", "1-1-0", "1-1-0/G", "9" * 21 + "-1-0/0", "1-1-100000000/0", "\u0661-1-0/0", "1-1-0/0,1-1-0/0")
    for wrong in none:
        refused(home.alice.get("/cars", headers={HEADER: wrong.encode()}), 400, INVALID)
    home.reads_elsewhere()
    system = cluster.leader.ask("select system_identifier from pg_control_system()")
    for other in (f"{system}-2-0/1", f"{system + 1}-1-0/1", f"{system}-1-FFFFFFFF/FFFFFFFF"):
        answer, server = home.asked(home.alice, "/cars", headers={"Keyrack-Position": other})
        assert (answer.status_code, server) == (200, "leader-ahead"), (other, answer.text)


def test_without_replicas_the_header_is_checked_but_not_returned(town: Town) -> None:
    alice = town.person("alice")
    assert HEADER not in alice.get("/cars", headers={HEADER: "1-1-0/0"}).headers
    refused(alice.get("/cars", headers={HEADER: "x"}), 400, INVALID)


# Failures of replicas


def test_the_doctor_checks_each_read_server(cluster: Cluster, database_server: str) -> None:
    def told(*addresses: str) -> list[tuple[str, str]]:
        checks = [
            doctor({"KEYRACK_DATABASE_URL": cluster.leader.dsn, "KEYRACK_READ_DATABASE_URL": dsn})[1]["read-servers"]
            for dsn in addresses
        ]
        return [line for lines in checks for line in lines]

    leads, follows = cluster.leader.port, cluster.replica.port
    assert told(cluster.dsn) == [
        ("ok", f"127.0.0.1:{leads} is the primary and answers reads"),
        ("ok", f"127.0.0.1:{follows} is a standby and answers reads"),
    ]
    nobody = ("warning", "No server of KEYRACK_READ_DATABASE_URL is a standby, so the primary answers all reads.")
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        gone, *rest = told(cluster.named(closed.getsockname()[1]))
    assert gone[0] == "warning" and "cannot be reached: Connection refused" in gone[1]
    assert rest == [nobody]
    other, *rest = told(database_server)
    assert other[0] == "fault" and other[1].endswith("has another system identifier than the primary, so it is unused.")
    assert rest == [nobody]


def test_a_recovery_lock_on_the_replica_fails_no_request(cluster: Cluster, settings: Settings) -> None:
    """A lock was replayed, but not its release: the read waits, then the primary answers."""
    with house(cluster, settings, lock_timeout_seconds=0.2) as home:
        car = home.car("Car")
        home.reads_elsewhere()

        async def locked() -> Any:
            raw = await asyncpg.connect(cluster.leader.dsn)
            await raw.execute("begin; lock table car in access exclusive mode; select pg_current_xact_id()")
            await raw.execute("select pg_logical_emit_message(false, 'test', ''), pg_switch_wal()")
            return raw

        loop = asyncio.new_event_loop()
        raw = loop.run_until_complete(locked())
        locks = "select count(*) from pg_locks where relation = 'car'::regclass and mode = 'AccessExclusiveLock'"
        eventually(lambda: cluster.replica.ask(locks), "the lock on the replica")
        with paused(cluster.replica):
            loop.run_until_complete(raw.execute("rollback"))
            loop.run_until_complete(raw.close())
            loop.close()
            answer, server = home.asked(home.alice, f"/cars/{car}")
            assert (answer.status_code, server) == (200, "leader-after") and HEADER in answer.headers


def test_the_primary_runs_a_statement_that_recovery_cancels(cluster: Cluster, settings: Settings) -> None:
    """`canceling statement due to conflict with recovery`: 40001."""
    sleeps = "select case when pg_is_in_recovery() then pg_sleep(600) end, count(*) as cars from car"

    async def work() -> bool:
        patient = settings.model_copy(update={"statement_timeout_seconds": 600.0})
        leader, replica = [await Database.connect(s.dsn, patient) for s in (cluster.leader, cluster.replica)]
        try:
            read = ReplicaSession(replica.reading(), leader)
            task = asyncio.create_task(read.fetchrow(sleeps))
            waits = "select count(*) from pg_stat_activity where wait_event = 'PgSleep'"
            while not await replica.fetchval(waits):
                pass
            async with leader.transaction() as connection:
                await connection.execute("lock table car in access exclusive mode")
                await connection.execute("select pg_current_xact_id()")
            assert await task is not None
            return read.used_primary
        finally:
            await leader.close()
            await replica.close()

    cluster.replica.ask("alter system set max_standby_streaming_delay = 0")
    cluster.replica.ask("select pg_reload_conf()")
    try:
        assert asyncio.run(work())
    finally:
        cluster.replica.ask("alter system reset max_standby_streaming_delay")
        cluster.replica.ask("select pg_reload_conf()")


def test_an_unreachable_replica_fails_no_request(cluster: Cluster, home: House) -> None:
    car = home.car("Car")
    home.reads_elsewhere()
    asking = Asking(home.alice, f"/cars/{car}")
    asking.start()
    try:
        cluster.replica.signal(signal.SIGSTOP)
        eventually(lambda: not lags(), "that it is silent")
        cluster.replica.signal(signal.SIGCONT)
        reads_again()
        cluster.replica.kill()
        eventually(lambda: not lags(), "that it is away")
        cluster.begin_replica()
        reads_again()
    finally:
        heard = asking.end()
    assert {*heard} == {200}


def lags() -> list[float]:
    return [value for _, value in READ_LAG.series()]


def reads_again() -> None:
    before = counts()["replica"]
    eventually(lambda: counts()["replica"] > before, "a read of the replica")


def test_a_server_of_another_system_is_skipped(
    cluster: Cluster, settings: Settings, capfd: pytest.CaptureFixture[str]
) -> None:
    """It is skipped at each WAL position, because its data are of another system."""
    with running_cluster() as strangers:
        strangers.leader.ask("select pg_logical_emit_message(false, 'test', repeat('x', 1000000)) from pg_switch_wal()")
        with house(cluster, settings, read=strangers.replica.dsn) as home:
            car = home.car("ours")
            eventually(lambda: "replica skipped, other system identifier" in capfd.readouterr().err, "the line")
            answer, server = home.asked(home.alice, f"/cars/{car}")
            assert (answer.json()["name"], server) == ("ours", "leader-ahead")


def test_read_routing_follows_a_failover(cluster: Cluster, settings: Settings) -> None:
    """One address of all servers, for writes and reads. The last test, because it ends with another primary."""
    proof = {"primary_lease_seconds": 1.0, "read_database_url": cluster.dsn, "replica_max_lag_seconds": 60.0}
    sql = Sql(cluster.leader.dsn)
    try:
        with RunningServer(settings.model_copy(update=proof), cluster.dsn) as running:
            home = House(running, sql, cluster.replica)
            car = home.car("before")
            home.reads_elsewhere()
            before = home.elsewhere(home.alice, f"/cars/{car}").headers[HEADER]
            old = cluster.hand_over()  # it still believes that it is the primary
            renamed = [{"op": "replace", "path": "/name", "value": "after"}]
            old.kill()
            eventually(lambda: home.alice.patch(f"/cars/{car}", renamed).status_code == 204, "a write")
            eventually(lambda: home.alice.get(f"/cars/{car}").status_code == 200, "a read")
            answer, server = home.asked(home.alice, f"/cars/{car}", headers={HEADER: before})
            assert (answer.json()["name"], server) == ("after", "leader-ahead")
            assert position(answer.headers[HEADER]).history.timeline == 2
            cluster.begin_replica()
            home.reads_elsewhere()
            answer, server = home.asked(home.alice, f"/cars/{car}", headers={HEADER: before})
            assert (answer.json()["name"], server) == ("after", "leader-ahead")  # the position is of another timeline
            answer = home.elsewhere(home.alice, f"/cars/{car}", headers={HEADER: answer.headers[HEADER]})
            assert answer.json()["name"] == "after"
    finally:
        sql.close()


def test_an_independently_promoted_replica_is_abandoned(cluster: Cluster, settings: Settings) -> None:
    """The primary keeps running, and writes to the other server are never shown."""
    with house(cluster, settings) as home:
        car = home.car("Car")
        home.reads_elsewhere()
        asking = Asking(home.alice, f"/cars/{car}")
        asking.start()
        try:
            cluster.replica.ask("select pg_promote(true, 60)")
            cluster.replica.ask(RENAME, car, "nobody's")
            before = counts()
            eventually(lambda: counts()["leader-ahead"] > before["leader-ahead"], "the leader")
        finally:
            heard = asking.end()
        assert {*heard} == {200}
        answer, server = home.asked(home.alice, f"/cars/{car}")
        assert (answer.json()["name"], server) == ("Car", "leader-ahead")
    cluster.begin_replica()
