"""The failover drill at its shortest: the primary is killed under load, and the answers are checked."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable
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
OF_CLUSTER = {"of these lost", "restarts of Keyrack processes"}  # counted once


UNNOTICED = ("requests without success", "requests retried with their idempotency key", "commands that failed")


def test_nothing_is_lost_when_the_primary_is_killed() -> None:
    """`make test-failover` runs all failures, each of them twice."""
    _check(_counts(_drill()), NONE)


def test_the_failures_of_one_cell_do_not_reach_another() -> None:
    printed = _drill("--cells")
    main, north = (_counts(printed.partition(f"Cell {cell}:")[2].partition("Cell ")[0]) for cell in ("main", "north"))
    _check(north, NONE)
    _check(main, {*NONE, *UNNOTICED} - OF_CLUSTER)


def _drill(*options: str) -> str:
    """The output of a drill with one failure. Skips the test if the programs cannot be installed."""
    command = [sys.executable, "-m", "drills", "failover", "--rounds", "1", "--quiet", "12", "--speed", "0.5", *options]
    with reachable_directory() as state:
        done = subprocess.run(
            [*command, "--only", "supervised"], cwd=ROOT, env=os.environ | {"KEYRACK_CLUSTER": str(state / "cluster")},
            capture_output=True, text=True, timeout=PATIENCE, check=False,
        )  # fmt: skip
    if done.returncode == MISSING:
        pytest.skip(f"Patroni and etcd cannot be had here: {done.stderr[-500:]}")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _counts(printed: str) -> dict[str, int]:
    return {what: int(number) for number, what in re.findall(r"^ *(\d+)  (.+)$", printed, re.MULTILINE)}


def _check(counts: dict[str, int], none: Iterable[str]) -> None:
    assert {what: counts[what] for what in none} == dict.fromkeys(none, 0)
    assert counts["cars acknowledged"] and counts["outcomes received"] and counts["requests with these keys rejected"]
