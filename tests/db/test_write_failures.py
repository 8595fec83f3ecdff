"""A database in trouble, with a full disk or read-only: callers get 503, and nothing is lost."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import secrets
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import asyncpg
import httpx
import pytest

from keyrack.db import schema_version
from keyrack.db.connection import Connection
from keyrack.db.embedded.server import EmbeddedServer
from keyrack.db.group_commit import GroupCommitter
from keyrack.db.transaction_database import InTransaction
from tests.support.log_lines import log_events, log_lines
from tests.support.people import Person, Town, refused, web
from tests.support.servers import DEADLINE, Process, Sql, eventually, reachable_directory

pytestmark = pytest.mark.cluster

NOT_NOW = "The database cannot process the request at the moment. Please try again."
NO_WRITES = "The database accepts no writes at the moment. Please try again."
SIZE = "120m"  # of the disk


@dataclass
class House:
    """A server without a worker, on its own database, whose disk can be filled."""

    disk: Path
    dsn: str
    url: str
    sql: Sql
    errors: Path
    person: Person

    def fill(self) -> None:
        with suppress(OSError), (self.disk / "filler").open("ab", buffering=0) as filler:
            while True:
                filler.write(bytes(4096))

    def free(self) -> None:
        (self.disk / "filler").unlink()

    def health(self) -> httpx.Response:
        return web().get(self.url + "/health")

    def well(self) -> bool:
        return self.health().status_code == 200

    def lines(self, event: str) -> list[Any]:
        """The log lines of an event."""
        return [line for line in log_events(self.errors) if event in line["event"]]


@pytest.fixture(scope="module")
def disk() -> Iterator[Path]:
    with reachable_directory() as base:
        (base / "disk").mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", f"size={SIZE},mode=0711", "none", base / "disk"]
        if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode:
            pytest.skip("only root can mount a small disk, and not everywhere")
        try:
            yield base / "disk"
        finally:
            subprocess.run(["umount", "--lazy", base / "disk"], check=True)


@pytest.fixture(scope="module")
def house(disk: Path) -> Iterator[House]:
    # PostgreSQL's WAL is on another disk: without space for it the server would stop, and nothing could be checked
    state, log = disk / "state", disk.parent / "log"
    with EmbeddedServer(state, options={"fsync": "off"}) as server:
        asyncio.run(schema_version.migrate(server.dsn))
    shutil.copytree(state / "pgdata/pg_wal", log, copy_function=shutil.copy)
    owner = (state / "pgdata").stat()
    for path in (log, *log.rglob("*")):
        os.chown(path, owner.st_uid, owner.st_gid)
    log.chmod(0o700)
    shutil.rmtree(state / "pgdata/pg_wal")
    (state / "pgdata/pg_wal").symlink_to(log)
    with EmbeddedServer(state, options={"fsync": "off"}) as server:
        errors = disk.parent / "errors"
        serving = start("serve", "--port", "0", "--no-worker", "--json", dsn=server.dsn, errors=errors)
        sql = Sql(server.dsn)
        try:
            assert serving.stdout is not None
            url = json.loads(serving.stdout.readline())["url"].removesuffix("/v3")
            alice = Town(sql, SimpleNamespace(url=url)).person("alice")
            yield House(disk, server.dsn, url, sql, errors, alice)
        finally:
            sql.close()
            serving.terminate()
            serving.wait(DEADLINE)


def start(*arguments: str, dsn: str, errors: Path) -> subprocess.Popen[str]:
    """Start a `keyrack` command that logs to a file."""
    process = Process(*arguments, env={"KEYRACK_DATABASE_URL": dsn, "KEYRACK_WORKER_POLL": "0.2"}, log=errors)
    return process.popen


def test_a_full_disk_gives_503_until_there_is_room(house: House) -> None:
    """B12: writes get 503 with `Retry-After`, reads work, health reports it, the log has one line."""
    car = house.person.car("before")
    assert house.well()
    house.fill()
    try:
        body = {"name": "Big", "description": secrets.token_hex(2_000)}
        answers = [house.person.put("/cars", body) for _ in range(20)]
        refused(answers[-1], 503, NOT_NOW)
        assert answers[-1].headers["retry-after"] == "1"
        assert {answer.status_code for answer in answers} <= {201, 503}
        eventually(lambda: house.health().status_code == 503, "the end of health")
        refused(house.health(), 503, NO_WRITES)
        assert house.health().headers["retry-after"] == "1"
        assert house.person.get(f"/cars/{car}").json()["name"] == "before"
        assert web().get(house.url + "/").status_code == 200  # the process is alive
    finally:
        house.free()
    assert house.person.put("/cars", body).status_code == 201
    eventually(house.well, "health")
    lines = house.lines("request failed")
    assert len(lines) == 1
    assert lines[0]["error"].startswith("DiskFullError (53100): could not extend file")
    assert "exception" not in lines[0]


def test_a_worker_resumes_when_the_disk_has_room(house: House) -> None:
    """B12: a request waits until there is space, uses up no attempt, and is then applied once."""
    alice = house.person
    car, user = alice.car_with_box(), alice.user()
    assert alice.put("/assignments", {"carId": car, "userId": user, "start": "2026-01-01T08:00:00Z"}).status_code == 204
    assert house.sql.value("select pg_relation_size('assignment')") == 0  # so the first row needs space
    operations = "select state, attempts from operation where customer_id = $1"
    house.fill()
    worker = start("work", dsn=house.dsn, errors=house.disk.parent / "worker")
    said = house.disk.parent / "worker"
    try:
        eventually(lambda: "worker interrupted" in "".join(log_lines(said)), "the worker's trouble")
        assert [tuple(row) for row in house.sql.rows(operations, alice.customer)] == [("Pending", 0)]
        house.free()
        eventually(lambda: house.sql.rows(operations, alice.customer)[0]["state"] == "Succeeded", "the operation")
        assert house.sql.rows(operations, alice.customer)[0]["attempts"] == 0
        assert len(alice.get(f"/cars/{car}/assignments").json()) == 1
        lines = log_events(said)
        assert len([line for line in lines if "worker interrupted" in line["event"]]) == 1
        assert not [line for line in lines if "exception" in line]
    finally:
        with suppress(FileNotFoundError):
            house.free()
        worker.terminate()
        worker.wait(DEADLINE)


def test_a_read_only_server_gives_503_for_writes(house: House) -> None:
    """B12: as after a failover, before the new server is promoted."""
    alice = house.person
    car = alice.car("before")

    def set_read_only(value: str) -> None:
        house.sql.execute("set default_transaction_read_only = off")
        house.sql.execute(f"alter system set default_transaction_read_only = {value}")
        house.sql.execute("select pg_reload_conf()")

    set_read_only("on")
    try:
        eventually(lambda: alice.put("/cars", {"name": "Car"}).status_code == 503, "a refusal")
        answer = alice.put("/cars", {"name": "Car"})
        refused(answer, 503, NOT_NOW)
        assert answer.headers["retry-after"] == "1"
        eventually(lambda: house.health().status_code == 503, "the end of health")
        refused(house.health(), 503, NO_WRITES)
        assert alice.get(f"/cars/{car}").status_code == 200
    finally:
        set_read_only("off")
    eventually(lambda: alice.put("/cars", {"name": "Car"}).status_code == 201, "a write")
    eventually(house.well, "health")


def test_revoked_rights_give_503(house: House) -> None:
    """B12: an operator's mistake, or a file system that has become read-only; the request is not at fault."""
    alice = house.person
    house.sql.execute("create function refuse() returns trigger language plpgsql as"
                      " $$ begin raise insufficient_privilege; end $$")  # fmt: skip
    house.sql.execute("create trigger refuse before insert on car execute function refuse()")
    try:
        refused(alice.put("/cars", {"name": "Car"}), 503, NOT_NOW)
    finally:
        house.sql.execute("drop trigger refuse on car")


def test_health_checks_write_at_most_once_a_second(house: House) -> None:
    """B12: the database is written to once a second, whatever number of clients ask."""
    eventually(house.well, "health")
    before = house.sql.value("select at from write_check")
    eventually(lambda: house.well() and house.sql.value("select at from write_check") != before, "a write")
    seen = sorted({house.sql.value("select at from write_check") for _ in range(50) if house.well()})
    assert all(later - earlier > timedelta(seconds=0.99) for earlier, later in itertools.pairwise(seen)), seen


def test_an_interrupted_batch_is_not_retried_one_by_one() -> None:
    """B12: a full disk is no caller's fault, and must not turn one batch into many transactions."""
    calls: list[int] = []

    async def work(_db: Any, _customer: int, items: list[Any]) -> list[Any]:
        calls.append(len(items))
        await asyncio.sleep(0)
        raise asyncpg.DiskFullError("could not extend file")

    async def run() -> list[Any]:
        batches = GroupCommitter(InTransaction(Connection(None)))
        return await asyncio.gather(*(batches.put(work, 1, [n]) for n in range(10)), return_exceptions=True)

    assert [type(result) for result in asyncio.run(run())] == [asyncpg.DiskFullError] * 10
    assert calls == [1, 9] or calls == [10]
