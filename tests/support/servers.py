"""The environment of tests: databases, servers in threads, commands as processes, and `eventually`."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

import asyncpg
import uvicorn
import uvloop

from keyrack.core.settings import Settings
from keyrack.db import schema_version
from keyrack.db.session_settings import session
from keyrack.server import process as running

# Seconds for a condition to become true on any busy machine. A waiting test continues at once when it is.
# A map in software rendering takes 7 s on two idle cores, and twenty times as long at a load of 40
DEADLINE = 180.0
# Seconds for a script of many commands, each of which starts an interpreter
SCRIPT_DEADLINE = 600.0


def eventually(condition: Callable[[], Any], what: str = "the condition") -> Any:
    """Wait for a true value of `condition`, and return it."""
    end = time.monotonic() + DEADLINE
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.02)
    raise AssertionError(f"{what} did not come true in {DEADLINE} s")


MEMORY = Path("/dev/shm")  # noqa: S108 - names in it are random
ROOM = 6 << 30  # bytes, far more than a run of all tests needs


@functools.cache
def thrown_away() -> Path | None:
    """The place of temporary data: in memory if there is room, because a disk is slower."""
    if not MEMORY.is_mount():
        return None
    found = os.statvfs(MEMORY)
    fits = found.f_bavail * found.f_frsize >= ROOM and not found.f_flag & os.ST_NOEXEC
    return MEMORY if fits and os.access(MEMORY, os.W_OK | os.X_OK) else None


@contextlib.contextmanager
def reachable_directory() -> Iterator[Path]:
    """A directory that the database's user can reach. pytest's directories are closed to others."""
    path = Path(tempfile.mkdtemp(prefix="keyrack-test-", dir=thrown_away()))
    path.chmod(0o711)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


NUMBERS = itertools.count(1)
# The author of SQL by tests. Sessions of the product start without one
TESTS = '{"type": "operator", "name": "tests"}'


@contextlib.contextmanager
def fresh_database(server: str, template: str | None = None) -> Iterator[str]:
    """A new database on the server: empty, or a copy of the template. It is dropped afterwards."""
    name = f"test_{os.getpid()}_{next(NUMBERS)}"
    # A file copy takes a seventh of the time of a copy through the WAL, which is PostgreSQL's default
    copied = f' template "{template}" strategy file_copy' if template else ""
    asyncio.run(_execute(server, f'create database "{name}"{copied}'))
    asyncio.run(_execute(server, f"alter database \"{name}\" set keyrack.who = '{TESTS}'"))
    try:
        yield _address(server, name)
    finally:
        asyncio.run(_execute(server, f'drop database "{name}" with (force)'))


@contextlib.contextmanager
def migrated_database(server: str) -> Iterator[str]:
    """A new database with the current schema, copied from the server's template."""
    with fresh_database(server, _migrated_template(server)) as dsn:
        yield dsn


TEMPLATES: dict[str, str] = {}  # the name of this process's template, by server


def _migrated_template(server: str) -> str:
    """The name of a migrated database that accepts no connections. It is made at its first use."""
    if server not in TEMPLATES:
        name = f"test_{os.getpid()}_template"
        asyncio.run(_execute(server, f'create database "{name}"'))
        TEMPLATES[server] = name
        asyncio.run(schema_version.migrate(_address(server, name)))
        asyncio.run(_execute(server, f'alter database "{name}" allow_connections false'))
    return TEMPLATES[server]


def drop_template(server: str) -> None:
    """Drop the server's template if there is one."""
    if name := TEMPLATES.pop(server, None):
        asyncio.run(_execute(server, f'drop database "{name}" with (force)'))


def _address(server: str, database: str) -> str:
    parts = urlsplit(server)
    return urlunsplit(parts._replace(netloc=parts.netloc or "", path="/" + quote(database)))


async def _execute(dsn: str, sql: str) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(sql)
    finally:
        await connection.close()


