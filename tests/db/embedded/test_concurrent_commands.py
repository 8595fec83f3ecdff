"""Concurrent commands on one state directory share one server, which ends with the last of them."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.servers import Process, eventually, reachable_directory

pytestmark = pytest.mark.cluster

ROUNDS = int(os.environ.get("KEYRACK_ROUNDS", "1"))
COMMANDS = [("migrate",), ("customer", "list"), ("customer", "add")]


def command(state: Path, *words: str) -> Process:
    return Process(*words, "--json", "--state", str(state), env={"KEYRACK_DATABASE_URL": ""})


def said(process: Process) -> str:
    """The output of a command that must succeed."""
    output, errors = process.popen.communicate(timeout=60)
    assert process.popen.returncode == 0, errors
    return output


def servers(state: Path) -> list[str]:
    """The command lines of the processes on the state directory."""
    found: list[str] = []
    for process in Path("/proc").iterdir():
        try:
            line = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if process.name.isdecimal() and str(state) in line:
            found.append(line)
    return found


def test_commands_share_one_server_in_any_order() -> None:
    """B13: commands and killed servers start and end in any order.

    No command fails, no process stays, and all acknowledged work is done.
    """
    seed = random.randrange(1_000_000)
    print("seed", seed)
    for number in range(ROUNDS):
        with reachable_directory() as base:
            _in_any_order(base / "state", random.Random(seed + number))


def _in_any_order(state: Path, chance: random.Random) -> None:
    names = [f"Fleet {number}" for number in range(3)]
    said(command(state, "migrate"))
    calls = [COMMANDS[number % 2] for number in range(6)] + [("customer", "add", name) for name in names]
    chance.shuffle(calls)
    over = threading.Event()

    def be_killed(after: float) -> None:
        """Run servers that are killed before, while or after they answer."""
        while not over.is_set():
            server = command(state, "serve", "--port", "0")
            time.sleep(after)
            server.stop(signal.SIGKILL)

    with ThreadPoolExecutor(5) as people:
        killed = [people.submit(be_killed, chance.uniform(0.2, 2)) for _ in range(2)]
        try:
            for done in [people.submit(lambda words=words: said(command(state, *words))) for words in calls]:
                done.result()
        finally:
            over.set()
        for one in killed:
            one.result()
    eventually(lambda: not servers(state), "the end of the server")
    assert not (state / "pgdata/postmaster.pid").exists()
    assert {row["name"] for row in json.loads(said(command(state, "customer", "list")))} == set(names)
    assert not servers(state)  # the last command has waited for the server's end
