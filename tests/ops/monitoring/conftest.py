"""Two API processes and a worker, whose parent process serves metrics."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.ops.monitoring.scrape import Port, Scrape, shown
from tests.support.log_lines import log_events
from tests.support.people import Person, Town, web
from tests.support.servers import Process, Sql, eventually, migrated_database


@dataclass
class Family:
    """A parent process with its children, on a separate database."""

    process: Process
    url: str
    port: Port
    log: Path
    sql: Sql

    def scrape(self) -> Scrape:
        return self.port.scrape()

    def ups(self) -> dict[str, float]:
        return {has["process"]: value for has, value in self.scrape().samples["keyrack_process_up"]}

    def lines(self, event: str) -> list[Any]:
        """The log lines with this event."""
        return log_events(self.log, event)


@pytest.fixture(scope="module")
def family(database_server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Family]:
    log = tmp_path_factory.mktemp("family") / "log"
    with migrated_database(database_server) as dsn:
        sql = Sql(dsn)
        env = {
            "KEYRACK_DATABASE_URL": dsn, "KEYRACK_METRICS": "127.0.0.1:0", "KEYRACK_ACCESS_LOG": "true",
            "KEYRACK_METRICS_CUSTOMERS": "1", "KEYRACK_METRICS_SERIES": "1",
        }  # fmt: skip
        process = Process("serve", "--processes", "2", "--port", "0", "--json", env=env, log=log)
        try:
            assert process.popen.stdout is not None
            url = json.loads(process.popen.stdout.readline())["url"].removesuffix("/v3")
            found = Family(process, url, shown(log), log, sql)
            eventually(lambda: found.ups() == {"0": 1, "1": 1, "2": 1}, "all three")
            eventually(lambda: web().get(f"{url}/health").status_code == 200, "health")
            yield found
        finally:
            process.stop()
            sql.close()


@pytest.fixture(scope="module")
def ann(family: Family) -> Iterator[Person]:
    """A person of the first customer, which has separate metrics."""
    person = Town(family.sql, family).person("ann")
    assert person.customer == 1
    yield person
    person.client.close()
