"""Storage of telemetry: partitions, their creation and removal, and query plans."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from keyrack.api.odata import Limits, query
from keyrack.core.error_codes import ErrorCode
from keyrack.core.errors import NotFound
from keyrack.core.settings import Settings
from keyrack.db import partitions
from keyrack.db.audit_context import acting, system
from keyrack.db.connection import Database
from keyrack.db.group_commit import GroupCommitter
from keyrack.fleet.endpoints.cars import endpoints as car_endpoints
from keyrack.telemetry.ingest import Telemetry
from tests.support.people import Person
from tests.support.servers import migrated_database, patient_settings
from tests.telemetry.endpoints.test_ingest import unit_of as an_iq_unit

NOW = datetime(2026, 6, 15, 12, tzinfo=UTC)


@pytest.fixture
def own(database_server: str) -> Any:
    """Run work on a separate database without partitions."""
    with migrated_database(database_server) as dsn:

        def run(work: Callable[[Database], Awaitable[Any]]) -> Any:
            async def inner() -> Any:
                acting.set(system("tests"))
                database = await Database.connect(dsn, patient_settings())
                await database.execute(partitions.DROP, date(9999, 1, 1))
                try:
                    return await work(database)
                finally:
                    await database.close()

            return asyncio.run(inner())

        yield run


def body(values: list[tuple[int, dict[str, Any]]]) -> bytes:
    return json.dumps([value for _, value in values]).encode()


async def names(database: Database, parent: str = "position") -> list[str]:
    rows = await database.fetch(
        "select c.relname from pg_inherits i join pg_class c on c.oid = i.inhrelid"
        " where i.inhparent = $1::text::regclass order by 1",
        parent,
    )
    return [row[0] for row in rows]


async def customer(database: Database, days: int | None = None) -> int:
    return await database.fetchval(
        "insert into customer (name, history_days) values ('c', $1) returning customer_id", days
    )


async def a_unit(database: Database, owner: int, serial: str = "S") -> int:
    car = await database.fetchval("insert into car (customer_id, name) values ($1, 'c') returning car_id", owner)
    await database.execute(
        "insert into product (customer_id, unique_id, serial_number, sap_number, kind, car_id)"
        " values ($1, $2, $2, 'P', 'IQ', $3)",
        owner,
        serial,
        car,
    )
    return car


def test_partitions_are_created_ahead_of_time(own: Any) -> None:
    async def work(database: Database) -> None:
        for _ in range(2):
            assert await partitions.maintain(database, Settings(), datetime(2026, 12, 31, 23, tzinfo=UTC)) == []
        assert await names(database) == ["position_202612", "position_202701", "position_202702"]
        assert await names(database, "odometer") == ["odometer_202612", "odometer_202701", "odometer_202702"]

    own(work)


def test_a_month_is_created_once_for_parallel_callers(own: Any) -> None:
    async def work(database: Database) -> None:
        await asyncio.gather(*(partitions.make(database, [date(2026, 1, 1)]) for _ in range(8)))
        assert await names(database) == ["position_202601"]

    own(work)


def test_late_data_creates_its_month(own: Any) -> None:
    async def work(database: Database) -> None:
        telemetry = Telemetry(GroupCommitter(database), Settings())
        owner = await customer(database)
        await a_unit(database, owner)
        now = datetime.now(UTC)
        times = [now - timedelta(days=days) for days in (0, 70, 300)]
        lines = [
            (n, {"serialNumber": "S", "carDataReadTime": at.isoformat(), "odometer": n})
            for n, at in enumerate(times, 1)
        ]
        report = await telemetry.ingest(owner, body(lines))
        assert (report.accepted, report.rejections) == (3, [])
        # the newest one is not in history yet
        assert await names(database, "odometer") == sorted(f"odometer_{at:%Y%m}" for at in times[1:])
        # another process drops a partition that this process remembers
        await database.execute(f"drop table odometer_{times[2]:%Y%m}")
        lines = [(1, {"serialNumber": "S", "carDataReadTime": times[2].isoformat(), "odometer": 9})]
        assert (await telemetry.ingest(owner, body(lines))).accepted == 1

    own(work)


def test_old_partitions_are_dropped_if_no_customer_needs_them(own: Any) -> None:
    async def work(database: Database) -> None:
        await partitions.make(database, [date(2026, month, 1) for month in range(1, 7)])
        patient = await customer(database, 100)
        settings = Settings(telemetry_retention_days=30)
        # 15 June less 100 days is 7 March, so February is no longer needed
        assert await partitions.maintain(database, settings, NOW) == [
            "odometer_202601", "odometer_202602", "position_202601", "position_202602", "telemetry_202601",
            "telemetry_202602",
        ]  # fmt: skip
        await database.execute("delete from customer where customer_id = $1", patient)
        assert (await names(database))[0] == "position_202603"
        await partitions.maintain(database, settings, NOW)
        assert (await names(database))[0] == "position_202605"

    own(work)


def test_a_customer_with_shorter_retention_keeps_less(own: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitions, "PER_DELETE", 3)

    async def work(database: Database) -> None:
        await partitions.make(database, [date(2026, month, 1) for month in (4, 5, 6)])
        brief, usual = await customer(database, 10), await customer(database)
        for owner in (brief, usual):
            await database.execute(
                "insert into position select $1, 1, t, 1, 1, null"
                " from generate_series($2::timestamptz - interval '40 days', $2, interval '1 day') t",
                owner,
                NOW,
            )
        await partitions.maintain(database, Settings(telemetry_retention_days=60), NOW)
        rows = await database.fetch("select customer_id, count(*), min(at) from position group by 1 order by 1")
        assert [tuple(row)[1:] for row in rows] == [(11, NOW - timedelta(days=10)), (41, NOW - timedelta(days=40))]

    own(work)


def test_interrupted_clean_ups_reach_every_customer(own: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: set[int] = set()

    async def cut(_database: Database, owner: int, _before: datetime) -> None:
        seen.add(owner)
        raise TimeoutError

    async def work(database: Database) -> None:
        brief = {await customer(database, 10) for _ in range(3)}
        monkeypatch.setattr(partitions, "forget", cut)
        for _ in range(500):  # any order is valid, as long as it changes
            with pytest.raises(TimeoutError):
                await partitions.maintain(database, Settings(), NOW)
            if seen == brief:
                return
        raise AssertionError(seen)

    own(work)


def test_history_is_not_dropped_while_a_transaction_reads_it(own: Any) -> None:
    async def work(database: Database) -> None:
        await partitions.make(database, [date(2020, 1, 1)])
        async with database.transaction() as connection:
            await connection.fetch("select * from position")
            assert await partitions.maintain(database, Settings(), NOW) == []
        assert len(await partitions.maintain(database, Settings(), NOW)) == 3

    own(work)


def test_a_unit_continues_after_its_state_was_deleted(own: Any) -> None:
    """History then has more than the newest state, and finds repeated readings."""

    async def work(database: Database) -> None:
        telemetry = Telemetry(GroupCommitter(database), Settings())
        owner = await customer(database)
        await a_unit(database, owner)
        # A run ends with its day, so all of these are on one day
        now = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(hours=12)

        def sample(minutes: int, odometer: float) -> tuple[int, dict[str, Any]]:
            at = now - timedelta(minutes=minutes)
            return 1, {"serialNumber": "S", "carDataReadTime": at.isoformat(), "odometer": odometer}

        lines = [sample(9, 5), sample(8, 5), sample(7, 6)]
        await telemetry.ingest(owner, body(lines))
        await database.execute("delete from car_state")  # including the open run
        assert (await telemetry.ingest(owner, body([*lines, sample(10, 5)]))).accepted == 4
        for lines in ([sample(6, 6)], [sample(5, 7)], [sample(9, 5), sample(6, 6), sample(5, 7)]):
            await telemetry.ingest(owner, body(lines))
        rows = await database.fetch("select at, odometer, length(times) as more from odometer order by at")
        assert [(row["odometer"], row["more"] is not None) for row in rows] == [(5, False), (5, True), (6, True)]

    own(work)


def location_at() -> Any:
    return next(row for row in car_endpoints.rows if row.path.endswith("{searchDate}"))


@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
def test_the_nearest_reading_takes_one_step_in_an_index(own: Any, mode: str) -> None:
    """The statement of the endpoint, over a year of months: no scan reads more than one row."""

    async def work(database: Database) -> None:
        await partitions.make(database, [date(2026, month, 1) for month in range(1, 13)])
        owner = await customer(database)
        car = await a_unit(database, owner)
        await database.execute("insert into car_state (customer_id, car_id) values ($1, $2)", owner, car)
        for table in ("position", "odometer"):
            values = ", 1, 1" if table == "position" else ", 1"
            await database.execute(
                f"insert into {table} select $1, c, t{values}, null from generate_series(1, 30) c,"
                " generate_series('2026-01-01'::timestamptz, '2026-12-31', interval '6 hours') t",
                owner,
            )
        await database.execute("analyze")
        select = location_at().read.select
        plain = query(select.resource, b"", select.shape, alias="t", limits=Limits())
        async with database.transaction() as connection:
            await connection.execute(f"set local plan_cache_mode = {mode}")
            statement = select.statement(plain.sql)
            values = {"customer": ("int", owner), "id0": ("int", car), "id1": ("timestamptz", "'2026-07-15'")}
            types, arguments = zip(*[values[name] for name in statement.names], strict=True)
            await connection.execute(f"prepare found ({', '.join(types)}) as {statement.sql}")
            explain = f"explain (analyze, format json) execute found ({', '.join(map(str, arguments))})"
            rows = await connection.fetch(explain)
        plan = json.loads(rows[0][0])[0]["Plan"]
        scans = [
            node for node in nodes(plan) if str(node.get("Relation Name", "")).startswith(("position_2", "odometer_2"))
        ]
        assert scans
        for node in scans:
            assert node["Node Type"] in ("Index Scan", "Index Only Scan"), node
            assert node["Actual Rows"] <= 1
            assert node.get("Rows Removed by Filter", 0) == 0
        executed = [node["Relation Name"] for node in scans if node["Actual Loops"]]
        assert sorted(executed) == ["odometer_202607"] * 2 + ["position_202607"] * 2
        assert not any(
            node["Node Type"] in ("Sort", "Incremental Sort") and node["Actual Rows"] > 3 for node in nodes(plan)
        )

    own(work)


def nodes(plan: dict[str, Any]) -> list[dict[str, Any]]:
    return [plan, *(found for child in plan.get("Plans", []) for found in nodes(child))]


def test_an_error_of_one_caller_does_not_affect_others(own: Any) -> None:
    """A batch that the database rejects is repeated one by one."""

    async def work(database: Database) -> None:
        batches = GroupCommitter(database)

        async def divide(db: Database, customer: int, items: list[list[int]]) -> list[Any]:
            values = await db.fetch("select 12 / v as v from unnest($1::int[]) v", [item for (item,) in items])
            return [NotFound(ErrorCode("odd", "odd")) if row["v"] % 2 else row["v"] for row in values]

        results = await asyncio.gather(
            *(batches.put(divide, 1, [item]) for item in (1, 2, 0, 4, 3)), return_exceptions=True
        )
        assert results[:2] == [12, 6]
        assert isinstance(results[2], asyncpg.DataError)
        assert isinstance(results[3], NotFound)
        assert results[4] == 4

    own(work)


def test_a_cancelled_caller_does_not_affect_others(own: Any) -> None:
    async def work(database: Database) -> None:
        batches, begun, go_on = GroupCommitter(database), asyncio.Event(), asyncio.Event()

        async def slow(db: Database, customer: int, items: list[list[int]]) -> list[int]:
            begun.set()
            await go_on.wait()
            return [item for (item,) in items]

        tasks = [asyncio.create_task(batches.put(slow, 1, [item])) for item in range(4)]
        await begun.wait()
        tasks[0].cancel()
        tasks[2].cancel()
        go_on.set()
        assert (await tasks[1], await tasks[3]) == (1, 3)

    own(work)


def test_readings_survive_their_unit(alice: Person) -> None:
    unit = an_iq_unit(alice)
    unit.tell(1, odometer=3)
    product = alice.get(f"/cars/{unit.car}/products").json()[0]["id"]
    alice.delete("/installations", {"carId": unit.car, "productId": product})
    assert alice.get(f"/cars/{unit.car}/location").status_code == 404
    assert alice.put("/installations", {"carId": unit.car, "productId": product}).status_code == 204
    assert unit.get("location")["odometer"] == "3"
