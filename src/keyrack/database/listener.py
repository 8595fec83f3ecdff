"""In charge of the database's notices: hears them, and knows whether it would hear them now."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import LiteralString

import asyncpg

from keyrack.database.connection import UNREACHABLE


class Listener:
    """One connection that hears the database's notices, and knows whether it would hear them now.

    What is cached on the strength of notices may be used only while `fresh`: a connection that has died silently is
    noticed by a ping that stays out.
    """

    PING = 0.4  # seconds between pings; a lost connection is noticed within twice this

    def __init__(
        self,
        dsn: str,
        hear: Mapping[str, Callable[[], None]],
        lost: Callable[[], None],
        watch: LiteralString = "select 1",
    ) -> None:
        self._dsn = dsn
        self._watch: LiteralString = watch  # the ping; when its answer changes, notices may have been missed
        self._hear = hear  # channel -> what to do at a notice
        self._lost = lost  # what to do when notices may have been missed
        self._fresh_until = 0.0

    @property
    def fresh(self) -> bool:
        return time.monotonic() < self._fresh_until

    async def run(self) -> None:
        """Listen until cancelled; reconnect for as long as it takes."""
        while True:
            raw: asyncpg.Connection | None = None
            try:
                raw = await asyncpg.connect(
                    self._dsn, timeout=5, server_settings={"application_name": "keyrack listener"}
                )
                await self._listen(raw)
            except (*UNREACHABLE, TimeoutError, asyncpg.PostgresError):
                await asyncio.sleep(self.PING)
            finally:
                self._fresh_until = 0.0
                self._lost()
                if raw is not None:
                    raw.terminate()

    async def _listen(self, raw: asyncpg.Connection) -> None:
        for channel, act in self._hear.items():
            await raw.add_listener(channel, _ignoring_arguments(act))
        self._lost()  # what came before this moment was not heard
        known: object = None
        while True:
            sent = time.monotonic()
            seen = await raw.fetchrow(self._watch, timeout=self.PING)
            if seen != known:
                known = seen
                self._lost()
            self._fresh_until = sent + 2 * self.PING
            await asyncio.sleep(self.PING)


def _ignoring_arguments(act: Callable[[], None]) -> Callable[..., None]:
    return lambda *_: act()
