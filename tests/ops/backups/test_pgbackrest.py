"""An external server with Debian's pgBackRest as in docs/backups.md: backup, drill and restore."""

from __future__ import annotations

import asyncio
import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from keyrack.db import schema_version
from keyrack.ops.backups.post_restore import JUMP, LONG_JUMP
from tests.ops.backups.instance import House, new_house
from tests.ops.backups.test_docs import block
from tests.support.servers import SCRIPT_DEADLINE, eventually

BIN = Path("/usr/lib/postgresql/15/bin")
HEAD = "BIN=/usr/lib/postgresql/15/bin DATA=/var/lib/postgresql/15/main SOCKETS=/var/run/postgresql\n"
CONFIG = "CONFIG=/etc/postgresql/15/main/postgresql.conf    # of a cluster made by initdb: $DATA/postgresql.conf\n"
PLACES = "CONF=/etc/pgbackrest.conf REPO=/var/lib/pgbackrest\n"
EXAMPLE = "postgresql://keyrack@db.example.org:5599/keyrack"
TIME = "TIME='2026-11-22 09:59:59+00'"

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(shutil.which("pgbackrest") is None, reason="no pgbackrest"),
    pytest.mark.skipif(not BIN.exists(), reason="no PostgreSQL 15 of the system"),
]


class Cluster:
    """A PostgreSQL with Debian's layout, of an unprivileged user. Its configuration is outside of the data."""

    def __init__(self, house: House) -> None:
        self.base = house.base / "own"
        self.base.mkdir()
        self.as_user: list[str] = []
        if os.geteuid() == 0:
            shutil.chown(self.base, "postgres")
            self.as_user = ["runuser", "-u", "postgres", "--"]
        self.places = (
            f"BIN={BIN} DATA={self.base}/main SOCKETS={self.base}\n"
            f"CONFIG={self.base}/etc/postgresql.conf\n"
            f"CONF={self.base}/pgbackrest.conf REPO={self.base}/repository\n"
        )
        self.dsn = f"postgresql://{self.user}@/keyrack?host={self.base}&port=5432"

    @property
    def user(self) -> str:
        return "postgres" if self.as_user else pwd.getpwuid(os.geteuid()).pw_name

    def shell(self, script: str) -> str:
        done = subprocess.run(
            [*self.as_user, "bash", "-euo", "pipefail", "-c", self.places + script],
            cwd=self.base,
            env={"PATH": os.environ["PATH"], "TMPDIR": str(self.base), "LC_ALL": "C"},
            capture_output=True,
            text=True,
            timeout=SCRIPT_DEADLINE,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def sql(self, statement: str) -> Any:
        async def ask() -> Any:
            connection = await asyncpg.connect(self.dsn)
            try:
                return await connection.fetchval(statement)
            finally:
                await connection.close()

        return asyncio.run(ask())


@pytest.fixture
def cluster() -> Iterator[tuple[House, Cluster]]:
    if os.geteuid() == 0 and "postgres" not in {entry.pw_name for entry in pwd.getpwall()}:
        pytest.skip("pgBackRest is for a user that is not root, and there is no user postgres")
    with new_house() as house:
        cluster = Cluster(house)
        cluster.shell(
            "$BIN/initdb -D $DATA -A trust -E UTF8 --no-locale --no-sync > init.log\n"
            "mkdir etc && mv $DATA/postgresql.conf $DATA/pg_hba.conf $DATA/pg_ident.conf etc\n"
            "cat >> $CONFIG <<END\n"
            "data_directory = '$DATA'\n"
            "hba_file = '$SOCKETS/etc/pg_hba.conf'\nident_file = '$SOCKETS/etc/pg_ident.conf'\n"
            "external_pid_file = '$SOCKETS/main.pid'\n"
            "listen_addresses = ''\nunix_socket_directories = '$SOCKETS'\nfsync = off\n"
            "END\n"
            '$BIN/pg_ctl -D $DATA -w -l $DATA/log -o "-c config_file=$CONFIG" start > /dev/null\n'
            "$BIN/createdb -h $SOCKETS keyrack"
        )
        try:
            yield house, cluster
        finally:
            cluster.shell("$BIN/pg_ctl -D $DATA -w -m immediate stop > /dev/null")


def lines(name: str, time: datetime | None = None) -> str:
    """The commands of the page, with paths and time of the test."""
    script = block(name)
    if name == "pgbackrest":
        assert script.startswith(HEAD + CONFIG + PLACES)
        return script.removeprefix(HEAD + CONFIG + PLACES)
    if time is not None and TIME in script:
        return script.replace(TIME, f"TIME='{time.isoformat(sep=' ')}'")
    return script if time is None else f"TIME='{time.isoformat(sep=' ')}'\n{script}"


def test_backup_drill_and_restore_by_the_page_work(cluster: tuple[House, Cluster]) -> None:
    """Debian's programs run the commands of the page. The database returns to the chosen time and continues."""
    house, own = cluster
    asyncio.run(schema_version.migrate(own.dsn))
    keyrack = {"KEYRACK_DATABASE_URL": own.dsn, "KEYRACK_BACKUP_DIRECTORY": ""}
    house.json("customer", "add", "Example Fleet", **keyrack)
    own.shell(lines("pgbackrest"))
    own.shell("pgbackrest --config=$CONF --stanza=keyrack --type=full backup")
    ended = own.sql("select date_trunc('second', clock_timestamp())")  # pgBackRest counts in seconds
    eventually(lambda: own.sql("select clock_timestamp()") > ended + timedelta(seconds=2), "the next second")
    house.json("customer", "add", "Later Fleet", **keyrack)
    moment = own.sql("select clock_timestamp()")
    house.json("customer", "add", "A Mistake", **keyrack)
    own.sql("drop table event cascade")
    own.sql("select pg_switch_wal()")
    counted = own.shell(lines("pgbackrest-drill", moment)).splitlines()
    assert "2" in counted
    assert not list(own.base.glob("tmp.*"))
    assert (own.base / "main.pid").exists()  # the drill did not remove that of the running server
    own.shell(lines("pgbackrest-restore", moment))
    assert "cannot be reached" in house.refused("customer", "list", **keyrack)  # and so it is for a server of the API
    settle = lines("pgbackrest-settle").partition("#")[0].replace(EXAMPLE, own.dsn.replace("5432", "5599")).split()
    assert settle.pop(0) == "keyrack"
    assert house.json(*settle, **keyrack) == {"masterKey": True, "notAdvanced": []}
    own.shell(lines("pgbackrest-start"))
    assert [row["name"] for row in house.json("customer", "list", **keyrack)] == ["Example Fleet", "Later Fleet"]
    assert own.sql("select min(last_id) from event_counter") == JUMP
    assert own.sql("select min(applied) from customer_hold") == LONG_JUMP
    assert house.json("customer", "add", "New Fleet", **keyrack)["id"] > JUMP
