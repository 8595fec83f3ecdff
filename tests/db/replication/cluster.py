"""Two PostgreSQL servers over TCP: a primary, and a replica that can be promoted."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import asyncpg

from keyrack.db import schema_version
from keyrack.db.embedded.binaries import Binaries, OsAccount, end_with_parent, environment, find_binaries
from tests.support.servers import DEADLINE, TESTS, eventually, free_port, reachable_directory

PASSWORD = "not to be told"
OPTIONS = {
    "listen_addresses": "127.0.0.1", "fsync": "off", "full_page_writes": "off", "max_connections": "60",
    "wal_receiver_status_interval": "1", "wal_retrieve_retry_interval": "100ms",
}  # fmt: skip


class Server:
    """One PostgreSQL server."""

    def __init__(self, data: Path, binaries: Binaries, account: OsAccount) -> None:
        self.data = data
        self.port = free_port()
        self.dsn = Cluster.named(self.port)
        self._binaries = binaries
        self._account = account
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, program: str, *arguments: str | Path) -> None:
        done = self._account.run([self._binaries.directory / program, *arguments])
        assert done.returncode == 0, done.stderr

    def start(self) -> None:
        options = OPTIONS | {"port": str(self.port), "unix_socket_directories": ""}
        with (self.data.parent / f"{self.data.name}.log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._binaries.directory / "postgres", "-D", self.data, *(f"--{k}={v}" for k, v in options.items())],
                stdout=log,
                stderr=log,
                cwd="/",
                env=environment(),
                preexec_fn=end_with_parent(signal.SIGKILL),
                **self._account.credentials(),
            )
        eventually(lambda: self.answers, "the server")

    @property
    def answers(self) -> bool:
        with suppress(OSError, asyncpg.PostgresError):
            return self.ask("select true", database="postgres")
        return False

    def ask(self, sql: str, *args: object, database: str = "keyrack") -> Any:
        """The answer of the server itself, on a separate connection."""

        async def ask() -> Any:
            raw = await asyncpg.connect(self.dsn, database=database, timeout=DEADLINE)
            try:
                return await raw.fetchval(sql, *args)
            finally:
                raw.terminate()

        return asyncio.run(ask())

    def waits_for(self, standby: str) -> None:
        """Make commits wait for this standby; "" for none."""
        self.ask(f"alter system set synchronous_standby_names = '{standby}'")
        self.ask("select pg_reload_conf()")
        eventually(lambda: self.ask("show synchronous_standby_names") == standby, "the new setting")

    def signal(self, number: int) -> None:
        """Signal the server and all its processes, like a machine that freezes or resumes."""
        assert self._process is not None
        pid = self._process.pid
        os.kill(pid, number)
        for path in Path(f"/proc/{pid}/task").glob("*/children"):
            for child in path.read_text().split():
                with suppress(ProcessLookupError):
                    os.kill(int(child), number)

    def kill(self) -> None:
        if self._process is not None:
            self.signal(signal.SIGCONT)
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(DEADLINE)
            self._process = None


class Cluster:
    """A primary and its replica, which `begin_replica` creates."""

    def __init__(self, directory: Path) -> None:
        account = OsAccount.choose(directory / "one")
        binaries = find_binaries(None, account, directory)
        self.leader, self.replica = (Server(directory / name, binaries, account) for name in ("one", "two"))
        account.own(directory)
        (directory / "password").write_text(PASSWORD)
        (directory / "password").chmod(0o644)
        self.leader.run("initdb", "-D", self.leader.data, "-U", "keyrack", "--auth=scram-sha-256", "--no-sync",
                        "--encoding=UTF8", "--locale=C", f"--pwfile={directory / 'password'}")  # fmt: skip
        self.leader.start()
        self.leader.ask("create database keyrack", database="postgres")
        self.leader.ask(f"alter database keyrack set keyrack.who = '{TESTS}'")
        asyncio.run(schema_version.migrate(self.leader.dsn))

    def begin_replica(self) -> None:
        """Recreate the replica from the primary."""
        self.replica.kill()
        shutil.rmtree(self.replica.data, ignore_errors=True)
        source = self.leader.dsn.rpartition("/")[0]
        self.replica.run("pg_basebackup", "-d", source, "-D", self.replica.data, "-R", "-X", "stream", "-c", "fast",
                         "--no-sync")  # fmt: skip
        self.replica.start()
        following = "select count(*) from pg_stat_replication where state = 'streaming'"
        eventually(lambda: self.leader.ask(following), "the replica")

    def hand_over(self) -> Server:
        """Promote the replica. Returns the previous primary, which does not know it yet."""
        before, self.leader, self.replica = self.leader, self.replica, self.leader
        self.leader.ask("select pg_promote(true, 60)")
        return before

    @property
    def dsn(self) -> str:
        """One address of both servers, the current primary first."""
        return self.named(self.leader.port, self.replica.port)

    @staticmethod
    def named(*ports: int) -> str:
        """One address of several servers."""
        hosts = ",".join(f"127.0.0.1:{port}" for port in ports)
        return f"postgresql://keyrack:{quote(PASSWORD)}@{hosts}/keyrack"

    def stop(self) -> None:
        for server in (self.replica, self.leader):
            server.kill()


@contextmanager
def running_cluster(*, replica: bool = True) -> Iterator[Cluster]:
    with reachable_directory() as directory:
        cluster = Cluster(directory)
        try:
            if replica:
                cluster.begin_replica()
            yield cluster
        finally:
            cluster.stop()
