"""Audit triggers: each change of a resource is recorded with its content and actor, or rejected."""

from __future__ import annotations

import asyncio
import getpass
import json
import re
import socket
from collections.abc import Iterator
from typing import Any

import asyncpg
import pytest

from keyrack.changelog import audited_tables
from keyrack.changelog.column_decisions import COLUMNS
from keyrack.cli.commands.run import check_database
from keyrack.core import secret_hashes
from keyrack.core.settings import Settings
from keyrack.db.audit_context import UNRECORDED
from keyrack.db.schema_version import SchemaError
from keyrack.db.session_settings import session
from tests.changelog.outbox import finish_erasing
from tests.cli.test_operator_commands import Operator
from tests.support.people import Person, Town
from tests.support.servers import Sql, eventually, migrated_database

# Numbered or not, in their order; numbered changes have personal members in a separate column
CHANGES = """
select kind, resource, resource_id, who::text, groups, before::text, after::text from (
  select 0 as place, change_id as number, kind, resource, resource_id, who, groups,
    before || coalesce(person -> 'before', '{}') as before, after || coalesce(person -> 'after', '{}') as after
  from change where customer_id = $1
  union all
  select 1, seq, kind, resource, resource_id, who, groups, before, after from change_inbox where customer_id = $1
) c order by place, number
"""
FOREIGN = {"keyrack.records": "", "keyrack.who": ""}


def changes(person: Person, resource: str, id: int | None = None) -> list[dict[str, Any]]:
    """The recorded changes of a resource type, or of one resource."""
    rows = person.sql.rows(CHANGES, person.customer)
    names = ("kind", "resource", "id", "who", "groups", "before", "after")
    found = [dict(zip(names, row, strict=True)) for row in rows]
    for change in found:
        for name in ("who", "before", "after"):
            change[name] = None if change[name] is None else json.loads(change[name])
    return [change for change in found if change["resource"] == resource and id in (None, int(change["id"]))]


def kinds(person: Person, resource: str, id: int) -> list[str]:
    return [change["kind"] for change in changes(person, resource, id)]


def test_a_change_says_what_was_changed_and_by_whom(alice: Person, bob: Person) -> None:
    made = alice.put("/cars", {"name": "One", "vin": "V"})
    car = made.json()["id"]
    patched = alice.patch(f"/cars/{car}", [{"op": "replace", "path": "/name", "value": "Two"}])
    assert patched.status_code == 204, patched.text
    assert alice.patch(f"/cars/{car}", [{"op": "replace", "path": "/name", "value": "Two"}]).status_code == 204
    gone = alice.delete(f"/cars/{car}")
    created, updated, deleted = changes(alice, "car", car)
    assert [change["kind"] for change in (created, updated, deleted)] == ["car.created", "car.updated", "car.deleted"]
    assert (created["before"], created["after"]) == (None, {"name": "One", "vin": "V"})
    assert (updated["before"], updated["after"]) == ({"name": "One"}, {"name": "Two"}), "a change to the same is none"
    assert (deleted["before"], deleted["after"]) == ({"name": "Two", "vin": "V"}, None)
    for change, answer in ((created, made), (updated, patched), (deleted, gone)):
        assert change["id"] == str(car)
        manager = alice.sql.value("select manager_id from manager where username = $1", alice.username)
        assert change["who"] == {
            "type": "manager", "id": str(manager), "name": alice.username, "address": "127.0.0.1",
            "requestId": answer.headers["X-Request-Id"],
        }  # fmt: skip
    assert changes(bob, "car", car) == []


def test_a_worker_acts_on_behalf_of_the_caller(alice: Person) -> None:
    car, user = alice.car_with_box(), alice.user()
    answer = alice.put("/assignments", {"carId": car, "userId": user, "start": "2026-01-01T08:00:00Z"})
    [created] = eventually(lambda: changes(alice, "assignment"), "the assignment")
    who = created["who"]
    assert (who["type"], who["name"]) == ("system", "worker")
    assert (who["onBehalfOf"]["type"], who["onBehalfOf"]["name"]) == ("manager", alice.username)
    assert who["operationId"] == answer.headers["Operation-Id"]
    assert who["requestId"] == answer.headers["X-Request-Id"]
    assert created["after"]["carId"] == car
    assert created["after"]["start"] == "2026-01-01T08:00:00Z"
    ended = alice.delete(f"/assignments/{created['id']}")
    _, deleted = eventually(lambda: len(found := changes(alice, "assignment")) == 2 and found, "its end")
    assert deleted["kind"] == "assignment.deleted"
    assert deleted["who"]["operationId"] == ended.headers["Operation-Id"]


