"""B4: customers with many slow webhooks beside one with a quick webhook."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import statistics
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tests.abuse.conftest import Figures
from tests.support.people import Person, Town
from tests.support.servers import Process, Sql, eventually, migrated_database

SLOW = 13.0  # seconds until the attackers' receivers respond
WEBHOOKS = 50  # per attacker, the maximum of a customer
SECONDS = 30  # duration of the attack and the measurement
RATE = 10  # assignment requests per second of the victim


class Receivers:
    """A receiver that responds below /slow after 13 seconds, and otherwise at once.

    It stores the time of each message's first arrival.
    """

    def __init__(self) -> None:
        self.arrived: dict[str, float] = {}
        self.slow = 0
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))

    def __enter__(self) -> Receivers:
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(10)

    async def _serve(self) -> None:
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(self._one, "127.0.0.1", 0, backlog=1000)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._over.wait()  # pending responses are cancelled at the end of the loop

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                await reader.readexactly(int(head.split(b"content-length: ")[1].split(b"\r\n")[0]))
                if head.startswith(b"post /slow"):
                    self.slow += 1
                    await asyncio.sleep(SLOW)
                else:
                    id = head.split(b"webhook-id: ")[1].split(b"\r\n")[0].decode()
                    self.arrived.setdefault(id, time.monotonic())
                writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")


@pytest.fixture
def receivers() -> Iterator[Receivers]:
    with Receivers() as running:
        yield running


@pytest.fixture
def town(database_server: str) -> Iterator[Town]:
    """People of a separate server, API and worker in one process, with default settings."""
    with migrated_database(database_server) as dsn:
        env = {
            "KEYRACK_DATABASE_URL": dsn,
            "KEYRACK_WEBHOOK_ALLOWED_NETWORKS": "127.0.0.0/8",
            "KEYRACK_LOG_LEVEL": "error",
        }
        server = Process("serve", "--port", "0", "--json", env=env)
        sql = Sql(dsn)
        try:
            assert server.popen.stdout is not None
            url: Any = SimpleNamespace(url=json.loads(server.popen.stdout.readline())["url"].removesuffix("/v3"))
            yield Town(sql, url)
        finally:
            server.stop()
            sql.close()


@contextlib.contextmanager
def attack(person: Person, receivers: Receivers) -> Iterator[None]:
    """Request assignments at the maximum rate, each with fifty slow webhooks, within the context."""
    for number in range(WEBHOOKS):
        url = f"http://127.0.0.1:{receivers.port}/slow/{person.customer}/{number}"
        assert person.put("/webhooks", {"url": url}).status_code == 201
    user, cars = person.user(), [person.car_with_box() for _ in range(20)]
    over = threading.Event()

    def ask() -> None:
        for car in itertools.cycle(cars):
            answer = person.put("/assignments", {"carId": car, "userId": user, "start": "2026-01-01T00:00:00Z"})
            if over.wait(0.2 if answer.status_code == 429 else 0):
                return

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(30)


def told(person: Person, receivers: Receivers, seconds: float) -> list[float]:
    """Seconds from each 204 to its webhook, at ten requests per second."""
    user, cars = person.user(), [person.car_with_box() for _ in range(20)]
    answer = person.put("/webhooks", {"url": f"http://127.0.0.1:{receivers.port}/quick"})
    assert answer.status_code == 201, answer.text
    asked: dict[str, float] = {}
    begin = time.monotonic()
    for number in range(int(seconds * RATE)):
        time.sleep(max(0.0, begin + number / RATE - time.monotonic()))
        body = {"carId": cars[number % len(cars)], "userId": user, "start": "2026-01-01T00:00:00Z"}
        answer = person.put("/assignments", body)
        assert answer.status_code == 204, answer.text
        asked[answer.headers["operation-id"]] = time.monotonic()
    with contextlib.suppress(AssertionError):
        eventually(lambda: asked.keys() <= receivers.arrived.keys(), "the last webhook")
    end = time.monotonic()  # a missing message counts with the time until now
    return sorted(receivers.arrived.get(id, end) - at for id, at in asked.items())


@pytest.mark.parametrize("attackers", [1, 3])
def test_slow_webhooks_do_not_delay_other_customers(
    town: Town, receivers: Receivers, figures: Figures, attackers: int
) -> None:
    mallories = [town.person("mallory") for _ in range(attackers)]
    victim = town.person("victim")
    with contextlib.ExitStack() as attacks:
        for mallory in mallories:
            attacks.enter_context(attack(mallory, receivers))
        eventually(lambda: receivers.slow >= 100, "the attack")
        times = told(victim, receivers, SECONDS)
    p99 = times[int(len(times) * 0.99)]
    print(f"\n{attackers} attackers: p50 {statistics.median(times):.3f} s, p99 {p99:.3f} s, most {times[-1]:.3f} s")
    figures.at_most(f"B4 204 to webhook, p99, beside {attackers} x {WEBHOOKS} slow webhooks", p99, "s", 2)
    assert p99 < 2
