"""PgBouncer in transaction mode: Debian's version, without prepared statements."""

from __future__ import annotations

import asyncio
import contextlib
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from keyrack.core.errors import Unavailable
from keyrack.core.secret_hashes import digest
from keyrack.core.settings import Settings
from keyrack.db.connection import Database
from keyrack.db.embedded.binaries import OsAccount, end_with_parent
from tests.db.replication.cluster import PASSWORD, Cluster, running_cluster
from tests.ops.doctor import test_doctor
from tests.ops.monitoring import test_status
from tests.support.people import Person, Town, done
from tests.support.servers import DEADLINE, RunningServer, Sql, eventually, free_port
from tests.webhooks.receiver import Receiver

PROGRAM = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
pytestmark = [pytest.mark.cluster, pytest.mark.skipif(PROGRAM is None, reason="no pgbouncer here")]


class Bouncer:
    """A PgBouncer with two server connections, whatever number of clients it has."""

    def __init__(self, cluster: Cluster, printed: str) -> None:
        self.port = free_port()
        self.dsn = Cluster.named(self.port)
        directory = cluster.leader.data.parent
        account = OsAccount.choose(cluster.leader.data)
        users, ini = directory / "users.txt", directory / f"pgbouncer-{self.port}.ini"
        users.write_text(f'"keyrack" "{PASSWORD}"\n')
        users.chmod(0o644)
        ini.write_text(
            printed.replace("port=5432", f"port={cluster.leader.port}")
            + f"listen_addr = 127.0.0.1\nlisten_port = {self.port}\nunix_socket_dir =\n"
            + f"auth_type = scram-sha-256\nauth_file = {users}\ndefault_pool_size = 2\nmax_client_conn = 200\n"
        )
        ini.chmod(0o644)
        with (directory / f"pgbouncer-{self.port}.log").open("wb") as log:
            self._process = subprocess.Popen(
                [str(PROGRAM), str(ini)], stdout=log, stderr=log, cwd="/",
                preexec_fn=end_with_parent(signal.SIGKILL), **account.credentials(),
            )  # fmt: skip
        eventually(lambda: self._answers(), "PgBouncer")

    def _answers(self) -> bool:
        async def ask() -> bool:
            raw = await asyncpg.connect(self.dsn, statement_cache_size=0)
            raw.terminate()
            return True

        try:
            return asyncio.run(ask())
        except OSError:
            return False

    def __enter__(self) -> Bouncer:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(DEADLINE)


@dataclass
class House:
    """A server and a worker that reach the database through PgBouncer."""

    bouncer: Bouncer
    cluster: Cluster
    settings: Settings
    sql: Sql
    town: Town


