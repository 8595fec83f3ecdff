"""Processes with cells: what each builds, migrates, checks and works for."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from keyrack.core.settings import Settings
from tests.ops.monitoring.scrape import shown
from tests.support.cells import NORTH, second_cell
from tests.support.people import Person, Town, fetch
from tests.support.servers import Process, RunningServer, Sql, eventually, fresh_database, migrated_database

pytestmark = pytest.mark.cluster

BUILDS = """
import sys
from keyrack.core.settings import Settings
from keyrack.server import process
print(type(process.configuration(Settings(), "postgresql://nowhere/keyrack").app).__name__)
print([name for name in sys.modules if name.startswith("keyrack.server.cell")])
"""

CONNECTED = """
select count(*) from pg_stat_activity where application_name = 'keyrack worker' and datname = current_database()
"""


@dataclass
class Databases:
    """The databases of cell 0 and cell 1, and variables for both."""

    main: str
    north: str

    def env(self, **cells: str) -> dict[str, str]:
        """The variables, with further cells by name and address."""
        addresses = {NORTH: self.north, **cells}
        tables = [
            {"name": name, "number": number, "url": url} for number, (name, url) in enumerate(addresses.items(), 1)
        ]
        return {"KEYRACK_DATABASE_URL": self.main, "KEYRACK_CELLS": json.dumps(tables)}


@pytest.fixture(scope="module")
def databases(database_server: str) -> Iterator[Databases]:
    with migrated_database(database_server) as main, second_cell(database_server) as cell:
        yield Databases(main, cell.url)


def test_without_cells_a_process_builds_what_it_built_before() -> None:
    lines = subprocess.check_output([sys.executable, "-c", BUILDS], text=True).splitlines()
    assert lines[-2:] == ["BasePathMiddleware", "[]"]


def test_a_server_starts_beside_a_cell_that_was_never_added(databases: Databases, database_server: str) -> None:
    """An empty database would become a second cell 0."""
    with fresh_database(database_server) as empty:
        server = Process("serve", "--port", "0", "--json", env=databases.env(south=empty))
        try:
            assert server.popen.stdout is not None and server.popen.stderr is not None
            url = json.loads(server.popen.stdout.readline())["url"]
            cells = fetch("GET", f"{url}/health/ready").json()["cells"]
            assert [cell["status"] for cell in cells] == ["ok", "ok", "unavailable"]
            sql = Sql(empty)
            assert sql.value("select to_regclass('customer')") is None
            sql.close()
        finally:
            assert server.stop() == 0
        assert "keyrack cells add south" in server.popen.stderr.read()


def test_a_server_refuses_another_cell_as_cell_0(databases: Databases) -> None:
    env = databases.env() | {"KEYRACK_DATABASE_URL": databases.north}
    env["KEYRACK_CELLS"] = json.dumps([{"name": "south", "number": 2, "url": databases.main}])
    server = Process("serve", "--port", "0", env=env)
    assert server.popen.stderr is not None
    assert server.popen.wait() == 1
    assert f"says that it is cell 1, {NORTH}" in server.popen.stderr.read()


def test_metrics_of_the_database_have_the_name_of_the_cell(databases: Databases, tmp_path: Path) -> None:
    log = tmp_path / "log"
    worker = Process("work", env=databases.env() | {"KEYRACK_METRICS": "127.0.0.1:0"}, log=log)
    try:
        port = shown(log)
        up = [({"cell": "main"}, 1.0), ({"cell": NORTH}, 1.0)]
        page = eventually(lambda: (page := port.scrape()).samples["keyrack_database_up"] == up and page, "both cells")
        for name in ("main", NORTH):
            assert page.one("keyrack_operations_pending", cell=name) == 0
        assert page.samples["keyrack_process_up"] == [({"process": "0"}, 1.0)]
    finally:
        assert worker.stop() == 0


def test_a_worker_of_one_cell_works_for_it_alone(databases: Databases, settings: Settings) -> None:
    unknown = Process("work", "--cell", "south", env=databases.env())
    assert unknown.popen.stderr is not None
    assert unknown.popen.wait() == 1
    assert "There is no cell south. The cells are main, north." in unknown.popen.stderr.read()
    main, north = Sql(databases.main), Sql(databases.north)

    def served(sql: Sql, dsn: str) -> tuple[Person, RunningServer]:
        running = RunningServer(settings.model_copy(update={"cells": ()}), dsn, worker=False)
        running.__enter__()
        return Town(sql, running).person("owner"), running

    people = [served(main, databases.main), served(north, databases.north)]
    worker = Process("work", "--cell", NORTH, "--json", env=databases.env())
    try:
        assert worker.popen.stdout is not None
        assert json.loads(worker.popen.stdout.readline()) == {"working": True}
        (waits, _), (works, _) = people
        for person, _ in people:
            body = {"carId": person.car_with_box(), "userId": person.user(), "start": "2026-01-01T08:00:00Z"}
            assert person.put("/assignments", body).status_code == 204
        pending = "select count(*) from operation where customer_id = $1 and state = 'Pending'"
        eventually(lambda: works.sql.value(pending, works.customer) == 0, "the worker")
        assert waits.sql.value(CONNECTED) == 0
    finally:
        assert worker.stop() == 0
        for _, running in people:
            running.__exit__()
        main.close()
        north.close()
