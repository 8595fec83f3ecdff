"""Receives the database's notifications, and knows whether it would receive them now."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import LiteralString

import asyncpg
import structlog

from keyrack.core.metrics.catalog import LISTENERS
from keyrack.db.connection import UNREACHABLE
from keyrack.db.replication.primary_connector import PrimaryConnector

log = structlog.get_logger("keyrack.database")

ALIVE: LiteralString = "select 1"


class NotificationListener:
    """One connection that listens for notifications and polls for missed ones.

    A cache that depends on notifications may be used only while `is_fresh`: for `timeout_seconds` after the start of
    the last answered poll. An answer may take as long, so caches stay usable while the database is merely slow. After a
    failover, the old connection is closed, and the next one reads the tables again.
    """

    PING = 0.4  # seconds between two polls

    def __init__(
        self,
        connector: PrimaryConnector,
        handlers: Mapping[str, Callable[[], None]],
        on_gap: Callable[[], None],
        watch_sql: LiteralString | None = None,
        *,
        timeout_seconds: float = 2.0,
        payload_handlers: Mapping[str, Callable[[str], None]] | None = None,
        on_listen: Callable[[], None] = lambda: None,
    ) -> None:
        self._connector = connector
        self._handlers = handlers  # channel -> action
        self._on_gap = on_gap  # called if notifications may have been missed
        self._watch_sql: LiteralString | None = watch_sql  # its answer changes if there was a notification
        self._timeout_seconds = timeout_seconds
        self._payload_handlers = payload_handlers or {}  # channel -> action that gets the payload
        self._on_listen = on_listen  # called whenever it starts to listen
        self._last_answer: object = None
        self._fresh_until = 0.0
        self._raw: asyncpg.Connection | None = None

    @property
    def is_fresh(self) -> bool:
        return time.monotonic() < self._fresh_until

    async def run(self) -> None:
        """Listen until cancelled; reconnects without a limit."""
        self._connector.leadership.watch(self._renewed)
        lost = False
        try:
            while True:
                with suppress(*UNREACHABLE, asyncpg.PostgresError):
                    await self._listen(is_retry=lost)
                lost = True
                await asyncio.sleep(self.PING * (0.5 + random.random()))  # noqa: S311 - not all processes at once
        finally:
            self._connector.leadership.unwatch(self._renewed)

    async def _listen(self, *, is_retry: bool) -> None:
        self._raw = raw = await self._connector.connect(server_settings={"application_name": "keyrack listener"})
        if is_retry:
            log.info("database reachable")
        ended = asyncio.Event()
        raw.add_termination_listener(_ignoring_arguments(ended.set))
        LISTENERS.add()
        try:
            for channel, act in self._handlers.items():
                await raw.add_listener(channel, _ignoring_arguments(act))
            for channel, take in self._payload_handlers.items():
                await raw.add_listener(channel, _with_payload(take))
            self._on_listen()
            if self._watch_sql is None:
                self._on_gap()  # earlier notifications were missed
            while not ended.is_set():
                await self._poll(raw)
                with suppress(TimeoutError):
                    async with asyncio.timeout(self.PING):
                        await ended.wait()
        finally:
            LISTENERS.add(by=-1)
            self._raw = None
            raw.terminate()

    async def _poll(self, raw: asyncpg.Connection) -> None:
        sent = time.monotonic()
        answer = await raw.fetchrow(self._watch_sql or ALIVE, timeout=self._timeout_seconds)
        if raw is not self._raw or raw.is_closed():
            return
        if self._watch_sql is not None and answer != self._last_answer:
            self._last_answer = answer
            self._on_gap()
        self._fresh_until = sent + self._timeout_seconds

    def _renewed(self, _moved: bool) -> None:
        self._fresh_until = 0.0
        self._last_answer = None  # another primary may give the same answer with another meaning
        if self._raw is not None:
            self._raw.terminate()


def _ignoring_arguments(act: Callable[[], None]) -> Callable[..., None]:
    return lambda *_: act()


def _with_payload(take: Callable[[str], None]) -> Callable[..., None]:
    return lambda *arguments: take(arguments[-1])
