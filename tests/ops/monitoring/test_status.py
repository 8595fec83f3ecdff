"""`keyrack status`: verdict, exit status and findings, without side effects."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from typer.testing import CliRunner

from keyrack.cli.main import application
from keyrack.core.settings import Settings
from keyrack.db import schema_version
from keyrack.db.embedded.server import EmbeddedServer
from keyrack.ops.housekeeping import STEPS
from keyrack.webhooks import certificates
from tests.ops.monitoring.backlog_rows import CUSTOMER, DELIVERY, OPERATION, WEBHOOK, WORKER
from tests.support.servers import Process, Sql, fresh_database, migrated_database, reachable_directory
from tests.support.terminal import ESCAPE, seen

pytestmark = pytest.mark.cluster

DONE = "insert into housekeeping (step, last_good) select unnest($1::text[]), now() on conflict (step) do nothing"
SERVER = WORKER.replace("'work'", "'serve'")


@dataclass
class House:
    """A database and its `keyrack status`."""

    dsn: str
    sql: Sql

    def well(self) -> None:
        """Add an API process, a worker and current housekeeping."""
        for statement in (SERVER, WORKER):
            self.sql.execute(statement, 1.0)
        self.sql.execute(DONE, [step.name for step in STEPS])

    def told(self, *options: str, **env: str) -> tuple[int, Any]:
        return told(*options, KEYRACK_DATABASE_URL=self.dsn, **env)

    def codes(self) -> tuple[int, list[str]]:
        status, value = self.told()
        return status, [finding["code"] for finding in value["findings"]]


def told(*options: str, **env: str) -> tuple[int, Any]:
    """The exit status and the JSON output."""
    result = CliRunner(env=env).invoke(application("status"), ["status", "--json", *options])
    assert result.stderr == ""
    return result.exit_code, json.loads(result.stdout)


@pytest.fixture(scope="module")
def migrated(database_server: str) -> Iterator[House]:
    with migrated_database(database_server) as dsn:
        sql = Sql(dsn)
        yield House(dsn, sql)
        sql.close()


@pytest.fixture
def house(migrated: House) -> House:
    """An empty, migrated database."""
    for table in ("delivery", "webhook", "operation", "heartbeat", "housekeeping"):
        migrated.sql.execute(f"delete from {table}")
    return migrated


def test_an_empty_database_stays_empty(database_server: str) -> None:
    with fresh_database(database_server) as dsn:
        sql = Sql(dsn)
        assert House(dsn, sql).codes() == (2, ["schema-empty"])
        assert sql.value("select count(*) from pg_class where relnamespace = 'public'::regnamespace") == 0
        sql.close()


def test_a_healthy_installation_is_ok(house: House) -> None:
    assert house.codes() == (2, ["no-api", "no-worker-yet"])
    house.well()
    status, value = house.told()
    assert (status, value["verdict"], value["findings"]) == (0, "ok", [])
    assert [(one["role"], one["host"], one["lives"]) for one in value["processes"]] == [
        ("serve", "elsewhere", True), ("work", "elsewhere", True),
    ]  # fmt: skip
    assert value["schema"] == {"revision": schema_version.head(), "state": "current"}
    result = CliRunner(env={"KEYRACK_DATABASE_URL": house.dsn}).invoke(application("status"), ["status"])
    assert result.stdout.startswith("OK: All checks passed.\n")
    assert "1 x work   on elsewhere  0.2.0" in result.stdout


def test_an_old_operation_is_reported_with_its_cause(house: House) -> None:
    house.well()
    customer = house.sql.value(CUSTOMER)
    house.sql.execute(OPERATION, customer, "Request", "Pending", 90.0)
    assert house.codes() == (2, ["operations-old"])
    house.sql.execute("update heartbeat set beat_at = now() - interval '2 min' where role = 'work'")
    status, value = house.told()
    assert (status, [one["code"] for one in value["findings"]]) == (2, ["no-worker"])
    assert value["findings"][0]["text"].startswith("No worker runs, and work has waited for 1 min ")
    assert value["unattended"] >= 90


def test_failing_webhooks_are_named_by_host_only(house: House) -> None:
    house.well()
    customer = house.sql.value(CUSTOMER)
    webhook = house.sql.value(WEBHOOK, customer, True)
    house.sql.execute("update webhook set url = 'https://me:token@hooks.invalid:444/secret/path?token=secret'")
    house.sql.execute(DELIVERY, customer, webhook, 1, "Waiting", 7200.0)
    house.sql.execute("update delivery set attempts = 7, error = 'The endpoint answered 500.'")
    house.sql.execute(DELIVERY, customer, webhook, 2, "Dead", 7200.0)
    house.sql.execute("update delivery set attempted_at = now() where state = 'Dead'")
    status, value = house.told()
    assert (status, [one["code"] for one in value["findings"]]) == (1, ["deliveries-old", "deliveries-dead"])
    (failing,) = value["webhooks"]["failing"]
    assert (failing["host"], failing["attempts"]) == ("hooks.invalid:444", 7)
    assert "secret" not in json.dumps(value) and "token" not in json.dumps(value)


def test_housekeeping_that_has_never_run_is_late_after_a_while(house: House) -> None:
    """A task is late if it fails, or after three missed runs."""
    house.well()
    house.sql.execute("update housekeeping set last_good = null, due_at = now() where step = 'sessions'")
    house.sql.execute("delete from housekeeping where step = 'operations'")
    assert house.codes() == (0, [])
    house.sql.execute("update housekeeping set due_at = now() - interval '1 day' where step = 'sessions'")
    assert house.codes() == (1, ["housekeeping-late"])
    house.sql.execute("update housekeeping set due_at = now(), failures = 1 where step = 'sessions'")
    assert house.codes() == (1, ["housekeeping-late"])


def test_late_housekeeping_is_named(house: House) -> None:
    house.well()
    house.sql.execute("update housekeeping set last_good = now() - interval '1 day' where step = 'sessions'")
    status, value = house.told()
    assert (status, [one["text"] for one in value["findings"]]) == (1, ["Housekeeping is late: sessions."])


@pytest.mark.parametrize(
    ("revision", "oldest", "status", "code"),
    [
        ("0019", "0019", 2, "schema-older"),
        ("9999", "0019", 1, "schema-newer"),
        ("9999", "9998", 2, "schema-too-new"),
    ],
)
def test_another_schema_version_is_a_finding(house: House, revision: str, oldest: str, status: int, code: str) -> None:
    """The finding names it, and available values are shown even without a table."""
    house.well()
    house.sql.execute("update alembic_version set version_num = $1", revision)
    house.sql.execute("update compatibility set oldest_revision = $1", oldest)
    if revision == "0019":
        house.sql.execute("alter table heartbeat rename to away")
    try:
        found, value = house.told()
    finally:
        house.sql.execute("update alembic_version set version_num = $1", schema_version.head())
        if revision == "0019":
            house.sql.execute("alter table away rename to heartbeat")
    assert (found, [one["code"] for one in value["findings"]]) == (status, [code])
    assert value["schema"]["revision"] == revision and value["postgresql"]
    assert (value["processes"] is None) == (revision == "0019")


def test_an_unreachable_database_is_named_without_its_password(tmp_path: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        status, value = told(KEYRACK_DATABASE_URL=f"postgresql://u:s3cret@127.0.0.1:{port}/k")
        assert (status, value["verdict"]) == (3, "unknown")
        assert value["why"].startswith(
            f"The database at 127.0.0.1:{port} cannot be reached: Connection refused at 127.0.0.1, port {port}. Check"
        )
        status, value = told(KEYRACK_DATABASE_URL=f"postgresql://u:s3cret@127.0.0.1:{port},127.0.0.1:{port}/k")
        assert status == 3 and "no server is the primary (127.0.0.1:" in value["why"]
        assert "s3cret" not in json.dumps(value)
    status, value = told(KEYRACK_DATABASE_URL="", KEYRACK_STATE=str(tmp_path))
    assert (status, value["why"].partition(",")[0]) == (3, f"There is no database in {tmp_path}")
    assert not list(tmp_path.iterdir())
    status, value = told(KEYRACK_POOL_SIZE="many")
    assert status == 3 and value["why"].startswith("A setting is not valid. KEYRACK_POOL_SIZE: ")


def test_a_stopped_embedded_database_is_not_started() -> None:
    with reachable_directory() as state:
        with EmbeddedServer(state) as server:
            asyncio.run(schema_version.migrate(server.dsn))
            status, value = told("--state", str(state))
            assert status == 2 and "no-api" in [one["code"] for one in value["findings"]]
            assert value["disk"]["path"] == str(state)
        status, value = told("--state", str(state))
        assert status == 2 and value["findings"][0]["code"] == "not-running"
        assert not (state / "pgdata/postmaster.pid").exists()


def test_watch_repeats_until_it_is_stopped(house: House) -> None:
    house.well()
    process = Process("status", "--watch", "0.5", "--json", env={"KEYRACK_DATABASE_URL": house.dsn})
    try:
        assert process.popen.stdout is not None
        first = json.loads(process.popen.stdout.readline())
        house.sql.execute("update housekeeping set last_good = now() - interval '1 day'")
        verdicts = [first["verdict"]]
        while verdicts[-1] == "ok":
            verdicts.append(json.loads(process.popen.stdout.readline())["verdict"])
        assert verdicts[-1] == "warning"
    finally:
        assert process.stop() in (0, 1)


@pytest.mark.parametrize(
    ("columns", "env", "coloured"),
    [(80, {"NO_COLOR": ""}, True), (120, {"NO_COLOR": "1"}, False), (80, {"TERM": "dumb"}, False)],
)
def test_the_output_fits_a_terminal_with_and_without_colours(
    house: House, columns: int, env: dict[str, str], coloured: bool
) -> None:
    house.well()
    customer = house.sql.value(CUSTOMER)
    house.sql.execute(OPERATION, customer, "Request", "Pending", 90.0)
    status, text = seen(columns, {"TERM": "xterm", "KEYRACK_DATABASE_URL": house.dsn} | env, "status")
    assert status == 2
    assert bool(ESCAPE.search(text)) == coloured
    plain = ESCAPE.sub("", text).splitlines()
    assert plain[0].startswith("CRITICAL: Assignments have waited for 1 min ")
    # The first line is not wrapped: monitoring programs show it alone. It counts the other findings, so its length
    # depends on the load of the machine
    assert max(map(len, plain[1:])) <= columns


def certificate(directory: Path) -> ssl.SSLContext:
    """A self-signed certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
        .serial_number(1).not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=3))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )  # fmt: skip
    path = directory / "server.pem"
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ) + made.public_bytes(serialization.Encoding.PEM)
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    return context


def test_certificates_of_webhook_hosts_are_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context, reached = certificate(tmp_path), list[int]()
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                raw, _ = listener.accept()
            except OSError:
                return
            reached.append(1)
            with raw, suppress(OSError):
                context.wrap_socket(raw, server_side=True).close()

    threading.Thread(target=serve, daemon=True).start()
    port = listener.getsockname()[1]
    url = f"https://localhost:{port}/path"
    try:
        (found,) = asyncio.run(certificates.check_certificates([url, url, "http://localhost/"], Settings(), 10))
        # addresses that webhooks may not dial are not checked
        assert (found.until, found.wrong, reached) == (None, None, [])
        allowed = Settings(webhook_allowed_networks="127.0.0.0/8, ::1")
        (found,) = asyncio.run(certificates.check_certificates([url], allowed, 10))
        assert found.wrong is not None and found.wrong.startswith("The endpoint's certificate is not valid: ")
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "server.pem"))
        (found,) = asyncio.run(certificates.check_certificates([url], allowed, 10))
        assert found.wrong is None and found.days is not None and 2 < found.days < 3
        assert asyncio.run(certificates.check_certificates([url], allowed, 0)) == []
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
