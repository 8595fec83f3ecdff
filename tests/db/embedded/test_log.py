"""The embedded server's log: its maximum size, and no personal data in it."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import asyncpg
import pytest

from keyrack.db.embedded.server import EmbeddedServer
from tests.support.servers import DEADLINE, eventually, reachable_directory

pytestmark = pytest.mark.cluster

ALICE = "alice.fisher@example.org"
ROOM = 200_000  # bytes for the log


@pytest.fixture(scope="module")
def state() -> Iterator[Path]:
    with reachable_directory() as base:
        yield base / "state"


async def _fail_with_people_s_data(dsn: str) -> None:
    sql = await asyncpg.connect(dsn)
    await sql.execute("create table people (email text unique check (email not like 'x%'), age int)")
    await sql.execute("insert into people values ($1)", ALICE)
    with pytest.raises(asyncpg.UniqueViolationError, match=ALICE):
        await sql.execute("insert into people values ($1)", ALICE)
    with pytest.raises(asyncpg.CheckViolationError):
        await sql.execute(f"insert into people values ('x{ALICE}')")
    with pytest.raises(asyncpg.InvalidTextRepresentationError, match=ALICE):
        await sql.execute(f"insert into people values (1, '{ALICE}')")
    with pytest.raises(asyncpg.InvalidTextRepresentationError, match=ALICE):
        await sql.copy_to_table("people", source=_Lines(f"a\t{ALICE}\n"))
    with pytest.raises(asyncpg.PostgresSyntaxError):
        await sql.execute(f"this is no SQL, {ALICE}")
    with pytest.raises(asyncpg.RaiseError, match=ALICE):
        await sql.execute(f"do $$ begin raise '%', '{ALICE}' using detail = '{ALICE}'; end $$")
    await sql.execute(f"do $$ begin raise warning '%', '{ALICE}'; end $$")
    await sql.close()


class _Lines:
    """The source of a COPY for asyncpg."""

    def __init__(self, text: str) -> None:
        self._left = [text.encode()]

    def __aiter__(self) -> _Lines:
        return self

    async def __anext__(self) -> bytes:
        if not self._left:
            raise StopAsyncIteration
        return self._left.pop()


async def _crash_with_people_s_data(dsn: str) -> None:
    sql = await asyncpg.connect(dsn)
    pid = await sql.fetchval("select pg_backend_pid()")
    crashed = asyncio.create_task(sql.execute(f"select pg_sleep(60), '{ALICE}'"))
    other = await asyncpg.connect(dsn)
    under_way = "select exists (select from pg_stat_activity where pid = $1 and wait_event = 'PgSleep')"
    async with asyncio.timeout(DEADLINE):
        while not await other.fetchval(under_way, pid):  # noqa: ASYNC110 - a statement of another process
            await asyncio.sleep(0.01)
    other.terminate()
    os.kill(pid, signal.SIGKILL)
    with pytest.raises((asyncpg.PostgresError, OSError)):
        await crashed


def test_the_log_has_no_personal_data(state: Path) -> None:
    """B10: no error, detail, statement or parameter, and no statement of a crashed process."""
    with EmbeddedServer(state, options={"fsync": "off"}) as server:
        asyncio.run(_fail_with_people_s_data(server.dsn))
        asyncio.run(_crash_with_people_s_data(server.dsn))
        eventually(lambda: "was terminated by signal 9" in (state / "postgres.log").read_text(), "the crash in the log")
    said = (state / "postgres.log").read_text()
    assert "alice" not in said
    assert "database system is ready" in said  # it is the server's log


def room_taken(state: Path) -> int:
    while True:
        with suppress(FileNotFoundError):  # the file has just been rotated
            return sum(path.stat().st_size for path in state.glob("postgres.log*"))


def keeper(state: Path) -> int:
    """The server's parent process."""
    postmaster = (state / "pgdata/postmaster.pid").read_text().split()[0]
    return int(Path(f"/proc/{postmaster}/stat").read_text().rpartition(")")[2].split()[1])


def test_the_log_stays_below_its_maximum_size(state: Path) -> None:
    """B10: the older half is dropped, also by the successor of a killed keeper."""
    chatty = {"fsync": "off", "log_statement": "all", "log_error_verbosity": "default"}
    taken: list[int] = []

    async def talk(dsn: str) -> None:
        sql = await asyncpg.connect(dsn)
        for number in range(300):
            await sql.execute(f"select {number} /* {'x' * 1_000} */")
            taken.append(room_taken(state))
        await sql.close()

    for _ in range(2):
        server = EmbeddedServer(state, options=chatty, log_bytes=ROOM)
        server.start()
        asyncio.run(talk(server.dsn))
        eventually(lambda: "select 299" in (state / "postgres.log").read_text(), "the last statement in the log")
        os.kill(keeper(state), signal.SIGKILL)
        server.stop()
    assert ROOM / 2 < max(taken) <= ROOM
    (state / "postgres.log").write_text("x" * ROOM)  # left by a larger maximum size
    with EmbeddedServer(state, options=chatty, log_bytes=ROOM):
        assert room_taken(state) <= ROOM
