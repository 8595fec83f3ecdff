"""`keyrack doctor`: every problem is a finding with a remedy, and passed checks are listed."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from keyrack.cli.main import application
from keyrack.core.settings import Settings
from keyrack.db import schema_version
from keyrack.db.connection import Database
from keyrack.db.encryption.bootstrap import open_vault
from keyrack.ops.doctor import database
from tests.ops.monitoring.test_status import certificate
from tests.support.servers import RunningServer, Sql, fresh_database, patient_settings
from tests.support.terminal import ESCAPE, seen

pytestmark = pytest.mark.cluster

PROVEN = datetime(2026, 11, 1, tzinfo=UTC)
OTHER_KEY = base64.b64encode(b"the master key of somebody else!").decode()


@dataclass
class House:
    """A database and its `keyrack doctor`."""

    dsn: str
    sql: Sql

    def checks(self, **env: str) -> dict[str, list[tuple[str, str]]]:
        return told({"KEYRACK_DATABASE_URL": self.dsn} | env)[1]


def told(env: dict[str, str]) -> tuple[int, dict[str, list[tuple[str, str]]]]:
    """The exit status, and results and texts by check."""
    result = CliRunner(env=env).invoke(application("doctor"), ["doctor", "--json"])
    assert result.stderr == ""
    value: Any = json.loads(result.stdout)
    found: dict[str, list[tuple[str, str]]] = {}
    for one in value["checks"]:
        assert bool(one["action"]) == (one["result"] != "ok"), one
        found.setdefault(one["check"], []).append((one["result"], one["text"]))
    worst = {result for results in found.values() for result, _ in results}
    assert value["verdict"] == next(word for word in ("fault", "warning", "ok") if word in worst)
    assert result.exit_code == {"ok": 0, "warning": 1, "fault": 2}[value["verdict"]]
    return result.exit_code, found


@pytest.fixture(scope="module")
def house(database_server: str) -> Iterator[House]:
    async def prepare() -> None:
        await schema_version.migrate(dsn)
        db = await Database.connect(dsn, patient_settings(), size=1)
        await open_vault(db, Settings())
        await db.close()

    with fresh_database(database_server) as dsn:
        asyncio.run(prepare())
        sql = Sql(dsn)
        yield House(dsn, sql)
        sql.close()


def test_passed_checks_are_listed(house: House, settings: Settings) -> None:
    with RunningServer(settings, house.dsn, worker=False) as server:
        found = house.checks(KEYRACK_PUBLIC_URL=server.url)
    for check in ("names", "metrics", "master-key", "secrets", "schema", "rights", "servers", "pooler", "clock",
                  "version", "connections", "indexes", "open-files"):  # fmt: skip
        assert {result for result, _ in found[check]} == {"ok"}, found[check]
    assert found["public-url"][-1] == ("ok", f"{server.url} answers")
    safe = house.sql.value("show fsync") == "on"
    assert (found["durability"][0][0] == "ok") == safe
    assert found["archive"][0][0] == ("ok" if house.sql.value("show archive_mode") == "on" else "warning")


def test_inconsistent_settings_are_findings(house: House) -> None:
    found = house.checks(
        KEYRACK_POOLSIZE="3", KEYRACK_PUBLIC_URL="http://keyrack.invalid", KEYRACK_METRICS="0.0.0.0:9464",
        KEYRACK_POOL_SIZE="500", KEYRACK_MQTT_URL="mqtt://127.0.0.1:1",
    )  # fmt: skip
    assert found["names"] == [("warning", "KEYRACK_POOLSIZE is not a setting and has no effect.")]
    assert found["public-url"][0][0] == "fault" and found["public-url"][1][0] == "warning"
    assert found["metrics"][0][0] == "warning"
    assert found["connections"][0][0] == "warning" and "may use 504 of " in found["connections"][0][1]
    assert found["mqtt"][0][0] == "warning"
    assert house.checks(KEYRACK_METRICS="127.0.0.1:9464")["metrics"][0][0] == "ok"


def test_an_app_of_drivers_without_https_is_a_fault(house: House) -> None:
    for env in ({"KEYRACK_DRIVE_URL": "http://drive.invalid"}, {"KEYRACK_PUBLIC_URL": "http://keyrack.invalid"}):
        result, text = house.checks(**env)["drive-url"][0]
        assert result == "fault" and "http://" in text and "/drive/, without https" in text
    for env in ({"KEYRACK_DRIVE_URL": "https://drive.invalid"}, {"KEYRACK_PUBLIC_URL": "http://127.0.0.1:8080"}):
        assert house.checks(**env)["drive-url"][0][0] == "ok"
    mixed = house.checks(KEYRACK_PUBLIC_URL="https://keyrack.invalid", KEYRACK_DRIVE_URL="http://drive.invalid")
    assert mixed["drive-url"][0][0] == "fault" and mixed["public-url"][0][0] == "ok"


def test_the_address_of_the_app_is_tried(house: House, settings: Settings, tmp_path: Path) -> None:
    with RunningServer(settings, house.dsn, worker=False) as server:
        assert house.checks(KEYRACK_DRIVE_URL=server.url)["drive-url"][1:] == [("ok", f"{server.url}/drive/ answers")]
    result, text = house.checks(KEYRACK_DRIVE_URL="http://127.0.0.1:1")["drive-url"][1]
    assert result == "warning" and text.endswith("cannot be reached from this machine: Connection refused")
    with foreign_certificate(tmp_path) as port:
        result, text = house.checks(KEYRACK_DRIVE_URL=f"https://127.0.0.1:{port}")["drive-url"][1]
    assert result == "warning" and text.startswith(f"The certificate of https://127.0.0.1:{port} is not valid")


@contextmanager
def foreign_certificate(directory: Path) -> Iterator[int]:
    """A TLS server whose certificate is for another host name; its port."""
    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        server.socket = certificate(directory).wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


def test_drivers_without_mail_are_a_warning(house: House) -> None:
    assert house.checks()["drivers"] == [("ok", "accounts of drivers: 0")]
    house.sql.execute(
        "with p as (insert into person (email_address, address_form, type) values ('d@example.org', 'd@example.org',"
        " 'Normal') returning user_id) insert into driver_account (user_id) select user_id from p"
    )
    try:
        assert house.checks()["drivers"][0][0] == "warning"
        mail = {"KEYRACK_MAIL_HOST": "mail.invalid", "KEYRACK_MAIL_FROM": "keyrack@example.org"}
        assert house.checks(**mail)["drivers"] == [("ok", "accounts of drivers: 1")]
    finally:
        house.sql.execute("delete from person")


def test_an_invalid_setting_is_a_fault(house: House) -> None:
    status, found = told({"KEYRACK_POOL_SIZE": "many"})
    assert status == 2 and found["settings"][0][1].startswith("A setting is not valid. KEYRACK_POOL_SIZE: ")
    status, found = told({"KEYRACK_STOP_DELAY": "3"})
    assert status == 2 and found["settings"][0][1].startswith("KEYRACK_STOP_DELAY is the old name of ")


def test_a_wrong_or_missing_master_key_is_a_fault(house: House, tmp_path: Path) -> None:
    found = house.checks(KEYRACK_MASTER_KEY=OTHER_KEY)
    assert found["secrets"][0][0] == "fault" and OTHER_KEY not in json.dumps(found)
    found = house.checks(KEYRACK_MASTER_KEY="", KEYRACK_STATE=str(tmp_path))
    assert found["master-key"][0][0] == "fault"


def test_readable_files_with_secrets_are_findings(house: House, tmp_path: Path) -> None:
    address, key = tmp_path / "address", tmp_path / "key"
    address.write_text(house.dsn)
    key.write_text(os.environ["KEYRACK_MASTER_KEY"])
    env = {
        "KEYRACK_DATABASE_URL": "", "KEYRACK_DATABASE_URL_FILE": str(address), "KEYRACK_MASTER_KEY": "",
        "KEYRACK_MASTER_KEY_FILE": str(key),
    }  # fmt: skip
    for path in (address, key):
        path.chmod(0o604)
    found = house.checks(**env)["secret-files"]
    assert sorted(found) == sorted(("fault", f"Every user of this machine can read {path}.") for path in (address, key))
    for path in (address, key):
        path.chmod(0o640)
    assert house.checks(**env)["secret-files"] == [("ok", "other users can read no secret file")]


def test_damage_of_the_schema_is_a_finding(house: House) -> None:
    table, trigger = house.sql.rows(
        "select tgrelid::regclass::text, tgname::text from pg_trigger where not tgisinternal order by 2 limit 1"
    )[0]
    house.sql.execute("create table broken (i integer); create index broken_i on broken (i)")
    house.sql.execute("update pg_index set indisvalid = false where indexrelid = 'broken_i'::regclass")
    house.sql.execute(f'alter table {table} disable trigger "{trigger}"')
    try:
        found = house.checks()
        assert found["indexes"] == [("warning", "The index broken_i is not valid.")]
        assert found["triggers"] == [("fault", f"The trigger {trigger} is disabled.")]
    finally:
        house.sql.execute("drop table broken")
        house.sql.execute(f'alter table {table} enable trigger "{trigger}"')
    assert house.checks()["indexes"][0][0] == "ok"


def test_unproven_accounts_of_several_customers_are_findings(house: House) -> None:
    proven = "every manager that acts for several customers has a proven address"
    assert house.checks()["managers"] == [("ok", proven)]
    house.sql.execute(
        "with c as (insert into customer (name) values ('One'), ('Two') returning customer_id),"
        " m as (insert into manager (username, password_hash, proven_at, proven_by) values ('legacy@corp.example', 'x',"
        " null, null), ('no address', 'x', null, null), ('proven@corp.example', 'x', now(), 'mail')"
        " returning manager_id)"
        " insert into manager_customer (customer_id, manager_id) select customer_id, manager_id from c, m"
    )
    house.sql.execute(  # not a finding for a single customer, where the account works as before
        "with m as (insert into manager (username) values ('single@corp.example') returning manager_id)"
        " insert into manager_customer (customer_id, manager_id) select min(customer_id), manager_id from customer, m"
        " group by manager_id"
    )
    checks = house.checks()
    (unproven,) = checks["unproven-managers"]
    assert unproven[0] == "warning" and unproven[1].endswith("with an unproven address: legacy@corp.example.")
    assert "older-ways-in" not in checks and "managers" not in checks
    for statement in (
        "insert into passkey (manager_id, credential_id, public_key, sign_count, transports, aaguid, name,"
        " is_backed_up, created_at) select manager_id, 'c', 'k', 0, '{}', '', 'x', false, $2 from m",
        "insert into totp (manager_id, secret, created_at) select manager_id, 's', $2 from m",
        "insert into recovery (manager_id, hashes, created_at) select manager_id, '{}', $2 from m",
        "insert into manager_identity (provider_id, subject, manager_id, created_at) select provider_id, 's',"
        " manager_id, $2 from m, p",
        "insert into session (manager_id, hash, sign_outs, address, agent, created_at) select manager_id, 'h', 0, '',"
        " '', $2 from m",
    ):
        for at, is_older in ((PROVEN - timedelta(days=1), True), (PROVEN + timedelta(days=1), False)):
            house.sql.execute("begin")
            house.sql.execute("update manager set proven_at = $1 where username = 'proven@corp.example'", PROVEN)
            house.sql.execute(
                "with m as (select manager_id from manager where username = $1),"
                " p as (insert into provider (name, label, issuer, client_id, client_secret, algorithms)"
                " values ('p', 'P', 'i', 'c', '', '{RS256}') returning provider_id) " + statement,
                "proven@corp.example", at,
            )  # fmt: skip
            house.sql.execute("commit")
            older = house.checks().get("older-ways-in", [])
            assert [text.endswith("address: proven@corp.example.") for _, text in older] == [True] * is_older, statement
            house.sql.execute(
                "with p as (delete from passkey), t as (delete from totp), r as (delete from recovery),"
                " s as (delete from session) delete from provider"
            )
    house.sql.execute("update manager set is_disabled = true where username = 'legacy@corp.example'")
    assert house.checks()["managers"] == [("ok", proven)], "it may not sign in"


def test_machine_clients_of_the_mode_spec_are_listed(house: House) -> None:
    assert house.checks()["client-modes"] == [("ok", "every machine client has the mode strict")]
    house.sql.execute("insert into client (name, mode) values ('Old', 'spec'), ('New', 'strict')")
    ((result, text),) = house.checks()["client-modes"]
    assert result == "ok" and text.endswith(": Old")
    house.sql.execute("delete from client")


def test_many_unproven_accounts_are_counted(house: House) -> None:
    house.sql.execute(
        "with m as (insert into manager (username) select 'many' || n || '@corp.example' from generate_series(1, 25) n"
        " returning manager_id)"
        " insert into manager_customer (customer_id, manager_id) select customer_id, manager_id from customer, m"
    )
    ((_, text),) = house.checks()["unproven-managers"]
    assert text.count("many") == 20 and text.endswith(" and 5 more."), text
    house.sql.execute("delete from manager")


def test_an_unreachable_or_missing_database_is_a_fault(tmp_path: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        where = f"127.0.0.1:{closed.getsockname()[1]}"
        status, found = told({"KEYRACK_DATABASE_URL": f"postgresql://u:s3cret@{where}/k"})
    assert status == 2 and "s3cret" not in json.dumps(found)
    assert found["servers"][0][1].startswith(f"{where} cannot be reached: Connection refused")
    status, found = told({"KEYRACK_DATABASE_URL": "", "KEYRACK_STATE": str(tmp_path)})
    assert status == 2 and found["database"][0][1].startswith(f"There is no database in {tmp_path}")
    assert not list(tmp_path.iterdir())


def test_an_empty_database_stays_empty(database_server: str) -> None:
    with fresh_database(database_server) as dsn:
        assert told({"KEYRACK_DATABASE_URL": dsn})[1]["schema-empty"] == [("fault", "The database is empty.")]
        sql = Sql(dsn)
        assert sql.value("select to_regclass('alembic_version')") is None
        sql.close()


def test_a_clock_more_than_two_seconds_off_is_a_fault() -> None:
    now = datetime.now(UTC)
    for ahead, result in ((-3, 2), (-1, 0), (0, 0), (1, 0), (3, 2)):
        (found,) = database.clock(now, now + timedelta(seconds=ahead), now)
        assert found.level == result


@pytest.mark.parametrize(("columns", "colour"), [(80, True), (120, False)])
def test_the_output_fits_a_terminal(house: House, columns: int, colour: bool) -> None:
    env = {"TERM": "xterm", "NO_COLOR": "" if colour else "1", "KEYRACK_DATABASE_URL": house.dsn}
    status, text = seen(columns, env, "doctor")
    assert bool(ESCAPE.search(text)) == colour
    lines = ESCAPE.sub("", text).splitlines()
    assert lines[0].split(":")[0] == {1: "WARNING", 2: "FAULT"}[status]
    # The first line is not wrapped: monitoring programs show it alone
    assert max(map(len, lines[1:])) <= columns