def test_changes_use_the_event_types_of_the_domain(alice: Person) -> None:
    car = alice.car()
    box = alice.box_in(car)
    assert alice.delete("/installations", {"carId": car, "productId": box}).status_code == 204
    assert kinds(alice, "product", box) == ["product.created", "box.installed", "box.uninstalled"]
    installed = changes(alice, "product", box)[1]
    assert (installed["before"], installed["after"]) == ({"carId": None}, {"carId": car})
    service = alice.sql.value("select service_id from service where product_id = $1", box)
    assert alice.delete("/pairings", {"serviceId": service, "productId": box}).status_code == 204
    assert kinds(alice, "service", service) == ["service.created", "service.unpaired"]


def test_a_change_names_the_groups_of_its_resource(alice: Person) -> None:
    car, group = alice.car("In"), alice.group()
    assert alice.put(f"/groups/{group}/cars", {"carId": car}).status_code in (200, 201, 204)
    alice.patch(f"/cars/{car}", [{"op": "replace", "path": "/name", "value": "Still in"}]).raise_for_status()
    alice.delete(f"/cars/{car}").raise_for_status()
    assert [(change["kind"], change["groups"]) for change in changes(alice, "car", car)] == [
        ("car.created", []), ("car.updated", [group]), ("car.deleted", [group]),
    ]  # fmt: skip
    assert kinds(alice, "group", group) == ["group.created", "group.carAdded", "group.carRemoved"]
    assert changes(alice, "group", group)[1]["after"] == {"carId": car}


def test_a_person_is_changed_in_the_log_of_each_customer(alice: Person, bob: Person) -> None:
    user = alice.user("one.of.both@example.org")
    alice.sql.execute("insert into customer_user (customer_id, user_id) values ($1, $2)", bob.customer, user)
    alice.sql.execute("update person set last_name = 'Other', password_hash = 'x' where user_id = $1", user)
    for person in (alice, bob):
        created, updated = changes(person, "user", user)
        assert created["after"]["emailAddress"] == "one.of.both@example.org"
        assert updated["after"] == {"lastName": "Other", "password": "***"}
        assert updated["before"]["lastName"] == "User"


def test_secrets_are_not_recorded(alice: Person) -> None:
    secret = "0123456789abcdef0123456789abcdef"
    alice.put("/webhooks", {"url": "http://127.0.0.1:9/x", "secret": secret, "kinds": ["assignment"]})
    told = json.dumps([alice.sql.rows(CHANGES, customer) for customer in (0, alice.customer)], default=str)
    hashes = alice.sql.rows(
        "select password_hash from manager where username = $1 union"
        " select encode(hash, 'hex') from api_key where hash = $2",
        alice.username, secret_hashes.digest(alice.api_key),
    )  # fmt: skip
    assert secret not in told
    assert len(hashes) == 2
    assert not any(row[0] in told for row in hashes)


def test_the_operator_of_a_command_is_recorded(alice: Person, dsn: str) -> None:
    Operator(dsn).value("privacy", "history", "--customer", alice.customer, "--days", 300)
    change = changes(alice, "customer")[-1]
    assert change["after"] == {"historyDays": 300}
    assert change["who"] == {"type": "operator", "name": f"{getpass.getuser()}@{socket.gethostname()}"}


def test_a_change_without_an_actor_is_rejected(alice: Person, dsn: str) -> None:
    """A session of Keyrack that has not set an actor."""

    async def write() -> None:
        raw = await asyncpg.connect(dsn, server_settings=session(Settings()))
        try:
            await raw.execute("update customer set name = 'Nobody' where customer_id = $1", alice.customer)
        finally:
            await raw.close()

    with pytest.raises(asyncpg.PostgresError, match="Nobody says who changes this"):
        asyncio.run(write())
    assert alice.sql.value("select name from customer where customer_id = $1", alice.customer) != "Nobody"


def test_an_older_release_keeps_writing(alice: Person, dsn: str) -> None:
    """It knows nothing of actors, and runs beside the new release during an upgrade."""

    async def write() -> None:
        raw = await asyncpg.connect(dsn, server_settings=session(Settings()) | FOREIGN)
        try:
            await raw.execute("update customer set name = 'Older' where customer_id = $1", alice.customer)
        finally:
            await raw.close()

    asyncio.run(write())
    assert changes(alice, "customer")[-1]["who"] == {"type": "system", "name": "an older release"}


@pytest.mark.parametrize("table", ["car", "customer_user"])
def test_truncate_is_rejected(alice: Person, table: str) -> None:
    with pytest.raises(asyncpg.PostgresError, match="are not thrown away together"):
        alice.sql.execute(f"truncate {table} cascade")


def test_a_change_of_a_key_is_rejected(alice: Person) -> None:
    car = alice.car()
    with pytest.raises(asyncpg.PostgresError, match="The key of a row of car does not change"):
        alice.sql.execute("update car set car_id = -car_id where car_id = $1", car)
    assert alice.get(f"/cars/{car}").status_code == 200


