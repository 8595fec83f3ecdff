"""The failover drill at its shortest: the primary is killed under load, and the answers are checked."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from drills.__main__ import MISSING

from tests.support.servers import reachable_directory

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).parents[3]
PATIENCE = 500  # seconds for pip, a cluster and the drill
NONE = (
    "cars lost", "cars created twice", "of these lost", "samples lost", "operations lost", "operations applied twice",
    "outcomes lost", "outcomes duplicated", "outcomes of unknown operations", "assignments with outcomes out of order",
    "feed numbers missing", "revoked keys accepted", "restarts of Keyrack processes",
)  # fmt: skip


def test_nothing_is_lost_when_the_primary_is_killed() -> None:
    """`make test-failover` runs all failures, each of them twice."""
    command = [sys.executable, "-m", "drills", "failover", "--rounds", "1", "--quiet", "1", "--speed", "0.3"]
    with reachable_directory() as state:
        done = subprocess.run(
            [*command, "--only", "supervised"], cwd=ROOT, env=os.environ | {"KEYRACK_CLUSTER": str(state / "cluster")},
            capture_output=True, text=True, timeout=PATIENCE, check=False,
        )  # fmt: skip
    if done.returncode == MISSING:
        pytest.skip(f"Patroni and etcd cannot be had here: {done.stderr[-500:]}")
    assert done.returncode == 0, done.stdout + done.stderr
    told = {what: int(number) for number, what in re.findall(r"^ *(\d+)  (.+)$", done.stdout, re.MULTILINE)}
    assert {what: told[what] for what in NONE} == dict.fromkeys(NONE, 0)
    assert told["cars acknowledged"] and told["outcomes received"] and told["requests with these keys rejected"]
