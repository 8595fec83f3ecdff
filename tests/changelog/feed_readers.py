"""Readers of the whole feed, which resume after a failure and record violations.

A violation is a skipped number, or a new epoch without a `gone` answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from keyrack.changelog.feed import EPOCH
from tests.support.servers import DEADLINE

AWAY = (aiohttp.ClientError, TimeoutError, ConnectionError)
PAUSE = 0.1  # seconds until a reader reconnects
WAIT = 5  # seconds that a request waits for changes
SILENCE = 30.0  # seconds without a byte after which a connection is dead
BUSY = (401, 409, 429, 503)  # statuses after which to retry


class _Again(Exception):
    """Signals a retry."""


@dataclass
class Reader:
    """A reader of a customer's whole log; it looks up the server's address before each request."""

    where: Callable[[], str]
    headers: Callable[[], Mapping[str, str]]
    epoch: str | None = None
    place: int = 0  # the last number that was seen
    seen: int = 0
    repeats: int = 0
    breaks: int = 0  # connections that failed or ended early
    gone: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    wrong: list[str] = field(default_factory=list[str])

    async def run(self) -> None:
        """Read until cancelled."""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=5, sock_read=SILENCE)
        async with aiohttp.ClientSession(timeout=timeout) as http:
            while True:
                try:
                    await self.follow(http)
                except (*AWAY, _Again):
                    self.breaks += 1
                await asyncio.sleep(PAUSE)

    async def follow(self, http: aiohttp.ClientSession) -> None:
        """Read once, as long as the connection lasts."""
        raise NotImplementedError

    def take(self, epoch: str, number: int) -> None:
        if self.epoch not in (None, epoch):
            self.wrong.append(f"{number} is of {epoch}, and nobody said that {self.epoch} is over")
        self.epoch = epoch
        if number <= self.place:
            self.repeats += 1
        elif number == self.place + 1:
            self.place, self.seen = number, self.seen + 1
        else:
            self.wrong.append(f"{number} came behind {self.place}")
            self.place = number

    def begin(self, there_is: dict[str, Any]) -> None:
        """Continue from the newest number after a 410 or `gone`."""
        self.gone.append(there_is)
        self.epoch, self.place = there_is["epoch"], there_is["newest"]


class Poller(Reader):
    """Polls for the changes after the last number."""

    async def follow(self, http: aiohttp.ClientSession) -> None:
        query = {"$filter": f"id gt {self.place}", "wait": str(WAIT)} | ({"epoch": self.epoch} if self.epoch else {})
        headers = {**self.headers(), "Accept": "application/problem+json, application/json"}
        async with http.get(f"{self.where()}/changes", params=query, headers=headers) as answer:
            if answer.status == 410:
                self.begin(await answer.json(content_type=None))
                return
            if answer.status in BUSY:
                raise _Again
            assert answer.status == 200, (answer.status, await answer.text())
            changes = await answer.json()
            for change in changes:
                self.take(answer.headers[EPOCH], change["id"])


class Listener(Reader):
    """Reads a stream, and resumes it with the last id."""

    async def follow(self, http: aiohttp.ClientSession) -> None:
        last = {"Last-Event-ID": f"{self.epoch}:{self.place}"} if self.epoch else {}
        headers = {**self.headers(), "Accept": "text/event-stream", **last}
        async with http.get(f"{self.where()}/changes", headers=headers) as answer:
            if answer.status in BUSY:
                raise _Again
            assert answer.status == 200, (answer.status, await answer.text())
            event: dict[str, str] = {}
            async for line in answer.content:
                name, _, value = line.decode().rstrip("\n").partition(": ")
                if name:
                    event[name] = value
                    continue
                if event.get("event") == "gone":
                    self.begin(json.loads(event["data"]))
                    return
                if event.get("event") == "change":
                    epoch, _, number = event["id"].rpartition(":")
                    self.take(epoch, int(number))
                event = {}


@contextlib.asynccontextmanager
async def reading(*readers: Reader) -> AsyncGenerator[None]:
    """Run the readers within the block. A reader that fails ends it."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(reader.run()) for reader in readers]
        yield
        for task in tasks:
            task.cancel()


@contextlib.contextmanager
def reading_beside(*readers: Reader) -> Iterator[None]:
    """The same for a synchronous test, in a thread."""
    loop = asyncio.new_event_loop()

    async def read(ends: asyncio.Event) -> None:
        async with reading(*readers):
            await ends.wait()

    ends = asyncio.Event()
    with ThreadPoolExecutor(1) as thread:
        done = thread.submit(loop.run_until_complete, read(ends))
        try:
            yield
        finally:
            loop.call_soon_threadsafe(ends.set)
        done.result(DEADLINE)
    loop.close()


async def arrived(readers: list[Reader], newest: Callable[[Reader], int], seconds: float = DEADLINE) -> None:
    """Wait until each reader has seen its newest number."""
    end = asyncio.get_running_loop().time() + seconds
    while late := [reader for reader in readers if reader.place < newest(reader)]:
        assert asyncio.get_running_loop().time() < end, late
        await asyncio.sleep(PAUSE)
