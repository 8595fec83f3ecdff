"""Links that commands print start with the address of the running server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.cli.test_operator_commands import Operator
from tests.support.servers import Process, migrated_database, reachable_directory

pytestmark = pytest.mark.cluster

ADDED = (
    ("customer", "add", "Fleet"),
    ("manager", "add", "kim@example.com", "--customer", "Fleet", "--role", "viewer"),
)
# Commands that print an address of the server
LINKS = {
    "invite": ("manager", "invite", "lee@example.com", "--customer", "Fleet", "--role", "viewer"),
    "reset-password": ("manager", "reset-password", "kim@example.com"),
    "provider": ("provider", "add", "one", "--issuer", "https://id.example.com", "--client-id", "x",
                 "--client-secret", "-"),
}  # fmt: skip


def keyrack(*words: str, **env: str) -> str:
    """The output of a command."""
    ran = subprocess.run(
        [sys.executable, "-m", "keyrack", *words],
        env=os.environ | env, capture_output=True, text=True, input="a secret\n", check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.fixture(scope="module")
def running() -> Iterator[tuple[str, dict[str, str]]]:
    """The address of a server on an embedded database, and variables for commands."""
    with reachable_directory() as directory:
        state = str(directory / "state")
        env = {"KEYRACK_STATE": state, "KEYRACK_DATABASE_URL": "", "KEYRACK_MASTER_KEY": "", "KEYRACK_PUBLIC_URL": ""}
        process = Process("serve", "--port", "0", "--state", state, "--json", env=env)
        try:
            assert process.popen.stdout is not None
            said = json.loads(process.popen.stdout.readline())
            for words in ADDED:
                keyrack(*words, **env)
            yield said["address"], env
        finally:
            process.stop()


@pytest.mark.parametrize("name", LINKS)
def test_the_link_begins_with_the_address_of_the_server(name: str, running: tuple[str, dict[str, str]]) -> None:
    address, env = running
    printed = keyrack(*LINKS[name], **env)
    assert f"http://{address}/" in printed
    assert "KEYRACK_PUBLIC_URL" not in printed


def test_a_public_address_that_is_set_goes_before(running: tuple[str, dict[str, str]]) -> None:
    _, env = running
    printed = keyrack(*LINKS["reset-password"], **env | {"KEYRACK_PUBLIC_URL": "https://keys.example.com"})
    assert "https://keys.example.com/console" in printed


@pytest.fixture(scope="module")
def elsewhere(database_server: str) -> Iterator[Operator]:
    with migrated_database(database_server) as dsn:
        operator = Operator(dsn)
        for words in ADDED:
            operator.value(*words)
        yield operator


@pytest.mark.parametrize("name", LINKS)
def test_a_link_with_the_default_address_says_so(name: str, elsewhere: Operator) -> None:
    """With an external database, no server has written its address."""
    status, printed, _ = elsewhere.quick(*LINKS[name], env={"KEYRACK_PUBLIC_URL": ""}, stdin="a secret\n")
    assert status == 0
    assert "KEYRACK_PUBLIC_URL is not set, so the link starts with http://127.0.0.1:8080." in printed
    status, printed, _ = elsewhere.quick(
        "manager", "reset-password", "kim@example.com", env={"KEYRACK_PUBLIC_URL": "https://keys.example.com"}
    )
    assert "https://keys.example.com/console" in printed and "KEYRACK_PUBLIC_URL" not in printed
