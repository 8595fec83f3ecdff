"""Shared fixtures: an API process, a worker and their collector."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from keyrack.db import schema_version
from tests.core.tracing.collector import Collector
from tests.support.log_lines import log_events
from tests.support.people import Person, Town
from tests.support.servers import Process, Sql, eventually, fresh_database

AT_ONCE = {"OTEL_BSP_SCHEDULE_DELAY": "20"}  # milliseconds until spans are exported; OpenTelemetry's default is 5,000
_numbers = itertools.count(1)


@dataclass
class House:
    """A process that serves."""

    url: str
    process: Process
    log: Path

    def lines(self, event: str) -> list[dict[str, Any]]:
        """The lines of the log about this."""
        return log_events(self.log, event)


@contextlib.contextmanager
def serving(dsn: str, directory: Path, *arguments: str, **settings: str) -> Iterator[House]:
    """A process that serves with these settings."""
    log = directory / f"serve{next(_numbers)}.log"
    env = {f"KEYRACK_{name.upper()}": value for name, value in settings.items()}
    env |= {"KEYRACK_DATABASE_URL": dsn, **AT_ONCE}
    process = Process("serve", "--port", "0", "--json", *arguments, env=env, log=log)
    try:
        assert process.popen.stdout is not None
        started = process.popen.stdout.readline()
        assert started, log.read_text()
        yield House(json.loads(started)["url"].removesuffix("/v3"), process, log)
    finally:
        process.stop()


@dataclass
class Traced:
    """An installation that exports all spans to the collector."""

    dsn: str
    sql: Sql
    collector: Collector
    house: House
    worker_log: Path


@pytest.fixture(scope="session")
def traced(database_server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Traced]:
    directory = tmp_path_factory.mktemp("traced")
    with fresh_database(database_server) as dsn, Collector() as collector:
        asyncio.run(schema_version.migrate(dsn))
        sql = Sql(dsn)
        told = {"traces": collector.address, "traces_sample_ratio": "1"}
        env = {
            "KEYRACK_DATABASE_URL": dsn, "KEYRACK_TRACES": collector.address,
            "KEYRACK_WEBHOOK_ALLOWED_NETWORKS": "127.0.0.0/8", "KEYRACK_WEBHOOK_RETRY_FIRST": "0.1", **AT_ONCE,
        }  # fmt: skip
        worker_log = directory / "work.log"
        worker = Process("work", "--json", env=env, log=worker_log)
        try:
            with serving(dsn, directory, "--no-worker", access_log="true", **told) as house:
                yield Traced(dsn, sql, collector, house, worker_log)
        finally:
            worker.stop()
            sql.close()


@pytest.fixture(scope="session")
def tina(traced: Traced) -> Iterator[Person]:
    person = Town(traced.sql, traced.house).person("tina")
    yield person
    person.client.close()


def a_trace(*, sampled: bool = True) -> tuple[str, str]:
    """The id of a new trace, and the `traceparent` of a caller in it."""
    trace = secrets.token_hex(16)
    return trace, f"00-{trace}-{secrets.token_hex(8)}-0{int(sampled)}"


__all__ = ["House", "Traced", "a_trace", "eventually", "serving"]
