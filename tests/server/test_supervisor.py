"""Several processes under one supervisor: shared port, restarts, clean stop."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.people import Town, fetch
from tests.support.servers import DEADLINE, Process, Sql, eventually, free_port

pytestmark = pytest.mark.cluster


def children(pid: int) -> dict[int, str]:
    """The child processes of a process: pid -> command line."""
    found: dict[int, str] = {}
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        try:
            found[int(child)] = Path(f"/proc/{child}/cmdline").read_text().replace("\0", " ")
        except OSError:
            continue
    return found


def serving(pid: int) -> list[int]:
    return [child for child, command in children(pid).items() if " serve " in command]


def well(url: str) -> bool:
    try:
        return fetch("GET", f"{url}/health").status_code == 200
    except httpx.TransportError:
        return False


@pytest.fixture(scope="module")
def family(dsn: str) -> Iterator[tuple[Process, str]]:
    port = free_port()
    env = {"KEYRACK_DATABASE_URL": dsn}
    process = Process("serve", "--processes", "2", "--port", str(port), "--json", env=env)
    url = f"http://127.0.0.1:{port}"
    try:
        assert process.popen.stdout is not None
        assert json.loads(process.popen.stdout.readline()) == {
            "url": f"{url}/v3",
            "address": url.removeprefix("http://"),
        }
        eventually(lambda: well(url), "the first answer")
        yield process, url
    finally:
        process.stop()


def test_two_serve_and_one_works(family: tuple[Process, str]) -> None:
    process, _ = family

    def kinds() -> tuple[int, int]:
        commands = list(children(process.popen.pid).values())
        return len([c for c in commands if " serve " in c]), len([c for c in commands if c.rstrip().endswith(" work")])

    eventually(lambda: kinds() == (2, 1), "two that serve, and one that works")
    assert len(children(process.popen.pid)) == 3


def test_a_killed_child_is_replaced(family: tuple[Process, str]) -> None:
    process, url = family
    before = serving(process.popen.pid)
    os.kill(before[0], signal.SIGKILL)
    eventually(lambda: len(new := serving(process.popen.pid)) == 2 and before[0] not in new, "a successor")
    eventually(lambda: well(url), "an answer")


def test_sigterm_stops_all_of_them(dsn: str) -> None:
    port = free_port()
    process = Process("serve", "--processes", "2", "--port", str(port), "--json", env={"KEYRACK_DATABASE_URL": dsn})
    eventually(lambda: well(f"http://127.0.0.1:{port}"), "the first answer")
    family = children(process.popen.pid)
    assert process.stop(signal.SIGTERM) == 0
    assert not [pid for pid in family if Path(f"/proc/{pid}/exe").exists()]


def test_children_end_with_a_parent_that_is_killed(dsn: str) -> None:
    """B13: they would keep its port, without its database."""
    process = Process("serve", "--processes", "2", "--port", "0", "--json", env={"KEYRACK_DATABASE_URL": dsn})
    assert process.popen.stdout is not None
    url = json.loads(process.popen.stdout.readline())["url"].removesuffix("/v3")
    eventually(lambda: len(children(process.popen.pid)) == 3 and well(url), "the first answer")
    family = children(process.popen.pid)
    process.stop(signal.SIGKILL)
    eventually(lambda: not [pid for pid in family if Path(f"/proc/{pid}/exe").exists()], "the children's end")


def test_a_port_in_use_is_reported_in_one_line(family: tuple[Process, str], dsn: str) -> None:
    port = family[1].rsplit(":", 1)[1]
    process = Process("serve", "--port", port, env={"KEYRACK_DATABASE_URL": dsn})
    _, errors = process.popen.communicate(timeout=DEADLINE)
    assert process.popen.returncode == 1
    assert errors.strip() == f"keyrack: Port {port} at 127.0.0.1 is in use. Choose another one with --port."


def test_an_unreachable_database_is_reported_in_one_line() -> None:
    address = f"postgresql://nobody@127.0.0.1:{free_port()}/nothing"
    process = Process("serve", "--port", "0", env={"KEYRACK_DATABASE_URL": address})
    _, errors = process.popen.communicate(timeout=DEADLINE)
    assert process.popen.returncode == 1
    assert errors.startswith("keyrack: The database cannot be reached")
    assert "Traceback" not in errors


def test_a_worker_alone_reports_that_it_works(dsn: str) -> None:
    process = Process("work", "--json", env={"KEYRACK_DATABASE_URL": dsn})
    assert process.popen.stdout is not None
    assert json.loads(process.popen.stdout.readline()) == {"working": True}
    assert process.stop(signal.SIGTERM) == 0


def test_migrate_by_three_at_once_on_an_empty_database(database_server: str) -> None:
    from tests.support.servers import fresh_database

    with fresh_database(database_server) as empty:
        processes = [Process("migrate", "--json", env={"KEYRACK_DATABASE_URL": empty}) for _ in range(3)]
        said = [process.popen.communicate(timeout=DEADLINE) for process in processes]
        assert [process.popen.returncode for process in processes] == [0, 0, 0], said
        assert len({out for out, _ in said}) == 1


@pytest.fixture(scope="module")
def pair(dsn: str) -> Iterator[list[str]]:
    """The addresses of two servers that share only the database."""
    processes: list[Process] = []
    urls: list[str] = []
    try:
        for _ in range(2):
            process = Process("serve", "--port", "0", "--no-worker", "--json", env={"KEYRACK_DATABASE_URL": dsn})
            processes.append(process)
            assert process.popen.stdout is not None
            urls.append(json.loads(process.popen.stdout.readline())["url"])
        yield urls
    finally:
        for process in processes:
            process.stop()


@pytest.mark.parametrize(
    ("statement", "named", "status"),
    [
        ("delete from manager_customer where customer_id = $1", "customer", 404),
        ("update manager set is_disabled = true where username = $1", "username", 404),
        ("update api_key set revoked_at = now() where name = $1", "username", 401),
    ],
)
def test_a_revocation_takes_effect_in_every_process(
    pair: list[str], town: Town, sql: Sql, statement: str, named: str, status: int
) -> None:
    person = town.person("carol")

    def statuses() -> list[int]:
        return [fetch("GET", f"{url}/cars", headers=person.headers).status_code for url in pair]

    assert statuses() == [200, 200]  # both have cached it now
    sql.execute(statement, getattr(person, named))
    eventually(lambda: statuses() == [status, status], statement)
