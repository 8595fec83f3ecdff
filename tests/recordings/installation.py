"""A new installation of the product, run with an operator's commands."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import asyncpg

from tests.recordings.wire import DEADLINE, HOST

PROGRAM = Path(sys.executable).with_name("keyrack")
MEMORY = Path("/dev/shm")  # noqa: S108 - the names in it are random
# Default settings, except limits that depend on the speed of the machine
SETTINGS = {
    "KEYRACK_PUBLIC_URL": f"http://{HOST}",
    "KEYRACK_CORS_ORIGINS": "https://pages.example.com",
    "KEYRACK_WEBHOOK_ALLOWED_NETWORKS": "127.0.0.0/8",
    "KEYRACK_WEBHOOK_RETRY_FOR": "0",
    "KEYRACK_EVENT_DAYS": "36500",
    "KEYRACK_LOGIN_RATE_PER_ADDRESS": "100000",
    "KEYRACK_LOGIN_BURST_PER_ADDRESS": "100000",
    "KEYRACK_LOGIN_RATE_PER_USERNAME_AND_ADDRESS": "1",
    "KEYRACK_LOGIN_BURST_PER_USERNAME_AND_ADDRESS": "12",
    "KEYRACK_ASSIGNMENT_BURST": "100000",
    "KEYRACK_DRY_RUN_BURST": "100000",
    "KEYRACK_WEBHOOK_REPLAY_BURST": "100000",
    "KEYRACK_DENIAL_LOG_INTERVAL_SECONDS": "3600",
    "KEYRACK_CHECKPOINT_SECONDS": "86400",
    "KEYRACK_REAUTHENTICATION_MINUTES": "1000",
    "KEYRACK_LOAD_SHEDDING_LAG_SECONDS": "60",
    "KEYRACK_DB_QUEUE_TIMEOUT_SECONDS": "60",
    "KEYRACK_HEALTH_CHECK_TIMEOUT_SECONDS": "60",
    "KEYRACK_STATEMENT_TIMEOUT_SECONDS": "60",
    "KEYRACK_LOCK_TIMEOUT_SECONDS": "60",
    "KEYRACK_FLUSH_TIMEOUT_SECONDS": "60",
    "KEYRACK_BATCH_SECONDS": "60",
    "KEYRACK_REQUEST_READ_TIMEOUT_SECONDS": "60",
    "KEYRACK_LOG_LEVEL": "warning",
    "TZ": "UTC",
    "PYTHONHASHSEED": "0",  # pages list some faults in the order of a set
}
OPERATOR = {"keyrack.who": '{"type": "operator", "name": "recordings"}'}
# Whether asynchronous work is left: operations, unsequenced changes or deliveries
IS_BUSY = """
exists (select from operation where state = 'Pending')
  or exists (select from change_inbox)
  or exists (select from delivery join webhook using (customer_id, webhook_id) where state = 'Waiting' and is_enabled)
"""
# Grows with every change of access
ACCESS = "select count(*) + coalesce(sum(access_change_id), 0) from access_change"
# Whether the first round of housekeeping is done. Later rounds depend on the clock, and a recording has none
IS_KEPT = "select count(*) > 0 and bool_and(last_good is not null and held_until is null) from housekeeping"
POSTPONE = "update housekeeping set due_at = now() + interval '1 day'"


class Installation:
    """A state directory with a separate database, commands on it, and a server."""

    def __init__(self) -> None:
        in_memory = MEMORY.is_mount() and os.access(MEMORY, os.W_OK | os.X_OK)
        self.state = Path(tempfile.mkdtemp(prefix="keyrack-recordings-", dir=MEMORY if in_memory else None))
        self.state.chmod(0o711)  # the database runs as another user if root starts it
        self.port = 0
        self._environment = {name: value for name, value in os.environ.items() if not name.startswith("KEYRACK_")}
        self._environment |= SETTINGS | {"KEYRACK_STATE": str(self.state)}
        self._server: subprocess.Popen[str] | None = None
        self._runner = asyncio.Runner()
        self._database: Any = None

    def __enter__(self) -> Installation:
        try:
            self.run("migrate")
            self.serve()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._database is not None:
            self._runner.run(self._database.close())
        self._runner.close()
        if self._server is not None:
            self._server.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._server.wait(30)
            self._server.kill()
            self._server.wait()
        shutil.rmtree(self.state, ignore_errors=True)

    def run(self, *arguments: str, input: str = "") -> Any:
        """Run a command, and return its JSON output."""
        done = subprocess.run(
            [PROGRAM, *arguments, "--json"], input=input, env=self._environment, capture_output=True, text=True
        )
        if done.returncode:
            raise RuntimeError(f"keyrack {' '.join(arguments)} ended with {done.returncode}: {done.stderr}")
        return json.loads(done.stdout) if done.stdout.strip() else None

    def serve(self) -> None:
        """Start the server with a worker, and wait until it accepts requests."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        with (self.state / "server.log").open("w") as log:
            self._server = subprocess.Popen(
                [PROGRAM, "serve", "--port", str(self.port), "--json"],
                env=self._environment,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        assert self._server.stdout is not None
        if not self._server.stdout.readline():
            raise RuntimeError(f"The server has not started: {(self.state / 'server.log').read_text()}")
        address = f"postgresql://keyrack@/keyrack?host={self.state / 'sock'}"
        self._database = self._runner.run(asyncpg.connect(address, server_settings=OPERATOR))
        self._wait(IS_KEPT, "The first round of housekeeping")
        self.execute(POSTPONE)

    def execute(self, statement: str, *arguments: object) -> None:
        """Execute SQL for effects that no command has."""
        self._runner.run(self._database.execute(statement, *arguments))

    def settle(self) -> None:
        """Wait until workers have finished all asynchronous work."""
        self._wait(f"select not ({IS_BUSY})", "Asynchronous work")

    def access(self) -> int:
        """A number that grows with every change of access."""
        return int(self._runner.run(self._database.fetchval(ACCESS)))

    def _wait(self, condition: str, what: str) -> None:
        """Wait until a condition on the database is true."""
        end = time.monotonic() + DEADLINE
        while not self._runner.run(self._database.fetchval(condition)):
            if time.monotonic() > end:
                raise RuntimeError(f"{what} is not done within {DEADLINE} s.")
            time.sleep(0.002)
