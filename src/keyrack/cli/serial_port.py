"""A serial port of this machine (docs/key-wire.md)."""

from __future__ import annotations

import asyncio
import fcntl
import os
import termios
from collections.abc import Callable
from typing import Any, Self

from keyrack.cli.output import CommandFailed

MOST = 4_096  # bytes of one read
# Indices of the list of `termios.tcgetattr`
CONTROL, INPUT_SPEED, OUTPUT_SPEED, CHARACTERS = 2, 4, 5, 6


class SerialPort:
    """A port at 115,200 baud, 8N1, without flow control. No other program that asks for it gets it."""

    def __init__(self, path: str) -> None:
        """Open the port. Raises `CommandFailed`."""
        self._path = path
        try:
            self._descriptor = os.open(path, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
        except OSError as error:
            raise CommandFailed(f"{path} cannot be opened: {error.strerror}.{_remedy(error, path)}") from None
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.ioctl(self._descriptor, termios.TIOCEXCL)
            _configure(self._descriptor)
        except BlockingIOError:
            self.close()
            raise CommandFailed(f"{path} is busy: another program uses it. End that program, and try again.") from None
        except (OSError, termios.error):
            self.close()
            raise CommandFailed(f"{path} is not a serial port.") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        os.close(self._descriptor)

    def discard(self) -> None:
        """Discard what has come and was not read."""
        termios.tcflush(self._descriptor, termios.TCIFLUSH)

    async def write(self, data: bytes) -> None:
        """Write all bytes. Raises `CommandFailed`."""
        loop = asyncio.get_running_loop()
        while data:
            await self._ready(loop.add_writer, loop.remove_writer)
            data = data[self._do(lambda rest=data: os.write(self._descriptor, rest)) :]

    async def read(self) -> bytes:
        """The next bytes, as soon as there are some. Raises `CommandFailed`."""
        loop = asyncio.get_running_loop()
        await self._ready(loop.add_reader, loop.remove_reader)
        data = self._do(lambda: os.read(self._descriptor, MOST))
        if not data:
            raise CommandFailed(f"{self._path} was disconnected.")
        return data

    async def _ready(self, add: Callable[..., Any], remove: Callable[[int], Any]) -> None:
        ready = asyncio.Event()
        add(self._descriptor, ready.set)
        try:
            await ready.wait()
        finally:
            remove(self._descriptor)

    def _do(self, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except OSError as error:
            raise CommandFailed(f"{self._path} was disconnected: {error.strerror}.") from None


def _configure(descriptor: int) -> None:
    characters = termios.tcgetattr(descriptor)[CHARACTERS]
    characters[termios.VMIN], characters[termios.VTIME] = 1, 0
    control = termios.CS8 | termios.CREAD | termios.CLOCAL  # without HUPCL, so that no box restarts at the end
    speed = termios.B115200
    termios.tcsetattr(descriptor, termios.TCSANOW, [0, 0, control, 0, speed, speed, characters])
    termios.tcflush(descriptor, termios.TCIOFLUSH)


def _remedy(error: OSError, path: str) -> str:
    match error:
        case PermissionError():
            return " Join the group of the port, which is often dialout, and log in again."
        case FileNotFoundError():
            return f" Connect the box, and look for its port: ls {os.path.dirname(path) or '.'}/tty*"  # noqa: PTH120
        case _:
            return ""
