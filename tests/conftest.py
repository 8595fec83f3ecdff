"""Shared fixtures: one embedded PostgreSQL, a real server, and people who call it."""

from __future__ import annotations

import base64
import gc
import importlib
import os
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import structlog

from keyrack.auth import password_hashing
from keyrack.core import log_config
from keyrack.core.settings import CellSettings, Settings
from keyrack.db.embedded.server import EmbeddedServer
from tests.support.browser import close_browser
from tests.support.cells import second_cell
from tests.support.people import CHEAP_COST, Person, Town
from tests.support.servers import (
    RunningServer,
    Sql,
    drop_template,
    migrated_database,
    patient_settings,
    reachable_directory,
)

# The master key of every database of the tests
os.environ.setdefault("KEYRACK_MASTER_KEY", base64.b64encode(b"the master key of all the tests!").decode())


def key_of_checkpoints() -> Path:
    """The key that signs checkpoints, in a file shared by all processes."""
    file = Path(tempfile.gettempdir()) / f"keyrack-tests-{os.getuid()}" / "checkpoint.key"
    file.parent.mkdir(mode=0o700, exist_ok=True)
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as opened:
        opened.write(base64.b64encode(b"the checkpoint key of all tests!"))
    return file


os.environ.setdefault("KEYRACK_CHECKPOINT_KEY_FILE", str(key_of_checkpoints()))

# Logs of servers in this process must not appear in the output of commands
structlog.configure(logger_factory=structlog.PrintLoggerFactory(file=sys.__stderr__))


