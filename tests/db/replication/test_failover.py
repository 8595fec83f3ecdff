"""Failover: a new primary is found, no revoked permission counts, no write is cut off, no restart."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import asyncpg
import httpx
import pytest

from keyrack.core.secret_hashes import digest
from keyrack.core.settings import Settings
from keyrack.db.audit_context import acting, system
from keyrack.db.connection import Database
from keyrack.db.replication.primary_connector import NoPrimary, PrimaryConnector
from tests.db.replication.cluster import PASSWORD, Cluster, Server, running_cluster
from tests.support.people import Person, Town, refused, web, when_proven
from tests.support.servers import DEADLINE, RunningServer, Sql, eventually
from tests.webhooks.delivery_database import Office
from tests.webhooks.receiver import Receiver

pytestmark = pytest.mark.cluster

UNKNOWN = "The connection to the database was lost during the write. It is unknown whether the change was made."
UNPROVEN = "The server cannot confirm at the moment that its database is the primary. Please try again."
# A transaction keeps this lock from its first write to its end
CLAIMS = """exists (select from pg_locks l where l.pid = pg_stat_activity.pid and l.relation = 'delivery_lane'::regclass
and l.mode = 'RowExclusiveLock')"""
WAITING = "select count(*) from pg_stat_activity where wait_event = 'SyncRep' and application_name = $1"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with running_cluster() as cluster:
        yield cluster


@contextlib.contextmanager
def silent_server() -> Iterator[int]:
    """The port of a server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as accepts:
        yield accepts.getsockname()[1]


@contextlib.contextmanager
def serving(
    dsn: str, direct: Server, settings: Settings, *, worker: bool = True
) -> Iterator[tuple[RunningServer, Person, Sql]]:
    """The API at `dsn`, with a worker unless a test does its work, and a manager as caller."""
    sql = Sql(direct.dsn)
    try:
        with RunningServer(settings, dsn, worker=worker) as running:
            yield running, Town(sql, running).person("alice"), sql
    finally:
        sql.close()


def patient(settings: Settings, **values: Any) -> Settings:
    return settings.model_copy(update={"primary_lease_seconds": 2.0, **values})


# Finding the primary


def test_the_primary_is_found_behind_a_silent_server_and_a_replica(cluster: Cluster) -> None:
    async def found() -> list[int]:
        with silent_server() as port:
            dsn = cluster.named(port, cluster.replica.port, cluster.leader.port)
            database = await Database.connect(dsn, Settings(), size=3)
            try:
                ports = [await database.fetchval("select inet_server_port()")]
                async with database.transaction() as one, database.transaction() as other:
                    ports += [await each.fetchval("select inet_server_port()") for each in (one, other)]
                return ports
            finally:
                await database.close()

    assert asyncio.run(found()) == [cluster.leader.port] * 3


def test_an_error_without_a_primary_names_each_server_but_no_password() -> None:
    with silent_server() as silent, socket.create_server(("127.0.0.1", 0)) as gone:
        nobody = gone.getsockname()[1]
        gone.close()
        dsn = f"postgresql://keyrack:secret@127.0.0.1:{silent},127.0.0.1:{nobody}/keyrack"
        with pytest.raises(NoPrimary) as raised:
            asyncio.run(PrimaryConnector(dsn, Settings(database_connect_seconds=3)).connect())
    text = str(raised.value)
    assert f"127.0.0.1:{silent}: silent" in text and f"127.0.0.1:{nobody}: ConnectionRefusedError" in text
    assert "secret" not in text


def test_a_replica_alone_is_rejected_if_failover_is_configured(cluster: Cluster) -> None:
    async def connect(settings: Settings) -> bool:
        raw = await PrimaryConnector(cluster.replica.dsn, settings).connect()
        raw.terminate()
        return True

    with pytest.raises(NoPrimary, match=f"127.0.0.1:{cluster.replica.port}: replica") as raised:
        asyncio.run(connect(Settings(database_ha=True)))
    assert PASSWORD not in str(raised.value)
    assert asyncio.run(connect(Settings()))  # a single server is used without a check


def test_a_wrong_password_is_reported_as_such(cluster: Cluster) -> None:
    dsn = cluster.dsn.replace(quote(PASSWORD), "wrong")
    with pytest.raises(asyncpg.InvalidPasswordError):
        asyncio.run(PrimaryConnector(dsn, Settings()).connect())


def test_tcp_connections_have_keep_alive(cluster: Cluster) -> None:
    async def options() -> list[int]:
        raw: Any = await PrimaryConnector(cluster.leader.dsn, Settings()).connect()
        try:
            own = raw._transport.get_extra_info("socket")
            tcp = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT, socket.TCP_USER_TIMEOUT)
            return [own.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)] + [
                own.getsockopt(socket.IPPROTO_TCP, option) for option in tcp
            ]
        finally:
            raw.terminate()

    assert asyncio.run(options()) == [1, 5, 3, 3, 10_000]


# Writes


