"""The archive command: correct status after any interruption, and the server that calls it."""

from __future__ import annotations

import asyncio
import gzip
import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from keyrack.core.settings import Settings
from keyrack.db.archive_status import ArchiveStatus, standing
from keyrack.db.embedded.server import EmbeddedServer
from keyrack.db.embedded.wal_archiving import SCRIPT
from keyrack.ops.backups.connection import connected
from tests.ops.backups.instance import House
from tests.support.servers import eventually

pytestmark = pytest.mark.cluster

NAME = "000000010000000000000001"


@pytest.fixture
def wal(tmp_path: Path) -> Path:
    (tmp_path / "wal").mkdir()
    (tmp_path / "archive.sh").write_text(SCRIPT)
    return tmp_path / "wal"


def put(wal: Path, content: bytes, name: str = NAME) -> subprocess.CompletedProcess[str]:
    (wal.parent / "segment").write_bytes(content)
    return call(wal, "put", wal.parent / "segment", wal, name)


def call(wal: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["/bin/sh", wal.parent / "archive.sh", *words], capture_output=True, text=True)


def test_a_segment_is_archived_once_and_never_replaced(wal: Path) -> None:
    """PostgreSQL archives a segment again after a crash. Another segment of that name must not replace it."""
    assert put(wal, b"one").returncode == 0
    assert put(wal, b"one").returncode == 0
    other = put(wal, b"two")
    assert (other.returncode, other.stderr) == (
        1, f"archive: {wal}/{NAME}.gz is there already with other content: not archived\n",
    )  # fmt: skip
    assert gzip.decompress((wal / f"{NAME}.gz").read_bytes()) == b"one"
    assert [path.name for path in wal.iterdir()] == [f"{NAME}.gz"]


def test_an_interrupted_write_leaves_no_segment(wal: Path) -> None:
    """A partial file has another name. The next call removes it."""
    os.mkfifo(wal.parent / "slow")
    writing = subprocess.Popen(
        ["/bin/sh", wal.parent / "archive.sh", "put", wal.parent / "slow", wal, NAME], start_new_session=True
    )
    with (wal.parent / "slow").open("wb") as half:
        half.write(os.urandom(100_000))
        half.flush()
        (fresh,) = eventually(lambda: list(wal.iterdir()), "the beginning")
        os.killpg(writing.pid, signal.SIGKILL)
        writing.wait()
    assert fresh.name.startswith(f".{NAME}.")
    assert not (wal / f"{NAME}.gz").exists()
    assert put(wal, b"whole").returncode == 0
    assert [path.name for path in wal.iterdir()] == [f"{NAME}.gz"]


def test_a_failure_does_not_restart_the_archiver(wal: Path) -> None:
    """PostgreSQL does not count a failure with a status above 125."""
    assert call(wal, "put", wal / "missing", wal, NAME).returncode == 1
    (wal.parent / "segment").write_bytes(b"one")
    assert call(wal, "put", wal.parent / "segment", wal.parent / "nowhere", NAME).returncode == 1
    assert list(wal.iterdir()) == []


def test_fetching_a_segment(wal: Path) -> None:
    """A missing segment ends recovery (1). A damaged segment or an unreachable archive must not (126)."""
    put(wal, b"one")
    back = wal.parent / "back"
    assert call(wal, "get", wal, NAME, back).returncode == 0
    assert back.read_bytes() == b"one"
    missing = "000000010000000000000002"
    assert call(wal, "get", wal, missing, back).returncode == 1
    (wal.parent / "pg_wal").mkdir()
    (wal.parent / "pg_wal" / missing).write_bytes(b"two")
    assert call(wal, "get", wal, missing, back, wal.parent / "pg_wal").returncode == 0
    assert back.read_bytes() == b"two"
    (wal / f"{NAME}.gz").write_bytes((wal / f"{NAME}.gz").read_bytes()[:-5])
    assert call(wal, "get", wal, NAME, back).returncode == 126
    assert call(wal, "get", wal.parent / "away", NAME, back).returncode == 126


def told(server: EmbeddedServer) -> ArchiveStatus:
    async def ask() -> ArchiveStatus:
        async with connected(Settings(), server.dsn) as database:
            return await standing(database)

    return asyncio.run(ask())


def test_an_unwritable_archive_is_reported(house: House) -> None:
    """The database reports failures, and `backup list` the waiting segments.

    Nothing is lost once the archive is writable.
    """
    with EmbeddedServer(house.state, backups=str(house.backups)) as server:
        house.wal.chmod(0o500)
        house.sql("create table a_change ()")
        segment = house.sql("select pg_walfile_name(pg_switch_wal() - 1::numeric)")
        found = eventually(lambda: told(server) if told(server).failing else None, "the failure")
        assert (found.on, found.failed, found.failures > 0) == (True, segment, True)
        assert house.json("backup", "list")["archive"]["waiting"] >= 1
        house.wal.chmod(0o700)
        house.sql("drop table a_change")
        house.sql("select pg_switch_wal()")  # otherwise PostgreSQL retries within a minute
        eventually(lambda: segment in house.segments() and not told(server).failing, "the archive")
        assert (told(server).age or 0) < 600
        eventually(lambda: house.json("backup", "list")["archive"]["waiting"] == 0, "the rest")


def test_archiving_continues_without_the_setting_until_it_is_off(house: House) -> None:
    """A start of the database without the setting must not leave a gap. `off` must be explicit."""
    shutil.rmtree(house.backups)
    (house.state / "backup.directory").unlink()
    without, off = {"KEYRACK_BACKUP_DIRECTORY": ""}, {"KEYRACK_BACKUP_DIRECTORY": "off"}
    none = house.refused("backup", "create", **without)
    assert none == (
        "There is no directory for backups. Set KEYRACK_BACKUP_DIRECTORY to a directory on another disk or machine, "
        "and restart all users of the database. From then on, WAL is archived there."
    )
    with EmbeddedServer(house.state):
        assert house.refused("backup", "create") == (
            "The database does not archive its WAL. Stop all its users, start it with KEYRACK_BACKUP_DIRECTORY, and "
            "try again."
        )
    house.ended()
    house.json("customer", "list")
    with EmbeddedServer(house.state):  # without the setting
        archived = house.segments()
        house.sql("create table a_change ()")
        house.sql("select pg_switch_wal()")
        eventually(lambda: house.segments() > archived, "the archive")
        assert house.json("backup", "create", **without)["timeline"] == 1
    house.ended()
    house.json("customer", "list", **off)
    for backups, mode in ((None, "off"), (str(house.backups), "on"), (None, "on")):
        with EmbeddedServer(house.state, backups=backups):
            assert house.sql("show archive_mode") == mode
        house.ended()


def test_an_external_server_has_no_backups_here(house: House) -> None:
    """An external server has its own backups. A path must be absolute."""
    assert house.refused("backup", "list", KEYRACK_DATABASE_URL="postgresql://127.0.0.1/x") == (
        "KEYRACK_DATABASE_URL selects an external server. Back it up with pgBackRest, or with your provider's backups "
        "(docs/backups.md)."
    )
    assert "'here' is not an absolute path or `off`" in house.refused("backup", "list", KEYRACK_BACKUP_DIRECTORY="here")
    house.lose()
    assert house.refused("backup", "create") == f"There is no database in {house.state}/pgdata."
