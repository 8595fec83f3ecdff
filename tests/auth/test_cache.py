"""B15: cached access is used while the database is slow.

This time is bounded. A process without notifications does not use its cache.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, contextmanager

import pytest

from keyrack.auth import signing_keys
from keyrack.auth.authenticator import Authenticator
from keyrack.auth.cache import SingleFlightCache
from keyrack.core.errors import Unauthorized
from keyrack.core.settings import Settings
from keyrack.db.audit_context import acting, operator
from keyrack.db.connection import Database
from keyrack.db.encryption.bootstrap import open_vault
from tests.support.people import PASSWORD, Person, web
from tests.support.servers import RunningServer, Sql, eventually

SLOW = 60.0  # seconds: longer than any test


@contextmanager
def slow_about_access(dsn: str, *tables: str) -> Iterator[None]:
    """Every statement on these tables waits until the block ends."""
    other = Sql(dsn)
    try:
        other.execute("begin")
        other.execute("lock table " + ", ".join(tables) + " in access exclusive mode")
        yield
    finally:
        other.execute("rollback")
        other.close()


@pytest.fixture(scope="module")
def patient(dsn: str, settings: Settings) -> Iterator[RunningServer]:
    """A server that trusts its cache for a minute."""
    with RunningServer(
        settings.model_copy(update={"auth_cache_max_staleness_seconds": SLOW}), dsn, worker=False
    ) as running:
        yield running


def test_cached_access_causes_no_query_of_a_slow_database(
    alice: Person, server: RunningServer, patient: RunningServer, dsn: str, sql: Sql
) -> None:
    """B15: a late check for changes does not send every request to the slow database."""

    def both_look(how: str) -> bool:
        return sql.value(
            "select count(*) >= 2 from pg_stat_activity where application_name = 'keyrack listener'"
            f" and datname = current_database() and query like '%access_change%' and {how}"
        )

    cars = patient.url + "/v3/cars"
    eventually(lambda: both_look("state = 'idle'"), "answered looks")
    with slow_about_access(dsn, "access_change"):
        late = "wait_event_type = 'Lock' and now() - query_start > interval '1.2 s'"
        eventually(lambda: both_look(late), "late looks")
        assert web().get(cars, headers=alice.headers).status_code == 200
        with slow_about_access(dsn, "api_key", "manager", "signing_key"):
            assert [web().get(cars, headers=alice.headers).status_code for _ in range(3)] == [200] * 3


@asynccontextmanager
async def deaf(dsn: str) -> AsyncGenerator[tuple[Database, Authenticator]]:
    """The access of a process without notifications."""
    settings = Settings()
    database = await Database.connect(dsn, settings)
    try:
        yield database, Authenticator(database, settings, await open_vault(database, settings))
    finally:
        await database.close()


def test_a_process_without_notifications_does_not_use_cached_keys(alice: Person, dsn: str) -> None:
    """B15: a process without notifications loads the present signing keys, and so rejects a revoked one's tokens."""

    async def main() -> None:
        acting.set(operator())
        async with deaf(dsn) as (database, access):
            vault = await open_vault(database, Settings())
            async with database.transaction() as connection:
                kid = await signing_keys.rotate(connection, vault)
            signed_in = await access.verified(alice.username, PASSWORD, "127.0.0.1")
            assert signed_in is not None
            token = await access.token(signed_in)
            assert set((await access.caller(f"Bearer {token}")).grants) == {alice.customer}
            async with database.transaction() as connection:
                assert await signing_keys.revoke(connection, vault, kid)
            with pytest.raises(Unauthorized):
                await access.caller(f"Bearer {token}")

    asyncio.run(main())


def test_concurrent_misses_share_one_lookup(alice: Person, dsn: str, sql: Sql) -> None:
    """B15: twenty requests with one key are one query of a slow database. A cancelled one cancels no other."""

    async def main() -> None:
        async with deaf(dsn) as (_, access):
            with slow_about_access(dsn, "api_key"):
                asking = [asyncio.create_task(access.check_key(alice.api_key)) for _ in range(20)]
                asking += [asyncio.create_task(access.check_key("another")) for _ in range(20)]
                both = await asyncio.to_thread(eventually, lambda: (n := waiting()) >= 2 and n, "the two questions")
                assert both == 2
                asking[0].cancel()
            told = await asyncio.gather(*asking, return_exceptions=True)
            assert isinstance(told[0], asyncio.CancelledError)
            assert told[1:20] == [math.inf] * 19
            assert all(isinstance(refusal, Unauthorized) for refusal in told[20:])

    def waiting() -> int:
        return sql.value(
            "select count(*) from pg_stat_activity where application_name = 'keyrack' and wait_event_type = 'Lock'"
            " and query like '%from api_key%' and datname = current_database()"
        )

    asyncio.run(main())


def test_a_lookup_from_before_a_change_is_not_cached() -> None:
    """B15: the answer is not shared with a request after the notification either."""

    async def main() -> None:
        memory, gates = SingleFlightCache[str, int](lambda: True, 3.0, "tests"), [asyncio.Event(), asyncio.Event()]
        numbers = iter((1, 2))

        async def ask() -> int:
            number = next(numbers)
            await gates[number - 1].wait()
            return number

        first = asyncio.create_task(memory.get("key", ask))
        await asyncio.sleep(0)
        memory.forget()
        second = asyncio.create_task(memory.get("key", ask))
        await asyncio.sleep(0)
        for gate in gates:
            gate.set()
        assert (await first, await second) == (1, 2)
        assert await memory.get("key", ask) == 2

    asyncio.run(main())


def test_a_lookup_that_takes_too_long_is_not_shared() -> None:
    """B15: a shared answer is no older than a cached one may be."""

    async def main() -> None:
        memory, never = SingleFlightCache[str, int](lambda: True, -1.0, "tests"), asyncio.Event()
        asked = 0

        async def ask() -> int:
            nonlocal asked
            asked += 1
            await never.wait()
            return asked

        waiting = [asyncio.create_task(memory.get("key", ask)) for _ in range(3)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        never.set()
        assert await asyncio.gather(*waiting) == [3, 3, 3]

    asyncio.run(main())


def test_a_failed_lookup_is_repeated() -> None:
    async def main() -> None:
        memory, answers = (
            SingleFlightCache[str, int](lambda: True, 3.0, "tests"),
            iter((ConnectionResetError(), None, 7)),
        )

        async def ask() -> int | None:
            answer = next(answers)
            if isinstance(answer, Exception):
                raise answer
            return answer

        with pytest.raises(ConnectionResetError):
            await memory.get("key", ask)
        assert await memory.get("key", ask) is None
        assert await memory.get("key", ask) == await memory.get("key", ask) == 7

    asyncio.run(main())


def test_a_reconnect_finds_missed_changes(alice: Person, patient: RunningServer, sql: Sql) -> None:
    """B15: a process that trusts its cache for a minute notices a change as soon as it can check again."""
    cars = patient.url + "/v3/cars"
    assert web().get(cars, headers=alice.headers).status_code == 200
    assert sql.value(
        "select count(pg_terminate_backend(pid)) from pg_stat_activity"
        " where application_name = 'keyrack listener' and datname = current_database()"
    )
    sql.execute("update api_key set revoked_at = now() where name = $1", alice.username)
    eventually(lambda: web().get(cars, headers=alice.headers).status_code == 401, "the revocation")
