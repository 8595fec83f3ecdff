"""A database outage under a running server: 503 for callers, one log line, recovery without a restart."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from keyrack.db.embedded.server import EmbeddedServer
from keyrack.db.throttled_log import UNREACHABLE_EVENT
from tests.ops.monitoring.scrape import shown
from tests.support.log_lines import log_events
from tests.support.people import web
from tests.support.servers import Process, eventually, reachable_directory

pytestmark = pytest.mark.cluster


@pytest.fixture
def database() -> Iterator[EmbeddedServer]:
    with reachable_directory() as state:
        server = EmbeddedServer(state)
        server.start()
        try:
            yield server
        finally:
            server.stop()


def test_an_unreachable_database_is_logged_once(database: EmbeddedServer, tmp_path: Path) -> None:
    log = tmp_path / "log"
    env = {"KEYRACK_DATABASE_URL": database.dsn, "KEYRACK_METRICS": "127.0.0.1:0", "KEYRACK_WORKER_POLL": "0.05"}
    process = Process("serve", "--port", "0", "--json", env=env, log=log)
    try:
        assert process.popen.stdout is not None
        url = json.loads(process.popen.stdout.readline())["url"].removesuffix("/v3")
        port = shown(log)
        eventually(lambda: port.scrape().of("keyrack_database_up") == [1], "the first look")
        database.stop()
        eventually(lambda: web().get(f"{url}/health/ready").status_code == 503, "the end")
        (reason,) = web().get(f"{url}/health/ready").json()["reasons"]
        assert reason["code"] == "database-unreachable"
        assert web().get(f"{url}/health/live").status_code == 200
        assert web().get(f"{url}/v3/cars", headers={"vendor-API-Key": "x"}).status_code == 503
        page = eventually(
            lambda: (page := port.scrape()).of("keyrack_database_up") == [0] and page, "a look that failed"
        )
        assert not page.of("keyrack_operations_pending") and not page.of("keyrack_housekeeping_failures")
        assert page.sum("keyrack_http_requests_total", route="/cars", status="503") == 1
        database.start()
        eventually(lambda: web().get(f"{url}/health/ready").status_code == 200, "its return")
        eventually(lambda: port.scrape().of("keyrack_database_up") == [1], "a look that goes well")
        assert port.scrape().of("keyrack_operations_pending") == [0]
    finally:
        status = process.stop()
    lines = log_events(log)
    assert status == 0 and not [line for line in lines if "exception" in line]
    about = [line["event"] for line in lines]
    started = {
        "migration running",
        "migration applied",
        "database pool reset",
        "connection limits set",
        "metrics endpoint started",
        "open file limit raised",
    }
    assert about.count(UNREACHABLE_EVENT) == 1 and set(about) <= {
        UNREACHABLE_EVENT,
        "database reachable",
        *started,
    }, about
