"""The world for tests of phones with the box in C."""

from __future__ import annotations

import base64
import ctypes
import functools

from keyrack.offline_keys.box.firmware import MessageResult
from keyrack.offline_keys.box.state import LINKS, BoxMemory
from tests.offline_keys import c_box
from tests.offline_keys.c_transports import CBluetooth, CBuffer
from tests.offline_keys.phone_world import World

library = functools.cache(c_box.library)


class CWorld(World):
    """Firmware and Bluetooth are those of reference/box."""

    @property
    def box(self) -> BoxMemory:
        """The present state."""
        return self._c.state()

    def connect(self) -> int:
        return self._c.connect(self.tick)

    def disconnect(self, number: int) -> None:
        self._c.disconnect(number)

    def is_proven(self, number: int) -> bool:
        return self._c.is_proven(number)

    @property
    def advertised_name(self) -> str:
        return self._c.advertised_name(self.tick)

    @property
    def advertisement(self) -> bytes:
        out = ctypes.create_string_buffer(31)
        library().kr_advertisement(self.advertised_name.encode(), out)
        return out.raw

    def size_value(self, att_mtu: int) -> bytes:
        out = ctypes.create_string_buffer(3)
        library().kr_ble_size_value(att_mtu, out)
        return out.raw

    def bluetooth(self) -> tuple[CBuffer, CBluetooth]:
        for number in range(LINKS):
            self.disconnect(number)
        buffer = CBuffer(library())
        return buffer, CBluetooth(library(), buffer)

    def power_is_cut(self) -> None:
        self._c.start(None, self.tick)
        self._connect_all()

    def _reset(self, secret: bytes) -> None:
        self._c = c_box.CBox(library(), base64.b64decode(self.box_key.to_text()))
        self._c.reset(self.box_key.public.x + self.box_key.public.y, secret, self.tick)

    def _receive(self, number: int, message: bytes, random: bytes) -> MessageResult:
        outcome = self._c.receive(number, message, self.tick, random)
        return MessageResult(self.box, outcome.reply, outcome.effect, outcome.code, outcome.persist)
