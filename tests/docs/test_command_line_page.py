"""docs/command-line.md: its blocks run unchanged in one shell."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.people import Person
from tests.support.servers import SCRIPT_DEADLINE, RunningServer

pytestmark = pytest.mark.cluster

PAGE = Path(__file__).parents[2] / "docs" / "command-line.md"
LOADED = re.compile(r"^\. ~/\S+/demo\.env.*$", re.MULTILINE)  # lines that the test replaces by the shell's environment


def test_every_block_of_the_page_works(alice: Person, server: RunningServer, dsn: str, tmp_path: Path) -> None:
    page = PAGE.read_text()
    assert "<!-- page:" in page
    script, loaded = LOADED.subn("", "\n".join(re.findall(r"```sh\n(.*?)```", page, re.DOTALL)))
    assert loaded == 1
    env = os.environ | {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "XDG_CONFIG_HOME": str(tmp_path),
        "KEYRACK_DATABASE_URL": dsn,
        "KEYRACK_URL": f"{server.url}/v3",
        "KEYRACK_API_KEY": alice.api_key,
        "KEYRACK_USERNAME": alice.username,
        "KEYRACK_PASSWORD": alice.password,
        "KEYRACK_CUSTOMER_ID": str(alice.customer),
    }
    alice.user()
    ran = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script], capture_output=True, text=True, env=env, timeout=SCRIPT_DEADLINE
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    for told in ("Customers and people:", "it is paired with product", "This would remove customer", '"vin":"VIN8"'):
        assert told in ran.stdout, told
    assert f"{alice.username} is logged in at {server.url}/v3" in ran.stdout
    assert "Logged out: default." in ran.stdout
