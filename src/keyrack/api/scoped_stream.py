"""The live stream of a group-limited caller: its topics at a fixed interval."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Collection
from contextlib import suppress

from keyrack.api.event_stream import RETRY, SPREAD, EventHub
from keyrack.api.principals import CallerKey
from keyrack.api.subscriptions import RecheckAccess, Subscription
from keyrack.db.change_notifier import TOPICS, Topic

ID = "scoped"  # instead of the hub's position, which counts changes


class ScopedEventStream(Subscription, AsyncIterator[bytes]):
    """A stream that reports every topic each `every` seconds, regardless of changes.

    A notification names a topic and a customer, not the groups of the change. A stream that followed notifications
    would reveal activity outside of the caller's groups.
    """

    def __init__(
        self,
        hub: EventHub,
        customer: int,
        caller: CallerKey,
        topics: Collection[Topic],
        every: float,
        expires_at: float,
        recheck_access: RecheckAccess,
    ) -> None:
        super().__init__(customer, caller, expires_at, recheck_access)
        self._hub = hub
        self._every = every
        self._news = "".join([f"event: {name}\ndata: {name}\n\n" for name in TOPICS if name in topics]).encode()
        self._has_begun = False

    async def __anext__(self) -> bytes:
        if not self._has_begun:
            self._has_begun = True
            self._hub.add(self)
            self.begin()
            return f"retry: {RETRY + secrets.randbelow(SPREAD)}\nid: {ID}\n\n".encode()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._every):
                while not self._ended:
                    await self._wake.wait()
                    self._wake.clear()
        if self._ended:
            raise StopAsyncIteration
        return self._news

    async def close(self) -> None:
        """The connection has ended, for whatever reason."""
        self._hub.remove(self)
        self.release()
