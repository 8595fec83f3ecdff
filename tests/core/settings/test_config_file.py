"""The configuration file, and `keyrack settings`: values, origins, masked secrets."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from keyrack.cli.main import application
from keyrack.core.settings import Settings, sections
from tests.cli.test_startup_errors import refused_here
from tests.support.servers import Process

pytestmark = pytest.mark.cluster

PAGE = Path(__file__).parents[3] / "docs/configure.md"
BARE = dict.fromkeys((name for name in os.environ if name.startswith("KEYRACK_")), "")  # as if no variable were set


def told(*options: str, **env: str) -> Any:
    result = CliRunner(env=BARE | env).invoke(application("settings"), ["settings", "--json", *options])
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def written(path: Path, text: str, mode: int = 0o600) -> str:
    path.write_text(text)
    path.chmod(mode)
    return str(path)


def refused(path: Path, text: str, mode: int = 0o600) -> str:
    """The error of a command with this file."""
    env = BARE | {"KEYRACK_CONFIG": written(path, text, mode)}
    (why,) = {refused_here(command, **env) for command in ("settings", "customer list", "migrate --check")}
    assert "s3cret" not in why
    return why.removeprefix(str(path))


def test_each_setting_has_its_value_and_its_origin() -> None:
    rows = {row["name"]: row for row in told()}
    assert list(rows) == list(Settings.model_fields)
    assert {row["from"] for row in rows.values()} == {"default"}
    assert (rows["pool_size"]["value"], rows["pool_size"]["section"]) == (10, "storage")
    assert told("--changed") == []
    (row,) = told("--changed", KEYRACK_POOL_SIZE="7")
    assert (row["value"], row["from"], row["where"]) == (7, "environment", "KEYRACK_POOL_SIZE")


def test_one_setting_and_an_unknown_setting() -> None:
    assert told("KEYRACK_POOL_SIZE") == told("pool_size") | {}
    result = CliRunner(env=BARE).invoke(application("settings"), ["settings", "pool_size"])
    assert result.stdout.startswith("KEYRACK_POOL_SIZE = 10\nFrom      default\nDefault   10\nSection   [storage]\n\n")
    assert refused_here("settings pool_sise", **BARE) == "There is no setting pool_sise. Did you mean pool_size?"


def test_secrets_are_masked_wherever_they_come_from(tmp_path: Path) -> None:
    secret = "postgresql://keyrack:s3cret@db1,db2/keyrack?sslmode=require"
    file = written(tmp_path / "address", secret)
    config = written(
        tmp_path / "config",
        f'database_direct_url = "{secret}"\nmaster_key = "czNjcmV0czNjcmV0czNjcmV0czNjcmV0czNjcmV0czM="\n',
    )
    rows = {
        row["name"]: row
        for row in told(
            "--changed", KEYRACK_DATABASE_URL_FILE=file, KEYRACK_CONFIG=config, KEYRACK_MQTT_URL="mqtts://u:s3cret@b:1"
        )
    }
    assert "s3cret" not in json.dumps(rows) and "czNjcmV0" not in json.dumps(rows)
    assert rows["database_url"]["value"] == "postgresql://keyrack:***@db1,db2/keyrack?sslmode=require"
    assert (rows["database_url"]["from"], rows["database_url"]["where"]) == (
        "file", f"{file}, by KEYRACK_DATABASE_URL_FILE",
    )  # fmt: skip
    assert (rows["master_key"]["value"], rows["master_key"]["where"]) == ("***", f"{config}:2")
    assert rows["mqtt_url"]["value"] == "mqtts://u:***@b:1"


def test_the_file_of_the_page(tmp_path: Path) -> None:
    found = re.search(r"<!-- configuration: .*?-->\n```toml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found
    address = written(tmp_path / "address", "postgresql://keyrack@db/keyrack\n")
    text = found[1].replace("/etc/keyrack/database-url", address)
    config = written(tmp_path / "keyrack.toml", text, 0o644)
    rows = {row["name"]: row for row in told("--changed", KEYRACK_CONFIG=config)}
    assert {name: row["value"] for name, row in rows.items()} == {
        "log_level": "warning", "public_url": "https://keyrack.example.com", "trusted_proxies": "10.0.0.0/24",
        "database_url": "postgresql://keyrack@db/keyrack", "pool_size": 20,
        "access_log": True, "config": config,
    }  # fmt: skip
    lines = text.splitlines()
    for name in ("log_level", "public_url", "pool_size", "access_log"):
        path, _, line = rows[name]["where"].rpartition(":")
        assert path == config and lines[int(line) - 1].startswith(f"{name} = ")
    assert rows["database_url"]["where"].startswith(f"{address}, by {config}:")


def test_other_origins_override_the_file(tmp_path: Path) -> None:
    config = written(tmp_path / "c", 'pool_size = 7\nbrand = ""\nmaster_key_file = "/nowhere"\n')
    rows = {row["name"]: row for row in told(KEYRACK_CONFIG=config, KEYRACK_POOL_SIZE="9", KEYRACK_MASTER_KEY="x")}
    assert (rows["pool_size"]["value"], rows["pool_size"]["from"]) == (9, "environment")
    assert (rows["brand"]["value"], rows["brand"]["from"]) == ("vendor", "default")
    assert (rows["master_key_file"]["value"], rows["master_key_file"]["from"]) == (None, "default")
    address = written(tmp_path / "a", "postgresql://h/from-file")
    config = written(tmp_path / "c", 'database_url = "postgresql://h/from-config"')
    env = {"KEYRACK_CONFIG": config, "KEYRACK_DATABASE_URL_FILE": address}
    assert told("database_url", **env)["value"] == "postgresql://h/from-file"


def test_a_choice_of_numbers_is_read_from_both_places(tmp_path: Path) -> None:
    config = written(tmp_path / "c", "changelog_retention_days = 800\n")
    assert told("changelog_retention_days", KEYRACK_CONFIG=config)["value"] == 800
    env = {"KEYRACK_CONFIG": config, "KEYRACK_CHANGELOG_RETENTION_DAYS": "100"}
    assert told("changelog_retention_days", **env)["value"] == 100
    assert refused_here("settings", **BARE, KEYRACK_CHANGELOG_RETENTION_DAYS="101") == (
        "A setting is not valid. KEYRACK_CHANGELOG_RETENTION_DAYS: '101' is not one of 100, 400, 800, 3660."
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("pool_sise = 1", ", line 1: there is no setting pool_sise. Did you mean pool_size?"),
        ("\nKEYRACK_POOL_SIZE = 1", ", line 2: there is no setting KEYRACK_POOL_SIZE. Did you mean pool_size?"),
        ("[storage]\nwebhook_network = '0.0.0.0/0'",
         ", line 2: there is no setting webhook_network. Did you mean webhook_allowed_networks?"),
        ("config = 'other'", ", line 1: there is no setting config. See docs/settings.md."),
        ("metrics_file = '/x'", ", line 1: there is no setting metrics_file. Did you mean metrics?"),
        ("[edge]\npool_size = 1", ", line 2: pool_size is in the section [edge]. Move it into the section [storage]."),
        ("[edge]\nlog_level = 'info'",
         ", line 2: log_level is in the section [edge]. Move it above the first section."),
        ("[storrage]\npool_size = 1", ": there is no section [storrage]. Did you mean [storage]?"),
        ("pool_size = 1\n[storage]\npool_size = 2", ", line 1: pool_size appears twice."),
        ("pool_size = [1]", ", line 1: pool_size must be a quoted string, a number, true or false."),
        ("pool_size", " is not valid TOML: Expected '=' after a key in a key/value pair (at end of document)."),
        ("database_url = 'postgresql://h/d'\ndatabase_url_file = '/x'",
         ": database_url and database_url_file are both set. Remove one of the two."),
    ],
)  # fmt: skip
def test_a_misspelt_name_is_refused(tmp_path: Path, text: str, why: str) -> None:
    assert refused(tmp_path / "c", text) == why


def test_an_invalid_value_is_reported_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "c"
    assert refused(path, "\npool_size = 'many'").startswith(
        f"A setting is not valid. {path}:2, pool_size: 'many' is not a whole number from 1 to 500"
    )
    assert refused(path, "database_url = 'postgresql://u:s3cret@h:port/d'").startswith(
        f"A setting is not valid. {path}:1, database_url: the value is not an address of the form postgresql://"
    )
    assert refused(path, "database_url_file = '/nowhere/s'") == (
        ": database_url_file: /nowhere/s cannot be read: No such file or directory."
    )


def test_a_world_readable_secret_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "c"
    for text, name in (
        ("database_url = 'postgresql://u:s3cret@h/d'", "database_url"),
        ("master_key = 's3cret'", "master_key"),
        ("mqtt_url = 'mqtt://u:s3cret@h'", "mqtt_url"),
    ):
        assert refused(path, text, 0o644) == (
            f", line 1: {name} is secret, and every user of this machine can read the file. Run `chmod o= {path}`, "
            "or move the secret to a file of its own."
        )
    written(path, "database_url = 'postgresql://h/d'", 0o644)
    assert told("database_url", KEYRACK_CONFIG=str(path))["value"] == "postgresql://h/d"


def test_a_file_that_cannot_be_had(tmp_path: Path) -> None:
    for path, why in ((tmp_path / "none", "No such file or directory"), (tmp_path, "Is a directory")):
        assert refused_here("settings", **BARE | {"KEYRACK_CONFIG": str(path)}) == (
            f"The configuration file {path} cannot be read: {why}."
        )


def test_every_setting_has_a_section_or_none() -> None:
    found = sections(Settings)
    assert {name for name, section in found.items() if not section} == {"log_level", "config", "cells"}
    assert {"storage", "edge", "work", "units", "monitoring"} <= set(found.values())


def test_a_command_takes_the_file_as_an_option(dsn: str, tmp_path: Path) -> None:
    """The option comes before the command's name. Child processes use the file as well."""
    config = written(tmp_path / "keyrack.toml", f'database_url = "{dsn}"\n')
    process = Process(
        "--config", config, "serve", "--processes", "2", "--port", "0", "--json", env={"KEYRACK_DATABASE_URL": ""}
    )
    try:
        assert process.popen.stdout is not None
        assert "url" in json.loads(process.popen.stdout.readline())
    finally:
        assert process.stop() == 0
