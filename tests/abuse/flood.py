"""A flood: many connections that send requests continuously, from a separate process on one core."""

from __future__ import annotations

import asyncio
import itertools
import multiprocessing
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp


@dataclass(frozen=True)
class Sent:
    """A request that is sent repeatedly. `{n}` in its body is a different number each time."""

    method: str
    url: str
    headers: dict[str, str]
    body: str = ""


@contextmanager
def flood(requests: Sequence[Sent], connections: int) -> Iterator[None]:
    """Send the requests in turn over the connections until the context ends."""
    context = multiprocessing.get_context("spawn")
    up = context.Event()
    process = context.Process(target=_run, args=(requests, connections, up), daemon=True)
    process.start()
    try:
        assert up.wait(30)
        yield
    finally:
        process.kill()
        process.join()


def _run(requests: Sequence[Sent], connections: int, up: Any) -> None:
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    asyncio.run(_send(requests, connections, up))


async def _send(requests: Sequence[Sent], connections: int, up: Any) -> None:
    numbers = itertools.count(os.getpid() * 10_000_000)
    turns = itertools.cycle(requests)

    async def client() -> None:
        while True:
            sent = next(turns)
            body = sent.body.replace("{n}", str(next(numbers))).encode() or None
            try:
                async with session.request(sent.method, sent.url, headers=sent.headers, data=body) as answer:
                    await answer.read()
                if answer.status == 503:
                    await asyncio.sleep(0.05)  # far less than the server's Retry-After
            except aiohttp.ClientError:
                await asyncio.sleep(0.05)
            up.set()

    timeout = aiohttp.ClientTimeout(60)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), timeout=timeout) as session:
        await asyncio.gather(*(client() for _ in range(connections)))
