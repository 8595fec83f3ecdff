"""A PostgreSQL server as set up by a distribution: superuser `postgres`, peer authentication."""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from keyrack.db.embedded.binaries import OsAccount, end_with_parent, environment, find_binaries
from tests.support.servers import DEADLINE, eventually

OPTIONS = {"listen_addresses": "", "fsync": "off", "full_page_writes": "off", "max_connections": "60"}


@dataclass(frozen=True)
class SinglePostgresql:
    """The directories of its socket and its programs."""

    sockets: Path
    programs: Path

    @property
    def superuser(self) -> dict[str, str]:
        """The variables with which `psql` connects as the role `postgres`."""
        path = os.pathsep.join([str(self.programs), os.environ.get("PATH", os.defpath)])
        return {"PGHOST": str(self.sockets), "PGUSER": "postgres", "PGDATABASE": "postgres", "PATH": path}


@contextmanager
def single_postgresql(directory: Path, peer: str) -> Iterator[SinglePostgresql]:
    """Run a server below `directory`, where the account `peer` is the role `keyrack`."""
    data, sockets = directory / "data", directory / "sock"
    account = OsAccount.choose(data)
    binaries = find_binaries(None, account, directory)
    account.own(directory)
    sockets.mkdir(mode=0o755)
    account.own(sockets)
    made = account.run(
        [binaries.directory / "initdb", "-D", data, "-U", "postgres", "--auth=peer", "--no-sync", "--encoding=UTF8",
         "--locale=C"]
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    ours = pwd.getpwuid(os.geteuid()).pw_name
    (data / "pg_hba.conf").write_text("local all all peer map=accounts\n")
    (data / "pg_ident.conf").write_text(f'accounts "{ours}" postgres\naccounts "{peer}" keyrack\n')
    options = OPTIONS | {"unix_socket_directories": str(sockets)}
    with (directory / "postgres.log").open("wb") as log:
        server = subprocess.Popen(
            [binaries.directory / "postgres", "-D", data, *(f"--{name}={value}" for name, value in options.items())],
            stdout=log, stderr=log, cwd="/", env=environment(), preexec_fn=end_with_parent(signal.SIGKILL),
            **account.credentials(),
        )  # fmt: skip
    try:
        running = SinglePostgresql(sockets, binaries.directory)
        psql = [binaries.directory / "psql", "-c", "select"]
        env = environment() | running.superuser
        eventually(lambda: subprocess.run(psql, env=env, capture_output=True).returncode == 0, "the server")
        yield running
    finally:
        server.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            server.wait(DEADLINE)
