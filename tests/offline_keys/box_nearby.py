"""A box of a garage, for browsers whose radio is emulated."""

from __future__ import annotations

from dataclasses import dataclass, field

from keyrack.offline_keys.box import clock, firmware, links
from keyrack.offline_keys.box.firmware import LockAction
from keyrack.offline_keys.box.state import LINKS
from keyrack.offline_keys.transports import advertisements
from keyrack.offline_keys.transports.bluetooth import BoxBluetooth
from keyrack.offline_keys.transports.message_buffer import MessageBuffer
from tests.offline_keys.offline_world import Firmware


@dataclass
class BoxNearby:
    """A box of a garage, whose links are those of a radio."""

    firmware: Firmware
    effects: list[str] = field(default_factory=list[str])

    @property
    def tick(self) -> int:
        return self.firmware.tick

    @property
    def now(self) -> int:
        """The time by the clock of the box."""
        return clock.now(self.firmware.state, self.tick)

    def power_is_cut(self) -> None:
        """The box starts again, and its clock has stood still meanwhile."""
        self.firmware.state = firmware.start(self.firmware.state.kept, self.tick, None, self.firmware)

    @property
    def advertised_name(self) -> str:
        return advertisements.name_at(self.firmware.state.authority.advertising, self.now)

    def bluetooth(self) -> tuple[MessageBuffer, BoxBluetooth]:
        for number in range(LINKS):
            self.disconnect(number)
        buffer = MessageBuffer()
        return buffer, BoxBluetooth(buffer)

    def connect(self) -> int:
        self.firmware.state, number = firmware.connect(self.firmware.state, self.tick)
        return number

    def disconnect(self, number: int) -> None:
        self.firmware.state = firmware.disconnect(self.firmware.state, number)

    def say(self, number: int, message: bytes) -> bytes:
        reply = self.firmware.say(message, number)
        assert self.firmware.last is not None
        if self.firmware.last.effect is not LockAction.NONE:
            self.effects.append(self.firmware.last.effect.name)
        return reply

    def is_proven(self, number: int) -> bool:
        return links.is_proven(self.firmware.state, number, self.tick)
