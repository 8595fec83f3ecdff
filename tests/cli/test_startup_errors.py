"""Errors at startup: one plain line with the reason, an exit status, and no output before it."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

import pytest
from typer.testing import CliRunner

from keyrack import __version__
from keyrack.cli.main import application
from keyrack.db import schema_version
from keyrack.db.migrations import revisions
from tests.support.servers import Sql, fresh_database, migrated_database, reachable_directory

pytestmark = pytest.mark.cluster

COMMANDS = ["migrate", "customer list"]
DEMO_PROGRESS = re.compile(r"\AStarting the demo in .+\n")


def refused(command: str, **env: str) -> str:
    """The error line of a command that runs as a process."""
    ran = subprocess.run(
        [sys.executable, "-m", "keyrack", *command.split()],
        env=os.environ | env,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return line(ran.returncode, ran.stdout, ran.stderr)


def refused_here(command: str, **env: str) -> str:
    """The same in this process, which is faster."""
    words = command.split()
    result = CliRunner(env=env).invoke(application(words[0]), words)
    return line(result.exit_code, result.stdout, result.stderr)


def line(status: int, output: str, errors: str) -> str:
    """The error line. Besides it, only the demo's progress is allowed."""
    assert (status, output) == (1, ""), (output, errors)
    errors = DEMO_PROGRESS.sub("", errors)
    assert errors.startswith("keyrack: ") and errors.count("\n") == 1, errors
    return errors.removeprefix("keyrack: ").rstrip("\n")


def refused_by_all(**env: str) -> str:
    """The error line that a server and every command share."""
    (said,) = {refused("serve --port 0", **env), *(refused_here(command, **env) for command in COMMANDS)}
    return said


