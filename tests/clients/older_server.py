"""A server of an earlier commit.

It has no strict mode, no references and no exclusive bookings.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator

from tests.support.servers import DEADLINE, free_port, reachable_directory
from tests.upgrades import releases

COMMIT = "26c5fa8fae8d73734aaa88c1c911ec56cdefdbfa"


@contextlib.contextmanager
def running() -> Iterator[dict[str, str]]:
    """The demo of the commit on a database of its own. Yields the environment of its machine client."""
    with reachable_directory() as base:
        source = releases.earlier(base, COMMIT)
        env = {name: value for name, value in os.environ.items() if not name.startswith("KEYRACK_")}
        env["KEYRACK_WEBHOOK_ALLOWED_NETWORKS"] = "127.0.0.0/8"
        words = ("demo", "--port", str(free_port()), "--state", str(base / "state"), "--json")
        with (base / "log").open("wb") as log:
            process = releases.command(source, *words, env=env, errors=log)
            try:
                assert process.stdout is not None
                line = process.stdout.readline()
                assert line, (base / "log").read_text()
                yield {name: str(value) for name, value in json.loads(line).items()}
            finally:
                process.terminate()
                try:
                    process.wait(DEADLINE)
                except subprocess.TimeoutExpired:
                    process.kill()
