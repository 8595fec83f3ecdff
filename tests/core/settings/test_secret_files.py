"""Secret files: read at startup, never shown, with clear errors."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from keyrack.cli.main import application
from keyrack.core.settings import Settings, is_secret, variable
from tests.cli.test_startup_errors import ADDRESS, refused_here
from tests.server.test_supervisor import children
from tests.support.servers import Process, eventually

pytestmark = pytest.mark.cluster

SECRETS = [name for name, field in Settings.model_fields.items() if is_secret(field)]


def test_which_settings_are_secret() -> None:
    """Each setting that may contain a password can be in a file.

    The master key is not among them, because its file has rules of its own.
    """
    assert set(SECRETS) == {"cells", "database_url", "mail_password", "mqtt_url", "read_database_url"}


def test_a_command_uses_the_file(dsn: str, tmp_path: Path) -> None:
    (tmp_path / "address").write_text(f"\n {dsn}\n\n")
    env = {"KEYRACK_DATABASE_URL": "", "KEYRACK_DATABASE_URL_FILE": str(tmp_path / "address")}
    result = CliRunner(env=env).invoke(application("customer"), ["customer", "list", "--json"])
    assert (result.exit_code, type(json.loads(result.stdout))) == (0, list), result.output


def test_no_process_of_a_server_has_it_in_its_environment(dsn: str, tmp_path: Path) -> None:
    (tmp_path / "address").write_text(dsn)
    key = os.environ["KEYRACK_MASTER_KEY"]
    (tmp_path / "key").write_text(key)
    env = {
        "KEYRACK_DATABASE_URL": "", "KEYRACK_DATABASE_URL_FILE": str(tmp_path / "address"),
        "KEYRACK_MASTER_KEY": "", "KEYRACK_MASTER_KEY_FILE": str(tmp_path / "key"),
    }  # fmt: skip
    process = Process("serve", "--processes", "1", "--no-worker", "--port", "0", "--json", env=env)
    two = Process("serve", "--processes", "2", "--port", "0", "--json", env=env)
    try:
        for each in (process, two):
            assert each.popen.stdout is not None
            assert "url" in json.loads(each.popen.stdout.readline())
        family = eventually(lambda: len(found := children(two.popen.pid)) == 3 and found, "the children")
        for pid in (process.popen.pid, two.popen.pid, *family):
            environment = Path(f"/proc/{pid}/environ").read_bytes()
            assert dsn.encode() not in environment and key.encode() not in environment
            assert b"KEYRACK_DATABASE_URL_FILE=" in environment
    finally:
        process.stop()
        two.stop()


@pytest.mark.parametrize("name", SECRETS)
def test_a_file_that_cannot_be_had(name: str, tmp_path: Path) -> None:
    by_file = variable(name, by_file=True)
    file = tmp_path / "secret"
    env = {variable(name): "", by_file: str(file)}
    assert refused_here("customer list", **env) == f"{by_file}: {file} cannot be read: No such file or directory."
    assert refused_here("customer list", **env | {by_file: str(tmp_path)}) == (
        f"{by_file}: {tmp_path} cannot be read: Is a directory."
    )
    for content, why in (
        (b" \n", "is empty"),
        (b"x" * 65_537, "is larger than 64 KiB"),
        (b"\xff\xfe", "is not a text in UTF-8"),
    ):
        file.write_bytes(content)
        assert refused_here("customer list", **env) == f"{by_file}: {file} {why}."
    file.write_text("anything")
    assert refused_here("customer list", **env | {variable(name): "given"}) == (
        f"{variable(name)} and {by_file} are both set. Remove one of the two."
    )


def test_an_invalid_content_is_reported_with_the_file_and_without_the_secret(tmp_path: Path) -> None:
    (tmp_path / "address").write_text("postgresql://u:s3cret@h:port/d")
    env = {"KEYRACK_DATABASE_URL": "", "KEYRACK_DATABASE_URL_FILE": str(tmp_path / "address")}
    assert refused_here("customer list", **env) == f"A setting is not valid. KEYRACK_DATABASE_URL_FILE: {ADDRESS}"


def test_a_master_key_in_two_places() -> None:
    env = {"KEYRACK_MASTER_KEY": base64.b64encode(bytes(32)).decode(), "KEYRACK_MASTER_KEY_FILE": "/nowhere"}
    assert refused_here("customer list", **env) == (
        "A setting is not valid. KEYRACK_MASTER_KEY_FILE: KEYRACK_MASTER_KEY is set, too. Remove one of the two."
    )


def test_an_explicit_state_directory_needs_no_secret_file(tmp_path: Path) -> None:
    """Its database is the embedded one, whatever other address is set."""
    said = refused_here("customer list --state /sys/kernel", KEYRACK_DATABASE_URL_FILE=str(tmp_path / "missing"))
    assert said.startswith("There is no database in /sys/kernel. ")
