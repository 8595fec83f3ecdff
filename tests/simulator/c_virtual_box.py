"""The virtual box with firmware and transport of reference/box."""

from __future__ import annotations

import base64
import ctypes
import functools

from keyrack.offline_keys.box.firmware import MessageResult
from keyrack.offline_keys.p256 import PrivateKey
from keyrack.simulator.offline.box import VirtualBox
from tests.offline_keys import c_box
from tests.offline_keys.c_box import CBox
from tests.offline_keys.c_transports import CBluetooth, CBuffer


@functools.cache
def built() -> ctypes.CDLL:
    """The library. Skips the test if there is no compiler."""
    return c_box.library()


class CVirtualBox(VirtualBox):
    """A box with power. The state of the box in Python stays as it was after its reset."""

    def _begin(self, at: int, key: PrivateKey) -> None:
        super()._begin(at, key)
        self.c = CBox(built(), base64.b64decode(key.to_text()))
        self.c.reset(key.public.x + key.public.y, self._random.randbytes(32), 0)

    def _switch_on_radio(self) -> None:
        super()._switch_on_radio()
        self._bluetooth = CBluetooth(built(), CBuffer(built()))

    def connect(self, at: int) -> int:
        return self.c.connect(self._tick(at))

    def _is_proven(self, link: int, at: int) -> bool:
        return self.c.is_proven(link)

    def _receive(self, message: bytes, at: int, on: int) -> bytes:
        outcome = self.c.receive(on, message, self._tick(at), self._random.randbytes(16))
        self.last = MessageResult(self._state, outcome.reply, outcome.effect, outcome.code, outcome.persist)
        return outcome.reply

    def _end_link(self, link: int) -> None:
        self.c.disconnect(link)
