"""Decisions about each column, and the code that carries them out."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from keyrack.changelog.column_decisions import (
    COLUMNS,
    COPY_GOES,
    EMPTIED,
    IN_MANIFEST,
    NOBODY,
    ROW_GOES,
    WRITTEN,
    ColumnDecisions,
)
from keyrack.changelog.visibility_watermark import ALONE
from keyrack.core.settings import Settings
from keyrack.db.connection import Database
from keyrack.fleet import global_erasure, person_erasure, person_export
from keyrack.ops.transfer.export_files import OWNER
from keyrack.ops.transfer.record_types import KINDS, RecordType
from tests.cli.test_operator_commands import Operator
from tests.drivers.test_leaving import LINK as DRIVER_LINK
from tests.drivers.test_leaving import PASSKEY as DRIVER_PASSKEY
from tests.support.drivers import signed_in_driver
from tests.support.people import Person, Town, nobody_works
from tests.support.servers import RunningServer, Sql, eventually, migrated_database
from tests.webhooks.receiver import Receiver

CATALOGUE = """
select c.relname::text, a.attname::text from pg_class c join pg_attribute a on a.attrelid = c.oid
where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
  and a.attnum > 0 and not a.attisdropped
"""
# Tables of record types that are not simply the rows of one table
TABLES = {
    "users": ("person", "customer_user"), "pairings": ("service",), "installations": ("product",),
    "positions": ("position", "car_state"), "odometers": ("odometer", "car_state"), "webhooks": ("webhook",),
}  # fmt: skip
# Columns that a record type reads in a function or a join
READ = {
    "position": {"times"}, "odometer": {"times"}, "customer_user": {"user_id"},
    "car_state": {"position_since", "position_times", "odometer_since", "odometer_times"},
}  # fmt: skip


def decisions() -> Iterator[tuple[str, str, ColumnDecisions]]:
    for table, columns in COLUMNS.items():
        for column, decided in columns.items():
            yield table, column, decided


def test_every_column_has_its_decisions(sql: Sql) -> None:
    """A new column fails here until `changelog/column_decisions` has it."""
    there = {(row[0], row[1]) for row in sql.rows(CATALOGUE) if not row[0].startswith("odata_")}
    decided = {(table, column) for table, column, _ in decisions()}
    assert there - decided == set(), "decide: in the export, in the user export and its erasure, in the change log?"
    assert decided - there == set(), "these columns are gone"


def columns_of(kind: RecordType) -> set[tuple[str, str]]:
    tables = TABLES.get(kind.name, (kind.into,))
    members = {sql for sql, _ in kind.members.values()}
    members |= {column for table in tables for column in READ.get(table, set())}
    return {(table, column) for table in tables for column in members if column in COLUMNS[table]}


def test_an_export_writes_the_columns_that_are_decided() -> None:
    written = set[tuple[str, str]]().union(*map(columns_of, KINDS))
    assert {(table, column) for table, column, decided in decisions() if decided.export is WRITTEN} == {
        (table, column) for table, column in written if column != "customer_id"
    }
    in_manifest = {(table, column) for table, column, decided in decisions() if decided.export is IN_MANIFEST}
    assert {table for table, _ in in_manifest} == {"customer", "customer_hold", "event_counter"}
    assert all(re.search(rf"\b{column}\b", OWNER) for _, column in in_manifest)


def test_the_columns_of_an_exported_table_are_written_or_have_a_reason_of_their_own() -> None:
    """Reasons of whole tables do not count for single columns."""
    for table in {table for table, _, decided in decisions() if decided.export is WRITTEN}:
        others = {decided.export.reason for decided in COLUMNS[table].values() if not decided.export.is_included}
        assert others <= {
            "a secret is never written", "the import makes it from other members", "the schedule of a worker",
            "the import disables each webhook, with its own reason",
            "managers, clients, their roles and sign-ins belong to the installation",  # `operation.asked_by`
            "since when a person is in no customer; the import makes a member",
            "ids of the source's assignments, which mean nothing elsewhere",
            "the cells of this installation, which mean nothing elsewhere",
            "change log, access history and deliveries stay where their proofs and receivers are",  # of events
        }, table  # fmt: skip


def test_a_user_export_has_the_columns_that_are_decided() -> None:
    for table, column, decided in decisions():
        sections = [sql for sql in person_export.SECTIONS.values() if re.search(rf"\b{table}\b", sql)]
        named = any(re.search(rf"\b{column}\b", sql) for sql in sections)
        if decided.person.is_included:
            assert named, f"{table}.{column}"


def test_a_column_with_the_number_of_a_user_says_something_about_a_user() -> None:
    assert [table for table, column, decided in decisions() if column == "user_id" and decided.person is NOBODY] == []


# Erasure of a person


MARKS = ("erasable.", "Zacharias-first", "Zacharias-last", "Zacharias-agent", "Zacharias-phone")


@pytest.fixture(scope="module")
def own(database_server: str, settings: Settings) -> Iterator[tuple[str, Sql, Town, Receiver]]:
    with migrated_database(database_server) as dsn, Receiver() as receiver:
        sql = Sql(dsn)
        try:
            with RunningServer(settings, dsn) as server:
                yield dsn, sql, Town(sql, server), receiver
        finally:
            sql.close()


def known(person: Person, receiver: Receiver) -> int:
    """A user with data in as many tables as possible."""
    kinds = ["assignment.*", "user.*", "group.*"]
    assert person.put("/webhooks", {"url": f"{receiver.url}/hook", "kinds": kinds}).status_code == 201
    data = {"firstName": "Zacharias-first", "lastName": "Zacharias-last"}
    key = {"Idempotency-Key": "0f8fad5b-d9cb-469f-a165-70867728950e"}
    body = {"emailAddress": f"erasable.{person.customer}@example.org", "userData": data, "type": "Normal"}
    user: int = person.put("/users", body, headers=key).json()["id"]
    person.sql.execute("update person set last_name = 'Zacharias-last-new' where user_id = $1", user)
    assert person.put(f"/groups/{person.group()}/users", {"userId": user}).is_success
    car = person.car_with_box()
    person.assignment(car, user)
    person.event(car, user, latitude=52.5, longitude=13.4, userAgent="Zacharias-agent")
    person.sql.execute(
        "insert into app_device (customer_id, device_id, user_id, public_key, name, protection)"
        " values ($1, sha256($1::integer::text::bytea), $2, '\\x00', 'Zacharias-phone', 'Software')",
        person.customer, user,
    )  # fmt: skip
    driver = signed_in_driver(person, user)
    person.sql.execute(DRIVER_PASSKEY, user)
    person.sql.execute(DRIVER_LINK, person.customer, user)
    assert driver.is_in
    return user


def settled(sql: Sql) -> None:
    pending = (
        "select exists (select from change_inbox) or exists (select from operation where state = 'Pending')"
        " or exists (select from delivery where state = 'Waiting')"
    )
    eventually(lambda: not sql.value(pending), "the end of the work")


def holders(sql: Sql, mark: str) -> set[str]:
    """The tables with a row that contains the text."""
    tables = {row[0] for row in sql.rows(CATALOGUE)}
    return {
        table for table in tables
        if sql.value(f"select exists (select from {table} t where t::text ilike '%' || $1::text || '%')", mark)
    }  # fmt: skip


@pytest.mark.parametrize("way", ["command", "request"])
def test_an_erased_person_is_in_no_column(own: tuple[str, Sql, Town, Receiver], way: str) -> None:
    dsn, sql, town, receiver = own
    person = town.person(f"eraser-{way}")
    user = known(person, receiver)
    settled(sql)
    before = {mark: holders(sql, mark) for mark in MARKS}
    assert before["erasable."] >= {"person", "change", "delivery"} and before["Zacharias-agent"] == {"event"}
    if way == "command":
        Operator(dsn).value("user", "erase", user, "--yes")
    else:
        assert person.post(f"/users/{user}/erase").status_code == 204
    settled(sql)
    asyncio.run(finish(dsn, sql))
    assert {mark: holders(sql, mark) for mark in MARKS} == {mark: set[str]() for mark in MARKS}
    for table, column, decided in decisions():
        if decided.person is EMPTIED and column == "user_id" and table != "operation":  # its end is still in the log
            assert not sql.value(f"select exists (select from {table} where user_id = $1)", user), table
        if decided.person in (ROW_GOES, COPY_GOES) and column == "user_id":
            assert not sql.value(f"select exists (select from {table} where user_id = $1)", user), table


async def finish(dsn: str, sql: Sql) -> None:
    """Run the steps of housekeeping until no erasure is left."""
    settings = Settings().model_copy(update={"orphaned_person_retention_days": 0})
    database = await Database.connect(dsn, settings)
    try:
        while True:
            await asyncio.to_thread(sql.execute, "update erasure set asked_at = asked_at - interval '2 minutes'")
            await person_erasure.finish(database, settings)
            await global_erasure.erase_orphans(database, settings)
            if not await database.fetchval("select exists (select from erasure)"):
                return
    finally:
        await database.close()


def test_a_user_export_has_access_history_and_changes(own: tuple[str, Sql, Town, Receiver]) -> None:
    dsn, sql, town, receiver = own
    person, other = town.person("exporter"), town.person("stranger")
    user = known(person, receiver)
    known(other, receiver)
    car = person.get(f"/users/{user}/assignments").json()[0]["carId"]
    ended = person.get(f"/users/{user}/assignments").json()[0]["id"]
    assert person.delete(f"/assignments/{ended}").status_code == 204
    eventually(lambda: person.get(f"/assignments/{ended}").status_code == 404, "the end")
    settled(sql)
    value: dict[str, Any] = Operator(dsn).value("user", "export", user)
    assert value.keys() == person_export.SECTIONS.keys()
    (period,) = value["accessHistory"]
    assert (period["customerId"], period["assignmentId"], period["carId"]) == (person.customer, ended, car)
    assert period["until"] is None and period["knownUntil"] is not None
    changes = [(change["kind"], change["resourceId"]) for change in value["changes"]]
    assert [kind for kind, _ in changes if kind != "device.created"] == [
        "user.created", "user.updated", "group.userAdded", "assignment.created", "assignment.deleted",
    ]  # fmt: skip
    assert "device.created" in dict(changes)
    assert {change["customerId"] for change in value["changes"]} == {person.customer}
    created = value["changes"][0]
    assert created["after"]["lastName"] == "Zacharias-last"
    assert f"erasable.{other.customer}@" not in json.dumps(value)


def test_changes_without_a_number_are_in_a_user_export(own: tuple[str, Sql, Town, Receiver]) -> None:
    dsn, sql, town, _ = own
    person = town.person("early")
    user = person.user()
    settled(sql)
    held = Sql(dsn)
    try:
        held.execute("begin")
        held.execute(ALONE)  # no change gets a number meanwhile
        sql.execute("update person set last_name = 'Early' where user_id = $1", user)
        first = Operator(dsn).value("user", "export", user)["changes"]
        held.execute("rollback")
    finally:
        held.close()
    settled(sql)
    later = Operator(dsn).value("user", "export", user)["changes"]
    assert [(change["kind"], change["after"]) for change in first][-1:] == [("user.updated", {"lastName": "Early"})]
    assert [change["id"] is None for change in first] == [False, True]
    assert [change | {"id": 0} for change in first] == [change | {"id": 0} for change in later]


# A limited request, and columns of a newer release


def test_an_export_keeps_the_limit_of_a_pending_request(own: tuple[str, Sql, Town, Receiver], tmp_path: Path) -> None:
    """A limited request affects only the assignment of its car and user."""
    dsn, sql, town, _ = own
    person = town.person("limited")
    car, other, user = person.car_with_box(), person.car_with_box(), person.user()
    assignment = person.assignment(car, user)
    with nobody_works(person):
        moved = [{"op": "replace", "path": "/carId", "value": other}]
        assert person.patch(f"/assignments/{assignment}", moved).status_code == 204
        answer = person.delete(f"/assignments/{assignment}")
        limit = "update operation set is_limited = true where operation_id = $1::text::uuid"
        sql.execute(limit, answer.headers["Operation-Id"])
        Operator(dsn).value("export", "--customer", person.customer, "--to", tmp_path / "out")
    new = Operator(dsn).value("import", "customer", tmp_path / "out")["id"]
    outcome = "select state, error_code from operation where customer_id = $1 and kind = 'DeleteAssignment'"
    eventually(lambda: sql.rows(outcome, new)[0]["state"] != "Pending", "the request in the new customer")
    assert tuple(sql.rows(outcome, new)[0]) == ("Failed", "assignment-gone")
    assert sql.value("select count(*) from assignment where customer_id = $1", new) == 1


def test_requests_of_an_older_export_are_limited_by_default(
    own: tuple[str, Sql, Town, Receiver], tmp_path: Path
) -> None:
    _, sql, _, _ = own
    kind = next(kind for kind in KINDS if kind.name == "operations")
    assert 'coalesce(r."isLimited", true)' in kind.insert
    assert not sql.value("select exists (select from operation where is_limited is null)")


def test_factor_rules_move_with_the_customer(own: tuple[str, Sql, Town, Receiver], tmp_path: Path) -> None:
    dsn, sql, town, _ = own
    person = town.person("strict")
    sql.execute("insert into factor_rule (customer_id, role) values ($1, 'Viewer')", person.customer)
    Operator(dsn).value("export", "--customer", person.customer, "--to", tmp_path / "out")
    new = Operator(dsn).value("import", "customer", tmp_path / "out")["id"]
    assert sql.rows("select role from factor_rule where customer_id = $1", new) == [("Viewer",)]


def test_settings_for_drivers_move_with_the_customer(own: tuple[str, Sql, Town, Receiver], tmp_path: Path) -> None:
    dsn, sql, town, _ = own
    person = town.person("for-drivers")
    sql.execute(
        "update customer set driver_phone = '+49 30 1234', driver_shows_place = true, driver_extension_hours = 4"
        " where customer_id = $1",
        person.customer,
    )
    Operator(dsn).value("export", "--customer", person.customer, "--to", tmp_path / "out")
    new = Operator(dsn).value("import", "customer", tmp_path / "out")["id"]
    select = "select driver_phone, driver_shows_place, driver_extension_hours from customer where customer_id = $1"
    assert [tuple(row) for row in sql.rows(select, new)] == [("+49 30 1234", True, 4)]


def test_an_export_of_a_newer_schema_is_refused(own: tuple[str, Sql, Town, Receiver], tmp_path: Path) -> None:
    dsn, sql, town, _ = own
    person = town.person("newer")
    for make, undo, name in (
        ("alter table car add column colour text", "alter table car drop column colour", "car.colour"),
        ("create table key_tag (customer_id integer)", "drop table key_tag", "key_tag.customer_id"),
    ):
        sql.execute(make)
        try:
            text = Operator(dsn).refused("export", "--customer", person.customer, "--to", tmp_path / "out")
            assert name in text and "newer release" in text
        finally:
            sql.execute(undo)
    sql.execute("create table note_of_operator (text text)")
    Operator(dsn).value("export", "--customer", person.customer, "--to", tmp_path / "out")
