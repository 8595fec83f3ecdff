"""docs/tutorials and docs/how-to, run line by line as by a newcomer."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.typescript_client import put_npm
from tests.docs.page_runner import COMMANDS, DEMO_ENV, PROGRAM, ROOT, Page
from tests.docs.walkthrough import number_from_two
from tests.support.servers import Process, free_port, reachable_directory

pytestmark = pytest.mark.cluster

CLIENT = ROOT / "clients/python/src"  # where the tutorial installs it from a server
NODE = 20  # the minimum of the tutorial
TAKEN_AWAY = """
from client import Keyrack
keyrack = Keyrack()
keyrack._token, keyrack._renew_at = "taken.away.meanwhile", float("inf")
assert keyrack.call("GET", "/cars").body
"""
LOCAL = {"KEYRACK_WEBHOOK_ALLOWED_NETWORKS": "127.0.0.0/8"}
# The how-tos need the README's token and its `api`
README_BLOCK = next(block for block, _ in COMMANDS.findall((ROOT / "README.md").read_text()) if "api()" in block)
HOW_TO = (
    "docs/how-to/authenticate.md", "docs/how-to/sdk.md", "docs/how-to/page.md", "docs/how-to/retry.md",
    "docs/how-to/client-packages.md", "docs/how-to/outcomes.md", "docs/how-to/telemetry.md",
    "docs/how-to/troubleshoot.md",
)  # fmt: skip


@pytest.fixture(scope="module")
def demo() -> Iterator[str]:
    """The command that loads the credentials of a demo.

    The demo's webhooks may reach this machine.
    """
    with reachable_directory() as directory:
        number_from_two(directory / "state")
        process = Process("demo", "--port", "0", "--state", str(directory / "state"), "--json", env=LOCAL)
        try:
            assert process.popen.stdout is not None
            assert process.popen.stdout.readline(), process.popen.stderr and process.popen.stderr.read()
            yield f". {directory}/state/demo.env"
        finally:
            process.stop()


def test_the_first_integration_in_python(demo: str, tmp_path: Path) -> None:
    environment = {"PORT": str(free_port()), "PYTHONPATH": str(CLIENT)}
    Page("docs/tutorials/python.md").walk(tmp_path, environment, loads=demo)
    ran = subprocess.run(["bash", "-c", f"{demo} && {sys.executable} -"], input=TAKEN_AWAY, text=True, cwd=tmp_path)
    assert ran.returncode == 0, "the client signs in anew"


def test_the_first_integration_in_javascript(demo: str, tmp_path: Path) -> None:
    if (node := shutil.which("node")) is None:
        pytest.skip("no Node.js is installed (Debian: apt-get install nodejs)")
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
    if int(version.removeprefix("v").partition(".")[0]) < NODE:
        pytest.skip(f"this is Node.js {version.strip()}, and the tutorial wants {NODE} or newer")
    programs = put_npm(tmp_path / "npm")
    path = f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    place = tmp_path / "work"
    place.mkdir()
    Page("docs/tutorials/javascript.md").walk(place, {"PORT": str(free_port()), "PATH": path}, loads=demo)


@pytest.mark.parametrize("name", HOW_TO)
def test_the_commands_of_a_how_to(demo: str, name: str, tmp_path: Path) -> None:
    before = DEMO_ENV.sub(demo, README_BLOCK)
    Page(name).walk(tmp_path, {"PORT": str(free_port()), "PYTHONPATH": str(CLIENT)}, before=before)


def test_opening_a_car_in_the_app_of_drivers(demo: str, tmp_path: Path) -> None:
    """tests/simulator/demo/test_drive.py opens the car in a browser."""
    before = DEMO_ENV.sub(demo, README_BLOCK)
    Page("docs/tutorials/drive.md").walk(tmp_path, {"PORT": str(free_port())}, before=before)


def test_every_how_to_with_commands_is_tested() -> None:
    found = (path for path in (ROOT / "docs/how-to").glob("*.md") if "```sh" in path.read_text())
    of_a_box = {"docs/how-to/enrol-box.md"}  # tests/cli/commands/test_box.py runs it
    assert {str(path.relative_to(ROOT)) for path in found} == set(HOW_TO) | of_a_box


def test_from_an_empty_server_to_an_opened_car() -> None:
    """The customer need not be the first one."""
    before = 'export KEYRACK_STATE="$PWD/state"\nkeyrack migrate >&2\nkeyrack customer add Another >&2\n'
    with reachable_directory() as directory:
        Page("docs/tutorials/from-empty.md").walk(directory, {"PORT": str(free_port())}, before=before)


def test_the_programs_in_python_are_typed(tmp_path: Path) -> None:
    programs = PROGRAM.findall(Page("docs/tutorials/python.md").text)
    for name, content in programs:
        (tmp_path / name).write_text(content)
    (tmp_path / "pyrightconfig.json").write_text(
        json.dumps({"typeCheckingMode": "standard", "extraPaths": [str(CLIENT)]})
    )
    command = [sys.executable, "-m", "pyright", "--project", str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert ran.returncode == 0, ran.stdout