class Sql:
    """Runs statements of a test, over one connection in a separate thread.

    It waits for locks of the servers as long as `eventually`, unlike a request.
    """

    def __init__(self, dsn: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._connection: Any = self.run(
            asyncpg.connect(
                dsn,
                server_settings={
                    **session(Settings(statement_timeout_seconds=DEADLINE, lock_timeout_seconds=DEADLINE)),
                    "idle_in_transaction_session_timeout": "0",  # a test may hold a lock while a process starts
                    "application_name": "keyrack tests",
                    "keyrack.who": TESTS,
                },
            )
        )

    @property
    def raw(self) -> Any:
        """The connection, for use with `run`."""
        return self._connection

    def run(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(DEADLINE)

    def value(self, sql: str, *args: object) -> Any:
        return self.run(self._connection.fetchval(sql, *args))

    def rows(self, sql: str, *args: object) -> list[Any]:
        return self.run(self._connection.fetch(sql, *args))

    def execute(self, sql: str, *args: object) -> str:
        return self.run(self._connection.execute(sql, *args))

    def close(self) -> None:
        self.run(self._connection.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


async def listening(port: int) -> None:
    """Wait until a program listens on the port."""
    async with asyncio.timeout(DEADLINE):
        while True:
            with contextlib.suppress(OSError):
                (await asyncio.open_connection("127.0.0.1", port))[1].close()
                return
            await asyncio.sleep(0.05)


class RunningServer:
    """A server in a thread: real HTTP, a real database, and a fast start."""

    def __init__(self, settings: Settings, dsn: str, *, worker: bool = True, public_url: str | None = None) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))  # keeps the port for this server
        self.port = self._socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        told = (public_url or self.url).replace("{port}", str(self.port))
        # The other cells find cell 0 by its address in the settings
        address = {"database_url": dsn} if settings.cells else {}
        self.settings = settings.model_copy(update={"public_url": told, **address})
        self._dsn = dsn
        self._with_worker = worker
        config = running.configuration(self.settings, dsn)
        config.port = self.port
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=lambda: uvloop.run(self._run()), daemon=True)

    async def _run(self) -> None:
        serving = asyncio.create_task(self._server.serve([self._socket]))
        if not self._with_worker:
            await serving
            return
        stop = asyncio.Event()
        working = asyncio.create_task(running.run_worker(self.settings, self._dsn, stop))
        await serving
        stop.set()
        await working

    def __enter__(self) -> RunningServer:
        self._thread.start()
        eventually(lambda: self._server.started, "the server's start")
        return self

    def __exit__(self, *_: object) -> None:
        self.begin_shutdown()
        self._thread.join(DEADLINE)

    def begin_shutdown(self) -> None:
        """Begin to shut down. Leaving the context waits for the end."""
        self._server.should_exit = True


# For a limit that is not refilled while a test counts. Settings from outside are integers
SELDOM = 1e-4


def patient_settings(**values: Any) -> Settings:
    """Production settings without timeouts that a busy machine would exceed."""
    patience: dict[str, Any] = {
        "db_queue_timeout_seconds": DEADLINE,
        "statement_timeout_seconds": DEADLINE,
        "lock_timeout_seconds": DEADLINE,
        "load_shedding_lag_seconds": DEADLINE,
        "health_check_timeout_seconds": 60.0,  # the most that the setting allows
        "batch_seconds": DEADLINE,
        "webhook_timeout": DEADLINE,  # no slow receiver gets a second attempt
    }
    return Settings(**{**patience, **values})


PATIENT = {"KEYRACK_LOAD_SHEDDING_LAG_SECONDS": "60"}  # for a machine that runs other tests


class Process:
    """A `keyrack` command as a separate process."""

    def __init__(
        self, *arguments: str, env: dict[str, str] | None = None, log: Path | None = None, files: str = ""
    ) -> None:
        limited = ("sh", "-c", f'ulimit {files} && exec "$@"', "sh") if files else ()
        with log.open("wb") if log else contextlib.nullcontext(subprocess.PIPE) as errors:
            self.popen = subprocess.Popen(
                [*limited, sys.executable, "-m", "keyrack", *arguments],
                env=os.environ | PATIENT | (env or {}),
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
            )

    def stop(self, sign: int = signal.SIGTERM) -> int:
        if self.popen.poll() is None:
            self.popen.send_signal(sign)
        return self.popen.wait(DEADLINE)
