"""Live updates: distributes change notifications to the streams of subscribers.

A stream only contains names of topics. The pending names of a slow reader are a set, so they never grow. The newest
number of each topic is enough to report what a returning client missed.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import struct
from collections.abc import AsyncIterator, Collection, Iterable, Mapping

from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import ECB

from keyrack.api.permissions import Permission
from keyrack.api.principals import CallerKey
from keyrack.api.subscriptions import Name, RecheckAccess, Subscription
from keyrack.core.error_codes import ErrorCode
from keyrack.core.errors import Refusal, TooManyRequests, Unavailable
from keyrack.core.log_config import MINUTE, RateLimitedLogger
from keyrack.core.metrics.catalog import LIMITS, STREAMS
from keyrack.core.settings import Settings
from keyrack.db.change_notifier import EVERYBODY, TOPICS, Topic, parse_notification
from keyrack.db.connection import is_interruption

# Callers that may read a topic's data receive its notifications
NEEDS: Mapping[str, Permission] = {
    topic: Permission.WEBHOOKS_READ if topic == "deliveries" else Permission(f"{topic}:read") for topic in TOPICS
}

seldom = RateLimitedLogger("keyrack.event_stream", MINUTE)

EVENTS = "text/event-stream"
GAP = "gap"
BLOCK = re.compile("[0-9a-f]{32}").fullmatch  # an encrypted number
GATHER = 0.05  # seconds between two messages of one stream, because several processes notify
RETRY, SPREAD = 1_000, 2_000  # milliseconds until a client reconnects, with jitter
BREATH = 20  # checked streams after which other tasks run
SOON = 1.0  # seconds until the next check if the database did not respond
TRY_AGAIN = 10  # seconds until a stream may have ended

FULL = ErrorCode(
    "too-many-streams",
    "Too many live streams are open at the moment. Please try again.",
    "Poll instead, or retry after the seconds in `Retry-After`.",
)
FULL_OF_CUSTOMER = ErrorCode(
    "too-many-streams-of-customer",
    "The customer already has {most} open live streams. Retry in {seconds} seconds.",
    "Close unused streams; one per page or program is enough.",
)
FULL_OF_CALLER = ErrorCode(
    "too-many-streams-of-caller",
    "This caller already has {most} open live streams. Retry in {seconds} seconds.",
    "Close unused streams; one per page or program is enough.",
)


class EventHub:
    """The streams of one process, at most `max_streams`, and the last changes. Run its `run`."""

    def __init__(self, settings: Settings, max_streams: int) -> None:
        self._max_streams = min(settings.live_streams, max_streams)
        self._of_customer = settings.live_streams_per_customer
        self._of_caller = settings.live_streams_per_caller
        self._keepalive = settings.live_keepalive
        self._remembered = settings.live_tracked_customers
        self._process = secrets.token_hex(4)
        self._cipher = Cipher(AES(secrets.token_bytes(32)), ECB())  # noqa: S305 - it encrypts single, distinct blocks
        self._number = 0  # of the newest change
        self._floor = 0  # changes before this number are unknown
        self._changed: dict[int, dict[Topic, int]] = {}  # customer -> topic -> its newest number; the oldest first
        self._of_all: dict[Topic, int] = {}  # the same for notifications to all customers
        self._streams: dict[int, dict[Subscription, None]] = {}
        self._callers: dict[CallerKey, int] = {}
        self._count = 0
        self._wake = asyncio.Event()

    def current_id(self, customer: int) -> str:
        """The id of the customer's newest change: a stream with this `Last-Event-ID` continues from here."""
        changes = (self._of_all, self._changed.get(customer, {}))
        return self.id_of(customer, max((self._floor, *(number for topics in changes for number in topics.values()))))

    def id_of(self, customer: int, number: int) -> str:
        """A number as the customer sees it: encrypted, because numbers count the changes of all customers."""
        block = struct.pack(">QQ", customer, number)
        return f"{self._process}-{self._cipher.encryptor().update(block).hex()}"

    def _number_of(self, customer: int, id: str) -> int | None:
        """The number in the customer's id; None for any other text."""
        process, _, digits = id.partition("-")
        if process != self._process or not BLOCK(digits):
            return None
        owner, number = struct.unpack(">QQ", self._cipher.decryptor().update(bytes.fromhex(digits)))
        return number if owner == customer else None

    def hear(self, payload: str) -> None:
        """Process a notification."""
        for customer, topics in parse_notification(payload):
            if not topics:
                continue
            self._number += 1
            numbers = dict.fromkeys(topics, self._number)
            if customer == EVERYBODY:
                self._of_all |= numbers
            else:
                self._changed[customer] = self._changed.pop(customer, {}) | numbers
                self._forget_oldest()
            for stream in self._watching(customer):
                stream.notify(topics, self._number)

    def lost(self) -> None:
        """Record that notifications may have been missed."""
        self._number += 1
        self._floor = self._number
        self._changed.clear()
        self._of_all.clear()
        for stream in self._watching(EVERYBODY):
            stream.notify((GAP,), self._number)

    def missed(self, customer: int, last: str | None) -> dict[Name, int]:
        """The changed topics since this id, with their numbers. Empty for a client without an id."""
        if last is None:
            return {}
        last_number = self._number_of(customer, last)
        if last_number is None or not self._floor <= last_number <= self._number:
            return {GAP: self._number}
        missed: dict[Name, int] = {}
        for changes in (self._of_all, self._changed.get(customer, {})):
            newer: dict[Name, int] = {topic: number for topic, number in changes.items() if number > last_number}
            missed |= {topic: max(number, missed.get(topic, 0)) for topic, number in newer.items()}
        return missed

    def check(self, customer: int, caller: CallerKey) -> None:
        """Raises `Unavailable` or `TooManyRequests` if a limit of streams is reached."""
        if self._count >= self._max_streams:
            LIMITS.add("live-streams")
            seldom.warning("stream limit reached", limit=self._max_streams)
            raise Unavailable(FULL)
        if len(self._streams.get(customer, ())) >= self._of_customer:
            LIMITS.add("live-streams")
            seldom.warning("customer stream limit reached", customer=customer, limit=self._of_customer)
            raise TooManyRequests(TRY_AGAIN, reason=FULL_OF_CUSTOMER.format(most=self._of_customer, seconds=TRY_AGAIN))
        if self._callers.get(caller, 0) >= self._of_caller:
            LIMITS.add("live-streams")
            seldom.warning("caller stream limit reached", manager=caller.number, limit=self._of_caller)
            raise TooManyRequests(TRY_AGAIN, reason=FULL_OF_CALLER.format(most=self._of_caller, seconds=TRY_AGAIN))

    def add(self, stream: Subscription) -> None:
        self._streams.setdefault(stream.customer, {})[stream] = None
        self._callers[stream.caller] = self._callers.get(stream.caller, 0) + 1
        self._count += 1
        STREAMS.add()

    def remove(self, stream: Subscription) -> None:
        streams = self._streams.get(stream.customer, {})
        if stream not in streams:
            return
        del streams[stream]
        if not streams:
            del self._streams[stream.customer]
        self._callers[stream.caller] -= 1
        if not self._callers[stream.caller]:
            del self._callers[stream.caller]
        self._count -= 1
        STREAMS.add(by=-1)

    def look_again(self) -> None:
        """Recheck the access of all streams, because access may have changed."""
        self._wake.set()

    async def run(self) -> None:
        """Recheck access and send keep-alives until cancelled."""
        clock = asyncio.get_running_loop()
        due = clock.time() + self._keepalive
        while True:
            timer = clock.call_at(due, self._wake.set)
            await self._wake.wait()
            timer.cancel()
            self._wake.clear()
            is_due = clock.time() >= due
            for number, stream in enumerate(self._watching(EVERYBODY)):
                await self._recheck(stream)
                if is_due:
                    stream.keep_alive()
                if number % BREATH == BREATH - 1:
                    await asyncio.sleep(0)
            due = clock.time() + self._keepalive if is_due else due

    async def _recheck(self, stream: Subscription) -> None:
        """End the stream if its caller lost access. If the database cannot be reached, check again soon."""
        try:
            expires_at = await stream.recheck_access()
            if stream in self._streams.get(stream.customer, ()):  # it may have ended meanwhile
                stream.set_expiry(expires_at)
        except Refusal as refusal:
            if refusal.status < 500:
                stream.end()
                return
        except Exception as error:
            if not is_interruption(error):
                raise
        else:
            return
        asyncio.get_running_loop().call_later(SOON, self._wake.set)

    def _watching(self, customer: int) -> list[Subscription]:
        if customer == EVERYBODY:
            return [stream for streams in self._streams.values() for stream in streams]
        return list(self._streams.get(customer, ()))

    def _forget_oldest(self) -> None:
        while len(self._changed) > self._remembered:
            oldest = self._changed.pop(next(iter(self._changed)))
            self._floor = max(self._floor, *oldest.values())


