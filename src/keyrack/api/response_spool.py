"""Temporary files for long responses, and their limits."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterable, AsyncIterator
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

import structlog

from keyrack.core.error_codes import ErrorCode
from keyrack.core.errors import BadRequest, ConnectionAborted, Unavailable

log = structlog.get_logger("keyrack.response_spool")

SENT_AT_ONCE = 262_144  # bytes
NO_ROOM = ErrorCode(
    "too-many-long-answers",
    "Too many long responses are being sent at the moment. Please try again, or request less at once.",
    "Retry after the seconds in `Retry-After`, or request less at once.",
)
TOO_LONG = ErrorCode(
    "answer-too-long",
    "The response has more than {most} bytes, and no index supports its order. Request less with $filter,"
    " $select or $top, or leave out $orderby.",
    "Narrow the list with `$filter`, `$select` or `$top`, or leave out `$orderby`.",
)


class Spool:
    """The files of one process: at most `max_bytes`, and half of that per customer."""

    def __init__(self, max_bytes: int, directory: Path | None) -> None:
        self.max_bytes = max_bytes
        self.directory = directory
        self._bytes_by_customer: Counter[int] = Counter()  # customer -> bytes

    async def keep(self, customer: int, parts: AsyncIterable[bytes]) -> SpooledResponse:
        """Write a response of these parts. Raises `BadRequest` if it is too long, `Unavailable` if there is no room."""
        kept = SpooledResponse(self, customer)
        try:
            async for part in parts:
                await kept.add(part)
        except BaseException:
            await kept.close()
            raise
        kept.rewind()
        return kept

    def take(self, customer: int, size: int, taken: int) -> None:
        """Count `size` more bytes of a response with `taken` bytes. Raises `BadRequest`, `Unavailable`."""
        share = self.max_bytes // 2
        if taken + size > share:
            raise BadRequest(TOO_LONG.format(most=share))
        if self._bytes_by_customer[customer] + size > share or self._bytes_by_customer.total() + size > self.max_bytes:
            raise Unavailable(NO_ROOM)
        self._bytes_by_customer[customer] += size

    def give_back(self, customer: int, size: int) -> None:
        self._bytes_by_customer[customer] -= size
        if self._bytes_by_customer[customer] <= 0:
            del self._bytes_by_customer[customer]


class SpooledResponse(AsyncIterator[bytes]):
    """One response in a file without a name, so that nothing remains of it."""

    def __init__(self, spool: Spool, customer: int) -> None:
        self.length = 0
        self._spool = spool
        self._customer = customer
        self._file: IO[bytes] | None = None

    async def add(self, part: bytes) -> None:
        """Append a part. Raises `BadRequest`, `Unavailable`."""
        self._spool.take(self._customer, len(part), self.length)
        self.length += len(part)
        try:
            await asyncio.to_thread(self._write, part)
        except OSError as error:
            log.error("response spooling failed", reason=str(error))
            raise Unavailable(NO_ROOM) from error

    def _write(self, part: bytes) -> None:
        if self._file is None:
            self._file = TemporaryFile(dir=self._spool.directory)  # noqa: SIM115 - closed by `close`
        self._file.write(part)
        self._file.flush()

    def rewind(self) -> None:
        """Begin to read it."""
        if self._file is not None:
            self._file.seek(0)

    def __aiter__(self) -> SpooledResponse:
        return self

    async def __anext__(self) -> bytes:
        try:
            part = b"" if self._file is None else await asyncio.to_thread(self._file.read, SENT_AT_ONCE)
        except OSError:
            log.exception("spooled response aborted")
            raise ConnectionAborted from None
        if not part:
            raise StopAsyncIteration
        return part

    async def close(self) -> None:
        """Close the file and free its room."""
        self._give_back()
        if self._file is not None:
            await asyncio.to_thread(self._file.close)
            self._file = None

    def _give_back(self) -> None:
        self._spool.give_back(self._customer, self.length)
        self.length = 0

    def __del__(self) -> None:
        self._give_back()  # the sender was cancelled before it began; the file closes itself