def test_neither_a_timeout_nor_a_disconnect_cancels_a_commit(cluster: Cluster, settings: Settings) -> None:
    """A cancelled wait for the standby is still a commit, visible to all, which the next primary may lack."""
    careless = patient(settings, database_ha=False, statement_timeout_seconds=0.5)
    with serving(cluster.leader.dsn, cluster.leader, careless) as (server, alice, sql):
        cars = "select count(*) from car where customer_id = $1 and name = $2"
        cluster.leader.waits_for("nobody")
        try:
            with socket.create_connection(("127.0.0.1", server.port)) as left:
                body = json.dumps({"name": "left"}).encode()
                head = "".join(f"{name}: {value}\r\n" for name, value in alice.headers.items())
                left.sendall(
                    f"PUT /v3/cars HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n{head}"
                    f"Content-Length: {len(body)}\r\n\r\n".encode()
                    + body
                )
                eventually(lambda: sql.value(WAITING, "keyrack"), "its commit")
            # A write in a task that is cancelled
            assert asyncio.run(cancelled(cluster.leader.dsn, careless)) == 0
            key = {"Idempotency-Key": "7c9e6679-7425-40de-944b-e07fc1f90ae7"}
            answer = alice.put("/cars", {"name": "slow"}, headers=key)
            refused(answer, 503, UNKNOWN)
            assert "retry-after" not in answer.headers  # without an idempotency key, a retry would not be safe
            assert sql.value(WAITING, "keyrack") >= 2  # both are still running
            assert [sql.value(cars, alice.customer, name) for name in ("left", "slow")] == [0, 0]
        finally:
            cluster.leader.waits_for("")
        eventually(lambda: sql.value(cars, alice.customer, "left") == 1, "what somebody asked for who left")
        again = eventually(lambda: (a := alice.put("/cars", {"name": "slow"}, headers=key)).status_code == 201 and a)
        assert again.headers["idempotency-replayed"] == "true"
        assert sql.value(cars, alice.customer, "slow") == 1
        assert alice.get(f"/cars/{again.json()['id']}").json()["name"] == "slow"


async def cancelled(dsn: str, settings: Settings) -> int:
    """The number of visible rows of writes whose tasks were cancelled while they waited for the standby."""
    acting.set(system("tests"))
    database = await Database.connect(dsn, settings, application="keyrack cancelled")
    looks = await asyncpg.connect(dsn)

    async def transaction() -> None:
        async with database.transaction() as connection:
            await connection.execute("insert into api_key (name, hash) values ('cancelled', $1)", digest("one"))

    async def statement() -> None:
        await database.execute("insert into api_key (name, hash) values ('cancelled', $1)", digest("two"))

    try:
        tasks = [asyncio.create_task(transaction()), asyncio.create_task(statement())]
        while await looks.fetchval(WAITING, "keyrack cancelled") < 2:
            assert not any(task.done() for task in tasks)
        for task in tasks:
            task.cancel()
        assert all(isinstance(e, asyncio.CancelledError) for e in await asyncio.gather(*tasks, return_exceptions=True))
        for _ in range(5):  # a cancel request would have arrived with the first of them
            await (await asyncpg.connect(dsn)).close()
        assert await looks.fetchval(WAITING, "keyrack cancelled") == 2
        return await looks.fetchval("select count(*) from api_key where name = 'cancelled'")
    finally:
        await database.close()  # the end of the process cancels nothing either
        assert await looks.fetchval(WAITING, "keyrack cancelled") == 2
        await looks.close()


# Proof of the primary


def test_requests_get_503_while_the_primary_is_not_proven(cluster: Cluster, settings: Settings) -> None:
    with serving(cluster.dsn, cluster.leader, patient(settings)) as (server, alice, sql):
        car = alice.car("before")
        roles = "select array_agg(role order by role) from heartbeat where pid = $1"
        eventually(lambda: sql.value(roles, os.getpid()) == ["serve", "work"], "both heartbeats")
        cluster.leader.waits_for("nobody")
        try:
            eventually(lambda: alice.get(f"/cars/{car}").status_code == 503, "the end of the proof")
            refused(alice.get(f"/cars/{car}"), 503, UNPROVEN)
            answer = alice.put("/cars", {"name": "Car"})
            refused(answer, 503, UNPROVEN)
            assert answer.headers["retry-after"] == "1"
            form = {"username": alice.username, "password": alice.password, "grant_type": "password"}
            key = {"vendor-API-Key": alice.api_key}
            assert web().post(server.url + "/v3/oauth2/token", data=form, headers=key).status_code == 503
            assert web().get(server.url + "/health").status_code == 503
            assert web().get(server.url + "/").status_code == 200  # the process is alive
        finally:
            cluster.leader.waits_for("")
        eventually(lambda: alice.get(f"/cars/{car}").status_code == 200, "a read")
        alice.car()
    assert cluster.leader.ask(roles, os.getpid()) is None  # a clean shutdown deletes its rows


