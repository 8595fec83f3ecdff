"""A simulated box behind a pseudo-terminal, with faults of the wire."""

from __future__ import annotations

import os
import pty
import select
import threading
import tty
from collections.abc import Callable
from pathlib import Path
from typing import Self

from keyrack.offline_keys.transports import wire
from keyrack.offline_keys.transports.wire import Deframer
from keyrack.simulator.wire_box import WireBox

Replies = Callable[[bytes], bytes | None]


class WireBench:
    """The other end of a serial port. `port` is its path, `box` the box on it."""

    def __init__(self, state: Path | None = None) -> None:
        self.box = WireBox(state)
        self.answered: Replies = lambda message: None  # a reply instead of that of the box
        self.distort: Callable[[bytes], bytes] = bytes  # of the bytes to the tool
        self.links = 0  # empty frames of the tool
        self._own, self._other = pty.openpty()
        tty.setraw(self._other)  # it stays open, so that the port is there between two runs of a tool
        self.port = os.ttyname(self._other)
        self._ends, self._end = os.pipe()
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        os.close(self._end)
        self._thread.join()
        os.close(self._other)
        os.close(self._own)
        os.close(self._ends)

    def _serve(self) -> None:
        deframer = Deframer()
        while self._ends not in (ready := select.select([self._own, self._ends], [], [])[0]) or self._own in ready:
            received = os.read(self._own, 4_096)
            for message in deframer.feed(received):
                os.write(self._own, self._reply(message))

    def _reply(self, message: bytes) -> bytes:
        if not message:
            self.links += 1
            self.box.receive(wire.DELIMITER)
            return b""
        instead = self.answered(message)
        frame = self.box.receive(wire.frame(message)) if instead is None else wire.frame(instead) if instead else b""
        return self.distort(frame) if frame else b""