def printed(settings: Settings) -> str:
    """The output of `keyrack database pgbouncer`."""
    done = subprocess.run(
        [sys.executable, "-m", "keyrack", "database", "pgbouncer"],
        env={
            "KEYRACK_PUBLIC_URL": settings.public_url,
            "KEYRACK_BRAND": settings.brand,
            "KEYRACK_STATEMENT_TIMEOUT_SECONDS": str(settings.statement_timeout_seconds),
            "KEYRACK_LOCK_TIMEOUT_SECONDS": str(settings.lock_timeout_seconds),
            "PATH": "",
        },
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout


@pytest.fixture(scope="module")
def house(settings: Settings) -> Iterator[House]:
    with running_cluster(replica=False) as cluster:
        told = settings.model_copy(
            update={
                "statement_cache": 0,
                "database_direct_url": cluster.leader.dsn,
                "public_url": "https://keys.example/it's",
            }
        )
        with (
            Bouncer(cluster, printed(told)) as bouncer,
            contextlib.closing(Sql(cluster.leader.dsn)) as sql,
            RunningServer(told, bouncer.dsn, public_url=told.public_url) as running,
        ):
            yield House(bouncer, cluster, told, sql, Town(sql, running))


@pytest.fixture
def dora(house: House) -> Person:
    return house.town.person("dora")


def test_status_and_doctor_work_through_pgbouncer(house: House) -> None:
    """Only the missing direct address is a fault. Sessions of other clients keep no settings."""
    env = {"KEYRACK_DATABASE_URL": house.bouncer.dsn}
    assert test_status.told(**env)[1]["verdict"] != "unknown"
    pooler = test_doctor.told(env)[1]["pooler"]
    assert [result for result, _ in pooler] == ["ok", "fault", "warning"]
    env |= {"KEYRACK_DATABASE_DIRECT_URL": house.cluster.leader.dsn, "KEYRACK_STATEMENT_CACHE": "0"}
    assert [result for result, _ in test_doctor.told(env)[1]["pooler"]] == ["ok"]
    for _ in range(4):
        assert asyncio.run(_read_only(house.bouncer.dsn)) == "off"


async def _read_only(dsn: str) -> str:
    raw = await asyncpg.connect(dsn, statement_cache_size=0)
    try:
        return await raw.fetchval("select current_setting('default_transaction_read_only')")
    finally:
        raw.terminate()


def test_an_outcome_reaches_its_webhook(dora: Person) -> None:
    with Receiver() as receiver:
        assert dora.put("/webhooks", {"url": receiver.url + "/told"}).status_code == 201
        car, user = dora.car_with_box(), dora.user()
        number = dora.assignment(car, user)
        told = eventually(lambda: receiver.of("/told"), "the webhook")[0].payload
    assert (told["assignmentId"], told["operationSucceeded"]) == (number, True)
    done(dora.delete(f"/assignments/{number}"))
    eventually(lambda: dora.get(f"/cars/{car}/assignments").json() == [], "its end")


def test_session_settings_hold_in_every_transaction(house: House, dora: Person) -> None:
    """SQL reads the brand and the public address; each transaction may use another connection."""
    car = dora.car_with_box()

    def kind(_: int) -> str:
        return dora.get(f"/cars/{car}/products").json()[0]["type"]

    with ThreadPoolExecutor(12) as threads:
        assert {*threads.map(kind, range(120))} == {"vendor Box"}

    async def ask() -> set[Any]:
        database = await Database.connect(house.bouncer.dsn, house.settings)
        try:
            one = "select current_setting('statement_timeout') || current_setting('keyrack.public_url')"
            return {*await asyncio.gather(*(database.fetchval(one) for _ in range(50)))}
        finally:
            await database.close()

    assert asyncio.run(ask()) == {f"{DEADLINE / 60:.0f}minhttps://keys.example/it's"}


def test_a_pgbouncer_without_the_settings_is_reported(house: House) -> None:
    bare = re.sub(r" connect_query='(?:[^']|'')*'", "", printed(house.settings))
    assert "connect_query" not in bare
    lacking = r"lack .*: .*keyrack\.brand, .*`keyrack database pgbouncer`"
    with Bouncer(house.cluster, bare) as bouncer, pytest.raises(Unavailable, match=lacking):
        asyncio.run(Database.connect(bouncer.dsn, house.settings))


def test_defaults_of_the_role_reach_no_session_through_pgbouncer(house: House) -> None:
    values = {
        "DateStyle": "German", "IntervalStyle": "iso_8601", "TimeZone": "Asia/Kathmandu", "bytea_output": "escape",
        "extra_float_digits": "-15", "standard_conforming_strings": "off",
    }  # fmt: skip
    probe = (
        "select concat_ws(' ', timestamptz '2026-11-14 22:42:06Z', interval '90 minutes', bytea '\\x00', 0.1::float8,"
        " length('\\n'))"
    )

    async def ask(dsn: str) -> set[str]:
        database = await Database.connect(dsn, house.settings)
        try:
            return {*await asyncio.gather(*(database.fetchval(probe) for _ in range(20)))}
        finally:
            await database.close()

    try:
        for name, value in values.items():
            house.sql.execute(f"alter role current_user set {name} = '{value}'")
        with Bouncer(house.cluster, printed(house.settings)) as bouncer:
            assert asyncio.run(ask(bouncer.dsn)) == {"2026-11-14 22:42:06+00 01:30:00 \\x00 0.1 2"}
    finally:
        house.sql.execute("alter role current_user reset all")


def test_a_pgbouncer_that_rejects_a_parameter_is_explained(house: House) -> None:
    refusing = re.sub(r"ignore_startup_parameters = .*", "ignore_startup_parameters = jit", printed(house.settings))
    remedy = r"startup parameter.*`keyrack database pgbouncer`"
    with Bouncer(house.cluster, refusing) as bouncer, pytest.raises(Unavailable, match=remedy):
        asyncio.run(Database.connect(bouncer.dsn, house.settings))


def test_a_connect_query_that_is_too_long_is_rejected(house: House) -> None:
    """PgBouncer would close each server connection without a reason."""
    longest = house.settings.model_copy(update={"public_url": "https://keys.example/" + 100 * "x"})
    with Bouncer(house.cluster, printed(longest)):
        pass
    with pytest.raises(subprocess.CalledProcessError) as refused:
        printed(house.settings.model_copy(update={"public_url": "https://keys.example/" + 400 * "x"}))
    assert "PgBouncer accepts at most 505" in refused.value.stderr


def test_lists_of_any_length(house: House, dora: Person) -> None:
    """In batches if an index has the order; else from a cursor, into a file."""
    house.sql.execute("insert into car (customer_id, name) select $1, 'Car ' || n from generate_series(1, 1200) n",
                      dora.customer)  # fmt: skip
    assert len(dora.get("/cars").json()) == 1200
    assert len(dora.get("/cars", params={"$orderby": "name desc", "$expand": "groups"}).json()) == 1200
    found = dora.get("/cars", params={"$filter": "contains(name, '77')", "$count": "true", "$top": "3"})
    assert (len(found.json()), found.headers["x-total-count"]) == (3, "21")


def test_batches_idempotency_keys_and_errors(dora: Person) -> None:
    items = [{"op": "create", "body": {"name": name}} for name in ("one", "", "two")]
    answer = dora.post("/batch", {"kind": "cars", "items": items})
    assert [result["status"] for result in answer.json()["results"]] == [201, 400, 201]
    key = {"Idempotency-Key": "0f8fad5b-d9cb-469f-a165-70867728950e"}
    first, again = (dora.put("/cars", {"name": "once"}, headers=key) for _ in range(2))
    assert (first.status_code, first.json()) == (again.status_code, again.json())
    assert again.headers["idempotency-replayed"] == "true"
    assert dora.put("/groups", {"name": "Twice"}).status_code == 201
    assert dora.put("/pairings", {"productId": 1, "serviceId": 1}).status_code == 404
    car = dora.car("before")
    assert dora.patch(f"/cars/{car}", [{"op": "replace", "path": "/name", "value": "after"}]).status_code == 204
    assert dora.get(f"/cars/{car}").json()["name"] == "after"


def test_concurrent_events_get_consecutive_ids(house: House, dora: Person) -> None:
    car, user = dora.car_with_box(), dora.user()
    with ThreadPoolExecutor(8) as threads:
        numbers = [*threads.map(lambda _: dora.event(car, user), range(40))]
    assert sorted(numbers) == [*range(min(numbers), min(numbers) + 40)]


def test_a_revocation_takes_effect_at_once(house: House, dora: Person) -> None:
    assert dora.get("/cars").status_code == 200
    house.sql.execute("update api_key set revoked_at = now() where hash = $1", digest(dora.api_key))
    eventually(lambda: dora.get("/cars").status_code == 401, "the end of the key")


def test_rows_are_fetched_in_batches(house: House) -> None:
    async def fetched() -> list[int]:
        database = await Database.connect(house.bouncer.dsn, house.settings)
        found: list[int] = []
        try:
            async with database.transaction() as connection:
                await connection.declare("select n from generate_series(1, $1::integer) n", 1_000)
                while rows := await connection.fetch_batch(200):
                    assert len(rows) <= 200
                    found += [row["n"] for row in rows]
            return found
        finally:
            await database.close()

    assert asyncio.run(fetched()) == [*range(1, 1_001)]


def test_no_statement_belongs_to_a_session() -> None:
    """asyncpg's cursors, prepared statements and session locks would end up in another session."""
    source = Path(__file__).parents[2] / "src/keyrack"
    found = [
        (path.name, line)
        for path in sorted(source.rglob("*.py"))
        for line in path.read_text().splitlines()
        if re.search(r"\.cursor\(|raw\.prepare\(|pg_(try_)?advisory_lock|[^_]set_config\([^)]*false\)", line)
    ]
    # Migrations and moves between cells bypass PgBouncer
    assert [name for name, _ in found] == ["migration_runner.py", "schema_version.py", "customer_move.py"], found