class EventStream(Subscription, AsyncIterator[bytes]):
    """One stream of server-sent events (HTML, section 9.2). `event` and `data` are the topic's name."""

    def __init__(
        self,
        hub: EventHub,
        customer: int,
        caller: CallerKey,
        topics: Collection[Topic],
        last: str | None,
        expires_at: float,
        recheck_access: RecheckAccess,
    ) -> None:
        super().__init__(customer, caller, expires_at, recheck_access)
        self._hub = hub
        self._topics = frozenset(topics)
        self._last = last
        self._pending: dict[Name, int] = {}  # with the newest number of each
        self._has_begun = False
        self._not_before = 0.0

    def notify(self, topics: Iterable[Name], number: int) -> None:
        """Add topics to the pending ones, each once. A gap replaces all, because the client then reads everything
        again."""
        for topic in topics:
            if topic == GAP:
                self._pending = {GAP: number}
            elif topic in self._topics:
                self._pending[topic] = number
        if self._pending:
            self._wake.set()

    async def __anext__(self) -> bytes:
        if not self._has_begun:
            return self._begin()
        while not self._ended:
            await self._wake.wait()
            early = self._not_before - asyncio.get_running_loop().time()
            if self._pending and early > 0 and not self._ended:
                await asyncio.sleep(early)
            self._wake.clear()
            if self._ended:
                break
            if self._pending:
                return self._news()
            if self._keepalive_due:
                self._keepalive_due = False
                return f":\nid: {self._hub.current_id(self.customer)}\n\n".encode()
        raise StopAsyncIteration

    async def close(self) -> None:
        """Remove the stream from the hub, for whatever reason the response ended."""
        self._hub.remove(self)
        self.release()

    def _begin(self) -> bytes:
        """The first bytes, sent at once: the client sees that it is connected, and its position."""
        self._has_begun = True
        self._hub.add(self)
        self.begin()
        head = f"retry: {RETRY + secrets.randbelow(SPREAD)}\n"
        missed = self._hub.missed(self.customer, self._last)
        self._pending = {name: number for name, number in missed.items() if name == GAP or name in self._topics}
        if self._pending:  # an id confirms that all earlier changes were sent
            self._wake.set()
            return f"{head}\n".encode()
        return f"{head}id: {self._hub.current_id(self.customer)}\n\n".encode()

    def _news(self) -> bytes:
        """The pending topics, oldest first: if the connection breaks, the last id matches the received topics."""
        pending, self._pending = self._pending, {}
        self._not_before = asyncio.get_running_loop().time() + GATHER
        return b"".join(
            f"id: {self._hub.id_of(self.customer, number)}\nevent: {name}\ndata: {name}\n\n".encode()
            for name, number in sorted(pending.items(), key=lambda item: item[1])
        )
