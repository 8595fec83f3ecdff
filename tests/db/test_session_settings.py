"""Sessions of Keyrack: defaults of the server, the database or the role change no answer."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as examples

import keyrack
from keyrack.changelog import audited_tables
from keyrack.core.settings import Settings
from keyrack.db import schema_version
from keyrack.db.connection import Database
from keyrack.db.schema_version import SchemaError
from keyrack.db.session_settings import BASE, open_session, session
from keyrack.ops.transfer.record_types import KINDS
from tests.cli.test_operator_commands import Operator
from tests.ops.doctor.test_doctor import told
from tests.ops.transfer.test_export_and_import import furnished, read_at
from tests.support.people import Person, Town
from tests.support.servers import RunningServer, Sql, eventually, migrated_database
from tests.webhooks.receiver import Receiver

# Values that a server, a database or a role may have as a default. An empty list: a locale of this machine
VALUES: dict[str, list[str]] = {
    "DateStyle": ["German", "SQL, DMY", "SQL, MDY", "Postgres, DMY", "ISO, DMY", "ISO, YMD"],
    "IntervalStyle": ["iso_8601", "sql_standard", "postgres_verbose"],
    "TimeZone": ["Asia/Kathmandu", "America/New_York", "Pacific/Kiritimati", "-12:34"],
    "extra_float_digits": ["-15", "0", "3"],
    "bytea_output": ["escape"],
    "xmlbinary": ["hex"],
    "xmloption": ["document"],
    "lc_monetary": [], "lc_numeric": [], "lc_time": [], "lc_messages": [],
    "quote_all_identifiers": ["on"],
    "standard_conforming_strings": ["off"],
    "backslash_quote": ["off", "on"],
    "escape_string_warning": ["off"],
    "array_nulls": ["off"],
    "transform_null_equals": ["on"],
    "default_transaction_isolation": ["serializable", "repeatable read"],
    "default_transaction_deferrable": ["on"],
    "statement_timeout": ["1", "20"],
    "lock_timeout": ["1"],
    "idle_in_transaction_session_timeout": ["1"],
    "idle_session_timeout": ["1", "100"],
    "search_path": ["nothere, public", "public, pg_catalog", '"odd schema", public'],
    "row_security": ["off"],
    "synchronize_seqscans": ["off"],
    "timezone_abbreviations": ["India"],
    "default_text_search_config": ["pg_catalog.german"],
    "client_min_messages": ["debug5"],
    "check_function_bodies": ["off"],
    "jit": ["on"],
    "plan_cache_mode": ["force_custom_plan"],
}  # fmt: skip
# Parameters of these categories that no session sets, with the reason
LEFT = {
    "xmloption": "no XML",
    "xmlbinary": "no XML",
    "transform_null_equals": "no statement has `= null`",
    "quote_all_identifiers": "names are compared as oids",
    "lc_time": "no pattern of a time has a locale's names",
    "lc_numeric": "no pattern of a number has a locale's signs",
    "lc_monetary": "no value of money",
    "default_transaction_deferrable": "it matters to serializable transactions that only read; there are none",
    "array_nulls": "no text of an array has the word",
    "backslash_quote": "the product's statements have no such literal",
    "check_function_bodies": "it decides when an error of a function is found",
    "client_encoding": "asyncpg sets it",
    "client_min_messages": "notices are not read",
    "createrole_self_grant": "no role is created",
    "default_table_access_method": "where an operator wants new partitions",
    "default_tablespace": "where an operator wants new partitions",
    "default_text_search_config": "no text search",
    "default_toast_compression": "how values are stored",
    "default_transaction_read_only": "operators freeze a database with it; writes are 503 meanwhile",
    "dynamic_library_path": "where the server's libraries are",
    "escape_string_warning": "notices are not read",
    "event_triggers": "no event trigger",
    "extension_control_path": "where the server's extensions are",
    "gin_fuzzy_search_limit": "no GIN index",
    "gin_pending_list_limit": "no GIN index",
    "icu_validation_level": "no collation is created",
    "lc_messages": "errors are recognised by SQLSTATE; only a superuser sets it",
    "lo_compat_privileges": "no large objects",
    "local_preload_libraries": "the server's libraries",
    "restrict_nonsystem_relation_kind": "no views and no foreign tables",
    "row_security": "no policies",
    "search_path": "tables may be in any schema; `keyrack doctor` finds a path that leads to none",
    "session_preload_libraries": "the server's libraries",
    "session_replication_role": "only a superuser sets it; no process starts with 'replica'",
    "synchronize_seqscans": "no answer depends on an order that its statement does not have",
    "temp_tablespaces": "where an operator wants temporary files",
    "timezone_abbreviations": "times have an offset or none",
    "transaction_deferrable": "of a transaction, from its default",
    "transaction_isolation": "of a transaction, from its default",
    "transaction_read_only": "of a transaction, from its default",
    "transaction_timeout": "servers before 17 refuse it; a transaction that it ends is an error, no other answer",
}
# A fixed time, because an answer without one is of the current moment
RANGE = f"from={read_at(0, 0)}&to={read_at(5, 0)}"
CATEGORIES = ("Client Connection Defaults", "Version and Platform Compatibility")


@dataclass
class House:
    """A server and a worker on a database with one customer."""

    dsn: str
    sql: Sql
    person: Person
    receiver: Receiver
    moment: str = ""  # when the first rows existed

    def default(self, values: Mapping[str, str]) -> None:
        """Give the role these defaults in the database; only new sessions use them."""
        there = f"in database {self.sql.value('select quote_ident(current_database())')}"
        role = self.sql.value("select quote_ident(current_user)")
        self.sql.execute(f"alter role {role} {there} reset all")
        for name, value in values.items():
            quoted = value if name == "search_path" else "'" + value + "'"
            self.sql.execute(f"alter role {role} {there} set {name} to {quoted}")
        self.sql.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database()"
            " and application_name like 'keyrack%' and application_name <> 'keyrack tests'"
        )
        eventually(lambda: self.person.get("/customers").status_code == 200, "new sessions")

    def default_path(self, path: str) -> None:
        """Give the role this `search_path`; existing sessions keep theirs."""
        role, there = self.sql.rows("select quote_ident(current_user), quote_ident(current_database())")[0]
        self.sql.execute(f"alter role {role} in database {there} set search_path to {path}")

    def values(self, name: str) -> list[str]:
        """Possible values of the parameter; none if this server lacks it."""
        if not self.sql.value("select exists (select from pg_settings where name = $1)", name):
            return []
        locales = "select collname from pg_collation where collprovider = 'c' and collencoding in (-1, 6) order by 1"
        return VALUES[name] or [row[0] for row in self.sql.rows(locales) if row[0] != "C"][-1:]


@pytest.fixture(scope="module")
def house(database_server: str, settings: Settings) -> Iterator[House]:
    with migrated_database(database_server) as dsn, Receiver() as receiver:
        sql = Sql(dsn)
        try:
            with RunningServer(settings, dsn) as server:
                person = furnished(Town(sql, server).person("frieda"), cars=1)
                answer = person.put("/webhooks", {"url": receiver.url + "/hook", "kinds": ["assignment.*", "car.*"]})
                assert answer.status_code == 201, answer.text
                house = House(dsn, sql, person, receiver)
                settled(house)
                house.moment = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
                yield house
        finally:
            sql.close()


def answers(house: House) -> dict[str, bytes]:
    """The bodies of reads, of files of the console, and of a command."""
    person, sql = house.person, house.sql
    car: int = sql.value("select max(car_id) from event join car using (customer_id, car_id)")
    unit: int = sql.value("select max(car_id) from position")
    user: int = sql.value("select max(user_id) from assignment")
    paths = [
        "/cars?$expand=groups,products", "/users", "/groups", "/assignments?$orderby=id", "/events", "/operations",
        "/webhooks?$select=id,url,created", "/positions", "/changes", "/retention",
        f"/cars/{car}", f"/cars/{car}/events", f"/cars/{car}/access?at={house.moment}",
        f"/users/{user}/access?at={house.moment}", f"/cars/{unit}/location",
        f"/cars/{unit}/telemetry", f"/cars/{unit}/samples?fields=odometer,fuelLevelPercent&{RANGE}",
        f"/cars/{unit}/track?{RANGE}",
        "/events?$filter=year(utcDateTime) ge 2020 and date(utcDateTime) lt 2100-01-01",
        "/events?$apply=groupby((type),aggregate($count as number))", "/assignments?$filter=end eq null",
        "/events?$search=open", "/events?$compute=hour(utcDateTime) as hour&$select=id,hour",
    ]  # fmt: skip
    found = {path: person.get(path) for path in paths}
    with person.browser() as browser:
        for name in ("cars", "users", "assignments/list", "changes", "events"):
            found[name] = browser.get(f"/{person.customer}/{name}.csv")
    assert {path: answer.status_code for path, answer in found.items()} == dict.fromkeys(found, 200)
    bodies = {path: answer.content for path, answer in found.items()}
    operator = Operator(house.dsn)
    bodies["user export"] = json.dumps(operator.value("user", "export", user)).encode()
    return bodies


def exported(house: House, directory: Path) -> dict[str, bytes]:
    """The files of an export by their names, without the manifest."""
    Operator(house.dsn).value("export", "--customer", house.person.customer, "--to", directory)
    return {
        file: (directory / file).read_bytes() for kind in KINDS for file in (f"{kind.name}.jsonl", f"{kind.name}.csv")
    }


def hook_bodies(house: House) -> list[bytes]:
    """The bodies of webhooks, with placeholders for ids and times."""
    person, before = house.person, len(house.receiver.of("/hook"))
    car = person.car_with_box("Hooked")
    assignment = person.assignment(car, person.user(), "2026-01-01T08:00:00Z", end="2026-02-01T08:00:00+01:00")
    assert person.delete(f"/assignments/{assignment}").status_code == 204
    got = eventually(lambda: len(received := house.receiver.of("/hook")) >= before + 3 and received, "the webhooks")[
        before:
    ]
    form = re.compile(rb'"[0-9a-f-]{32,36}"|"[0-9A-F]{32}"|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z|\b\d+\b')
    return sorted(form.sub(lambda match: b"T" if b"T" in match[0] else b"#", request.body) for request in got)


def unusual(house: House, place: int = 0) -> dict[str, str]:
    """Another value of each parameter."""
    values = {name: house.values(name) for name in VALUES}
    return {name: listed[place % len(listed)] for name, listed in values.items() if listed}


def settled(house: House) -> None:
    """Wait until no work is left that would add rows."""
    pending = "select exists (select from change_inbox) or exists (select from operation where state = 'Pending')"
    eventually(lambda: not house.sql.value(pending), "the end of the work")


@pytest.mark.parametrize("place", [0, 1])
def test_an_unusual_value_of_every_parameter_changes_no_byte(house: House, tmp_path: Path, place: int) -> None:
    house.default({})
    bodies = hook_bodies(house)
    house.default(unusual(house, place))
    try:
        assert hook_bodies(house) == bodies
        settled(house)
        found, files = answers(house), exported(house, tmp_path / "unusual")
    finally:
        house.default({})
    assert found == answers(house)
    assert files == exported(house, tmp_path / "usual")


@examples(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_combination_of_values_changes_a_byte(house: House, data: st.DataObject) -> None:
    possible = {name: values for name in VALUES if (values := house.values(name))}
    names = data.draw(st.lists(st.sampled_from(sorted(possible)), min_size=1, max_size=6, unique=True))
    values = {name: data.draw(st.sampled_from(possible[name]), label=name) for name in names}
    settled(house)
    house.default({})
    usual = answers(house)
    house.default(values)
    try:
        assert answers(house) == usual
    finally:
        house.default({})


def test_each_session_has_the_values_of_the_product(house: House) -> None:
    async def seen() -> list[dict[str, str]]:
        show = "select name, current_setting(name, true) from unnest($1::text[]) name"
        bare = await open_session(house.dsn)
        database = await Database.connect(house.dsn, Settings())
        try:
            return [{row[0]: row[1] for row in await one.fetch(show, list(BASE))} for one in (bare, database)]
        finally:
            bare.terminate()
            await database.close()

    house.default(unusual(house))
    try:
        bare, pooled = asyncio.run(seen())
    finally:
        house.default({})
    assert bare == BASE
    assert {name for name in BASE if pooled[name] != BASE[name]} == {
        "statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout",
    }  # fmt: skip


def test_every_parameter_of_the_server_is_decided(house: House) -> None:
    rows = house.sql.rows(
        "select name, category from pg_settings where context in ('user', 'superuser') and category not like 'Custom%'"
    )
    relevant = {name for name, category in rows if category.startswith(CATEGORIES)}
    assert relevant - set(BASE) - set(LEFT) == set(), "set it in BASE, or say in LEFT why not"
    assert not set(BASE) & set(LEFT)


def test_sessions_are_opened_in_one_place() -> None:
    """`keyrack doctor` reads only a number and a boolean, through any pooler."""
    sources = Path(keyrack.__file__).parent
    opening = re.compile(r"asyncpg\.(?:connect|create_pool)\(")
    files = {str(file.relative_to(sources)): len(opening.findall(file.read_text())) for file in sources.rglob("*.py")}
    assert {name: count for name, count in files.items() if count} == {
        "db/session_settings.py": 1, "db/connection.py": 1, "ops/doctor/servers.py": 2,
    }  # fmt: skip
    assert set(BASE) <= set(session(Settings()))


def test_a_search_path_without_the_tables_is_reported_with_its_remedy(house: House) -> None:
    house.sql.execute("create schema elsewhere")
    role, database = house.sql.rows("select quote_ident(current_user), quote_ident(current_database())")[0]
    remedy = f"alter role {role} in database {database} set search_path = public"
    for path in ("nothere", "elsewhere"):
        house.default_path(path)
        try:
            status, checks = told({"KEYRACK_DATABASE_URL": house.dsn})
            assert status == 2 and "schema-empty" not in checks
            assert checks["schema-search-path"] == [("fault", schema_version.OFF_SEARCH_PATH)]
            for act in (schema_version.require(house.dsn), schema_version.migrate(house.dsn)):
                with pytest.raises(SchemaError, match=re.escape(remedy)):
                    asyncio.run(act)
        finally:
            house.sql.execute(remedy)
        assert "schema-search-path" not in told({"KEYRACK_DATABASE_URL": house.dsn})[1]
    house.default({})


def test_no_process_starts_without_triggers(house: House) -> None:
    async def start() -> None:
        database = await Database.connect(house.dsn, Settings(), parameters={"session_replication_role": "replica"})
        try:
            await audited_tables.require(database)
        finally:
            await database.close()

    with pytest.raises(SchemaError, match="session_replication_role"):
        asyncio.run(start())
