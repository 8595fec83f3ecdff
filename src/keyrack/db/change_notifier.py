"""Notifies all processes of changed topics, always after the commit.

A change costs one dictionary entry. Equal entries merge, and one statement publishes all of them at a bounded rate. A
notification carries only topic names. A receiver that shows the data reads them again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import Literal, LiteralString, get_args

import asyncpg

from keyrack.db.connection import UNREACHABLE, Database
from keyrack.db.throttled_log import ThrottledLogger

log = ThrottledLogger("keyrack.change_notifier")

# The notification has one letter for each topic, in this order: append new topics
Topic = Literal[
    "cars", "users", "groups", "products", "services", "assignments", "operations", "events", "webhooks", "deliveries",
    "positions", "changes",
]  # fmt: skip
Topics = frozenset[Topic]
TOPICS: tuple[Topic, ...] = get_args(Topic)
LETTERS = dict(zip(TOPICS, "abcdefghijkl", strict=True))
NAMES: dict[str, Topic] = {letter: topic for topic, letter in LETTERS.items()}

NOTHING: Topics = frozenset()
APPLIED: Topics = frozenset(("operations", "assignments", "deliveries", "webhooks"))  # after operations were applied
DELIVERED: Topics = frozenset(("deliveries", "webhooks"))  # a webhook shows its number of waiting deliveries
DRIVEN: Topics = frozenset(("positions",))
NUMBERED: Topics = frozenset(("changes",))  # after changes got their sequence numbers

EVERYBODY = 0  # in place of a customer id: all customers
CHANNEL = "keyrack_live"
# The commit does not wait for the disk: a lost notification only delays a read, and only current listeners need it
NOTIFY: LiteralString = """
select set_config('synchronous_commit', 'off', true), pg_notify('keyrack_live', said) from unnest($1::text[]) said
"""
PACE = 0.05  # minimum seconds between two notifications of a process
SLOW_PACE = 1.0  # the same for positions, which change all the time
IN_ONE = 300  # customers per payload: with ten digits and twelve letters each, it stays below 8,000 bytes
MOST = 3_000  # customers named one by one; above, all customers are notified
AGAIN = 0.5  # seconds until a failed notification is sent again
AT_LAST = 1.0  # maximum seconds for the last notification of a process

Notify = Callable[[int, Topics], None]


def discard(customer: int, topics: Topics) -> None:
    """A `Notify` for processes without listeners: does nothing."""


class ChangeNotifier:
    """Notifies the processes of all nodes: the first change at once, later ones at a bounded rate."""

    def __init__(self, db: Database, pace: float = PACE) -> None:
        """`pace`: seconds between two notifications."""
        self._db = db
        self._pace = pace
        self._pending: dict[int, Topics] = {}
        self._pending_positions: dict[int, Topics] = {}  # of frequently changing topics
        self._positions_due_at = 0.0  # earliest time of their next notification
        self._wake = asyncio.Event()

    def __call__(self, customer: int, topics: Topics) -> None:
        """Record that `topics` of a customer, or of `EVERYBODY`, have changed. Call it after the commit."""
        if topics:
            pending_topics = self._pending_positions if topics is DRIVEN else self._pending
            pending_topics[customer] = pending_topics.get(customer, NOTHING) | topics
            if len(pending_topics) > MOST:
                _merge(pending_topics)
            self._wake.set()

    async def run(self) -> None:
        """Send until cancelled, then send the rest."""
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                await self._send(self._take_due())
                await asyncio.sleep(self._pace)
        finally:
            self._positions_due_at = 0.0
            try:
                async with asyncio.timeout(AT_LAST):
                    await self._send(self._take_due())
            except TimeoutError:
                log.warning("change notification lost at shutdown")

    def _take_due(self) -> dict[int, Topics]:
        """Take the entries that are due now; a timer wakes the task for the rest."""
        due_topics, self._pending = self._pending, {}
        loop = asyncio.get_running_loop()
        if self._pending_positions and (now := loop.time()) >= self._positions_due_at:
            driven, self._pending_positions = self._pending_positions, {}
            self._positions_due_at = now + SLOW_PACE
            for customer, topics in driven.items():
                due_topics[customer] = due_topics.get(customer, NOTHING) | topics
        elif self._pending_positions:
            loop.call_at(self._positions_due_at, self._wake.set)
        return due_topics

    async def _send(self, topics_by_customer: dict[int, Topics]) -> None:
        if not topics_by_customer:
            return
        try:
            await self._db.execute(NOTIFY, list(encode_notifications(topics_by_customer)))
        except (*UNREACHABLE, asyncpg.PostgresError, TimeoutError) as error:
            log.warning("change notification failed, retrying", error=error)
            for customer, topics in topics_by_customer.items():
                self._pending[customer] = self._pending.get(customer, NOTHING) | topics
            if len(self._pending) > MOST:
                _merge(self._pending)
            asyncio.get_running_loop().call_later(AGAIN, self._wake.set)


def _merge(topics_by_customer: dict[int, Topics]) -> None:
    """Replace the entries by one for all customers."""
    log.warning("change notification widened to all customers", limit=MOST)
    everything = NOTHING.union(*topics_by_customer.values())
    topics_by_customer.clear()
    topics_by_customer[EVERYBODY] = everything


def encode_notifications(topics_by_customer: dict[int, Topics]) -> Iterator[str]:
    """The payloads of notifications.

    >>> list(encode_notifications({12: frozenset(("users", "cars")), 7: frozenset(("positions",))}))
    ['12ab 7k']
    """
    words = [
        f"{customer}{''.join(sorted(LETTERS[topic] for topic in topics))}"
        for customer, topics in topics_by_customer.items()
    ]
    for first in range(0, len(words), IN_ONE):
        yield " ".join(words[first : first + IN_ONE])


def parse_notification(payload: str) -> Iterable[tuple[int, Topics]]:
    """The customers and topics of a payload; skips what a newer release adds.

    >>> [(customer, sorted(topics)) for customer, topics in parse_notification("12ab 7k? nonsense")]
    [(12, ['cars', 'users']), (7, ['positions'])]
    """
    for word in payload.split():
        letters = word.lstrip("0123456789")
        if digits := word[: len(word) - len(letters)]:
            yield int(digits), frozenset(NAMES[letter] for letter in letters if letter in NAMES)
