"""docs/console.md: its commands run as they stand, and what it names there is."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from textwrap import dedent

import pytest

from keyrack.console import PAGES
from tests.docs.code_blocks import ROOT
from tests.docs.page_commands import CUSTOMER
from tests.support.servers import SCRIPT_DEADLINE, migrated_database

pytestmark = pytest.mark.cluster

TEXT = (ROOT / "docs/console.md").read_text()
KEYRACK = f'keyrack() {{ {sys.executable} -m keyrack "$@"; }}\n'


def test_the_commands_do_what_is_said(database_server: str) -> None:
    blocks = re.findall(r"^( *)```sh\n(.*?)^\1```", TEXT, re.DOTALL | re.MULTILINE)
    script = KEYRACK + "".join(dedent(commands) for _, commands in blocks)
    with migrated_database(database_server) as dsn:
        ran = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", KEYRACK + CUSTOMER + script],
            env=os.environ | {"KEYRACK_DATABASE_URL": dsn}, capture_output=True, text=True, timeout=SCRIPT_DEADLINE,
        )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    said = [
        "Manager 1 added: kim.",
        "Password: ",
        "It is shown only once.",
        "Manager 1 is signed out: kim.",
        "1   kim",
    ]
    places = [ran.stdout.find(part) for part in said]
    assert places == sorted(places) and places[0] == 0, ran.stdout


def test_the_pictures_and_the_addresses_are_there() -> None:
    for picture in re.findall(r"!\[.*?\]\((\S+)\)", TEXT):
        assert (ROOT / "docs" / picture).is_file()
    known = {row.path.replace("{customer}", "7") for row in PAGES}
    for address in re.findall(r"/console(/7/[a-z/]+)", TEXT):
        assert address in known