ADDRESS = (
    "the value is not an address of the form postgresql://user:password@host:port/name. In the user name and the "
    "password, write : / ? # [ ] @ and % as %3A %2F %3F %23 %5B %5D %40 and %25."
)


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("TRUSTED_PROXIES", "nonsense", "'nonsense' is not an address or a network."),
        ("TRUSTED_PROXIES", "127.0.0.1, 10.0.0.1/8", "'10.0.0.1/8' is a network with host bits set."),
        ("WEBHOOK_ALLOWED_NETWORKS", "10.0.0.0/33", "'10.0.0.0/33' is not an address or a network."),
        ("WEBHOOK_ALLOWED_NETWORKS", "*", "'*' is not an address or a network."),
        ("CORS_ORIGINS", "*,https://a.example", "'*' allows every origin. Remove the other origins, or remove '*'."),
        ("CORS_ORIGINS", "https://a.example/", "'https://a.example/' is not an origin. Write, for example,"
         " https://console.example.com or https://console.example.com:8443, without path, user name or blanks."),
        ("DATABASE_URL", "nonsense", ADDRESS),
        ("DATABASE_URL", "postgresql://u:s3cret@h:port/d", ADDRESS),
        ("POOL_SIZE", "many", "'many' is not a whole number from 1 to 500."),
        ("PUBLIC_URL", "keyrack.example.com", "'keyrack.example.com' is not an http or https address without a final"
         " slash, such as https://keyrack.example.com."),
    ],
)  # fmt: skip
def test_a_setting_that_is_not_valid(name: str, value: str, why: str) -> None:
    """B14: the error names the setting and the fault, without a password."""
    for command in ("serve --port 0", "customer list"):
        assert refused_here(command, **{f"KEYRACK_{name}": value}) == f"A setting is not valid. KEYRACK_{name}: {why}"


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("serve --port abc", "Invalid value for '--port': 'abc' is not a whole number"),
        ("serve --port 70000", "Invalid value for '--port': '70000' is more than 65535"),
        ("serve --processes 0", "Invalid value for '--processes': '0' is less than 1"),
        ("status x", "'x' is not a number"),
        ("customer list --state", "requires an argument"),
        ("manager add kim --customer 1 --role king", "Invalid value for '--role': 'king' is not one of"),
        ("customer change 0 --name x", "0 is not"),
        ("privacy history --customer 1 --days many", "'many' is not a whole number"),
    ],
)
def test_an_option_that_is_not_valid(command: str, why: str) -> None:
    words = command.split()
    result = CliRunner().invoke(application(words[0]), words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert why in " ".join(result.stderr.split())
    assert "Value error" not in result.stderr and "should be" not in result.stderr


@pytest.mark.parametrize("proxies", ["*", "127.0.0.1, ::1, 10.0.0.0/8", " "])
def test_settings_that_are_valid(proxies: str) -> None:
    env = {"KEYRACK_TRUSTED_PROXIES": proxies, "KEYRACK_WEBHOOK_ALLOWED_NETWORKS": "10.0.0.1/8,fd00::/8"}
    assert CliRunner(env=env).invoke(application("openapi"), ["openapi"]).exit_code == 0


def test_a_database_that_is_not_there() -> None:
    """B14: by every command."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, without a listener
        address = f"postgresql://u:s3cret@127.0.0.1:{taken.getsockname()[1]}/x"
        said = refused_by_all(KEYRACK_DATABASE_URL=address)
    reason = "The database cannot be reached: Connection refused at 127.0.0.1, port"
    assert said.startswith(reason) and "KEYRACK_DATABASE_URL" in said and "Errno" not in said


def test_a_state_directory_that_cannot_be_made() -> None:
    """B14: for commands that create it."""
    with reachable_directory() as base:
        (base / "file").touch()
        made = refused_here(f"migrate --state {base}/file/state")
        assert made == f"Cannot make the state directory {base}/file/state: Not a directory."
        where = {"KEYRACK_DATABASE_URL": "", "KEYRACK_STATE": str(base / "file/state")}
        assert refused_here("customer list", **where).startswith(f"There is no database in {base}/file/state. ")


def test_a_state_directory_that_nobody_writes_to() -> None:
    """B14: not even as root."""
    said = refused_here("migrate --state /sys/kernel")
    assert said.startswith("Cannot open /sys/kernel/users.lock: ") and "KEYRACK_STATE" in said


def test_a_port_in_use(dsn: str) -> None:
    """B14: before anything else is done."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        for command in (f"serve --port {port} --processes 2", f"demo --port {port}"):
            said = refused(command, KEYRACK_DATABASE_URL=dsn)
            assert said == f"Port {port} at 127.0.0.1 is in use. Choose another one with --port."


# Reasons why a server that could migrate does not start, with settings and statements
NOT_STARTED = {
    "no master key": ("", "There is no master key for the secrets in this database: KEYRACK_MASTER_KEY and "
                      "KEYRACK_MASTER_KEY_FILE are not set, and "),
    "a master key that is none": ("x", "KEYRACK_MASTER_KEY is not valid."),
}  # fmt: skip


@pytest.mark.parametrize("command", ["serve --port 0", "work", "demo --port 0"])
@pytest.mark.parametrize("why", NOT_STARTED)
def test_a_server_that_does_not_start_migrates_nothing(database_server: str, why: str, command: str) -> None:
    key, said = NOT_STARTED[why]
    with fresh_database(database_server) as dsn, reachable_directory() as state:
        env = {"KEYRACK_DATABASE_URL": dsn, "KEYRACK_MASTER_KEY": key, "KEYRACK_STATE": str(state)}
        assert refused(command, **env).startswith(said)
        assert tables(dsn) == 0


def test_a_server_without_triggers_migrates_nothing(database_server: str) -> None:
    with fresh_database(database_server) as dsn:
        name = urlsplit(dsn).path.strip("/")
        sql = Sql(dsn)
        sql.execute(f"alter database \"{name}\" set session_replication_role = 'replica'")
        sql.close()
        assert "session_replication_role is 'replica'" in refused("serve --port 0", KEYRACK_DATABASE_URL=dsn)
        assert tables(dsn) == 0


def test_a_server_with_another_master_key_migrates_nothing(database_server: str) -> None:
    with migrated_database(database_server) as dsn:
        sql = Sql(dsn)
        sql.execute("insert into data_key (number, master, wrapped) values (1, 'another', '\\x00')")
        sql.execute("update alembic_version set version_num = $1", revisions()[-2])
        said = refused("serve --port 0", KEYRACK_DATABASE_URL=dsn)
        assert said.startswith("The secrets in this database are encrypted with another master key.")
        assert sql.value("select version_num from alembic_version") == revisions()[-2]
        sql.close()


def tables(dsn: str) -> int:
    """The number of Keyrack's tables."""
    sql = Sql(dsn)
    try:
        return sql.value("select count(*) from pg_class where relnamespace = 'public'::regnamespace")
    finally:
        sql.close()


@pytest.fixture(scope="module")
def newer(database_server: str) -> Iterator[str]:
    with fresh_database(database_server) as dsn:
        sql = Sql(dsn)
        sql.execute("create table alembic_version (version_num text primary key)")
        sql.execute("insert into alembic_version values ('9999')")
        sql.close()
        yield dsn


def test_a_schema_that_is_newer_than_the_code(newer: str) -> None:
    """B14: by every command."""
    assert refused_by_all(KEYRACK_DATABASE_URL=newer) == (
        f"The database's schema is at revision 9999, but Keyrack {__version__} knows revisions only up to "
        f"{schema_version.head()}. A newer release has migrated it. Start that release, or use another database."
    )


@dataclass
class Roles:
    """Roles with passwords, and the database addresses of each."""

    dsn: str
    sql: Sql

    def address(self, name: str, *rights: str) -> str:
        """The address of a new role with these rights."""
        for statement in (f"create role {name}", *rights):
            self.sql.execute(statement)
        parts = urlsplit(self.dsn)
        options = f"{parts.query}&role={name}" if parts.query else f"role={name}"
        return urlunsplit(parts._replace(query=options))


@pytest.fixture
def roles(database_server: str) -> Iterator[Roles]:
    with fresh_database(database_server) as dsn:
        sql = Sql(dsn)
        try:
            yield Roles(dsn, sql)
        finally:
            for row in sql.rows("select rolname from pg_roles where rolname like 'weak%'"):
                sql.execute(f'drop owned by "{row[0]}"')
                sql.execute(f'drop role "{row[0]}"')
            sql.close()


def name_of(dsn: str) -> str:
    return urlsplit(dsn).path.removeprefix("/")


def test_a_role_that_may_not_create(roles: Roles) -> None:
    """B14: on an empty database, by every command."""
    weak = roles.address("weak_creator")
    assert refused_by_all(KEYRACK_DATABASE_URL=weak) == (
        f"The role weak_creator may not create tables in the database {name_of(roles.dsn)}. Keyrack's role must own "
        "its database."
    )


def test_a_role_that_may_not_migrate_or_read(roles: Roles) -> None:
    """B14: the schema belongs to another role, so missing privileges would only show later."""
    asyncio.run(schema_version.migrate(roles.dsn))
    everything = "grant all on schema public to weak_owner", "grant all on all tables in schema public to weak_owner"
    for weak in (roles.address("weak_owner", *everything), roles.address("weak_reader")):
        role = weak.rpartition("=")[2]
        assert refused_here("customer list", KEYRACK_DATABASE_URL=weak) == (
            f"The role {role} does not own the table alembic_version in the database {name_of(roles.dsn)}. Keyrack's "
            "role must own its database and what is in it."
        )


def test_a_failure_within_a_migration_is_told_in_postgresql_s_words(roles: Roles) -> None:
    """B14: without the failed statement."""
    roles.sql.execute("create table customer (customer_id int)")
    said = refused_here("migrate", KEYRACK_DATABASE_URL=roles.dsn)
    assert said == 'The database reports an error: relation "customer" already exists'


def test_a_server_that_cannot_begin_says_why(roles: Roles) -> None:
    """B14: including errors that only the serving process finds."""
    asyncio.run(schema_version.migrate(roles.dsn))
    roles.sql.execute(f'alter database "{name_of(roles.dsn)}" set default_transaction_read_only = on')
    said = refused("serve --port 0", KEYRACK_DATABASE_URL=roles.dsn)
    assert said == "The database reports an error: cannot execute INSERT in a read-only transaction"
