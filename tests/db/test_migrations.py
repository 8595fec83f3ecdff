"""Migrations keep the data of older releases, and the schema keeps its properties."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

import keyrack.db
from keyrack.assignments.scheduler import OperationScheduler
from keyrack.core.settings import Settings
from keyrack.db import schema_version
from keyrack.db.connection import Connection
from keyrack.db.group_commit import GroupCommitter
from keyrack.db.transaction_database import InTransaction
from keyrack.telemetry.ingest import Telemetry
from tests.support.servers import Sql, eventually, fresh_database

pytestmark = pytest.mark.cluster


async def upgrade(dsn: str, revision: str) -> None:
    """Migrate up to this revision."""
    config = Config()
    config.set_main_option("script_location", str(Path(keyrack.db.__file__).parent / "migrations"))

    def run(connection: Any) -> None:
        config.attributes |= {"connection": connection, "patience": 60}
        command.upgrade(config, revision)

    engine = create_async_engine(
        "postgresql+asyncpg://", async_creator=lambda: asyncpg.connect(dsn), poolclass=NullPool
    )
    async with engine.connect() as connection:  # some migrations end the transaction
        await connection.run_sync(run)


OLD = """
insert into customer (customer_id, name) values (7, 'old');
insert into person (user_id, email_address, type) values (70, 'old@example.org', 'Anonymous');
insert into customer_user (customer_id, user_id) values (7, 70);
insert into person (user_id, email_address, type) values (79, 'left@example.org', 'Anonymous');
insert into car (customer_id, car_id, name) values (7, 71, 'old');
insert into product (customer_id, product_id, unique_id, serial_number, sap_number, kind, car_id)
  values (7, 72, 'U', 'S', 'P', 'Box', 71);
insert into service (customer_id, service_id, name, product_id) values (7, 73, 'old', 72);
insert into assignment (customer_id, assignment_id, car_id, user_id, starts_at, lifetime, renewable_after) values
  (7, 1, 71, 70, '2026-01-01Z', 700000, 350000), (7, 2, 71, 70, '2026-01-01Z', 700000, 5);
insert into operation (customer_id, kind, car_id, user_id, assignment_id, request, checksum)
  values (7, 'DeleteAssignment', 71, 70, 2, '{}', 'X');
insert into operation_lane (customer_id, car_id) values (7, 71);
insert into webhook (customer_id, webhook_id, url, kinds, signing_secret)
  values (7, 1, 'http://127.0.0.1:9/', '{assignment.created,assignment.deleted}', 'whsec_eA==');
insert into delivery (customer_id, webhook_id, message_id, type, lane, payload, created_at, state) values
  (7, 1, gen_random_uuid(), 'assignment.created', 5, '{"n": 3}', '2026-01-03Z', 'Waiting'),
  (7, 1, gen_random_uuid(), 'assignment.created', 5, '{"n": 1}', '2026-01-01Z', 'Waiting'),
  (7, 1, gen_random_uuid(), 'assignment.created', 5, '{"n": 2}', '2026-01-02Z', 'Waiting'),
  (7, 1, gen_random_uuid(), 'assignment.created', 5, '{"n": 0}', '2026-01-01Z', 'Delivered');
insert into car (customer_id, car_id, name) values (7, 81, 'stands'), (7, 82, 'has moved');
insert into product (customer_id, product_id, unique_id, serial_number, sap_number, kind, car_id) values
  (7, 83, 'UI', 'SI', 'P', 'IQ', 81), (7, 84, 'UJ', 'SJ', 'P', 'IQ', 82);
select make_history((now() - make_interval(days => n))::date) from generate_series(0, 3) n;
insert into position (customer_id, car_id, at, latitude, longitude) values
  (7, 81, date_trunc('day', now()) - interval '3 days', 50, 8),
  (7, 82, date_trunc('day', now()) - interval '2 days', 50, 8),
  (7, 82, date_trunc('day', now()) - interval '1 day', 51, 8);
insert into car_state (customer_id, car_id, position_kept, position_at, latitude, longitude, read_at, telemetry) values
  (7, 81, false, date_trunc('day', now()) - interval '2 days', 50, 8, now(), '{"rpm": 7}'),
  (7, 82, true, date_trunc('day', now()) - interval '1 day', 51, 8, now(), '{}');
insert into device_key (customer_id, hash) values (7, 'old');
insert into event (customer_id, event_id, user_id, car_id, local_at, local_text, utc_at, type, user_agent)
  select 7, n, 70, 71, at::timestamptz, at, now(), 'CarOpened', 'old' from unnest(array[
    '2026-05-01T10:00:00', '2026-05-01T10:00:00Z', '2026-05-01t10:00:00.1234569+02:00', '2026-05-01T10:00:00-11:30'
  ]) with ordinality e (at, n);
