"""B7: one customer's load does not slow others. Connections, hashes and queues have quotas."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import httpx
import pytest
from argon2 import PasswordHasher

from keyrack.core.settings import Settings
from keyrack.db.fair_semaphore import TOO_LONG, TOO_MANY
from tests.support.people import PASSWORD, Person, Town, refused, web
from tests.support.servers import DEADLINE, RunningServer, Sql, eventually


def patient(settings: Settings, **few: float) -> Settings:
    """Settings with a lock timeout longer than any test."""
    return settings.model_copy(
        update={"lock_timeout_seconds": 60, "statement_timeout_seconds": 60, "db_queue_timeout_seconds": 60, **few}
    )


@contextmanager
def locked(sql: Sql, *tables: str) -> Iterator[None]:
    """Lock the tables, so that their readers and writers wait."""
    sql.execute("begin")
    try:
        for table in tables:
            sql.execute(f"lock table {table} in access exclusive mode")
        yield
    finally:
        sql.execute("rollback")


def waiting(sql: Sql, table: str) -> int:
    """The number of statements that wait for a table."""
    return sql.value("select count(*) from pg_locks where not granted and relation = $1::text::regclass", table)


def call(running: RunningServer, person: Person, method: str, path: str, json: object = None) -> httpx.Response:
    return web().request(method, running.url + path, headers=person.headers, json=json)


def test_slow_reads_of_one_customer_leave_connections_to_the_others(
    alice: Person, bob: Person, dsn: str, settings: Settings, sql: Sql
) -> None:
    with (
        RunningServer(patient(settings, pool_size=4), dsn, worker=False) as running,
        ThreadPoolExecutor(8) as threads,
    ):
        with locked(sql, "product"):
            slow = [threads.submit(call, running, alice, "GET", "/products") for _ in range(8)]
            eventually(lambda: waiting(sql, "product"))
            assert call(running, bob, "GET", "/cars").status_code == 200
            assert not any(answer.done() for answer in slow)
        assert {answer.result().status_code for answer in slow} == {200}


def test_slow_writes_of_one_customer_leave_connections_to_the_others(
    alice: Person, bob: Person, dsn: str, settings: Settings, sql: Sql
) -> None:
    with (
        RunningServer(patient(settings, pool_size=4), dsn, worker=False) as running,
        ThreadPoolExecutor(8) as threads,
    ):
        with locked(sql, "fleet_group"):
            slow = [threads.submit(call, running, alice, "PUT", "/groups", {"name": f"slow {n}"}) for n in range(8)]
            eventually(lambda: waiting(sql, "fleet_group") == 2)
            assert call(running, bob, "PUT", "/cars", {"name": "quick"}).status_code == 201
            assert waiting(sql, "fleet_group") == 2
        assert {answer.result().status_code for answer in slow} == {201}


def test_reads_leave_room_for_writes_of_the_same_customer(
    alice: Person, dsn: str, settings: Settings, sql: Sql
) -> None:
    with (
        RunningServer(patient(settings, pool_size=4), dsn, worker=False) as running,
        ThreadPoolExecutor(4) as threads,
        locked(sql, "product"),
    ):
        for _ in range(4):
            threads.submit(call, running, alice, "GET", "/products")
        eventually(lambda: waiting(sql, "product"))
        assert call(running, alice, "PUT", "/cars", {"name": "in between"}).status_code == 201


def test_a_manager_has_one_share_for_all_customers(town: Town, bob: Person, dsn: str, settings: Settings) -> None:
    """Two of four connections at most serve one manager, who works for five customers."""
    sql, busy = town.sql, town.person("busy")
    customers = [busy.customer] + [
        sql.value(
            "with c as (insert into customer (name) values ('another') returning customer_id)"
            ", m as (insert into manager_customer (manager_id, customer_id)"
            " select manager_id, customer_id from manager, c where username = $1 returning manager_id, customer_id)"
            " insert into manager_role (manager_id, customer_id, role) select manager_id, customer_id, 'Owner' from m"
            " returning customer_id",
            busy.username,
        )
        for _ in range(4)
    ]
    with (
        RunningServer(patient(settings, pool_size=4), dsn, worker=False) as running,
        ThreadPoolExecutor(5) as threads,
        locked(sql, "fleet_group"),
    ):
        for customer in customers:
            headers = busy.headers | {"Customer-ID": str(customer)}
            threads.submit(web().put, running.url + "/groups", headers=headers, json={"name": "slow"})
        eventually(lambda: waiting(sql, "fleet_group") == 2)
        assert call(running, bob, "PUT", "/cars", {"name": "quick"}).status_code == 201
        assert waiting(sql, "fleet_group") == 2


def test_requests_beyond_the_queue_limit_get_503(alice: Person, dsn: str, settings: Settings, sql: Sql) -> None:
    few = patient(settings, pool_size=2, db_queue_max_waiting=3)
    with RunningServer(few, dsn, worker=False) as running, ThreadPoolExecutor(12) as threads:
        with locked(sql, "fleet_group"):
            asked = [threads.submit(call, running, alice, "PUT", "/groups", {"name": f"one {n}"}) for n in range(12)]
            eventually(lambda: _ended(asked) == 12 - 1 - 3)
        told = [answer.result() for answer in asked if answer.result().status_code == 503]
        for answer in told:
            refused(answer, 503, TOO_MANY)
            assert answer.headers["retry-after"] == "1"
        assert sorted(answer.result().status_code for answer in asked) == [201] * 4 + [503] * 8


def test_queued_requests_time_out_with_503(alice: Person, dsn: str, settings: Settings, sql: Sql) -> None:
    quick = patient(settings, pool_size=2, db_queue_timeout_seconds=0.2)
    with RunningServer(quick, dsn, worker=False) as running, ThreadPoolExecutor(1) as threads:
        with locked(sql, "fleet_group"):
            first = threads.submit(call, running, alice, "PUT", "/groups", {"name": "first"})
            eventually(lambda: waiting(sql, "fleet_group") == 1)
            refused(call(running, alice, "GET", "/groups"), 503, TOO_LONG)
        assert first.result().status_code == 201


def test_health_log_in_and_access_checks_have_connections_of_their_own(
    alice: Person, bob: Person, town: Town, dsn: str, settings: Settings, sql: Sql
) -> None:
    """Even while two customers use all connections for customers."""
    with (
        RunningServer(patient(settings, pool_size=2), dsn, worker=False) as running,
        ThreadPoolExecutor(2) as threads,
        locked(sql, "fleet_group"),
    ):
        for person in (alice, bob):
            threads.submit(call, running, person, "PUT", "/groups", {"name": "slow"})
        eventually(lambda: waiting(sql, "fleet_group") == 2)
        assert web().get(running.url + "/health").status_code == 200
        form = {"username": alice.username, "password": PASSWORD, "grant_type": "password"}
        key = {"vendor-API-Key": alice.api_key}
        assert web().post(running.url + "/oauth2/token", data=form, headers=key).status_code == 200
        assert web().get(running.url + "/cars", headers={"vendor-API-Key": "unknown"}).status_code == 401


SLOW = "a password that takes long to hash"


class Held:
    """Hashes of `SLOW` that block until they are released."""

    def __init__(self) -> None:
        self.started = 0
        self._go_on = threading.Event()
        self._hash = PasswordHasher.hash

    def hash(self, hasher: PasswordHasher, password: str) -> str:
        if password == SLOW:
            self.started += 1
            self._go_on.wait(DEADLINE)
        return self._hash(hasher, password)

    def let_go(self) -> None:
        self._go_on.set()


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Held:
    held = Held()
    monkeypatch.setattr(PasswordHasher, "hash", lambda hasher, password: held.hash(hasher, password))
    return held


def _new_user(number: int) -> dict[str, object]:
    return {
        "emailAddress": f"hashed{number}.{threading.get_ident()}@example.org",
        "userData": {"firstName": "Uma", "lastName": "User"},
        "type": "Normal",
        "password": SLOW,
    }


def test_no_connection_waits_for_a_hash(carol: Person, dsn: str, settings: Settings, sql: Sql, held: Held) -> None:
    """This includes writes with an Idempotency-Key, which share a transaction with their response."""
    with (
        RunningServer(patient(settings, pool_size=2), dsn, worker=False) as running,
        ThreadPoolExecutor(4) as threads,
    ):
        for number in range(4):
            headers = carol.headers | {"Idempotency-Key": f"hash {number}"}
            threads.submit(web().put, running.url + "/users", headers=headers, json=_new_user(number))
        eventually(lambda: held.started == 1)  # the other thread serves other customers
        assert call(running, carol, "PUT", "/cars", {"name": "meanwhile"}).status_code == 201
        form = {"username": carol.username, "password": PASSWORD, "grant_type": "password"}
        key = {"vendor-API-Key": carol.api_key}
        assert web().post(running.url + "/oauth2/token", data=form, headers=key).status_code == 200
        assert held.started == 1
        held.let_go()


def test_the_queue_for_hashes_is_limited(carol: Person, dsn: str, settings: Settings, held: Held) -> None:
    few = patient(settings, db_queue_max_waiting=2)
    with RunningServer(few, dsn, worker=False) as running, ThreadPoolExecutor(6) as threads:
        asked = [threads.submit(call, running, carol, "PUT", "/users", _new_user(10 + n)) for n in range(6)]
        eventually(lambda: _ended(asked) == 6 - 1 - 2)
        for answer in asked:
            if answer.done():
                refused(answer.result(), 503, TOO_MANY)
        held.let_go()


def _ended(asked: list[Future[httpx.Response]]) -> int:
    return sum(answer.done() for answer in asked)
