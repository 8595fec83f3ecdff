"""The commands of docs/backups.md do what the page says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ops.backups.instance import House, written
from tests.support.servers import SCRIPT_DEADLINE

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs/backups.md"
KEYRACK = f'keyrack() {{ "{sys.executable}" -m keyrack "$@"; }}\n'
WHEN = "2026-11-22T09:59:59Z"


def block(name: str) -> str:
    """The lines behind this mark."""
    found = re.search(rf"<!-- {name}: .*?-->\n```sh\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found, name
    return found[1]


def shell(script: str, house: House) -> str:
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", KEYRACK + script],
        env=os.environ | house.env,
        capture_output=True,
        text=True,
        timeout=SCRIPT_DEADLINE,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_lines_of_the_page(house: House) -> None:
    """They are given one after another, and what they say is as it is shown."""
    with house.running():
        said = shell(block("backups"), house)
        assert "STEP                 SECONDS\nplan " in said
        moment = house.now()
        house.json("customer", "add", "A Mistake")
        house.json("backup", "verify")
    script = block("restore")
    assert WHEN in script
    shell(script.replace(WHEN, written(moment)), house)
    assert [row["name"] for row in house.json("customer", "list")] == ["Example Fleet"]
    assert [backup["timeline"] for backup in house.json("backup", "list")["backups"]] == [1, 1, 2]
