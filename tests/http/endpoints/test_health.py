"""Health checks: liveness, readiness and the reasons for 503."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from keyrack.core.settings import Settings
from tests.support.people import refused, web
from tests.support.servers import Process, RunningServer, Sql, eventually, migrated_database

PROBLEM = "application/problem+json"


@dataclass
class House:
    """A server with a separate database that a test can break."""

    url: str
    sql: Sql

    def ready(self, **headers: str) -> httpx.Response:
        return web().get(f"{self.url}/health/ready", headers=headers)

    def codes(self) -> list[str]:
        """The codes of the reasons why the server is not ready."""
        return [reason["code"] for reason in self.ready().json().get("reasons", [])]


@pytest.fixture(scope="module")
def house(database_server: str, settings: Settings) -> Iterator[House]:
    with migrated_database(database_server) as dsn:
        sql = Sql(dsn)
        with RunningServer(settings, dsn, worker=False) as server:
            yield House(server.url, sql)
        sql.close()


def test_a_healthy_server_is_live_and_ready(house: House) -> None:
    for path in ("/health/live", "/health/ready", "/v3/health/live", "/v3/health/ready"):
        answer = web().get(house.url + path)
        assert (answer.status_code, answer.json()) == (200, {"status": "ok"}), path
        assert answer.headers["cache-control"] == "no-store"


def test_readiness_depends_on_the_schema_version(house: House) -> None:
    """An older schema is an error. A newer one is not, because the next release is about to take over."""
    own = house.sql.value("select version_num from alembic_version")
    house.sql.execute("update alembic_version set version_num = '0001'")
    try:
        eventually(lambda: house.codes() == ["schema-not-current"], "the older schema")
        answer = house.ready()
        assert answer.status_code == 503 and answer.headers["content-type"] == "application/json"
        assert answer.headers["retry-after"] == "1" and answer.headers["cache-control"] == "no-store"
        text = "The database schema does not match this server."
        assert answer.json() == {
            "status": "unavailable", "reasons": [{"code": "schema-not-current", "detail": text}],
        }  # fmt: skip
        refused(web().get(f"{house.url}/health"), 503, text)
        assert web().get(f"{house.url}/health/live").status_code == 200
        house.sql.execute("update alembic_version set version_num = '9999'")
        eventually(lambda: house.ready().status_code == 200, "the newer schema")
    finally:
        house.sql.execute("update alembic_version set version_num = $1", own)
    eventually(lambda: house.ready().status_code == 200, "the end")


def test_a_master_key_that_decrypts_nothing_makes_a_server_unready(house: House) -> None:
    house.sql.execute("update data_key set master = 'x' || master")
    try:
        eventually(lambda: house.codes() == ["secrets-unavailable"], "the closed secrets")
        problem: Any = house.ready(Accept=PROBLEM)
        assert problem.headers["content-type"] == PROBLEM
        told = problem.json()
        assert (told["code"], [one["code"] for one in told["reasons"]]) == ("not-ready", ["secrets-unavailable"])
        assert told["traceId"] == problem.headers["x-request-id"]
    finally:
        house.sql.execute("update data_key set master = substr(master, 2)")
    eventually(lambda: house.ready().status_code == 200, "the end")


def test_a_stopping_server_is_unready_but_still_serves(dsn: str) -> None:
    env = {"KEYRACK_DATABASE_URL": dsn, "KEYRACK_SHUTDOWN_DELAY_SECONDS": "300"}
    process = Process("serve", "--no-worker", "--port", "0", "--json", env=env)
    try:
        assert process.popen.stdout is not None
        url = json.loads(process.popen.stdout.readline())["url"].removesuffix("/v3")
        server = House(url, None)
        assert server.ready().status_code == 200
        process.popen.send_signal(signal.SIGTERM)
        eventually(lambda: server.codes() == ["stopping"], "the word")
        refused(web().get(f"{url}/health"), 503, "The server is shutting down. Please try again.")
        assert web().get(f"{url}/health/live").status_code == 200
        assert web().get(f"{url}/v3/cars").status_code == 401
    finally:
        process.stop(signal.SIGKILL)
