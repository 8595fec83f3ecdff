"""What `/health/ready` says beside its answer; and that nobody waits long for it, however long the database takes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import asyncpg
import httpx
import pytest

from keyrack.core.settings import Settings
from keyrack.http.endpoints.health import Readiness
from tests.ops.monitoring.backlog_rows import CUSTOMER, DELIVERY, OPERATION, WEBHOOK, WORKER
from tests.support.people import web
from tests.support.servers import RunningServer, Sql, eventually, migrated_database


@pytest.fixture
def sql(database_server: str) -> Iterator[tuple[str, Sql]]:
    with migrated_database(database_server) as dsn:
        statements = Sql(dsn)
        yield dsn, statements
        statements.close()


def ready(server: RunningServer) -> httpx.Response:
    return web().get(f"{server.url}/health/ready")


def test_no_worker_while_work_waits(
    sql: tuple[str, Sql], settings: Settings, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """It is a warning: the node takes work all the same. Who works, and what is disabled, ends it."""
    monkeypatch.setattr(Readiness, "ROUND", 0.05)
    dsn, statements = sql
    customer = statements.value(CUSTOMER)

    def warned() -> list[str]:
        answer = ready(server)
        assert (answer.status_code, answer.json()["status"]) == (200, "ok")
        return [one["code"] for one in answer.json().get("warnings", [])]

    with RunningServer(settings, dsn, worker=False) as server:
        statements.execute(OPERATION, customer, "Request", "Pending", 90.0)
        eventually(lambda: warned() == ["no-worker"], "the warning")
        (told,) = ready(server).json()["warnings"]
        assert told["detail"].startswith("Queued work has waited for ") and told["detail"].endswith(
            "no worker is running."
        )
        statements.execute(WORKER, 59.0)
        eventually(lambda: warned() == [], "the worker")
        statements.execute("update heartbeat set beat_at = now() - interval '61 s' where role = 'work'")
        eventually(lambda: warned() == ["no-worker"], "the end of the worker")
        statements.execute("update operation set state = 'Failed', finished_at = now()")
        eventually(lambda: warned() == [], "the end of the work")
        webhook = statements.value(WEBHOOK, customer, True)
        statements.execute(DELIVERY, customer, webhook, 1, "Waiting", 90.0)
        eventually(lambda: warned() == ["no-worker"], "a delivery that waits")
        statements.execute("update webhook set is_enabled = false")
        eventually(lambda: warned() == [], "a webhook that is disabled")
    assert capfd.readouterr().err.count("no worker running") == 3  # once each time, not once a look


def test_a_database_that_says_nothing_keeps_nobody_waiting(sql: tuple[str, Sql], settings: Settings) -> None:
    """The look goes on behind it, and the answer is well again when the database is."""
    dsn, _ = sql
    slow = settings.model_copy(
        update={"health_check_timeout_seconds": 0.2, "statement_timeout_seconds": 60.0, "lock_timeout_seconds": 60.0}
    )

    async def hold() -> None:
        raw = await asyncpg.connect(dsn)
        try:
            async with raw.transaction():
                await raw.execute("lock table write_check in access exclusive mode")
                await asyncio.to_thread(eventually, lambda: codes() == ["database-silent"], "the silence")
                refusal = await asyncio.to_thread(web().get, f"{server.url}/health")
                assert refusal.status_code == 503
                assert refusal.text == "The database does not answer in time. Please try again."
                assert web().get(f"{server.url}/health/live").status_code == 200
        finally:
            await raw.close()

    def codes() -> list[str]:
        return [reason["code"] for reason in ready(server).json().get("reasons", [])]

    with RunningServer(slow, dsn, worker=False) as server:
        asyncio.run(hold())
        eventually(lambda: ready(server).status_code == 200, "the end")