# Examples have no deadline, because the machine runs other tests
hypothesis.settings.register_profile(
    "busy machine",
    parent=hypothesis.settings.default,
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("busy machine")

# The slowest files of both tiers, slowest first. They start first, so that they run beside others
FIRST = (
    "tests/simulator/offline/test_scenario.py", "tests/db/replication/test_failover_drill.py",
    "tests/ops/backups/test_restore.py", "tests/db/embedded/test_postgres.py", "tests/ops/backups/test_pgbackrest.py",
    "tests/server/test_systemd.py", "tests/docs/test_tutorials.py", "tests/docs/test_command_line_page.py",
    "tests/server/test_supervisor.py", "tests/db/encryption/test_encryption_at_rest.py",
    "tests/cli/test_startup_errors.py", "tests/db/embedded/test_major_versions.py",
    "tests/packaging/test_artifacts.py", "tests/docs/test_moving_page.py", "tests/assignments/test_faults.py",
    "tests/upgrades/test_migration_runner.py", "tests/docs/test_walkthroughs.py", "tests/ops/backups/test_docs.py",
    "tests/db/replication/test_failover.py", "tests/assignments/test_histories.py",
    "tests/http/openapi/test_openapi.py", "tests/console/test_shown_text.py",
    # Files of `make test`
    "tests/console/test_every_page.py", "tests/cli/test_operator_commands.py",
    "tests/changelog/transparency/test_checkpoints.py", "tests/console/test_roles.py",
    "tests/console/test_gallery.py", "tests/console/test_overview.py", "tests/console/test_lists.py",
    "tests/ops/monitoring/test_status.py", "tests/console/test_assignment_forms.py",
    "tests/webhooks/test_delivery.py", "tests/auth/sso/test_provider_commands.py", "tests/console/test_map_tiles.py",
    "tests/ops/doctor/test_doctor.py", "tests/console/test_webhooks.py", "tests/console/test_car.py",
    "tests/console/test_users.py", "tests/console/test_tour.py", "tests/console/test_page_stability.py",
    "tests/console/test_passkeys.py", "tests/console/test_groups.py", "tests/cli/commands/test_manager_invitations.py",
    "tests/console/test_help.py", "tests/ops/test_housekeeping.py", "tests/core/test_error_codes.py",
    "tests/http/test_slow_clients.py", "tests/assignments/test_overlaps.py", "tests/api/odata/test_random_applies.py",
    "tests/auth/sso/test_in_browser.py",
)  # fmt: skip


# The mark of a whole file of `make test-cluster`, alone or first in a list
CLUSTER_FILE = re.compile(r"^pytestmark = (?:\[[^\]]*?)?pytest\.mark\.cluster\b", re.MULTILINE)


def takes_no_test_of(file: Path, config: pytest.Config) -> bool:
    """Whether the run deselects every test of the file."""
    return config.option.markexpr == "not cluster" and CLUSTER_FILE.search(file.read_text()) is not None


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out the files of `make test-cluster` in a run without them."""
    is_test = collection_path.name.startswith("test_") and collection_path.suffix == ".py"
    return (is_test and takes_no_test_of(collection_path, config)) or None


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int | None:
    """Three workers for two cores, unless xdist's variable is set. Workers wait a quarter of the time."""
    if os.environ.get("PYTEST_XDIST_AUTO_NUM_WORKERS"):
        return None
    cores = len(os.sched_getaffinity(0))
    return cores + cores // 2


def pytest_sessionstart(session: pytest.Session) -> None:
    """Import this worker's share of the files before all workers collect all files.

    pytest rewrites the assertions of a module when it first imports it, which takes half of the collection. All workers
    collect in the same order, so that each would rewrite every module of a clean checkout.
    """
    worker: dict[str, Any] | None = getattr(session.config, "workerinput", None)
    if worker is None:
        return
    gc.disable()  # until the end of the collection, which produces no garbage
    named = [session.config.invocation_params.dir / argument.partition("::")[0] for argument in session.config.args]
    files = sorted({file for path in named for file in (path.rglob("test_*.py") if path.is_dir() else [path])})
    files = [file for file in files if not takes_no_test_of(file, session.config)]
    for file in files[int(worker["workerid"].removeprefix("gw")) :: worker["workercount"]]:
        module = ".".join(file.relative_to(session.config.rootpath).with_suffix("").parts)
        with suppress(Exception, pytest.skip.Exception):  # the collection reports the error
            importlib.import_module(module)


def pytest_collection_finish() -> None:
    """Exempt collected objects from garbage collection. They stay, and each full collection would traverse them."""
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the files of `FIRST` first, then those with the most tests."""
    files = [item.nodeid.partition("::")[0] for item in items]
    count = Counter(files)
    place = {name: (FIRST.index(name) if name in FIRST else len(FIRST), -count[name]) for name in count}
    items.sort(key=lambda item: place[item.nodeid.partition("::")[0]])


@pytest.fixture(scope="session", autouse=True)
def own_log() -> Iterator[None]:
    """Keep commands in this process from configuring the log of all later tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_config, "configure", lambda level: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def cheap_passwords() -> Iterator[None]:
    """Hash passwords cheaply in this process. Processes of their own hash as in production."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(password_hashing, "COST", CHEAP_COST)
        yield


@pytest.fixture(scope="session", autouse=True)
def shared_browser() -> Iterator[None]:
    """Close the shared browser at the end."""
    yield
    close_browser()


@pytest.fixture(scope="session")
def database_server() -> Iterator[str]:
    """The address of a database on the server of the tests."""
    if given := os.environ.get("KEYRACK_TEST_DATABASE_URL"):
        yield given
        drop_template(given)
        return
    bin_dir = os.environ.get("KEYRACK_POSTGRES_BIN")
    with reachable_directory() as state:
        options = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
        options["max_prepared_transactions"] = "4"
        with EmbeddedServer(state, bin_dir=Path(bin_dir) if bin_dir else None, options=options) as server:
            yield server.dsn


@pytest.fixture(scope="session")
def dsn(database_server: str) -> Iterator[str]:
    """A database with the current schema, shared by the tests of a process. Each test makes its own customers."""
    with migrated_database(database_server) as address:
        yield address


@pytest.fixture(scope="session")
def own(database_server: str) -> Iterator[str]:
    """A database that no other worker uses."""
    with migrated_database(database_server) as dsn:
        yield dsn


@pytest.fixture(scope="session")
def sql(dsn: str) -> Iterator[Sql]:
    statements = Sql(dsn)
    yield statements
    statements.close()


@pytest.fixture(scope="session")
def further_cells(database_server: str) -> Iterator[tuple[CellSettings, ...]]:
    """The further cells of the shared server.

    There is one with KEYRACK_TEST_CELLS=1 (`make test-cells`), else none.
    """
    if os.environ.get("KEYRACK_TEST_CELLS") != "1":
        yield ()
        return
    with second_cell(database_server) as cell:
        yield (cell,)


@pytest.fixture(scope="session")
def settings(further_cells: tuple[CellSettings, ...]) -> Settings:
    """Production settings without limits that a suite from one address would reach."""
    return patient_settings(
        login_rate_per_address=100_000,
        login_burst_per_address=10_000,
        user_lookup_burst=1_000_000,
        worker_poll=0.5,
        live_scoped_interval_seconds=0.2,
        webhook_allowed_networks="127.0.0.0/8",  # the network of the tests' receivers
        webhook_retry_first=0.2,
        webhook_retry_max=0.5,
        cells=further_cells,
        cell_miss_rate_per_address=1_000_000,
    )


@pytest.fixture(scope="session")
def server(dsn: str, settings: Settings) -> Iterator[RunningServer]:
    with RunningServer(settings, dsn) as running:
        yield running


@pytest.fixture(scope="session")
def town(sql: Sql, server: RunningServer, further_cells: tuple[CellSettings, ...]) -> Iterator[Town]:
    """People whose customers alternate between the cells."""
    others = [Sql(cell.url) for cell in further_cells]
    yield Town(sql, server, others)
    for other in others:
        other.close()


@pytest.fixture(scope="module")
def alice(town: Town) -> Iterator[Person]:
    """The person whose fleet is tested."""
    person = town.person("alice")
    yield person
    person.client.close()


@pytest.fixture(scope="module")
def bob(town: Town) -> Iterator[Person]:
    """The neighbour, who must see nothing of alice's fleet."""
    person = town.person("bob")
    yield person
    person.client.close()


@pytest.fixture
def carol(town: Town) -> Iterator[Person]:
    """A person without any rows."""
    person = town.person("carol")
    yield person
    person.client.close()
