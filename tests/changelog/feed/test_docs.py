"""The programs of docs/change-feed.md, unchanged."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.changelog.feed.change_rows import epoch, made, told
from tests.docs.code_blocks import block
from tests.support.people import Person
from tests.support.servers import RunningServer, eventually

NODE = 20
PAGE = "docs/change-feed.md"


def started(command: list[str], place: Path, person: Person, server: RunningServer) -> subprocess.Popen[bytes]:
    """Start the program, with its output in a file."""
    env = os.environ | {
        "KEYRACK_URL": f"{server.url}/v3",
        "KEYRACK_API_KEY": person.api_key,
        "KEYRACK_CUSTOMER_ID": str(person.customer),
        "TOKEN": person.token,
    }
    with (place / "printed.txt").open("ab") as printed:
        return subprocess.Popen(command, cwd=place, env=env, stdout=printed, stderr=subprocess.STDOUT)


@contextmanager
def running(command: list[str], place: Path, person: Person, server: RunningServer) -> Iterator[None]:
    process = started(command, place, person, server)
    try:
        yield
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


def goes_on_where_it_was(command: list[str], kept: str, place: Path, person: Person, server: RunningServer) -> None:
    """Run the program several times; `kept` is the file with its cursor."""
    missed = "Read everything anew: the changes before 3 were missed."

    def prints(*lines: str) -> None:
        eventually(lambda: (place / "printed.txt").read_text().splitlines() == list(lines), f"{lines}")

    def keeps(number: int) -> None:
        form = re.compile(rf'(:|"number": ){number}\b')
        eventually(lambda: (place / kept).exists() and form.search((place / kept).read_text()), f"{number} in {kept}")

    def change(number: int) -> str:
        assert made(person) == [number]
        told(person)
        return f"{number} car.updated 1"

    lines = [change(1)]
    with running(command, place, person, server):
        prints(*lines)
        lines.append(change(2))
        prints(*lines)
        keeps(2)
    lines.append(change(3))
    with running(command, place, person, server):
        prints(*lines)
        keeps(3)
    person.sql.execute("update change_log set epoch = gen_random_uuid() where customer_id = $1", person.customer)
    with running(command, place, person, server):
        lines.append(missed)
        prints(*lines)
        lines.append(change(4))
        prints(*lines)
        keeps(4)
    assert epoch(person) in (place / kept).read_text()


def test_the_long_poll_program_of_the_page(carol: Person, server: RunningServer, tmp_path: Path) -> None:
    (tmp_path / "wait.py").write_text(block(PAGE, "wait").text)
    goes_on_where_it_was([sys.executable, "wait.py"], "place.json", tmp_path, carol, server)


def test_the_stream_program_of_the_page(carol: Person, server: RunningServer, tmp_path: Path) -> None:
    if (node := shutil.which("node")) is None:
        pytest.skip("no Node.js is installed (Debian: apt-get install nodejs)")
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
    if int(version.removeprefix("v").partition(".")[0]) < NODE:
        pytest.skip(f"this is Node.js {version.strip()}, and the program wants {NODE} or newer")
    (tmp_path / "listen.mjs").write_text(block(PAGE, "listen").text)
    goes_on_where_it_was([node, "listen.mjs"], "last.txt", tmp_path, carol, server)