def test_a_single_server_needs_no_proof(cluster: Cluster, settings: Settings) -> None:
    with serving(cluster.leader.dsn, cluster.leader, patient(settings, primary_lease_seconds=0.2)) as (_, alice, sql):
        car = alice.car("before")
        cluster.leader.waits_for("nobody")
        try:
            eventually(lambda: sql.value(WAITING, "keyrack heartbeat"), "a late heartbeat")
            assert alice.get(f"/cars/{car}").status_code == 200
        finally:
            cluster.leader.waits_for("")


# The failover itself


class Asking(threading.Thread):
    """A caller that sends requests all the time, and records the answers."""

    def __init__(self, person: Person, path: str) -> None:
        super().__init__(daemon=True)
        self._person, self._path = person, path
        self._ended = threading.Event()
        self.heard: list[int] = []

    def run(self) -> None:
        while not self._ended.is_set():
            with contextlib.suppress(httpx.TransportError):
                self.heard.append(self._person.get(self._path).status_code)

    def end(self) -> list[int]:
        self._ended.set()
        self.join(DEADLINE)
        return self.heard


@pytest.fixture
def standby(cluster: Cluster) -> Iterator[Cluster]:
    """The primary's commits wait for the replica."""
    cluster.leader.waits_for("*")
    yield cluster
    cluster.leader.waits_for("")
    cluster.begin_replica()


def test_an_isolated_old_primary_is_abandoned(standby: Cluster, settings: Settings) -> None:
    """As when only Patroni is stopped: the old primary still answers reads.

    A caller that was revoked on the new primary gets no access from a process that used the old one. That process
    continues to work.
    """
    with serving(standby.dsn, standby.leader, patient(settings)) as (server, alice, sql):
        bob = Town(sql, server).person("bob")
        car, user, his = alice.car_with_box("before"), alice.user(), bob.car("his")
        assert when_proven(lambda: bob.get(f"/cars/{his}")).status_code == 200
        old = standby.hand_over()
        new = Sql(standby.leader.dsn)
        beats = "select count(*) from pg_stat_activity where application_name = 'keyrack heartbeat'"
        try:
            eventually(lambda: alice.get(f"/cars/{car}").status_code == 503 or new.value(beats), "the end of the proof")
            new.execute("update api_key set revoked_at = now() where hash = $1", digest(bob.api_key))
            asking = Asking(bob, f"/cars/{his}")
            asking.start()
            eventually(lambda: asking.heard and asking.heard[-1] == 401, "who was revoked")
            eventually(lambda: alice.get(f"/cars/{car}").status_code == 200, "reads")
            made = eventually(lambda: (a := alice.put("/cars", {"name": "after"})).status_code == 201 and a, "writes")
            assert alice.assignment(car, user)  # a worker continues as well
            assert 200 not in asking.end()
            assert new.value("select name from car where car_id = $1", made.json()["id"]) == "after"
            assert old.ask("select count(*) from car where name = 'after'") == 0
            assert old.ask("select pg_is_in_recovery()") is False  # it still believes so
        finally:
            new.close()


def test_a_frozen_primary_is_abandoned(standby: Cluster, settings: Settings) -> None:
    """Running requests end with a retry, and late answers of the old primary are not returned."""
    with serving(standby.dsn, standby.leader, patient(settings, statement_timeout_seconds=30)) as (_, alice, _):
        car, user = alice.car_with_box("before"), alice.user()
        assert when_proven(lambda: alice.get(f"/cars/{car}")).json()["name"] == "before"
        old = standby.leader
        old.signal(signal.SIGSTOP)
        asking = Asking(alice, f"/cars/{car}")
        asking.start()
        try:
            standby.hand_over()
            standby.leader.ask("update car set name = 'after' where car_id = $1", car)
            eventually(lambda: asking.heard and asking.heard[-1] == 200, "reads")
        finally:
            old.signal(signal.SIGCONT)
        assert alice.assignment(car, user)
        assert {*asking.end()} == {200, 503}
        assert when_proven(lambda: alice.get(f"/cars/{car}")).json()["name"] == "after"


# Deliveries: last, because an office begins with an empty database


def test_a_delivery_is_sent_only_after_its_claim_is_acknowledged(cluster: Cluster) -> None:
    """A visible row may be lost with its primary. A row seen before our own acknowledged commit is not."""

    async def work(receiver: Receiver) -> None:
        async with Office.open(cluster.leader.dsn) as office:
            await office.deliver(await office.webhook(receiver.url + "/all"), lane=1)
            await asyncio.to_thread(cluster.leader.waits_for, "nobody")
            async with office.worker():
                claims = f"{WAITING} and {CLAIMS}".replace("$1", "'keyrack worker'")
                await office.until("no claim waits", claims, 1)
                assert receiver.got == []
                await asyncio.to_thread(cluster.leader.waits_for, "")
                await office.until("not sent", "select count(*) from delivery where state = 'Delivered'", 1)
        assert len(receiver.messages()) == 1

    with Receiver() as receiver:
        try:
            asyncio.run(work(receiver))
        finally:
            cluster.leader.waits_for("")
