"""Migrations beside running servers, and the reaction of each command to a schema."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from typer.testing import CliRunner

from keyrack import __version__
from keyrack.cli.main import application
from keyrack.db import migration_runner, schema_version
from keyrack.db.migrations import revisions
from tests.db.test_migrations import upgrade
from tests.support.log_lines import captured_events
from tests.support.servers import DEADLINE, Sql, eventually, fresh_database, migrated_database
from tests.upgrades import releases

pytestmark = pytest.mark.cluster

HEAD = schema_version.head()


@pytest.fixture(scope="module")
def next_one(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return releases.later(tmp_path_factory.mktemp("releases"), "next")


@pytest.fixture(scope="module")
def after_next(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return releases.later(tmp_path_factory.mktemp("releases"), "after", contracting=True)


@pytest.fixture
def fleet(database_server: str) -> Iterator[tuple[str, Sql]]:
    """A database of this release with two cars of the same name."""
    with migrated_database(database_server) as dsn:
        sql = Sql(dsn)
        sql.execute("insert into customer (customer_id, name) values (7, 'busy')")
        sql.execute("insert into car (customer_id, car_id, name) values (7, 1, 'car'), (7, 2, 'car')")
        yield dsn, sql
        sql.close()


def migrate(source: Path, dsn: str, *options: str, **env: str) -> Any:
    told = os.environ | {"KEYRACK_DATABASE_URL": dsn} | env
    return releases.command(source, "migrate", *options, env=told)


def said(dsn: str, *words: str) -> tuple[int, str, str]:
    """Run a command of this release, and return status, output and errors."""
    result = CliRunner(env={"KEYRACK_DATABASE_URL": dsn}).invoke(application(words[0]), words)
    return result.exit_code, result.stdout, result.stderr


def test_a_migration_retries_its_lock_and_blocks_others_only_briefly(fleet: tuple[str, Sql], next_one: Path) -> None:
    """No other user of the table waits longer than the migration's lock timeout.

    It continues once the table is free.
    """
    dsn, sql = fleet
    holder = Sql(dsn)
    holder.execute("begin")
    holder.value("select count(*) from car")
    process = migrate(next_one, dsn, KEYRACK_MIGRATION_LOCK_SECONDS="0.2")
    lines: list[dict[str, Any]] = []
    named = re.compile(r"\d+ \(keyrack tests, idle in transaction for \d+ s\)")
    while len(lines) < 3 or not named.fullmatch(lines[-1]["blocked_by"]):
        lines.append(json.loads(process.stderr.readline()))
        sql.execute("set lock_timeout = '20s'")
        sql.execute("update car set name = name where car_id = 2")  # readers and writers proceed between the attempts
    holder.execute("rollback")
    output, errors = process.communicate(timeout=DEADLINE)
    assert (process.returncode, output) == (0, "The schema is at revision 0104.\n"), errors
    assert [line["attempts"] for line in lines] == list(range(1, len(lines) + 1))
    assert {line["event"] for line in lines} == {"migration lock timeout, retrying"}
    assert sql.value("select sum(seats) from car") == 8
    holder.close()


def test_a_migration_without_a_lock_fails_and_can_be_repeated(fleet: tuple[str, Sql], next_one: Path) -> None:
    dsn, sql = fleet
    holder = Sql(dsn)
    holder.execute("begin")
    holder.value("select count(*) from car")
    short = {"KEYRACK_MIGRATION_LOCK_SECONDS": "1.5", "KEYRACK_MIGRATION_LOCK_RETRY_TIMEOUT_SECONDS": "0.5"}
    process = migrate(next_one, dsn, **short)
    _, errors = process.communicate(timeout=DEADLINE)
    assert process.returncode == 1
    assert re.search(
        r"keyrack: The migration to revision 0101 did not get its locks within 0\.5 s \(1 try\)\. It was blocked "
        r"by \d+ \(keyrack tests, idle in transaction for \d+ s\)\. It was rolled back\. End the blocking session, "
        r"then run `keyrack migrate` again\.\n$",
        errors,
    ), errors
    assert sql.value("select version_num from alembic_version") == HEAD
    holder.execute("rollback")
    # An invalid index of an interrupted run is built again
    with pytest.raises(asyncpg.UniqueViolationError):
        sql.execute("create unique index concurrently car_colour on car (customer_id, name)")
    process = migrate(next_one, dsn)
    _, errors = process.communicate(timeout=DEADLINE)
    assert process.returncode == 0, errors
    definition = "select pg_get_indexdef(indexrelid) from pg_index where indexrelid = 'car_colour'::regclass"
    assert sql.value(definition + " and indisvalid") == (
        "CREATE INDEX car_colour ON public.car USING btree (customer_id, colour)"
    )
    holder.close()


def test_writers_do_not_wait_for_an_index(fleet: tuple[str, Sql], next_one: Path) -> None:
    """The index waits for earlier transactions, and no one waits for the index."""
    dsn, sql = fleet
    asyncio.run(upgrade_of(next_one, dsn, "0101"))
    holder = Sql(dsn)
    holder.execute("begin")
    holder.execute("update car set name = 'held' where car_id = 1")
    process = migrate(next_one, dsn, KEYRACK_MIGRATION_LOCK_SECONDS="0.05")
    waiting = "select count(*) from pg_stat_progress_create_index where relid = 'car'::regclass and lockers_total > 0"
    eventually(lambda: sql.value(waiting), "the index that waits")
    sql.execute("update car set name = 'written' where car_id = 2")
    assert process.poll() is None
    holder.execute("commit")
    _, errors = process.communicate(timeout=DEADLINE)
    assert process.returncode == 0, errors
    assert [row[0] for row in sql.rows("select name from car order by car_id")] == ["held", "written"]
    holder.close()


async def upgrade_of(source: Path, dsn: str, revision: str) -> None:
    """Upgrade to a revision of another release."""
    connection = await asyncpg.connect(dsn)
    try:
        body = releases.EXPANDING[next(name for name in releases.EXPANDING if name.startswith(revision))]
        for statement in re.findall(r'op\.execute\("(.*)"\)', body):
            await connection.execute(statement)
        await connection.execute("update alembic_version set version_num = $1", revision)
    finally:
        await connection.close()


def test_a_long_migration_reports_its_progress(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migration_runner, "TELL", 0)

    async def watch() -> None:
        onlooker, migrant = await asyncpg.connect(dsn), await asyncpg.connect(dsn)
        try:
            seen = migration_runner.MigrationProgress(onlooker, "0101", migrant.get_server_pid(), 0.05)
            async with asyncio.timeout(DEADLINE), seen.watched():
                long = asyncio.create_task(migrant.execute("select pg_sleep(3600) /* a long one */"))
                await asyncio.to_thread(eventually, lambda: lines, "a line")
                migrant.terminate()
                await asyncio.gather(long, return_exceptions=True)
        finally:
            await onlooker.close()

    with captured_events("migration running") as lines:
        asyncio.run(watch())
    assert (lines[0]["revision"], lines[0]["blocked_by"], lines[0]["percent"]) == ("0101", [], None)


def test_a_release_works_with_a_newer_schema_that_only_expands(
    fleet: tuple[str, Sql], next_one: Path, after_next: Path
) -> None:
    """API and workers can restart, but changing commands need the newer program.

    After the newer release has contracted, this release no longer works.
    """
    dsn, sql = fleet
    assert said(dsn, "migrate", "--check")[0] == 0
    process = migrate(next_one, dsn)
    assert process.wait(DEADLINE) == 0, process.communicate()
    assert sql.value("select oldest_revision from compatibility") == "0019"
    status, output, _ = said(dsn, "migrate", "--check", "--json")
    assert (status, json.loads(output)) == (
        4, {"state": "newer", "revision": "0104", "head": HEAD, "pending": [], "needsStop": False},
    )  # fmt: skip
    status, output, errors = said(dsn, "migrate")
    assert (status, output) == (0, "The schema is at revision 0104.\n"), errors
    newer = (
        f"keyrack: The database's schema is at revision 0104, but Keyrack {__version__} knows revisions only up to "
        f"{HEAD}. A newer release has migrated it. Start that release, or use another database.\n"
    )
    assert said(dsn, "customer", "list") == (1, "", newer)
    process = migrate(after_next, dsn)
    assert process.wait(DEADLINE) == 0, process.communicate()
    assert sql.value("select oldest_revision from compatibility") == "0104"
    assert said(dsn, "migrate", "--check")[0] == 5
    for words in (("migrate",), ("customer", "list"), ("work",)):
        assert said(dsn, *words) == (1, "", newer.replace("0104", "0105"))


def test_the_plan_of_a_skipped_release_needs_a_stop(fleet: tuple[str, Sql], after_next: Path) -> None:
    """A step drops a column that is unused only since the skipped release.

    The plan needs a stop, and the check names the release to install first.
    """
    dsn, _ = fleet
    process = migrate(after_next, dsn, "--plan", "--json", "--sql")
    output, errors = process.communicate(timeout=DEADLINE)
    plan = json.loads(output)
    assert (process.returncode, plan["needsStop"], len(plan["steps"])) == (0, True, 5), errors
    gone = plan["steps"][-1]
    assert (gone["contracts"], gone["unusedSince"]) == (True, "9.1.0")
    assert gone["sql"] == ["alter table car drop column colour"]
    assert [effect["breaks"] for effect in gone["effects"]] == [True]
    assert plan["steps"][1]["sql"] == ["create index concurrently car_colour on car (customer_id, colour)"]
    process = migrate(after_next, dsn, "--check")
    output, errors = process.communicate(timeout=DEADLINE)
    assert (process.returncode, output) == (
        3,
        f"The schema is at revision {HEAD}. `keyrack migrate` upgrades it to 0105. Stop every process of Keyrack "
        "first; or upgrade to 9.1.0 first: see docs/upgrading.md.\n",
    ), errors


def test_a_migration_with_a_stop_is_rejected_while_processes_run(
    database_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names the running node. Nothing is changed, and the command can be repeated."""
    monkeypatch.setattr(schema_version, "LEAVE", 0.1)
    with fresh_database(database_server) as dsn:
        asyncio.run(upgrade(dsn, "0004"))

        async def beside_a_worker() -> None:
            worker = await asyncpg.connect(dsn, server_settings={"application_name": "keyrack worker"})
            try:
                with pytest.raises(schema_version.SchemaError) as refused:
                    await schema_version.migrate(dsn)
                assert re.fullmatch(
                    rf"The migration from revision 0004 to {HEAD} breaks the previous release, which is "
                    r"still running: keyrack worker( at \S+)?\. Nothing was changed\. Stop every process of "
                    r"Keyrack on this database, and run `keyrack migrate` again \(docs/upgrading\.md\)\.",
                    str(refused.value),
                ), refused.value
                assert await worker.fetchval("select version_num from alembic_version") == "0004"
            finally:
                await worker.close()

        asyncio.run(beside_a_worker())
        status, output, _ = said(dsn, "customer", "list")
        assert (status, output) == (1, "")
        status, output, _ = said(dsn, "migrate", "--plan")
        assert status == 0
        first, second, *_ = output.splitlines()
        assert first == (
            f"The schema is at revision 0004. `keyrack migrate` upgrades it to {HEAD}. Stop every process of Keyrack "
            "first: see docs/upgrading.md."
        )
        assert second.startswith("0005  One order of work per customer: ")
        assert "      breaks: drop table operation_lane: removes an object that a running release may use" in output
        monkeypatch.undo()
        assert asyncio.run(schema_version.migrate(dsn)) == HEAD


