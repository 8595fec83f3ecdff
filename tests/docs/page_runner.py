"""A runner for pages: programs are saved, and commands run unchanged in one shell.

A program is below `<!-- file: NAME -->`. A `sh` block is run. A following `text` block is its output: each line must
appear in the output, and `...` matches anything.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.support.servers import SCRIPT_DEADLINE

ROOT = Path(__file__).parents[2]
DEMO_ENV = re.compile(r"^\. ~/\S+.*$", re.MULTILINE)
PROGRAM = re.compile(r"<!-- file: (\S+) -->\n```\w+\n(.*?)^```", re.DOTALL | re.MULTILINE)
COMMANDS = re.compile(r"^```sh\n(.*?)^```(?:\n\n```text\n(.*?)^```)?", re.DOTALL | re.MULTILINE)
END = "@@@"


@dataclass(frozen=True)
class Page:
    """A document, by its path."""

    path: str

    @property
    def text(self) -> str:
        return (ROOT / self.path).read_text()

    def walk(self, place: Path, env: dict[str, str], *, loads: str = "", before: str = "") -> None:
        """Run the blocks in `place`, after the commands `before`, and compare their output.

        `loads` replaces the line that loads demo.env.
        """
        for name, content in PROGRAM.findall(self.text):
            (place / name).write_text(content)
        blocks = COMMANDS.findall(self.text)
        assert blocks, self.path
        script = before + "\n".join(f"{DEMO_ENV.sub(loads, commands)}echo {END}" for commands, _ in blocks)
        printed = _run(script, place, env).split(f"{END}\n")
        assert len(printed) == len(blocks) + 1
        for told, (_, expected) in zip(printed, blocks, strict=False):
            for line in expected.splitlines():
                form = ".*".join(re.escape(part) for part in line.split("..."))
                assert re.search(f"^{form}", told.replace("\r", ""), re.MULTILINE), f"{line!r} is not among {told!r}"


def _run(script: str, place: Path, env: dict[str, str]) -> str:
    """Run the script in a shell without the tests' environment, and return its output.

    Processes that it leaves running are ended.
    """
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    theirs = {name: value for name, value in os.environ.items() if not name.startswith("KEYRACK_")}
    with subprocess.Popen(
        ["bash", "-euo", "pipefail", "-c", script],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=place, start_new_session=True,
        env=theirs | {"PATH": path} | env,
    ) as running:  # fmt: skip
        try:
            printed, errors = running.communicate(timeout=SCRIPT_DEADLINE)
        finally:
            if running.poll() is None or _is_left(running.pid):
                os.killpg(running.pid, signal.SIGKILL)
    assert running.returncode == 0, f"{printed}\n{errors}"
    return printed


def _is_left(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
