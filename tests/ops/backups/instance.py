"""A state directory with backups, and `keyrack` commands on both."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import signal
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import asyncpg
from typer.testing import CliRunner, Result

from keyrack.cli.main import application
from keyrack.db.embedded.server import EmbeddedServer
from tests.db.embedded.test_concurrent_commands import servers
from tests.support.people import web
from tests.support.servers import Process, eventually, reachable_directory


class House:
    """Keyrack with an embedded database and backups, as an operator runs it."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.password = self.key = ""  # of the manager mo, and an API key
        self.full: dict[str, Any] = {}  # the existing backup
        self.state = base / "state"
        self.backups = base / "backups"
        self.env = {
            "KEYRACK_STATE": str(self.state),
            "KEYRACK_BACKUP_DIRECTORY": str(self.backups),
            "KEYRACK_DATABASE_URL": "",
            "KEYRACK_MASTER_KEY": "",
            "KEYRACK_POSTGRES_BIN": "",
        }

    @property
    def wal(self) -> Path:
        return self.backups / "wal"

    def run(self, *words: object, **env: str) -> Result:
        """Run a command in this process, which is faster than a new Python."""
        arguments = [*map(str, words)]
        return CliRunner().invoke(application(arguments[0]), arguments, env=self.env | env, catch_exceptions=False)

    def json(self, *words: object, **env: str) -> Any:
        """Run a command that must succeed, and return its JSON output."""
        done = self.run(*words, "--json", **env)
        assert done.exit_code == 0, done.stderr
        return json.loads(done.stdout)

    def refused(self, *words: object, **env: str) -> str:
        """Run a command that must fail, and return its last line.

        A busy machine can get progress lines before it.
        """
        done = self.run(*words, **env)
        assert (done.exit_code, done.stdout) == (1, ""), done.stderr
        *progress, last = done.stderr.splitlines()
        assert last.startswith("keyrack: "), done.stderr
        assert not [line for line in progress if line.startswith("keyrack: ")], done.stderr
        return last.removeprefix("keyrack: ")

    def sql(self, statement: str, *values: object) -> Any:
        """A value from the running database."""

        async def ask() -> Any:
            connection = await asyncpg.connect(EmbeddedServer(self.state).dsn)
            try:
                return await connection.fetchval(statement, *values)
            finally:
                await connection.close()

        return asyncio.run(ask())

    def now(self) -> datetime:
        """The database's clock, after all commits."""
        return self.sql("select clock_timestamp()")

    @contextlib.contextmanager
    def serving(self, **env: str) -> Iterator[str]:
        """Serve, and yield the address. At the end, all processes are killed as by a power failure."""
        # `env` may name another state directory
        words = ("serve", "--port", "0", "--json", "--state", (self.env | env)["KEYRACK_STATE"])
        server = Process(*words, env=self.env | env, log=self.base / "serve.log")
        try:
            assert server.popen.stdout is not None
            line = server.popen.stdout.readline()
            assert line, (self.base / "serve.log").read_text()
            yield json.loads(line)["url"]
        finally:
            server.stop(signal.SIGKILL)
            assert server.popen.stdout is not None
            server.popen.stdout.close()
            self.ended()

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Run the database within the context."""
        with EmbeddedServer(self.state, backups=str(self.backups)):
            yield
        self.ended()

    def ended(self) -> None:
        eventually(lambda: not servers(self.state), "the end of the database")

    def lose(self) -> None:
        """Remove the disk with the data."""
        self.ended()
        shutil.rmtree(self.state / "pgdata")

    def segments(self) -> set[str]:
        return {path.name.removesuffix(".gz") for path in self.wal.iterdir() if len(path.name) == len("0" * 24 + ".gz")}


@contextlib.contextmanager
def new_house(like: House | None = None) -> Iterator[House]:
    """A new installation without data, or a copy of a stopped one."""
    with reachable_directory() as base:
        house = House(base)
        if like is not None:
            subprocess.run(["cp", "-a", like.state, like.backups, base], check=True)
        yield house
        house.ended()


class Caller:
    """A signed-in manager."""

    def __init__(self, url: str, house: House, customer: int = 1) -> None:
        token = web().post(
            f"{url}/oauth2/token",
            data={"grant_type": "password", "username": "mo", "password": house.password},
            headers={"vendor-API-Key": house.key},
        )
        assert token.status_code == 200, token.text
        self.url = url
        self.headers = {
            "vendor-API-Key": house.key,
            "Authorization": f"Bearer {token.json()['access_token']}",
            "Customer-ID": str(customer),
        }

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        answer = web().request(method, self.url + path, json=body, headers=self.headers | headers)
        assert answer.status_code in (200, 201), answer.text
        return answer.json()

    def status(self, path: str, at: str) -> int:
        return web().get(at + path, headers=self.headers).status_code

    def car(self, name: str, **headers: str) -> int:
        return self.call("PUT", "/cars", {"name": name}, **headers)["id"]

    def event(self, car: int, user: int) -> int:
        return self.call(
            "PUT",
            "/events",
            {
                "dateTime": "2026-05-01T10:00:00", "utcDateTime": "2026-05-01T08:00:00Z", "carId": car, "userId": user,
                "type": "CarOpened", "userAgent": "tests",
            },
        )["id"]  # fmt: skip


def written(moment: datetime) -> str:
    """A time in the form of an option."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