def test_check_and_plan_change_nothing(database_server: str) -> None:
    with fresh_database(database_server) as dsn:
        assert said(dsn, "migrate", "--check") == (
            3, f"The database is empty. `keyrack migrate` upgrades it to revision {HEAD}.\n", "",
        )  # fmt: skip
        status, output, _ = said(dsn, "migrate", "--plan")
        assert status == 0
        assert re.findall(r"^(\d{4}[a-z]?) +\S", output, re.MULTILINE) == revisions()
        assert said(dsn, "customer", "list") == (
            1, "", f"keyrack: The database is still empty; this Keyrack, {__version__}, works with revision {HEAD}. "
            "Run `keyrack migrate`.\n",
        )  # fmt: skip
        sql = Sql(dsn)
        assert sql.value("select count(*) from pg_class where relnamespace = 'public'::regnamespace") == 0
        sql.close()


def test_check_creates_no_embedded_database(tmp_path: Path) -> None:
    status, output, errors = said("", "migrate", "--check", "--state", str(tmp_path / "state"))
    assert (status, output) == (
        3, f"The database is empty. `keyrack migrate` upgrades it to revision {HEAD}.\n",
    ), errors  # fmt: skip
    assert not (tmp_path / "state").exists()


def test_the_commands_of_docs_upgrading_succeed(dsn: str) -> None:
    """Each succeeds on a current schema."""
    page = (releases.ROOT / "docs/upgrading.md").read_text()
    block = re.search(r"<!-- looking:.*?```sh\n(.*?)```", page, re.DOTALL)
    assert block
    lines = [line.partition("#")[0].split() for line in block[1].splitlines()]
    assert len(lines) == 4
    for program, *words in lines:
        assert program == "keyrack"
        status, output, errors = said(dsn, *words)
        assert status == 0, errors
        assert output.startswith(f"The schema is at revision {HEAD}")


def test_sql_needs_plan() -> None:
    status, output, errors = said("", "migrate", "--sql")
    assert (status, output) == (2, "") and "needs --plan" in errors
