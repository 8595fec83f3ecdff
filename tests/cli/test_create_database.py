"""Only explicit commands create an embedded database: a lost `KEYRACK_DATABASE_URL` must not look like an empty one."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from typer.testing import CliRunner

from keyrack.cli.main import application
from tests.cli.test_startup_errors import line, refused
from tests.support.servers import Process, reachable_directory
from tests.support.terminal import typed

pytestmark = pytest.mark.cluster

# The environment of all tests has the master key of external databases
ALONE = {"KEYRACK_MASTER_KEY": ""}
ADDRESS = "postgresql://keyrack@10.0.0.11/keyrack"


def refused_here(state: Path, command: str, **env: str) -> str:
    """The error of a command in this process that creates nothing."""
    words = command.split()
    variables = {**ALONE, "KEYRACK_STATE": str(state), **env}
    result = CliRunner(env=variables).invoke(application(words[0]), words)
    assert not state.exists()
    return line(result.exit_code, result.stdout, result.stderr)


@pytest.mark.parametrize(
    ("variables", "sign"),
    [
        (
            {"KEYRACK_MASTER_KEY_FILE": "/run/secrets/master-key"},
            "KEYRACK_MASTER_KEY_FILE is set, which belongs to an external database",
        ),
        ({"KEYRACK_MASTER_KEY": "b" * 43 + "="}, "KEYRACK_MASTER_KEY is set, which belongs to an external database"),
        (
            {"KEYRACK_DATABASE_DIRECT_URL": ADDRESS},
            "KEYRACK_DATABASE_DIRECT_URL is set, which belongs to an external database",
        ),
        (
            {"KEYRACK_READ_DATABASE_URL": ADDRESS},
            "KEYRACK_READ_DATABASE_URL is set, which belongs to an external database",
        ),
        ({"KEYRACK_STATEMENT_CACHE": "0"}, "KEYRACK_STATEMENT_CACHE is set, which belongs to an external database"),
        ({"KEYRACK_DATABASE_HA": "true"}, "KEYRACK_DATABASE_HA is set, which belongs to an external database"),
        ({"KEYRACK_DATABASE_URL": ""}, "KEYRACK_DATABASE_URL is empty"),
        ({"KEYRACK_DATABASE_URL_FILE": ""}, "KEYRACK_DATABASE_URL_FILE is empty"),
        (
            {"KEYRACK_DATABSE_URL": ADDRESS},
            "KEYRACK_DATABSE_URL is set, which is not a setting (KEYRACK_DATABASE_URL is)",
        ),
        ({"NOTIFY_SOCKET": "/run/systemd/notify"}, "systemd started this process"),
    ],
    ids=lambda value: "" if isinstance(value, str) else next(iter(value)),
)
def test_what_speaks_of_a_database_elsewhere(tmp_path: Path, variables: dict[str, str], sign: str) -> None:
    state = tmp_path / "state"
    for command in ("serve --port 0", "migrate"):
        assert refused_here(state, command, **variables) == (
            f"There is no database in {state}, but {sign}. Is KEYRACK_DATABASE_URL missing? To create an embedded "
            f"database, run `keyrack {command.split()[0]} --state {state}`."
        )


def test_a_setting_of_the_configuration_file_speaks_as_well(tmp_path: Path) -> None:
    file = tmp_path / "keyrack.toml"
    file.write_text('statement_cache = 0\npublic_url = "https://keyrack.example.com"\n')
    said = refused_here(tmp_path / "state", "migrate", KEYRACK_CONFIG=str(file))
    assert f"{file}:1, statement_cache is set, which belongs to an external database" in said


def test_without_a_terminal_a_server_makes_none(tmp_path: Path) -> None:
    """All settings were lost, so no sign of an external database is left."""
    said = refused("serve --port 0", **ALONE, KEYRACK_STATE=str(tmp_path / "state"))
    assert said == (
        f"There is no database in {tmp_path}/state, and without a terminal `keyrack serve` creates none. Set "
        f"KEYRACK_DATABASE_URL, or create an embedded database with `keyrack serve --state {tmp_path}/state`."
    )
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize("command", ["work", "ingest-mqtt", "database run pg_dump"])
def test_what_has_nothing_to_do_in_an_empty_database_makes_none(tmp_path: Path, command: str) -> None:
    assert refused_here(tmp_path / "state", command).startswith(f"There is no database in {tmp_path}/state. ")


def test_a_first_try_at_a_terminal_just_works() -> None:
    """Later commands use the existing database, with or without a terminal."""
    with reachable_directory() as base:
        env = {**ALONE, "KEYRACK_STATE": str(base / "state")}
        told = typed(env, "serve", "--port", "0", until="Keyrack serves http://127.0.0.1:")
        assert '"event": "creating new embedded database"' in told and f'"state": "{base}/state"' in told
        again = Process("serve", "--port", "0", "--json", env=env)
        assert again.popen.stdout is not None
        assert json.loads(again.popen.stdout.readline())["url"].endswith("/v3")
        assert again.stop(signal.SIGTERM) == 0
        assert again.popen.stderr is not None and "new embedded database" not in again.popen.stderr.read()
        env |= {"KEYRACK_STATE": str(base / "scripted")}
        result = CliRunner(env=env).invoke(application("migrate"), ["migrate"])
        assert result.exit_code == 0, result.stderr
        assert (base / "scripted/pgdata/PG_VERSION").exists()
