"""In charge of the database's notices: hears them, and knows whether it would hear them now."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import LiteralString

import asyncpg
import structlog

from keyrack.database.connection import UNREACHABLE
from keyrack.metrics.measures import LISTENERS

log = structlog.get_logger("keyrack.database")

ALIVE: LiteralString = "select 1"


class Listener:
    """One connection that hears the database's notices, and looks for what it may have missed.

    What is cached on the strength of notices may be used only while `fresh`: for `bound` seconds from the last look
    that was answered. An answer may take as long, so caches go on being used while the database is merely slow.
    """

    PING = 0.4  # seconds between two looks

    def __init__(
        self,
        dsn: str,
        hear: Mapping[str, Callable[[], None]],
        lost: Callable[[], None],
        watch: LiteralString | None = None,
        *,
        bound: float = 2.0,
        read: Mapping[str, Callable[[str], None]] | None = None,
        begun: Callable[[], None] = lambda: None,
    ) -> None:
        self._dsn = dsn
        self._hear = hear  # channel -> what to do at a notice
        self._lost = lost  # what to do when notices may have been missed
        self._watch: LiteralString | None = watch  # tells by its answer whether there was something to hear
        self._bound = bound
        self._read = read or {}  # channel -> what to do with what a notice says
        self._begun = begun  # what to do when it begins to listen, for the first time or again
        self._seen: object = None
        self._fresh_until = 0.0

    @property
    def fresh(self) -> bool:
        return time.monotonic() < self._fresh_until

    async def run(self) -> None:
        """Listen until cancelled; reconnect for as long as it takes."""
        lost = False
        while True:
            raw: asyncpg.Connection | None = None
            try:
                raw = await asyncpg.connect(
                    self._dsn, timeout=5, server_settings={"application_name": "keyrack listener"}
                )
                if lost:
                    log.info("the database is back")
                lost = False
                await self._listen(raw)
            except (*UNREACHABLE, TimeoutError, asyncpg.PostgresError):
                lost = True
                await asyncio.sleep(self.PING)
            finally:
                if raw is not None:
                    raw.terminate()

    async def _listen(self, raw: asyncpg.Connection) -> None:
        LISTENERS.add()
        try:
            await self._hear_all(raw)
        finally:
            LISTENERS.add(by=-1)

    async def _hear_all(self, raw: asyncpg.Connection) -> None:
        for channel, act in self._hear.items():
            await raw.add_listener(channel, _ignoring_arguments(act))
        for channel, take in self._read.items():
            await raw.add_listener(channel, _with_payload(take))
        self._begun()
        if self._watch is None:
            self._lost()  # what came before this moment was not heard
        while True:
            sent = time.monotonic()
            seen = await raw.fetchrow(self._watch or ALIVE, timeout=self._bound)
            if self._watch is not None and seen != self._seen:
                self._seen = seen
                self._lost()
            self._fresh_until = sent + self._bound
            await asyncio.sleep(self.PING)


def _ignoring_arguments(act: Callable[[], None]) -> Callable[..., None]:
    return lambda *_: act()


def _with_payload(take: Callable[[str], None]) -> Callable[..., None]:
    return lambda *told: take(told[-1])
