"""Passwords: hashing and verification, a few at a time."""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
import threading
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from keyrack.db.fair_semaphore import FairSemaphore, TenantShares

V = TypeVar("V")
SHORTEST = 8  # characters of a manager's password
COST = (2, 19_456, 1)  # OWASP's profile for Argon2id: passes, KiB of memory, threads


class Passwords:
    """Argon2id at `COST`, in two threads.

    The threads run off the event loop, on Linux with a lower priority. A tenant, such as a manager or the address of a
    log-in, uses at most one of them. Per tenant, `waiting` calls may wait, each for `seconds`. `Unavailable` is raised
    if more wait, or after that time.
    """

    THREADS = 2

    def __init__(self, waiting: int = 1, seconds: float = 1.0) -> None:
        self._hasher = PasswordHasher(*COST)
        self._threads = ThreadPoolExecutor(self.THREADS, thread_name_prefix="passwords", initializer=_stand_back)
        self._turns = FairSemaphore(self.THREADS, waiting, seconds, "passwords")
        self._dummy_hash = self._hasher.hash(secrets.token_hex(16))

    async def hash(self, password: str, *parties: Hashable) -> str:
        """The hash of a password, for these tenants. Raises `Unavailable`."""
        return await self._in_turn(parties, self._hasher.hash, password)

    async def verify(self, password: str, hash: str | None, *parties: Hashable) -> bool:
        """Whether the password is right.

        Without a hash, as for an unknown name, it takes the same time and returns False. Raises `Unavailable`.
        """
        return await self._in_turn(parties, self._verify, password, hash)

    async def _in_turn(self, parties: tuple[Hashable, ...], work: Callable[..., V], *args: object) -> V:
        shares = TenantShares(parties, 1)
        await self._turns.take(shares)
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work, *args)
        finally:
            self._turns.give_back(shares)

    def _verify(self, password: str, hash: str | None) -> bool:
        try:
            self._hasher.verify(hash or self._dummy_hash, password)
        except (VerificationError, InvalidHashError):
            return False
        return hash is not None


def _stand_back() -> None:
    """Give the event loop and the database priority over hashing.

    They finish long before a hash.
    """
    if sys.platform == "linux":  # where the priority is the thread's alone
        with suppress(OSError):  # a system call filter may forbid it, and hashing works without
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)
