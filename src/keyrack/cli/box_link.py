"""The link of a tool to a box by a wire (docs/key-wire.md)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Protocol, TypeVar

from keyrack.offline_keys import link_messages
from keyrack.offline_keys.cose import MessageRefused
from keyrack.offline_keys.link_messages import Said
from keyrack.offline_keys.transports import wire
from keyrack.offline_keys.transports.wire import Deframer

REPLY_SECONDS = 5.0  # to wait for a reply

Kind = TypeVar("Kind", bound=Said)


class Wire(Protocol):
    """A stream of bytes in both directions."""

    def discard(self) -> None:
        """Discard what has come and was not read."""

    async def write(self, data: bytes) -> None: ...

    async def read(self) -> bytes:
        """The next bytes, as soon as there are some."""
        ...


class NoReply(Exception):
    """The box was silent.

    It has taken no bytes, or sent no valid reply, in time. The tool has to begin a new link.
    """


class UnknownReply(Exception):
    """The reply is a message that does not belong to the request."""


class BoxLink:
    """A link. The tool begins it before the first message, and again after `NoReply`."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    async def begin(self) -> None:
        """Begin a link. It ends unfinished frames, nonce and proof. Raises `NoReply`."""
        self._wire.discard()
        async with _in_time():
            await self._wire.write(wire.NEW_LINK)

    async def exchange(self, said: Said, *kinds: type[Kind]) -> Kind:
        """The reply of the box, a message of one of these types. Raises `NoReply`, `UnknownReply`."""
        async with _in_time():
            await self._wire.write(wire.frame(link_messages.write(said)))
            reply = await self._reply()
        try:
            return link_messages.read(reply, *kinds)
        except MessageRefused:
            raise UnknownReply from None

    async def _reply(self) -> bytes:
        """The first message that is whole. Noise and damaged frames are no message."""
        deframer = Deframer()
        while True:
            for message in deframer.feed(await self._wire.read()):
                if message:
                    return message


@asynccontextmanager
async def _in_time() -> AsyncGenerator[None]:
    """Limit the time of an exchange. Raises `NoReply`."""
    try:
        async with asyncio.timeout(REPLY_SECONDS):
            yield
    except TimeoutError:
        raise NoReply from None
