"""A simulated box on a wire, to try a tool without hardware.

It is the reference firmware behind the frames of docs/key-wire.md.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from random import SystemRandom

from pydantic import BaseModel, ConfigDict

from keyrack.core import atomic_files
from keyrack.offline_keys.box.state import PersistentState
from keyrack.offline_keys.p256 import PrivateKey
from keyrack.offline_keys.transports import wire
from keyrack.offline_keys.transports.wire import Deframer
from keyrack.simulator.offline.box import VirtualBox

ANY_PRODUCT = 0  # a box does not know its product


class StoredBox(BaseModel):
    """The file of a simulated box, with its persistent state."""

    model_config = ConfigDict(ser_json_bytes="hex", val_json_bytes="hex")

    private_key: str
    kept: PersistentState


class WireBox:
    """A box. Its state is in a file, or only in memory."""

    def __init__(self, file: Path | None = None) -> None:
        """Start the box. A box without a file yet has just been reset. Raises `OSError`, `ValueError`."""
        self._file = file
        self._deframer = Deframer()
        stored = StoredBox.model_validate_json(file.read_bytes()) if file is not None and file.exists() else None
        key = PrivateKey.generate() if stored is None else PrivateKey.from_text(stored.private_key)
        self.box = VirtualBox(ANY_PRODUCT, 0.0, SystemRandom(), _now(), key)
        if stored is not None:
            self.box.restart(stored.kept, _now())
        self._store()

    @property
    def thumbprint(self) -> bytes:
        """The thumbprint that the box displays."""
        return self.box.kept.key.thumbprint

    def receive(self, data: bytes) -> bytes:
        """The bytes that the box sends after these. Raises `OSError`."""
        sent = b""
        for message in self._deframer.feed(data):
            if message:
                sent += wire.frame(self.box.say(message, _now()))
                self._store()
            else:
                self.box.leave()
        return sent

    def _store(self) -> None:
        if self._file is not None:
            stored = StoredBox(private_key=self.box.key.to_text(), kept=self.box.kept)
            data = stored.model_dump_json(indent=2).encode()
            atomic_files.write_temporary(self._file, data, 0o600).replace(self._file)


class SimulatedWire:
    """A wire to a simulated box in this process."""

    def __init__(self, box: WireBox) -> None:
        self._box = box
        self._sent = asyncio.Queue[bytes]()

    def discard(self) -> None:
        """Discard what has come and was not read."""
        while not self._sent.empty():
            self._sent.get_nowait()

    async def write(self, data: bytes) -> None:
        if reply := self._box.receive(data):
            self._sent.put_nowait(reply)

    async def read(self) -> bytes:
        """The next bytes, as soon as there are some."""
        return await self._sent.get()


def _now() -> int:
    return int(time.time())