@pytest.fixture(scope="module")
def own(database_server: str) -> Iterator[str]:
    with migrated_database(database_server) as address:
        yield address


@pytest.mark.parametrize(
    "off",
    [
        'alter table car disable trigger "RECORD_update"',
        'drop trigger "RECORD_truncate" on assignment',
        'alter table webhook enable replica trigger "RECORD_delete"',
        'create or replace trigger "RECORD_insert" after insert on car for each row execute function note_access()',
    ],
)
def test_a_server_does_not_start_with_disabled_triggers(own: str, off: str) -> None:
    check_database(own, Settings())
    sql = Sql(own)
    try:
        [name] = re.findall(r"RECORD_\w+", off)
        definition = sql.value(
            "select pg_get_triggerdef(oid) from pg_trigger where tgname = $1 and tgrelid = $2::text::regclass", name,
            re.findall(r"(?:table|on) (\w+)", off)[0],
        )  # fmt: skip
        sql.execute(off)
        with pytest.raises(SchemaError, match=f"{name} of "):
            check_database(own, Settings())
        sql.execute(definition.replace("CREATE TRIGGER", "CREATE OR REPLACE TRIGGER"))
        check_database(own, Settings())
    finally:
        sql.close()


def test_tables_without_triggers_are_not_recorded() -> None:
    assert COLUMNS.keys() - set(audited_tables.RECORDED) >= UNRECORDED


def test_every_column_of_a_resource_is_recorded_as_decided(sql: Sql) -> None:
    rows = sql.rows(
        "select c.relname, a.attname, p.prosrc from pg_class c join pg_attribute a on a.attrelid = c.oid"
        " join pg_proc p on p.proname = 'record_' || c.relname"
        " where a.attnum > 0 and not a.attisdropped and c.relnamespace = 'public'::regnamespace and c.relkind = 'r'"
    )
    assert {row[0] for row in rows} == set(audited_tables.RECORDED)
    recorded = {(table, column) for table, column, source in rows if re.search(rf"\b[no]\.{column}\b", source)}
    decided = {(table, column) for table, columns in COLUMNS.items() for column in columns}
    assert recorded == {(table, column) for table, column in decided if COLUMNS[table][column].audit.is_included}


def test_an_erased_person_is_erased_from_the_log(town: Town, dsn: str) -> None:
    """Personal members go; the creation and deletion stay, and so do other users' data."""
    dora = town.person("dora")
    address, stays = f"erased.{dora.customer}@example.org", f"stays.{dora.customer}@example.org"
    user = dora.user(address, userData={"firstName": "Dora", "lastName": "Nobody"})
    other = dora.user(stays)
    # Changes without a number are erased in the outbox, without a trace of the erased part
    eventually(lambda: not dora.sql.value("select exists (select from change_inbox)"), "the numbers of before")
    assert "Nobody" in json.dumps([list(map(str, row)) for row in dora.sql.rows(CHANGES, dora.customer)])
    Operator(dsn).value("user", "erase", address, "--yes")
    eventually(lambda: not dora.sql.value("select exists (select from change_inbox)"), "their numbers")
    told = json.dumps([list(map(str, row)) for row in dora.sql.rows(CHANGES, dora.customer)])
    assert address not in told and "Nobody" not in told
    assert stays in told
    assert [change["kind"] for change in changes(dora, "user", user)][-1] == "user.deleted"
    assert len(changes(dora, "user", other)) == 1
    assert Operator(dsn).value("audit", "verify", "--customer", dora.customer)["erased"]


def test_a_person_erased_from_a_customer_is_erased_from_its_log(town: Town, settings: Settings, dsn: str) -> None:
    """Housekeeping erases personal members, and the assignments and groups that name the user."""
    erin = town.person("erin")
    address = f"away.{erin.customer}@example.org"
    car, user = erin.car_with_box(), erin.user(address)
    erin.put(f"/groups/{erin.group()}/users", {"userId": user}).raise_for_status()
    assignment = erin.assignment(car, user)
    erin.post(f"/users/{user}/erase").raise_for_status()
    eventually(lambda: len(changes(erin, "assignment", assignment)) == 2, "the end of the assignment")
    eventually(lambda: not erin.sql.value("select exists (select from change_inbox)"), "their numbers")

    finish_erasing(dsn)
    rows = erin.sql.rows(CHANGES, erin.customer)
    assert address not in json.dumps([list(map(str, row)) for row in rows])
    assert [change["after"] for change in changes(erin, "assignment", assignment)] == [None, None]
    assert changes(erin, "car", car)[0]["after"] == {"name": "Car"}
    assert Operator(dsn).value("audit", "verify", "--customer", erin.customer)["erased"]