"""


@pytest.fixture(scope="module")
def migrated(database_server: str) -> Iterator[Sql]:
    """A database with the data of an older release."""
    with fresh_database(database_server) as dsn:
        asyncio.run(upgrade(dsn, "0004"))
        old = Sql(dsn)
        old.execute(OLD)
        old.close()
        assert asyncio.run(schema_version.migrate(dsn)) == schema_version.head()
        sql = Sql(dsn)
        yield sql
        sql.close()


def test_existing_customers_get_a_customer_hold(migrated: Sql) -> None:
    assert [tuple(row) for row in migrated.rows("select customer_id, applied, due_at from customer_hold")] == [
        (7, 0, None)
    ]


def test_waiting_deliveries_keep_their_order(migrated: Sql) -> None:
    rows = migrated.rows(
        "select (payload::jsonb->>'n')::integer as n, applied from delivery where state = 'Waiting' order by applied"
    )
    assert [row["n"] for row in rows] == [1, 2, 3]
    assert all(row["applied"] <= 0 for row in rows)


def test_a_default_renewal_time_becomes_null(migrated: Sql) -> None:
    rows = migrated.rows("select renewable_after from assignment order by assignment_id")
    assert [row["renewable_after"] for row in rows] == [None, 5]


def test_existing_events_keep_their_local_time(migrated: Sql) -> None:
    """A4: whatever their offset was."""
    rows = migrated.rows("select to_char(local_at, 'HH24:MI:SS.US') from event order by event_id")
    assert [row[0] for row in rows] == ["10:00:00.000000", "10:00:00.000000", "10:00:00.123456", "10:00:00.000000"]


def test_existing_people_get_subjects_and_a_retention_start(migrated: Sql) -> None:
    """A7: a person without a customer is erased a number of days after the upgrade, others are not."""
    rows = migrated.rows("select user_id, left_at > now() - interval '1 hour' as left from person order by user_id")
    assert [tuple(row) for row in rows] == [(70, None), (79, True)]
    assert migrated.value("select count(distinct subject_at(7, seed)) from person") == 2


def test_existing_device_keys_have_no_scopes(migrated: Sql) -> None:
    """B6: until an operator assigns a box and scopes."""
    rows = migrated.rows("select product_id, is_gateway, scopes, revoked_at from device_key")
    assert [tuple(row) for row in rows] == [(None, False, [], None)]


def test_existing_machine_clients_keep_the_mode_spec(database_server: str) -> None:
    """The upgrade records no change."""
    with fresh_database(database_server) as dsn:
        asyncio.run(upgrade(dsn, "0075"))
        old = Sql(dsn)
        old.execute("insert into client (name) values ('old')")
        before = old.value("select members from recorded_state where resource = 'client'")
        old.close()
        asyncio.run(schema_version.migrate(dsn))
        sql = Sql(dsn)
        assert sql.value("select mode from client") == "spec"
        assert sql.value("select members from recorded_state where resource = 'client'") == before
        sql.execute("insert into client (name) values ('of a running older release')")
        assert [row[0] for row in sql.rows("select mode from client")] == ["spec", "spec"]
        sql.execute("update client set mode = 'strict' where name = 'old'")
        (row,) = sql.rows("select before, after from change_inbox where kind = 'client.updated'")
        assert [json.loads(text) for text in row] == [{"mode": None}, {"mode": "strict"}]
        sql.close()


def test_pending_operations_are_applied(migrated: Sql, database_server: str) -> None:
    rounds = OperationScheduler(InTransaction(Connection(migrated._connection)), lambda: None, lambda _: None)
    done = migrated.run(rounds.run())
    assert (done.operations, done.deliveries) == (1, 1)
    assert migrated.value("select count(*) from assignment") == 1
    eventually(lambda: migrated.value("select applied from customer_hold") == 1, "the applied number")
    assert migrated.value("select applied from delivery where type = 'assignment.deleted'") == 1


READINGS = """
select n.at, latitude from position h, packed_times(h.at, h.times) n(at) where car_id = $1
union all select n.at, latitude from car_state, packed_times(position_since, position_times) n(at) where car_id = $1
order by 1
"""


@pytest.mark.parametrize(("serial", "car", "known"), [("SI", 81, [(3, 50), (2, 50)]), ("SJ", 82, [(2, 50), (1, 51)])])
def test_existing_readings_stay_and_are_continued(
    migrated: Sql, serial: str, car: int, known: list[tuple[int, int]]
) -> None:
    """A5: the last reading of a run was in the newest state alone, or in the history too."""
    today = migrated.value("select min(at) + interval '3 days' from position")  # the day of the old data
    assert migrated.value("select product_id from car_state where car_id = $1", car) == {81: 83, 82: 84}[car]
    assert [tuple(row) for row in migrated.rows(READINGS, car)] == [(today - timedelta(days=d), v) for d, v in known]
    database = InTransaction(Connection(migrated._connection))

    async def tell(*times: datetime) -> int:
        place = {"currentLatitude": known[-1][1], "currentLongitude": 8}
        samples = [{"serialNumber": serial, "carDataReadTime": at.isoformat(), **place} for at in times]
        return (await Telemetry(GroupCommitter(database), Settings()).ingest(7, json.dumps(samples).encode())).accepted

    last = today - timedelta(days=known[-1][0])
    times = [last + timedelta(minutes=1), last - timedelta(minutes=1), last + timedelta(minutes=2)]
    assert migrated.run(tell(*times)) == 3
    found = [row["at"] for row in migrated.rows(READINGS, car)]
    assert found == sorted([*times, *(today - timedelta(days=d) for d, _ in known)])


def test_no_trigger_sends_a_notification(sql: Sql) -> None:
    """NOTIFY inside a transaction takes a global lock and prevents PREPARE: it is sent after the commit."""
    assert (
        sql.rows("select proname from pg_proc where prosrc ~* 'notify' and pronamespace = 'public'::regnamespace") == []
    )
