"""B12: a full disk that repeatedly stops the database before it can write its log."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import asyncpg
import pytest

from keyrack.db.embedded.server import EmbeddedServer
from tests.abuse.conftest import Figures
from tests.support.servers import reachable_directory

pytestmark = pytest.mark.cluster

NOTE = "select pg_logical_emit_message(false, 'x', repeat('y', 1000000))"  # a megabyte of the write-ahead log
FULL_FOR = 12.0  # seconds


async def _use(dsn: str) -> int:
    sql = await asyncpg.connect(dsn, timeout=2)
    try:
        await sql.execute(NOTE)
        return await sql.fetchval("select count(*) from kept")
    finally:
        await sql.close()


async def _attack(server: EmbeddedServer, disk: Path) -> float:
    """Return the seconds from free space on the disk to a successful write."""
    sql = await asyncpg.connect(server.dsn)
    await sql.execute("create table kept as select 1 as n")
    with suppress(OSError), (disk / "filler").open("ab", buffering=0) as filler:
        while True:
            filler.write(bytes(4096))
    with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, OSError)):
        for _ in range(200):
            await sql.execute(NOTE)
    end = time.monotonic() + FULL_FOR
    while time.monotonic() < end:
        with suppress(asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
            await _use(server.dsn)
        await asyncio.sleep(0.2)
    (disk / "filler").unlink()
    free = time.monotonic()
    while time.monotonic() < free + 60:
        with suppress(asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
            assert await _use(server.dsn) == 1
            return time.monotonic() - free
        await asyncio.sleep(0.1)
    raise AssertionError("it did not come back")


def test_the_server_recovers_from_a_full_disk(figures: Figures, caplog: pytest.LogCaptureFixture) -> None:
    with reachable_directory() as base:
        disk = base / "disk"
        disk.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", "size=90m,mode=0711", "none", disk]
        if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode:
            pytest.skip("only root can mount a small disk, and not everywhere")
        try:
            options = {"min_wal_size": "32MB", "max_wal_size": "32MB"}
            with caplog.at_level(logging.INFO), EmbeddedServer(disk / "state", options=options) as server:
                back = asyncio.run(_attack(server, disk))
        finally:
            subprocess.run(["umount", "--lazy", disk], check=True)
    figures.at_most("B12 back after a disk without room for the write-ahead log", back, "s", 5)
    figures.at_most(f"B12 log lines while it was full for {FULL_FOR:g} s", len(caplog.records), "lines", 8)
