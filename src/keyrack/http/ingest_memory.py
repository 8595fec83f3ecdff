"""Limits the bytes of deliveries in memory, per device key and in total.

A delivery is never rejected for its own size, which has another limit. So one delivery can always proceed.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

from keyrack.core.error_codes import TOO_MUCH, TOO_MUCH_OF_KEY
from keyrack.core.errors import Unavailable
from keyrack.core.settings import Settings


@dataclass(slots=True)
class MemoryReservation:
    """The memory that one delivery uses."""

    budget: IngestMemoryBudget
    key: str
    bytes: int = 0

    def take(self, count: int) -> None:
        """Reserve more bytes. Raises `Unavailable`: nothing was done, and a retry may succeed."""
        self.bytes += count
        self.budget.add(self.key, count)
        self.budget.check(self)


class IngestMemoryBudget:
    """The deliveries of one process."""

    def __init__(self, settings: Settings) -> None:
        self._max_bytes = settings.ingest_memory_bytes
        self._max_bytes_of_key = settings.ingest_memory_bytes_per_key
        self._total = 0
        self._bytes_of_key: dict[str, int] = {}

    @contextmanager
    def reserve(self, key: str) -> Generator[MemoryReservation]:
        """Reserve memory for a delivery of this device key, until the end of the block."""
        room = MemoryReservation(self, key)
        try:
            yield room
        finally:
            self.add(key, -room.bytes)
            if not self._bytes_of_key[key]:
                del self._bytes_of_key[key]

    def add(self, key: str, count: int) -> None:
        self._total += count
        self._bytes_of_key[key] = self._bytes_of_key.get(key, 0) + count

    def check(self, reservation: MemoryReservation) -> None:
        """Raises `Unavailable` if other deliveries leave too little memory for this one."""
        of_key = self._bytes_of_key[reservation.key]
        if of_key > max(self._max_bytes_of_key, reservation.bytes):
            raise Unavailable(TOO_MUCH_OF_KEY.format(most=self._max_bytes_of_key))
        if self._total > max(self._max_bytes, reservation.bytes):
            raise Unavailable(TOO_MUCH.format(most=self._max_bytes))
