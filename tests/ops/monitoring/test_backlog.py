"""The backlog: bounded counts and ages."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import asdict

import pytest

from keyrack.db.connection import Database
from keyrack.ops.housekeeping import STEPS
from keyrack.ops.monitoring import backlog as room
from keyrack.ops.monitoring.backlog import Backlog, backlog
from keyrack.ops.monitoring.database_gauges import PARAMETERS
from tests.ops.monitoring.backlog_rows import CHANGE, CUSTOMER, DELIVERY, OPERATION, WEBHOOK, WORKER
from tests.support.servers import Sql, migrated_database, patient_settings


@pytest.fixture
def dsn(database_server: str) -> Iterator[str]:
    with migrated_database(database_server) as address:
        yield address


@pytest.fixture
def sql(dsn: str) -> Iterator[Sql]:
    statements = Sql(dsn)
    yield statements
    statements.close()


def found(dsn: str) -> Backlog:
    async def look() -> Backlog:
        db = await Database.connect(
            dsn, patient_settings(), application="keyrack metrics", parameters=PARAMETERS, size=1
        )
        try:
            return await backlog(db)
        finally:
            await db.close()

    return asyncio.run(look())


def test_a_new_database_has_no_backlog(dsn: str) -> None:
    new = asdict(found(dsn))
    numbers = ("operations", "operations_age", "deliveries", "deliveries_age", "dead", "disabled", "changes_age")
    assert [new[name] for name in numbers] == [0] * 7
    assert {step["name"]: step["last_good"] for step in new["housekeeping"]} == {step.name: None for step in STEPS}
    assert new["sessions"]["keyrack metrics"] >= 1 and 0 < sum(new["sessions"].values()) <= new["most_sessions"]
    assert new["database_bytes"] > 1_000_000


def test_counts_and_ages_of_waiting_rows(dsn: str, sql: Sql) -> None:
    """The oldest operation may belong to any customer and have any cause."""
    first, second, third = (sql.value(CUSTOMER) for _ in range(3))
    sql.execute(OPERATION, first, "Request", "Succeeded", 9_000.0)
    sql.execute(OPERATION, first, "Request", "Pending", 10.0)
    sql.execute(OPERATION, second, "Request", "Pending", 20.0)
    sql.execute(OPERATION, second, "CarDeleted", "Pending", 600.0)
    sql.execute(OPERATION, third, "Request", "Pending", 30.0)
    on, off = sql.value(WEBHOOK, second, True), sql.value(WEBHOOK, third, False)
    for lane, state, age in (
        (1, "Waiting", 5.0),
        (2, "Waiting", 700.0),
        (3, "Delivered", 9_000.0),
        (4, "Dead", 9_000.0),
    ):
        sql.execute(DELIVERY, second, on, lane, state, age)
    sql.execute(DELIVERY, third, off, 1, "Waiting", 5_000.0)  # not counted, because its webhook is disabled
    now = found(dsn)
    assert (now.operations, now.deliveries, now.dead, now.disabled) == (4, 3, 1, 1)
    assert 600 <= now.operations_age < 700 <= now.deliveries_age < 5_000


def test_missing_workers_are_reported_with_the_time(dsn: str, sql: Sql) -> None:
    """A process without a heartbeat for a minute has ended."""
    customer = sql.value(CUSTOMER)
    sql.execute(OPERATION, customer, "Request", "Pending", 59.0)
    assert found(dsn).unattended is None  # not long enough
    sql.execute(OPERATION, customer, "Request", "Pending", 600.0)
    sql.execute(WORKER, 61.0)
    now = found(dsn)
    assert now.unattended is not None and 600 <= now.unattended < 700
    assert [(one.role, one.host, one.lives) for one in now.processes] == [("work", "elsewhere", False)]
    sql.execute(WORKER, 1.0)
    now = found(dsn)
    assert (now.unattended, now.living("work"), now.living("serve")) == (None, 1, 0)
    assert [one.lives for one in now.processes] == [True, False]


def test_unsequenced_changes_name_the_blocking_transaction(dsn: str, sql: Sql) -> None:
    """The transaction is named only after a while."""
    sql.execute(CHANGE, 1.0)
    assert found(dsn).changes_age >= 1 and found(dsn).writers == ()
    sql.execute("begin")
    try:
        sql.execute(CHANGE, 0.0)
        assert found(dsn).writers == ()
        other = Sql(dsn)
        other.execute("update change_inbox set at = at - interval '1 minute'")
        other.close()
        now = found(dsn)
        assert now.changes_age >= 61
        assert [writer.pid for writer in now.writers] == [sql.value("select pg_backend_pid()")]
        assert "(keyrack tests) in test_" in str(now.writers[0])
    finally:
        sql.execute("rollback")


def test_counts_have_a_maximum(dsn: str, sql: Sql, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "MOST", 3)
    customer = sql.value(CUSTOMER)
    webhook = sql.value(WEBHOOK, customer, True)
    for lane in range(5):
        sql.execute(OPERATION, customer, "Request", "Pending", 1.0)
        sql.execute(DELIVERY, customer, webhook, lane, "Waiting", 1.0)
        sql.execute(DELIVERY, customer, webhook, lane, "Dead", 1.0)
    now = found(dsn)
    assert (now.operations, now.deliveries, now.dead) == (3, 3, 3)


def test_the_queries_use_indexes(dsn: str, sql: Sql) -> None:
    """No query scans a whole table, not even right after it was empty."""
    customer = sql.value(CUSTOMER)
    webhook = sql.value(WEBHOOK, customer, True)
    many = "select $1::integer, $2::integer from generate_series(1, 2000)"
    sql.execute(
        "insert into delivery (customer_id, webhook_id, message_id, type, lane, payload)"
        f" select c, w, gen_random_uuid(), 'assignment.created', 1, '{{}}' from ({many}) m (c, w)",
        customer, webhook,
    )  # fmt: skip
    for name, value in PARAMETERS.items():
        sql.execute(f"set {name} = '{value}'")
    for statement, bounds in (
        (room.COUNTS, "10000"),
        (room.OLDEST_PENDING, "1000"),
        (room.OLDEST_WAITING, "1000, 100"),
        (room.OLDEST_CHANGE, ""),
    ):
        numbers = [part.strip() for part in bounds.split(",") if part]
        text = statement
        for place, number in enumerate(numbers, 1):
            text = text.replace(f"${place}", number)
        plan = "\n".join(row[0] for row in sql.rows("explain " + text))
        assert "Seq Scan" not in plan and "Index" in plan, plan
